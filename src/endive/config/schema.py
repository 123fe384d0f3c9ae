"""The schema of a configuration file: every key, its type, its default and what it means.

Times are in milliseconds, or durations such as ``"90s"``. Keys that the sources of the model spell differently are translated
before they get here (``aliases``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args, get_type_hints

from pydantic import BaseModel, Field, create_model, model_validator

from endive.catalog.kinds import CATALOG_KINDS
from endive.config.arrivals import ArrivalKeys
from endive.config.values import (
    MAX_SEED,
    MOST,
    MOST_FILES,
    AtLeastOne,
    Count,
    Files,
    Interval,
    Latency,
    ManifestCounts,
    NonNegative,
    NonNegativeMs,
    PerCommit,
    PositiveMs,
    Probability,
    Runtime,
    Section,
    Selection,
    Some,
    Threshold,
    Weight,
    Writers,
    ZipfTables,
)
from endive.table import OPERATION_CODES, OPERATION_FACTS
from endive.table.traits import Isolation
from endive.transaction.paths import COMMIT_PATHS, DEFAULT_PATH, RETRY_POLICY
from endive.transaction.policy import OnRealConflict, OnUnknown, TableHandle


class RetryBackoff(Section):
    """Waiting before a retry: min(base x multiplier^(retry - 1), max) x (1 +- jitter), or as ``kind`` and ``jitter`` say."""

    enabled: bool = Field(False, description="Whether retries wait.")
    kind: Literal["exponential", "slots", "aimd", "retry_after", "linear"] = Field(
        "exponential",
        description="slots: one of 4 slots as long as the first attempt took, twice as many each time; "
        "aimd: a wait that the writer keeps, times multiplier after a loss, base_ms less after a commit; "
        "retry_after: what a service says, its retry_after_ms, and up to jitter of it more; "
        "linear: base_ms longer each time, moved by jitter.",
    )
    base_ms: NonNegativeMs = Field(10.0, description="Wait before the first retry.")
    multiplier: Annotated[float, Field(ge=1, le=1e6)] = Field(2.0, description="Growth from one retry to the next.")
    max_ms: NonNegativeMs = Field(5000.0, description="No wait is longer, but for the jitter.")
    jitter: Probability | Literal["full", "equal", "decorrelated"] = Field(
        0.1,
        description="Each wait is moved at random by at most this part of it; full: 0 to all of it; equal: half to all of it; "
        "decorrelated: base_ms to multiplier times the last wait.",
    )

    @model_validator(mode="after")
    def _check(self) -> RetryBackoff:
        if self.changed_keys and "enabled" not in self.model_fields_set:
            raise ValueError("has no effect without enabled = true")
        if self.kind in ("aimd", "retry_after", "linear") and isinstance(self.jitter, str):
            raise ValueError(f"{self.kind} takes a number for jitter, such as 0.1, not {self.jitter!r}")
        return self


class _OperationWeights(Section):
    """The weight of each operation."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(self.model_dump().values()) <= 0.0:
            raise ValueError("at least one weight must be above 0")
        return self


if TYPE_CHECKING:

    class OperationTypes(_OperationWeights):
        """The weight of each operation: a key for each of ``endive.table.OPERATION_FACTS``."""

    Operation = str
    CatalogName = str
    CommitPathName = str
    RetryPolicy = str
else:
    OperationTypes = create_model(
        "OperationTypes",
        __base__=_OperationWeights,
        __doc__=_OperationWeights.__doc__,
        **{facts.name: (Weight, Field(0.0, description=facts.meaning)) for facts in OPERATION_FACTS},
    )
    Operation = Literal[tuple(OPERATION_CODES)]
    CatalogName = Literal[tuple(CATALOG_KINDS)]
    CommitPathName = Literal[tuple(COMMIT_PATHS)]
    RetryPolicy = Literal[RETRY_POLICY]


class Transactions(Section):
    """``[transaction]``: what transactions do and how they commit; classes of ``[workload]`` take from here what they leave out."""

    retry: Files = Field(10, description="Retries after the first attempt.")
    runtime: Runtime = Field(default_factory=lambda: Runtime(mean=180_000.0, sigma=1.5), description="Time of the work.")
    inter_arrival: Interval | None = Field(None, description="Time between arrivals.")
    operation_types: OperationTypes = Field(
        default_factory=lambda: OperationTypes.model_validate(
            {"fast_append": 0.7, "merge_append": 0.2, "validated_overwrite": 0.1}
        ),
        description="How often each operation, as weights.",
    )
    tables_per_txn: Some | ZipfTables = Field(1, description="Tables of a transaction, all of one group.")
    table_selection: Selection = Field(default_factory=Selection, description="Which tables.")
    partitions_per_txn: Annotated[float, Field(ge=1, le=MOST_FILES)] | None = Field(
        None, description="Partitions written in each table; a fraction is a mean. Left out: any change of the table overlaps."
    )
    partition_selection: Selection = Field(default_factory=Selection, description="Which partitions of a table.")
    manifests_per_concurrent_commit: PerCommit = Field(1.5, description="What a merge append merges again per commit.")
    real_conflict_probability: Probability = Field(0.0, description="How likely an overlap is a real conflict.")
    conflict_detector: Literal["probabilistic", "partition_overlap"] = Field(
        "probabilistic", description="partition_overlap calls every overlap a real conflict."
    )
    on_real_conflict: OnRealConflict | None = Field(
        None, description="Default abort, or merge where conflicting_manifests is given."
    )
    max_restarts: Files = Field(3, description="With restart: how often the application starts again.")
    conflicting_manifests: ManifestCounts | None = Field(None, description="With merge: how many manifests a conflict takes.")
    total_timeout_ms: NonNegativeMs | None = Field(None, description="Budget of the commit, checked after a failed attempt.")
    retry_backoff: RetryBackoff = Field(default_factory=RetryBackoff, description="Waiting before a retry.")
    table_handle: TableHandle = Field(
        "loaded",
        description="kept: writers live long, and read table metadata at the start only if the table has moved since they saw it.",
    )
    client_ms_per_access: NonNegativeMs | Runtime | None = Field(
        None, description="How long the client computes for each access to the store or the catalog: a time or a distribution."
    )
    commit_path: CommitPathName = Field(
        DEFAULT_PATH.name,
        description=f"Commit protocol: {'; '.join(f'{path.name}: {path.client}' for path in COMMIT_PATHS.values())}.",
    )
    retry_policy: RetryPolicy | None = Field(
        None, description="iceberg: its defaults for retry, retry_backoff and total_timeout_ms, where they are not given."
    )
    isolation: Isolation | None = Field(
        None, description="How far an operation validates. Default serializable; none for replace_partitions and delete."
    )
    overwrite_by: Literal["files", "filter"] = Field("files", description="Whether an overwrite names the files it replaces.")
    delete_files: Literal["position", "equality", "vectors"] = Field("position", description="What a row_delta deletes with.")
    manifests_hit: Files | Literal["all"] = Field(1, description="Manifests that hold files which the operation removes.")
    manifests_missed: Files = Field(0, description="Manifests that it looks into in vain.")
    retain_snapshots: Some = Field(1, description="Snapshots that expire_snapshots leaves.")
    manifest_list_mode: Literal["rewrite", "append"] = Field("rewrite", description="append is ML+.")
    manifest_list_seal_threshold: Threshold = Field(0, description="ML+: size in bytes after which a list is sealed; 0: never.")
    manifest_list_entry_size: AtLeastOne = Field(50, description="ML+: bytes of an entry.")


class CommitterSection(Section):
    """One client commits for all writers of the class, which hand over what they have; one commit at a time."""

    interval_ms: NonNegativeMs = Field(
        0.0, description="Time from the start of one commit to the start of the next, in ms; 0: as soon as possible."
    )
    max_batch: Count = Field(0, description="File batches that start a commit, and the most that it has; 0: no limit.")
    max_in_flight: AtLeastOne | None = Field(
        None,
        description="Hand-overs of one writer that may be uncommitted before it waits. Default: 1 in a closed loop, any number of "
        "`writers`.",
    )


class _ClassKeys(ArrivalKeys):
    """``[workload.NAME]``: a class of transactions. What it leaves out is as ``[transaction]`` says."""

    committer: CommitterSection | None = Field(
        None, description="One client that commits the file batches of all writers (Flink, Kafka Connect)."
    )
    operation: Operation | None = Field(None, description="Its one operation.")
    tables: list[Count] | None = Field(None, description="The tables it is confined to.", min_length=1)
    partition_range: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = Field(
        None, description="The partitions it is confined to: first, one past the last."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if {"operation", "operation_types"} <= self.model_fields_set:
            raise ValueError("operation and operation_types are given both")
        return self


_OF_THE_RUN = {"manifest_list_mode", "manifest_list_seal_threshold", "manifest_list_entry_size"}
"""Keys of ``[transaction]`` that no class can have for itself."""

if TYPE_CHECKING:

    class ClassSection(_ClassKeys):
        """``[workload.NAME]``: the keys of ``_ClassKeys``, and each of ``[transaction]`` that a class may have for itself."""
else:
    ClassSection = create_model(
        "ClassSection",
        __base__=_ClassKeys,
        __doc__=_ClassKeys.__doc__,
        **{
            name: (hint | None, None)
            for name, hint in get_type_hints(Transactions, include_extras=True).items()
            if name in Transactions.model_fields and name not in {*_ClassKeys.model_fields, *_OF_THE_RUN}
        },
    )
CLASS_KEYS = {
    name: any(isinstance(kind, type) and issubclass(kind, BaseModel) for kind in get_args(field.annotation))
    for name, field in ClassSection.model_fields.items()
}
"""The keys of a class, and whether the value of each can be a table."""


class Partitions(Section):
    """``[catalog.partitions]``: how many partitions tables have."""

    num_partitions: Some | None = Field(None, description="Of every table. Default 1.")
    per_table: list[Some] | None = Field(None, description="Of each table.")

    @model_validator(mode="after")
    def _check(self) -> Partitions:
        if self.num_partitions is not None and self.per_table is not None:
            raise ValueError("num_partitions and per_table are given both")
        return self


class CoalesceSection(Section):
    """Group commit: what waits for the same table when a commit begins goes into one swap."""

    linger_ms: NonNegative = Field(0.0, description="Time that a commit waits for others, in ms.")
    max_batch: Count = Field(0, description="Most commits in one swap; 0: no limit.")


class CatalogSection(Section):
    """``[catalog]``: who holds the versions of tables, and how a commit is installed."""

    type: CatalogName | None = Field(
        None, description="Default cas, or append on a provider that can only append. service: REST, or a database."
    )
    num_tables: Some = Field(1, description="Tables, numbered from 0.")
    num_groups: Some | None = Field(
        None,
        description="Tables of a group share one pointer. 1, the default: single-file catalog. With service: one for each table.",
    )
    group_sizes: Literal["uniform", "longtail"] = Field("uniform", description="longtail: sizes in proportion to 1/rank.")
    partitions: Partitions = Field(default_factory=Partitions, description="How many partitions tables have.")
    provider: str | None = Field(None, description="A store of its own for the catalog. Default: that of [storage].")
    latency_ms: PositiveMs = Field(1.0, description="With type instant: the latency of reads and commits.")
    linearization: Probability = Field(1.0, description="When, within its latency, a read or commit takes effect.")
    size_bytes: Count = Field(4096, description="Size of the catalog object, for latencies that depend on it.")
    table_metadata_inlined: bool = Field(True, description="False: table metadata is read and written apart.")
    compaction_threshold: Threshold = Field(16_000_000, description="append: size in bytes after which the log is sealed.")
    compaction_max_entries: Count = Field(0, description="append: entries after which the log is sealed; 0: no limit.")
    log_entry_size: AtLeastOne = Field(100, description="append: bytes of a log entry.")
    network: Latency | None = Field(None, description="service: the way there, and the way back. Default: median 1 ms, sigma 0.3.")
    load: Latency | None = Field(None, description="service: time of service of a load. Default: median 5 ms, sigma 0.5.")
    commit: Latency | None = Field(None, description="service: time of service of a commit. Default: median 10 ms, sigma 0.5.")
    check: Latency | None = Field(None, description="service: time of service of a commit that has lost. Default: 2 ms.")
    workers: Files = Field(0, description="service: requests that are served at once; the others wait in a queue. 0: no queue.")
    queue_limit: Threshold | None = Field(
        None, description="service: waiting requests beyond which further ones are rejected (429, 503)."
    )
    retry_after_ms: NonNegative = Field(
        1000.0, description="service: a refused request is sent again after this, a lost commit with the backoff retry_after."
    )
    max_resends: Files = Field(
        5, description="service: resends of a rejected request before the operation ends with service_unavailable."
    )
    lock: Literal["none", "table"] | None = Field(
        None, description="service: table makes a commit wait for others of its table, instead of failing at its end."
    )
    server_retries: Files = Field(0, description="service: retries in the server of an append that lost the race.")
    coalesce: CoalesceSection | None = Field(None, description="service: group commit of what waits for the same table.")
    transfer_ms_per_mib: NonNegative = Field(
        10.0, description="service: what a MiB of table metadata adds to the answer of a load."
    )
    metadata_limit_bytes: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        None, description="A commit that makes metadata.json larger fails for good (AWS Glue: 20 MB)."
    )

    @property
    def pointers(self) -> int:
        """How many groups of tables there are."""
        return self.num_groups or (self.num_tables if self.type == "service" else 1)


class TableSection(Section):
    """``[table]``: how every table begins and how large its metadata is, for classes on Iceberg's commit paths."""

    manifests: Files = Field(1, description="Data manifests at the start.")
    delete_manifests: Files = Field(0, description="Delete manifests at the start.")
    snapshots: Some = Field(1, description="Retained snapshots at the start.")
    metadata_bytes: Count = Field(2_000, description="Size of a metadata file without snapshots.")
    metadata_bytes_per_snapshot: Count = Field(740, description="What each retained snapshot adds.")
    manifest_list_bytes: Count = Field(4_400, description="Size of a manifest list without manifests.")
    manifest_list_bytes_per_manifest: Count = Field(42, description="What each manifest adds.")
    manifest_bytes: AtLeastOne = Field(7_100, description="Size of a new manifest.")
    manifest_header_bytes: Count = Field(6_900, description="The part of it that a merge saves.")
    min_count_to_merge: Annotated[int, Field(ge=2, le=MOST)] = Field(
        100, description="Number of manifests, the new one included, at which they are merged."
    )
    target_bytes: Annotated[int, Field(ge=1, le=10**15)] = Field(
        8 * 1024 * 1024, description="Merged manifests do not grow beyond this."
    )
    merge_manifests: bool = Field(True, description="False: no operation merges manifests.")

    @model_validator(mode="after")
    def _check(self) -> TableSection:
        if self.manifest_header_bytes > self.manifest_bytes:
            raise ValueError(
                f"manifest_header_bytes {self.manifest_header_bytes} is more than manifest_bytes {self.manifest_bytes}"
            )
        return self


class Normal(Section):
    """A normal latency, cut at the provider's floor."""

    mean: PositiveMs
    stddev: NonNegativeMs = 0.0


class ReadWrite(Section):
    """Latencies of reading and writing a kind of object."""

    read: Normal | None = None
    write: Normal | None = None


class Sizes(Section):
    """``[storage.sizes]``: sizes of metadata objects, for latencies that depend on them."""

    table_metadata_bytes: Count = 16_384
    manifest_list_bytes: Count = 8_192
    manifest_file_bytes: Count = 8_192


class StorageSection(Section):
    """``[storage]``: the object store. Without ``provider``, the T_* keys describe one of your own."""

    provider: str | None = Field(None, description="A built-in provider, or the path of a profile of your own (*.toml).")
    profile: Literal["2025-06", "2025-12", "2026-01"] = Field("2026-01", description="The set of built-in profiles.")
    max_parallel: Writers = Field(4, description="Accesses of one kind that run in parallel.")
    min_latency_ms: NonNegativeMs | None = Field(None, description="Floor under every latency, in place of the profile's.")
    sizes: Sizes = Field(default_factory=Sizes, description="Sizes of metadata objects.")
    T_CAS: Normal | None = Field(None, description="Compare-and-swap of the catalog's pointer.")
    T_METADATA_ROOT: ReadWrite | None = Field(None, description="The catalog object; table metadata too, unless given apart.")
    T_TABLE_METADATA: ReadWrite | None = Field(None, description="Table metadata that is not inlined in the catalog.")
    T_MANIFEST_LIST: ReadWrite | None = Field(None, description="Manifest lists.")
    T_MANIFEST_FILE: ReadWrite | None = Field(None, description="Manifests.")
    T_APPEND: Normal | None = Field(None, description="An append, to the catalog log or (ML+) to a manifest list.")
    T_COMPACTION: Normal | None = Field(None, description="The compare-and-swap that compacts the catalog log. Default: T_CAS.")
    T_LOG_ENTRY_READ: Normal | None = Field(None, description="What each entry of the log adds to a read of the catalog.")


class SimulationSection(Section):
    """``[simulation]``: the run."""

    duration_ms: PositiveMs = Field(description="Length of the run: nothing arrives later.")
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] | None = Field(
        None, description="Default: a random one, which the results record."
    )
    output_path: str = Field(
        "results.parquet",
        description="File of the results, below the output directory, when the experiment has no label.",
        min_length=1,
    )
    drain: bool = Field(False, description="Let transactions finish that are in flight at the end.")
    engine: Literal["auto", "reference", "compiled"] = Field(
        "auto", description="All engines give the same rows; auto compiles what can be compiled."
    )


ScenarioName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,80}$")]
"""A name as its user writes it."""


class Experiment(Section):
    """``[experiment]``: with a label, results go to experiments/label-hash/seed/."""

    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = Field(
        None, description="Name of the experiment."
    )
    scenario: ScenarioName | None = Field(
        None, description="What this alternative is called in tables and figures; sweeps with [scenario.NAME] set it."
    )


_MOST_FAILING = 0.99
"""What is sent again until it gets through is sent a hundred times then; a run would not end much beyond."""


class FailuresSection(Section):
    """``[failures]``: what fails, and what clients do about an outcome that they do not learn."""

    request_error: Probability = Field(0.0, description="A request fails, and is sent again by the SDK after a wait of its own.")
    lost_answer: Probability = Field(0.0, description="A commit takes effect or not, and its client never learns which.")
    client_crash: Probability = Field(0.0, description="At each attempt: the client dies before it sends its commit.")
    on_unknown: OnUnknown = Field(
        "check",
        description="After a lost answer: check looks into the catalog, as Iceberg does; retry tries again, and may commit twice; "
        "idempotency_key sends the same commit again, which a service recognises.",
    )
    status_checks: Count = Field(3, description="check: looks after the first (commit.status-check.num-retries).")
    min_wait_ms: NonNegative = Field(1_000.0, description="check: wait before the second look; it doubles.")
    max_wait_ms: NonNegative = Field(60_000.0, description="check: no wait is longer.")

    @model_validator(mode="after")
    def _check(self) -> FailuresSection:
        if self.lost_answer > _MOST_FAILING and self.on_unknown == "idempotency_key":
            raise ValueError(
                f"lost_answer should be at most {_MOST_FAILING:g} with idempotency_key: hardly an answer would ever come"
            )
        if self.request_error > _MOST_FAILING:
            raise ValueError(f"request_error should be at most {_MOST_FAILING:g}: hardly a request would ever get through")
        return self


class ComponentSection(Section):
    """Custom component: a class in a Python file."""

    code: Annotated[str, Field(pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="FILE.py:CLASS, relative to this file. It runs only with --allow-code."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Arguments of the class.")
    classes: list[str] | None = Field(None, description="transaction: the workload classes that run it. Default: all.")
    source: str | None = Field(None, description="Read from the file that code names; not to be given.")


class PartsSection(Section):
    """``[parts]``: custom components in place of built-in ones, on the reference engine."""

    provider: ComponentSection | None = Field(
        None, description="A store; sizes, parallel accesses and estimates are those of [storage]."
    )
    catalog: ComponentSection | None = Field(None, description="A catalog.")
    transaction: ComponentSection | None = Field(None, description="Transaction, in place of the operation.")


class Document(Section):
    """A whole configuration file."""

    simulation: SimulationSection
    experiment: Experiment = Field(default_factory=Experiment)
    storage: StorageSection
    catalog: CatalogSection = Field(default_factory=CatalogSection)
    table: TableSection = Field(default_factory=TableSection)
    transaction: Transactions = Field(default_factory=Transactions)
    failures: FailuresSection = Field(default_factory=FailuresSection)
    parts: PartsSection = Field(default_factory=PartsSection)
    workload: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], ClassSection] = Field(
        default_factory=dict, description="Classes of transactions by name."
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema that editors use to check and complete configuration files."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Document.model_json_schema()}
