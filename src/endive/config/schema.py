"""Define the schema of a configuration file: the type, default and description of every key.

Times are in milliseconds, or durations such as ``"90s"``. Aliases of keys are translated before validation (``aliases``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args, get_type_hints

from pydantic import AfterValidator, BaseModel, Field, GetJsonSchemaHandler, create_model, model_validator
from pydantic_core import CoreSchema

from endive.catalog.kinds import CATALOG_KINDS
from endive.catalog.service_queue import ServerRetryMode
from endive.config.arrival_keys import ArrivalKeys
from endive.config.errors import closest
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
from endive.table.operations import Isolation
from endive.transaction.paths import COMMIT_PATHS, DEFAULT_PATH, RETRY_POLICY
from endive.transaction.policy import OnRealConflict, OnUnknown, TableHandle
from endive.workload.committer import CommitRound


def check_commit_path(name: str) -> str:
    """Check a value of ``commit_path``. Raises ValueError unless it is a commit path, a built-in protocol or a file."""
    from endive.protocols.reader import builtin_names  # the schema of protocols imports this module

    known = (*COMMIT_PATHS, *builtin_names())
    if name in known or name.endswith(".toml"):
        return name
    raise ValueError(f"should be one of {', '.join(known)}, or the path of a protocol file (*.toml){closest(name, known)}")


class _CommitPathName:
    """Annotation that lists commit paths and built-in protocols in the JSON schema."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        from endive.protocols.reader import builtin_names

        return {"anyOf": [{"enum": [*COMMIT_PATHS, *builtin_names()]}, {"type": "string", "pattern": r"\.toml$"}]}


COMMIT_PATH_NAME = _CommitPathName()
"""Annotation for values of ``commit_path``."""


class RetryBackoff(Section):
    """Backoff before a retry: min(base x multiplier^(retry - 1), max) x (1 +- jitter) by default; see ``kind`` and ``jitter``."""

    enabled: bool = Field(False, description="Wait before each retry.")
    kind: Literal["exponential", "slots", "aimd", "retry_after", "linear"] = Field(
        "exponential",
        description="Kind of backoff. exponential: grows by the factor multiplier with each retry, randomized by jitter. linear: "
        "grows by base_ms with each retry, randomized by jitter. slots: a random slot number times the duration of the first "
        "attempt; there are 4 slots at first, and their number doubles with each retry. "
        "aimd: one backoff per writer, multiplied by multiplier after a lost "
        "race and reduced by base_ms after a commit. retry_after: retry_after_ms of the service, increased by a random fraction of "
        "up to jitter.",
    )
    base_ms: NonNegativeMs = Field(10.0, description="Backoff before the first retry.")
    multiplier: Annotated[float, Field(ge=1, le=1e6)] = Field(2.0, description="Factor by which the backoff grows with each retry.")
    max_ms: NonNegativeMs = Field(5000.0, description="Maximum backoff, before jitter.")
    jitter: Probability | Literal["full", "equal", "decorrelated"] = Field(
        0.1,
        description="Maximum random deviation, as a fraction of the backoff. full: uniform from 0 to the backoff. equal: "
        "uniform from half of the backoff to the backoff. decorrelated: uniform from base_ms to multiplier times "
        "the previous backoff.",
    )

    @model_validator(mode="after")
    def _check(self) -> RetryBackoff:
        if self.changed_keys and "enabled" not in self.model_fields_set:
            raise ValueError("has no effect unless enabled = true")
        if self.kind in ("aimd", "retry_after", "linear") and isinstance(self.jitter, str):
            raise ValueError(f'jitter must be a number such as 0.1 with kind = "{self.kind}", not {self.jitter!r}')
        return self


class _OperationWeights(Section):
    """Relative frequency of each operation."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(self.model_dump().values()) <= 0.0:
            raise ValueError("at least one weight must be above 0")
        return self


if TYPE_CHECKING:

    class OperationTypes(_OperationWeights):
        """Relative frequency of each operation, with one key for each record of ``endive.table.OPERATION_FACTS``."""

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
    CommitPathName = Annotated[str, AfterValidator(check_commit_path), COMMIT_PATH_NAME]
    RetryPolicy = Literal[RETRY_POLICY]


class Transactions(Section):
    """``[transaction]``: operations and commits of transactions. The keys are defaults for the classes of ``[workload]``."""

    retry: Count = Field(10, description="Maximum number of retries after the first attempt.")
    runtime: Runtime = Field(
        default_factory=lambda: Runtime(mean=180_000.0, sigma=1.5), description="Job duration before the commit."
    )
    inter_arrival: Interval | None = Field(None, description="Interval between arrivals.")
    operation_types: OperationTypes = Field(
        default_factory=lambda: OperationTypes.model_validate(
            {"fast_append": 0.7, "merge_append": 0.2, "validated_overwrite": 0.1}
        ),
        description="Relative frequencies (weights) of the operations.",
    )
    tables_per_txn: Some | ZipfTables = Field(1, description="Number of tables of a transaction; all belong to one table group.")
    table_selection: Selection = Field(
        default_factory=Selection, description="Distribution from which the tables of a transaction are drawn."
    )
    partitions_per_txn: Annotated[float, Field(ge=1, le=MOST_FILES)] | None = Field(
        None,
        description="Number of partitions written per table; a fractional number is a mean. Default: partitions are not "
        "tracked, and all changes of a table overlap.",
    )
    partition_selection: Selection = Field(
        default_factory=Selection, description="Distribution from which the partitions of a table are drawn."
    )
    manifests_per_concurrent_commit: PerCommit = Field(
        1.5, description="Number of manifests that a merge append rewrites for each concurrent commit."
    )
    real_conflict_probability: Probability = Field(0.0, description="Probability that an overlapping change is a real conflict.")
    conflict_detector: Literal["probabilistic", "partition_overlap"] = Field(
        "probabilistic",
        description="Detection of real conflicts. probabilistic: an overlapping change is a real conflict with "
        "real_conflict_probability. partition_overlap: every overlapping change is a real conflict.",
    )
    on_real_conflict: OnRealConflict | None = Field(
        None, description="Reaction to a real conflict. Default: abort; merge if conflicting_manifests is set."
    )
    max_restarts: Files = Field(3, description="on_real_conflict = restart: maximum number of restarts of the job.")
    conflicting_manifests: ManifestCounts | None = Field(
        None, description="on_real_conflict = merge: number of manifests merged per conflict."
    )
    total_timeout_ms: NonNegativeMs | None = Field(
        None, description="Maximum total time of the commit, checked after each failed attempt."
    )
    operation_timeout_ms: NonNegativeMs | None = Field(
        None,
        description="Time after submission at which the client cancels the operation. The first attempt is never cancelled.",
    )
    retry_backoff: RetryBackoff = Field(default_factory=RetryBackoff, description="Backoff before a retry.")
    table_handle: TableHandle = Field(
        "loaded",
        description="loaded: each transaction loads the table. kept: writers cache the table; with a catalog service, "
        "transactions on Iceberg's commit paths then start without a load, and with other catalogs they reload the "
        "metadata only if it has changed.",
    )
    client_ms_per_access: NonNegativeMs | Runtime | None = Field(
        None, description="Client CPU time per request to the object store or the catalog: a time or a distribution."
    )
    commit_path: CommitPathName = Field(
        DEFAULT_PATH.name,
        description=f"Commit protocol: {'; '.join(f'{path.name}: {path.client}' for path in COMMIT_PATHS.values())}; a built-in "
        "protocol of another table format (`endive protocols`), or the path of a protocol file (*.toml).",
    )
    retry_policy: RetryPolicy | None = Field(
        None, description="iceberg: use Iceberg's defaults for retry, retry_backoff and total_timeout_ms if they are not set."
    )
    isolation: Isolation | None = Field(
        None, description="Isolation level for validation. Default: serializable, but none for replace_partitions and delete."
    )
    overwrite_by: Literal["files", "filter"] = Field(
        "files", description="How an overwrite selects the files that it replaces: by an explicit list, or by a filter."
    )
    delete_files: Literal["position", "equality", "vectors"] = Field(
        "position", description="Kind of delete files that a row_delta writes."
    )
    manifests_hit: Files | Literal["all"] = Field(1, description="Number of manifests that contain files removed by the operation.")
    manifests_missed: Files = Field(0, description="Number of manifests that are read but contain no removed files.")
    max_snapshot_age_ms: NonNegativeMs = Field(
        5 * 86_400_000.0, description="Age up to which expire_snapshots retains snapshots (history.expire.max-snapshot-age-ms)."
    )
    min_snapshots_to_keep: Some = Field(
        1, description="Number of snapshots that expire_snapshots always retains (history.expire.min-snapshots-to-keep)."
    )
    retain_snapshots: Some | None = Field(None, description="Number of snapshots that expire_snapshots retains, regardless of age.")
    commits_per_job: Annotated[int, Field(ge=1, le=1_000)] = Field(
        1, description="Number of commits of a rewrite_files job, spread over its runtime (partial-progress.max-commits)."
    )
    max_failed_commits: Files | None = Field(
        None,
        description="Maximum number of failed commits of a rewrite_files job; one more failure ends the job "
        "(partial-progress.max-failed-commits). Default: commits_per_job.",
    )
    manifest_list_mode: Literal["rewrite", "append"] = Field(
        "rewrite",
        description="rewrite: each commit writes a new manifest list. append: each commit appends its entries to "
        "the existing manifest list.",
    )
    manifest_list_seal_threshold: Threshold = Field(
        0, description="manifest_list_mode = append: size in bytes above which a manifest list is sealed; 0: never."
    )
    manifest_list_entry_size: AtLeastOne = Field(50, description="manifest_list_mode = append: size of an entry in bytes.")


class CommitterSection(Section):
    """Committer: one client that commits the file batches of all writers of the class, one commit at a time."""

    interval_ms: NonNegativeMs = Field(
        0.0, description="Interval between the starts of two consecutive commits, in ms; 0: as soon as possible."
    )
    max_batch: Count = Field(
        0, description="Number of file batches that triggers a commit, which is also the maximum per commit; 0: no limit."
    )
    max_in_flight: AtLeastOne | None = Field(
        None,
        description="Maximum number of uncommitted file batches per writer. Default: 1 with `closed`, unlimited with `writers`.",
    )
    round: CommitRound = Field(
        "queue",
        description="When a commit starts. queue: when batches are waiting and the interval has passed. all_writers: when all "
        "writers have delivered their batch of the round, or after `timeout_ms` (Kafka Connect, Flink).",
    )
    timeout_ms: PositiveMs | None = Field(
        None, description="round = all_writers: time after which a round commits without the missing batches."
    )


class _ClassKeys(ArrivalKeys):
    """``[workload.NAME]``: class of transactions. Keys that are not set have the values of ``[transaction]``."""

    committer: CommitterSection | None = Field(
        None, description="A single client commits the file batches of all writers (Flink, Kafka Connect)."
    )
    operation: Operation | None = Field(None, description="Operation of all transactions of the class; replaces operation_types.")
    tables: list[Count] | None = Field(None, description="Tables that the class uses. Default: all.", min_length=1)
    partition_range: Annotated[list[Count], Field(min_length=2, max_length=2)] | None = Field(
        None, description="Range of partitions that the class uses, as [first, end], end exclusive. Default: all."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if {"operation", "operation_types"} <= self.model_fields_set:
            raise ValueError("operation and operation_types cannot be set together; keep one of them")
        return self


_OF_THE_RUN = {"manifest_list_mode", "manifest_list_seal_threshold", "manifest_list_entry_size"}
"""Keys of ``[transaction]`` that apply to the whole run, so that a class cannot override them."""

if TYPE_CHECKING:

    class ClassSection(_ClassKeys):
        """``[workload.NAME]``: the keys of ``_ClassKeys``, and those of ``[transaction]`` that a class can override."""
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
"""Keys of a class, and whether the value of each can be a table."""


class Partitions(Section):
    """``[catalog.partitions]``: number of partitions of the tables."""

    num_partitions: Some | None = Field(None, description="Number of partitions of every table. Default: 1.")
    per_table: list[Some] | None = Field(None, description="Number of partitions of each table.")

    @model_validator(mode="after")
    def _check(self) -> Partitions:
        if self.num_partitions is not None and self.per_table is not None:
            raise ValueError("num_partitions and per_table cannot be set together; keep one of them")
        return self


class CoalesceSection(Section):
    """Group commit: one swap commits all requests that are waiting for the same table."""

    linger_ms: NonNegative = Field(0.0, description="Time that a commit waits for further commits to join its batch, in ms.")
    max_batch: Count = Field(0, description="Maximum number of commits per swap; 0: no limit.")


class CatalogSection(Section):
    """``[catalog]``: catalog of the tables and its commit mechanism."""

    type: CatalogName | None = Field(
        None,
        description="cas: catalog file in the object store, replaced by compare-and-swap. append: catalog log in the object "
        "store. service: REST catalog or database. instant: constant latency. Default: cas, or append if the "
        "provider supports only appends.",
    )
    num_tables: Some = Field(1, description="Number of tables, numbered from 0.")
    num_groups: Some | None = Field(
        None,
        description="Number of table groups. The tables of a group share one commit pointer. Default: 1; num_tables with type "
        "= service.",
    )
    group_sizes: Literal["uniform", "longtail"] = Field(
        "uniform", description="Distribution of the sizes of the table groups. longtail: size proportional to 1/rank."
    )
    partitions: Partitions = Field(default_factory=Partitions, description="Number of partitions of the tables.")
    provider: str | None = Field(None, description="Object store of the catalog. Default: storage.provider.")
    latency_ms: PositiveMs = Field(1.0, description="instant: latency of reads and commits.")
    linearization: Probability = Field(1.0, description="Linearization point of a read or commit, as a fraction of its latency.")
    size_bytes: Count = Field(4096, description="Size of the catalog file, for providers whose latencies depend on the size.")
    table_metadata_inlined: bool = Field(
        True,
        description="commit_path = endive with a catalog in an object store: whether the catalog stores table metadata. If false, "
        "clients read and write metadata files. Iceberg's clients always write metadata.json.",
    )
    compaction_threshold: Threshold = Field(16_000_000, description="append: size in bytes above which the log is sealed.")
    compaction_max_entries: Count = Field(0, description="append: number of entries at which the log is sealed; 0: no limit.")
    log_entry_size: AtLeastOne = Field(100, description="append: size of a log entry in bytes.")
    network: Latency | None = Field(None, description="service: one-way network latency. Default: median 1 ms, sigma 0.3.")
    load: Latency | None = Field(None, description="service: time to process a load. Default: median 5 ms, sigma 0.5.")
    commit: Latency | None = Field(None, description="service: time to process a commit. Default: median 10 ms, sigma 0.5.")
    check: Latency | None = Field(
        None,
        description="service: time to process a commit that has already lost the race when its processing starts. A commit "
        "that loses the race later takes the whole time of a commit. Default: 2 ms.",
    )
    workers: Files = Field(
        0,
        description="service: number of requests served concurrently (for a database, the size of the connection "
        "pool); others wait in a queue. 0: unlimited, no queue.",
    )
    queue_limit: Threshold | None = Field(
        None, description="service: queue length at which further requests are rejected with 429 or 503."
    )
    retry_after_ms: NonNegative = Field(
        1000.0, description="service: wait before a rejected request is resent, which the backoff kind retry_after also uses."
    )
    max_resends: Files = Field(
        5,
        description="service: maximum number of resends of a rejected request, after which the operation aborts "
        "(service_unavailable).",
    )
    lock: Literal["none", "table"] | None = Field(
        None,
        description="service: how commits to the same table are processed: serially (table) or concurrently (none). Default: none; "
        "with coalesce, always serially.",
    )
    server_retries: Files = Field(
        0,
        description="service: maximum number of server-side retries of a commit that lost its compare-and-swap "
        "(4 in Iceberg's REST server code).",
    )
    server_retry_mode: ServerRetryMode = Field(
        "recheck",
        description="service: behavior of a server-side retry. recheck: the server checks the requirements of the commit "
        "again, as Iceberg's CatalogHandlers do, and rejects an append to a branch that has changed (409). rebase: "
        "the server applies an append to the current state.",
    )
    server_backoff_ms: NonNegative = Field(
        100.0,
        description="service: wait before a server-side retry. The reload before the retry takes additional time, as in load.",
    )
    database_conflict: Probability = Field(
        0.0,
        description="service: probability per concurrent commit to another table that the database rejects a commit with a "
        "serialization failure. Clients do not retry such a commit (request_failed).",
    )
    coalesce: CoalesceSection | None = Field(None, description="service: group commit of requests for the same table.")
    transfer_ms_per_mib: NonNegative = Field(10.0, description="service: additional latency of a load per MiB of table metadata.")
    writes_metadata: bool = Field(
        True,
        description="service: whether the server writes metadata.json and returns it when a table is loaded (REST). If false, "
        "clients read and write it (Glue, Hive, JDBC).",
    )
    metadata_limit_bytes: Annotated[int, Field(ge=1, le=10**15)] | None = Field(
        None, description="Maximum size of metadata.json; a commit that exceeds it aborts (AWS Glue: 20 MB)."
    )

    @property
    def pointers(self) -> int:
        """Number of commit pointers, one per table group."""
        return self.num_groups or (self.num_tables if self.type == "service" else 1)


EMPTY_TABLE = {"manifests": 1, "delete_manifests": 0, "snapshots": 1}
"""Counts of a new table. A steady table also starts with these counts if they would otherwise grow without bound."""


class TableSection(Section):
    """``[table]``: initial state and metadata sizes of every table, for commit paths that track metadata files."""

    start: Literal["steady", "empty"] = Field(
        "steady",
        description="Initial table state; explicit keys override it. steady: as many manifests and snapshots as the "
        "table has while merging, rewrites and expiry limit their number, at a random point of the cycle; if nothing limits "
        "it, as with empty. empty: a new table with 1 manifest, no delete manifests and 1 "
        "snapshot.",
    )
    manifests: Files | None = Field(None, description="Initial number of data manifests. Default: depends on `start`.")
    delete_manifests: Files | None = Field(None, description="Initial number of delete manifests. Default: depends on `start`.")
    snapshots: Some | None = Field(None, description="Initial number of retained snapshots. Default: depends on `start`.")
    metadata_bytes: Count = Field(2_000, description="Size of a metadata file without snapshots.")
    metadata_bytes_per_snapshot: Count = Field(
        1_100,
        description="Size of a metadata file per retained snapshot, in bytes (median of 59 public tables: 1,109; "
        "minimal tables: about 740).",
    )
    manifest_list_bytes: Count = Field(4_400, description="Size of a manifest list without manifests.")
    manifest_list_bytes_per_manifest: Count = Field(42, description="Bytes that each manifest adds to the manifest list.")
    manifest_bytes: AtLeastOne = Field(7_100, description="Size of a new manifest.")
    manifest_header_bytes: Count = Field(
        6_900, description="Part of manifest_bytes that is written only once when manifests are merged (the header)."
    )
    min_count_to_merge: Annotated[int, Field(ge=2, le=MOST)] = Field(
        100,
        description="Number of manifests, including the new one, from which manifests are merged "
        "(commit.manifest.min-count-to-merge).",
    )
    target_bytes: Annotated[int, Field(ge=1, le=10**15)] = Field(
        8 * 1024 * 1024, description="Target size of merged manifests in bytes (commit.manifest.target-size-bytes)."
    )
    merge_manifests: bool = Field(True, description="Merge manifests on commit (commit.manifest-merge.enabled).")
    files: Files = Field(
        1, description="Initial number of data files, for declarative protocols. Each commit that adds data adds one file."
    )

    @property
    def model_settings(self) -> dict[str, Any]:
        """Settings of the table model: all keys that are set or have a default."""
        return EMPTY_TABLE | self.model_dump(exclude={"start", "files"}, exclude_none=True)

    @property
    def given_counts(self) -> tuple[str, ...]:
        """Keys of initial counts that are set."""
        return tuple(key for key in EMPTY_TABLE if getattr(self, key) is not None)

    @model_validator(mode="after")
    def _check(self) -> TableSection:
        if self.manifest_header_bytes > self.manifest_bytes:
            raise ValueError(
                f"manifest_header_bytes {self.manifest_header_bytes} must be at most manifest_bytes {self.manifest_bytes}"
            )
        return self


class Normal(Section):
    """Normal latency, truncated at the provider's floor."""

    mean: PositiveMs = Field(description="Mean, before the minimum is applied, in ms.")
    stddev: NonNegativeMs = Field(0.0, description="Standard deviation, in ms.")


class ReadWrite(Section):
    """Latencies of reads and writes of one kind of object."""

    read: Normal | None = Field(None, description="Latency of a read. Default: from the provider.")
    write: Normal | None = Field(None, description="Latency of a write. Default: from the provider.")


class Sizes(Section):
    """``[storage.sizes]``: sizes of metadata objects, for latencies that depend on the size."""

    table_metadata_bytes: Count = Field(16_384, description="Size of a table metadata file.")
    manifest_list_bytes: Count = Field(8_192, description="Size of a manifest list.")
    manifest_file_bytes: Count = Field(8_192, description="Size of a manifest.")


class StorageSection(Section):
    """``[storage]``: object store. Without ``provider``, the T_* keys describe a custom object store."""

    provider: str | None = Field(None, description="Built-in provider, or path of a custom latency profile (*.toml).")
    profile: Literal["2025-06", "2025-12", "2026-01"] = Field("2026-01", description="Version of the built-in latency profiles.")
    max_parallel: Writers = Field(4, description="Maximum number of parallel requests of the same kind.")
    min_latency_ms: NonNegativeMs | None = Field(None, description="Lower bound of all latencies. Default: from the profile.")
    sizes: Sizes = Field(default_factory=Sizes, description="Sizes of metadata objects.")
    T_CAS: Normal | None = Field(None, description="Compare-and-swap of the catalog file.")
    T_METADATA_ROOT: ReadWrite | None = Field(
        None, description="Access to the catalog file, and to table metadata files unless T_TABLE_METADATA is set."
    )
    T_TABLE_METADATA: ReadWrite | None = Field(None, description="Access to table metadata files.")
    T_MANIFEST_LIST: ReadWrite | None = Field(None, description="Access to manifest lists.")
    T_MANIFEST_FILE: ReadWrite | None = Field(None, description="Manifests.")
    T_APPEND: Normal | None = Field(
        None, description="Append to the catalog log, or to a manifest list with manifest_list_mode = append."
    )
    T_COMPACTION: Normal | None = Field(None, description="Compare-and-swap that compacts the catalog log. Default: T_CAS.")
    T_LOG_ENTRY_READ: Normal | None = Field(None, description="Additional latency of a catalog read per log entry.")


class SimulationSection(Section):
    """``[simulation]``: length, seed and output of the run."""

    duration_ms: PositiveMs = Field(description="Duration of the run. No transactions arrive after it.")
    seed: Annotated[int, Field(ge=0, le=MAX_SEED)] | None = Field(
        None, description="Random seed of the run. Default: a random seed, which is stored with the results."
    )
    output_path: str = Field(
        "results.parquet",
        description="Results file of an experiment without a label, relative to the output directory.",
        min_length=1,
    )
    drain: bool = Field(
        False,
        description="Complete the transactions that are in flight at the end of the run. Metrics still count them as in flight.",
    )
    engine: Literal["auto", "reference", "compiled"] = Field(
        "auto",
        description="auto: the compiled engine if it supports the configuration, otherwise the reference engine. "
        "All engines write the same rows.",
    )


ScenarioName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,80}$")]
"""Name of a scenario, unchanged from the file."""


class Experiment(Section):
    """``[experiment]``: name of the experiment. If a label is set, results are written to experiments/label-hash/seed/."""

    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = Field(
        None, description="Name of the experiment."
    )
    scenario: ScenarioName | None = Field(
        None, description="Name of the scenario in tables and figures; set by sweeps with [scenario.NAME]."
    )


_MOST_FAILING = 0.99
"""Maximum failure probability of requests that are resent until they succeed, which corresponds to 100 attempts on average."""


LAB_ONLY = {"slow_response", "slow_response_ms"}
"""Keys of ``[failures]`` that apply to real clients in the lab, and not to simulated ones."""


class FailuresSection(Section):
    """``[failures]``: probabilities of failures, and how clients handle an unknown commit state."""

    request_error: Probability = Field(
        0.0, description="Probability that a request fails temporarily. The SDK resends it after a backoff."
    )
    fatal_error: Probability = Field(
        0.0, description="Probability that a request fails permanently (500, 403); the operation aborts with request_failed."
    )
    lost_answer: Probability = Field(
        0.0, description="Probability that the response to a commit is lost, whether or not it took effect."
    )
    client_crash: Probability = Field(
        0.0, description="Probability per attempt that the client crashes before it sends the commit."
    )
    slow_response: Probability = Field(
        0.0, description="Probability that a response is delayed by slow_response_ms (`endive lab` only)."
    )
    slow_response_ms: NonNegativeMs = Field(5_000.0, description="Delay of a slow response (`endive lab` only).")
    on_unknown: OnUnknown = Field(
        "check",
        description="Reaction to a lost response. check: the client reads the catalog, as Iceberg does. retry: the client commits "
        "again, so the commit may take effect twice. idempotency_key: the client resends the commit with an idempotency "
        "key, so that the service detects the duplicate.",
    )
    status_checks: Count = Field(
        3, description="on_unknown = check: number of status checks after the first one (commit.status-check.num-retries)."
    )
    min_wait_ms: NonNegative = Field(
        1_000.0,
        description="on_unknown = check: wait before the second status check; it doubles with each check "
        "(commit.status-check.min-wait-ms).",
    )
    max_wait_ms: NonNegative = Field(
        60_000.0, description="on_unknown = check: maximum wait between status checks (commit.status-check.max-wait-ms)."
    )

    @model_validator(mode="after")
    def _check(self) -> FailuresSection:
        if self.lost_answer > _MOST_FAILING and self.on_unknown == "idempotency_key":
            raise ValueError(f'lost_answer must be at most {_MOST_FAILING:g} with on_unknown = "idempotency_key"')
        if self.request_error > _MOST_FAILING:
            raise ValueError(f"request_error must be at most {_MOST_FAILING:g}")
        return self


class ComponentSection(Section):
    """Custom component: a class in a Python file."""

    code: Annotated[str, Field(pattern=r"^[^:]+:[A-Za-z_][A-Za-z0-9_]*$")] = Field(
        description="FILE.py:CLASS, relative to the configuration file. Requires --allow-code."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the class.")
    classes: list[str] | None = Field(None, description="transaction: workload classes that use the component. Default: all.")
    source: str | None = Field(None, description="Content of the file given by `code`; set by Endive.")


class PartsSection(Section):
    """``[parts]``: custom components, which replace built-in ones and run on the reference engine."""

    provider: ComponentSection | None = Field(
        None, description="Custom object store. It uses the sizes and the number of parallel requests of [storage]."
    )
    catalog: ComponentSection | None = Field(None, description="Custom catalog.")
    transaction: ComponentSection | None = Field(None, description="Custom transaction, which replaces the operation.")


class Document(Section):
    """Configuration file."""

    simulation: SimulationSection
    experiment: Experiment = Field(default_factory=Experiment)
    storage: StorageSection
    catalog: CatalogSection = Field(default_factory=CatalogSection)
    table: TableSection = Field(default_factory=TableSection)
    transaction: Transactions = Field(default_factory=Transactions)
    failures: FailuresSection = Field(default_factory=FailuresSection)
    parts: PartsSection = Field(default_factory=PartsSection)
    workload: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], ClassSection] = Field(
        default_factory=dict, description="Classes of transactions, by name."
    )


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema with which editors check and complete configuration files."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Document.model_json_schema()}
