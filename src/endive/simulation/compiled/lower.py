"""Lowering: a configuration of built-in parts becomes arrays; one with parts of the user's own is refused, with the reason."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import get_args

import numpy as np

from endive.arithmetic.draws import QUANTILES
from endive.catalog import AppendCatalog, CASCatalog, Catalog, ServiceCatalog, StoredCatalog
from endive.catalog.kinds import CATALOG_KINDS
from endive.conflict_detector import PartitionOverlapConflictDetector, ProbabilisticConflictDetector
from endive.simulation.compiled import layout
from endive.simulation.compiled.features import Features
from endive.simulation.compiled.layout import World, aligned, point
from endive.simulation.compiled.lower_service import SERVICE_TIMES, lower_service
from endive.simulation.config import SimulationConfig
from endive.simulation.rows import BATCH_ROWS
from endive.storage import (
    CATALOG,
    MANIFEST_FILE,
    MANIFEST_LIST,
    TABLE_METADATA,
    EmpiricalLatency,
    ExponentialLatency,
    FixedLatency,
    GammaLatency,
    LatencyDistribution,
    LognormalLatency,
    MixtureLatency,
    NormalLatency,
    ProfiledProvider,
    QuantileDistribution,
    ShiftedLognormalLatency,
    SizeBasedLatency,
    TableLatency,
    UniformLatency,
)
from endive.storage.distributions import Parameters
from endive.table import (
    ICEBERG_OPERATIONS,
    OPERATION_CODES,
    PYICEBERG_OPERATIONS,
    OperationSettings,
    TableFiles,
    Traits,
    pyiceberg_traits_of,
    traits_of,
)
from endive.transaction import OPERATIONS, CommitPolicy, ConflictDetector
from endive.transaction.failures import Failures
from endive.workload import (
    Arrivals,
    ClosedArrivals,
    CommitterSource,
    OpenArrivals,
    PeriodicArrivals,
    ScheduledArrivals,
    Source,
    Submission,
    TraceArrivals,
    UniformPartitionSelector,
    UniformTableSelector,
    Workload,
    WorkloadClass,
    WriterArrivals,
    ZipfCount,
    ZipfPartitionSelector,
    ZipfTableSelector,
)
from endive.workload.selectors import zipf_cumulative

INITIAL_SLOTS = 1024
_ROW_PADDING = 72
"""Columns of rows do not begin at multiples of a power of two, which all would share few places in the processor's caches."""
INITIAL_HISTORY = 4096
INITIAL_HANDOVERS = 1024
OPERATION_ORDER = tuple(OPERATIONS[name] for name in OPERATION_CODES)
"""The operations in the order of their codes."""

_DISTRIBUTIONS = (
    EmpiricalLatency,
    ExponentialLatency,
    FixedLatency,
    GammaLatency,
    LognormalLatency,
    MixtureLatency,
    NormalLatency,
    ShiftedLognormalLatency,
    SizeBasedLatency,
    UniformLatency,
)
_BY_SIZE = (
    (TABLE_METADATA, False),
    (TABLE_METADATA, True),
    (MANIFEST_LIST, False),
    (MANIFEST_LIST, True),
    (MANIFEST_FILE, False),
    (MANIFEST_FILE, True),
    (MANIFEST_FILE, True),
)
"""Objects, and whether they are written, in the order of ``layout.METADATA_READ`` and so on."""
_TABLE_SETTINGS = (
    "metadata_bytes",
    "metadata_bytes_per_snapshot",
    "manifest_list_bytes",
    "manifest_list_bytes_per_manifest",
    "manifest_bytes",
    "manifest_header_bytes",
    "min_count_to_merge",
    "target_bytes",
    "merge_manifests",
)
_NOTHING: Parameters = (0, 0.0, 0.0, 0.0)


class NotLowerableError(Exception):
    """The configuration has a part that only the reference engine can run."""


def check_lowerable(config: SimulationConfig) -> None:
    """Raise NotLowerableError if the compiled engine cannot run this configuration."""
    _builtin(config.catalog, [kind.catalog for kind in CATALOG_KINDS.values()], "catalog")
    if isinstance(config.catalog, ServiceCatalog):
        settings = config.catalog.settings
        for name in SERVICE_TIMES:
            _builtin(getattr(settings, name), _DISTRIBUTIONS, f"{name} of the catalog service")
    _builtin(config.storage_provider, (ProfiledProvider,), "storage provider")
    assert isinstance(config.catalog, StoredCatalog)
    _builtin(config.catalog.storage, (ProfiledProvider,), "storage provider of the catalog")
    _builtin(config.workload, (Workload,), "workload")
    for cls in config.workload.config.workload_classes:
        where = f"of class {cls.name!r}"
        _builtin(config.detector_of(cls), (ProbabilisticConflictDetector, PartitionOverlapConflictDetector), f"detector {where}")
        _builtin(cls.table_selector, (UniformTableSelector, ZipfTableSelector), f"table selector {where}")
        _builtin(cls.partition_selector, (UniformPartitionSelector, ZipfPartitionSelector), f"partition selector {where}")
        _builtin(cls.runtime, _DISTRIBUTIONS, f"runtime {where}")
        client_time = config.policy_of(cls).client_time
        if client_time is not None:
            _builtin(client_time, _DISTRIBUTIONS, f"client time {where}")
        _builtin(cls.arrivals, get_args(Arrivals), f"arrival process {where}")
        if isinstance(cls.arrivals, OpenArrivals):
            _builtin(cls.arrivals.inter_arrival, _DISTRIBUTIONS, f"inter-arrival time {where}")
        if isinstance(cls.arrivals, ClosedArrivals):
            _builtin(cls.arrivals.think_time, _DISTRIBUTIONS, f"think time {where}")
        for operation in cls.operations:
            if operation not in OPERATION_ORDER:
                raise NotLowerableError(f"operation {operation.__name__} {where} is not a built-in one")
    profiles = (config.storage_provider.profile, config.catalog.storage.profile)  # type: ignore[attr-defined]
    for profile in profiles:
        parts = [*profile.reads.values(), *profile.writes.values(), profile.cas, profile.failed_cas, profile.append]
        parts += [profile.failed_append, profile.compaction, profile.log_entry_read]
        for part in parts:
            if part is not None:
                _builtin(part, _DISTRIBUTIONS, f"latency of provider {profile.name!r}")


def _builtin(part: object, allowed: Sequence[type], what: str) -> None:
    if type(part) not in allowed:
        raise NotLowerableError(f"{what} {type(part).__name__} is not a built-in one")


def features_of(config: SimulationConfig) -> Features:
    """What the kernel must be able to do for a configuration. Classes on several commit paths take the kernel that knows all."""
    paths = {config.policy_of(cls).commit_path for cls in config.workload.config.workload_classes}
    several = len(paths) > 1
    log, service = isinstance(config.catalog, AppendCatalog), isinstance(config.catalog, ServiceCatalog)
    return Features(
        endive=several or "endive" in paths,
        iceberg=several or "iceberg" in paths,
        pyiceberg=several or "pyiceberg" in paths,
        files=config.catalog.table_model is not None,  # type: ignore[attr-defined]
        cas=not log and not service,
        log=log,
        service=service,
        limits=_has_limits(config.catalog),
        failures=any(config.policy_of(cls).failures is not None for cls in config.workload.config.workload_classes),
        list_appends=config.ml_append_mode,
        clients=any(_has_client(config.policy_of(cls)) for cls in config.workload.config.workload_classes),
        committers=any(cls.committer is not None for cls in config.workload.config.workload_classes),
    )


def _has_limits(catalog: Catalog) -> bool:
    """Whether something at the catalog is limited: writes of its pointer, or the size of metadata."""
    assert isinstance(catalog, StoredCatalog)
    throttled = isinstance(catalog, CASCatalog) and catalog.storage.object_writes_per_s is not None
    return throttled or catalog.metadata_limit_bytes is not None


def _has_client(policy: CommitPolicy) -> bool:
    """Whether clients do more than wait for accesses and back off by a share."""
    unusual = policy.backoff.enabled and policy.backoff.kind != "exponential"
    return unusual or policy.table_handle == "kept" or policy.client_time is not None


def lower(config: SimulationConfig) -> World:
    """The arrays of a run at its beginning."""
    check_lowerable(config)
    return _Lowering(config).world()


class _Lowering:
    """Collects what goes into the arrays."""

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config
        self.workload = config.workload if config.seed is None else config.workload.reseeded(config.seed)
        self.classes = self.workload.config.workload_classes
        self.weights: list[float] = []
        self.weight_offsets: dict[float, int] = {}
        self.candidates: list[int] = []
        self.schedules: list[float] = []
        self.submissions: list[tuple[float, int, float, int, int, int]] = []
        self.traced_partitions: list[int] = []
        self.convoys: dict[tuple[Parameters, int], int] = {}
        topology = self.workload.config
        self.most_items = max(topology.num_tables, *topology.partitions_per_table)

    def world(self) -> World:
        classes = np.zeros(len(self.classes), layout.CLASS)
        for record, cls in zip(classes, self.classes, strict=True):
            self._class(record, cls)
        max_tables = max(self._max_tables(cls) for cls in self.classes)
        max_partitions = max(math.ceil(cls.partitions_per_txn or 1) for cls in self.classes)
        max_partitions = max(max_partitions, *(partitions for *_, partitions in self.submissions), 1)
        sources = self._sources()
        run = self._run()
        tables, partitions = self._tables()
        tracked = run["tracks_files"][0]
        world = World(
            run=run,
            classes=classes,
            sources=sources,
            txns=np.zeros(0, layout.TXN),
            touched=np.zeros((0, max_tables), layout.TOUCHED),
            partitions_touched=np.zeros((0, max_tables, max_partitions), layout.PARTITION),
            groups=np.zeros(max(self.workload.config.groups) + 1, layout.GROUP),
            tables=tables,
            partitions=partitions,
            heap=np.zeros(len(sources), layout.EVENT),
            rows=np.zeros((layout.ROW.itemsize // 8, BATCH_ROWS + _ROW_PADDING), np.int64),
            row_tables=np.zeros((BATCH_ROWS, max_tables), np.int64),
            weights=np.array(self.weights or [0.0]),
            quantiles=_quantiles(len(QUANTILES)),
            candidates=np.array(self.candidates, np.int64),
            convoys=self._convoy_tables(),
            scratch=np.zeros((3, self.most_items), np.int64),
            traits=self._traits(),
            history=np.zeros(INITIAL_HISTORY * max_tables if tracked else 0, layout.HISTORY),
            history_partitions=np.zeros((INITIAL_HISTORY * max_tables if tracked else 0, max_partitions), np.int64),
            schedules=np.array(self.schedules, np.float64),
            submissions=np.array(self.submissions, layout.SUBMISSION),
            traced_partitions=np.array(self.traced_partitions, np.int64),
            requests=np.zeros(0, layout.REQUEST),
            committers=self._committers(sources),
            handovers=np.zeros(0, layout.HANDOVER),
            known_versions=np.full((len(sources) if classes["keeps_handles"].any() else 0, len(tables)), -1, np.int64),
        )
        world = with_more_slots(world, INITIAL_SLOTS)
        return with_more_handovers(world) if len(world.committers) else world

    def _committers(self, sources: layout.Array) -> layout.Array:
        """The committers of the classes that have one, in their order."""
        found = [cls for cls in self.classes if cls.committer is not None]
        committers = np.zeros(len(found), layout.COMMITTER)
        for record, cls in zip(committers, found, strict=True):
            settings = cls.committer
            assert settings is not None
            record["source"] = np.flatnonzero(sources["cls"] == self.classes.index(cls))[-1]
            record["interval_ms"], record["max_batch"] = settings.interval_ms, settings.max_batch
            record["limit"] = cls.most_uncommitted
            record["next_ms"] = cls.start_ms + settings.interval_ms
            record["head"] = layout.NOBODY
        return committers

    def _run(self) -> layout.Array:
        config, catalog = self.config, self.config.catalog
        assert isinstance(catalog, StoredCatalog)
        array = np.zeros(1, layout.RUN)
        run = array[0]
        run["end_ms"] = math.inf if config.drain else config.duration_ms
        run["duration_ms"] = config.duration_ms
        run["free_head"] = -1
        run["handover_free"] = layout.NOBODY
        run["catalog_kind"] = layout.LOG if isinstance(catalog, AppendCatalog) else layout.CAS
        run["metadata_limit"] = -1 if catalog.metadata_limit_bytes is None else catalog.metadata_limit_bytes
        limit = catalog.storage.object_writes_per_s
        run["write_interval_ms"] = 0.0 if limit is None else 1000.0 / limit
        run["spans_groups"] = self.workload.config.spans_groups
        if isinstance(catalog, ServiceCatalog):
            lower_service(run, catalog)
        run["linearization"] = catalog.linearization
        run["seal_threshold"] = config.manifest_list_seal_threshold_bytes
        run["num_groups"] = max(self.workload.config.groups) + 1
        run["convolved"] = config.convoy == "convolved"
        if isinstance(catalog, AppendCatalog):
            run["log_entry_bytes"] = catalog.log_entry_bytes
            run["compaction_threshold"] = catalog.compaction_threshold_bytes
            run["compaction_max_entries"] = catalog.compaction_max_entries
        model = catalog.table_model
        if model is not None:
            run["tracks_files"] = 1
            for name in _TABLE_SETTINGS:
                run[name] = getattr(model, name)
        assert isinstance(catalog.storage, ProfiledProvider)
        profile = catalog.storage.profile
        logged = isinstance(catalog, AppendCatalog) and profile.log_entry_read is not None
        run["log_entry_read"] = logged
        run["catalog"][:] = (
            profile.read_parameters(CATALOG, catalog.size_bytes),
            _parameters(profile.cas),
            _parameters(profile.failed_cas or profile.cas),
            _parameters(profile.append),
            _parameters(profile.failed_append or profile.append),
            _parameters(profile.compaction or profile.cas),
            _parameters(profile.failed_cas or profile.compaction or profile.cas),
            _parameters(profile.log_entry_read if logged else None),
        )
        return array

    def _class(self, record: np.void, cls: WorkloadClass) -> None:
        config = self.config
        policy = config.policy_of(cls)
        self._arrivals(record, cls)
        record["runtime"] = _parameters(cls.runtime)
        weights = [cls.operations.get(operation, 0.0) for operation in OPERATION_ORDER]
        record["weights"] = weights
        record["only_operation"] = next((i for i, weight in enumerate(weights) if weight > 0.0 and sum(weights) == weight), -1)
        self._selection(record, cls)
        record["manifests_per_commit"] = cls.manifests_per_concurrent_commit
        record["max_retries"] = config.max_retries_of(cls)
        with_committer = [each.name for each in self.classes if each.committer is not None]
        record["committer"] = with_committer.index(cls.name) if cls.committer is not None else layout.NOBODY
        self._policy(record, policy)
        self._detector(record, config.detector_of(cls))

    def _arrivals(self, record: np.void, cls: WorkloadClass) -> None:
        arrivals = cls.arrivals
        if isinstance(arrivals, PeriodicArrivals | WriterArrivals):
            record["arrival_kind"] = layout.PERIODIC
            record["arrival"] = (0.0, arrivals.interval_ms, 0.0, 0.0)
        elif isinstance(arrivals, ScheduledArrivals):
            record["arrival_kind"] = layout.SCHEDULED
            record["arrival"] = ExponentialLatency(1.0).parameters
            record["first_step"], record["steps"] = len(self.schedules), len(arrivals.steps)
            self.schedules.extend(arrivals.flat)
        elif isinstance(arrivals, TraceArrivals):
            record["arrival_kind"] = layout.TRACED
            record["first_submission"], record["submissions"] = len(self.submissions), len(arrivals.submissions)
            for submission in arrivals.submissions:
                self._submission(submission)
        elif isinstance(arrivals, ClosedArrivals):
            record["arrival_kind"] = layout.CLOSED
            record["arrival"] = _parameters(arrivals.think_time)
        else:
            record["arrival_kind"] = layout.OPEN
            record["arrival"] = _parameters(arrivals.inter_arrival)

    def _submission(self, submission: Submission) -> None:
        operation, runtime_ms, partitions = submission.operation, submission.runtime_ms, submission.partitions
        self.submissions.append(
            (
                submission.time_ms,
                -1 if operation is None else OPERATION_ORDER.index(operation),
                -1.0 if runtime_ms is None else runtime_ms,
                -1 if submission.table is None else submission.table,
                len(self.traced_partitions),
                -1 if partitions is None else len(partitions),
            )
        )
        self.traced_partitions.extend(sorted(partitions or ()))

    def _selection(self, record: np.void, cls: WorkloadClass) -> None:
        tables, partitions = cls.table_selector, cls.partition_selector
        assert isinstance(tables, UniformTableSelector | ZipfTableSelector)
        assert isinstance(partitions, UniformPartitionSelector | ZipfPartitionSelector)
        count = cls.tables_per_txn
        record["tables_per_txn"] = 0 if isinstance(count, ZipfCount) else count
        record["table_count_weights"] = self._weights_at(count.alpha) if isinstance(count, ZipfCount) else -1
        record["table_weights"] = self._weights_at(tables.alpha)
        record["table_write_fraction"] = tables.write_fraction
        candidates = range(self.workload.config.num_tables) if cls.tables is None else cls.tables
        record["first_candidate"] = len(self.candidates)
        record["candidates"] = len(candidates)
        self.candidates.extend(candidates)
        record["partitions_per_txn"] = -1.0 if cls.partitions_per_txn is None else cls.partitions_per_txn
        record["partition_weights"] = self._weights_at(partitions.alpha)
        record["partition_write_fraction"] = partitions.write_fraction
        record["range_first"], record["range_end"] = cls.partition_range or (0, -1)

    def _policy(self, record: np.void, policy: CommitPolicy) -> None:
        provider = self.config.storage_provider
        assert isinstance(provider, ProfiledProvider)
        profile, sizes = provider.profile, policy.sizes
        access = (
            profile.read_parameters(TABLE_METADATA, sizes.table_metadata_bytes),
            profile.write_parameters(TABLE_METADATA, sizes.table_metadata_bytes),
            profile.read_parameters(MANIFEST_LIST, sizes.manifest_list_bytes),
            profile.write_parameters(MANIFEST_LIST, sizes.manifest_list_bytes),
            profile.read_parameters(MANIFEST_FILE, sizes.manifest_file_bytes),
            profile.write_parameters(MANIFEST_FILE, sizes.manifest_file_bytes),
            profile.write_parameters(MANIFEST_FILE, 0),
        )
        for kind, (distribution, write) in enumerate(_BY_SIZE):
            found = profile.distribution(distribution, write=write)
            if isinstance(found, SizeBasedLatency | TableLatency):
                record["sized"][kind] = (1.0, found.base_latency_ms, found.latency_per_mib_ms)
        record["access"][:] = access
        failures = policy.failures or Failures()
        for name in ("request_error", "lost_answer", "client_crash", "status_checks"):
            record[name] = getattr(failures, name)
        record["on_unknown"] = layout.ON_UNKNOWN.index(failures.on_unknown)
        record["check_min_wait_ms"], record["check_max_wait_ms"] = failures.min_wait_ms, failures.max_wait_ms
        record["commit_path"] = layout.COMMIT_PATHS.index(policy.commit_path)
        record["convoy"][:] = [
            self.convoys.setdefault((parameters, policy.max_parallel), len(self.convoys)) for parameters in access
        ]
        record["list_append"] = _parameters(profile.append)
        record["failed_list_append"] = _parameters(profile.failed_append or profile.append)
        record["max_parallel"] = policy.max_parallel
        record["inlined"] = policy.table_metadata_inlined
        record["entry_bytes"] = policy.manifest_list_entry_bytes
        record["linearization"] = policy.linearization
        record["backoff"] = policy.backoff.enabled
        record["backoff_base_ms"] = policy.backoff.base_ms
        record["backoff_multiplier"] = policy.backoff.multiplier
        record["backoff_max_ms"] = policy.backoff.max_ms
        record["backoff_jitter"] = policy.backoff.jitter
        record["backoff_upwards"] = policy.backoff.upwards
        record["backoff_kind"] = policy.backoff.code
        record["keeps_handles"] = policy.table_handle == "kept"
        record["computes"] = policy.client_time is not None
        record["client_time"] = _parameters(policy.client_time)
        record["timeout_from_retry"] = policy.timeout_from_retry
        record["timeout_ms"] = math.inf if policy.total_timeout_ms is None else policy.total_timeout_ms
        record["on_real_conflict"] = layout.ON_REAL_CONFLICT.index(policy.on_real_conflict)
        record["max_restarts"] = policy.max_restarts
        counts = policy.conflicting_manifests
        record["manifests"] = counts.distribution.parameters
        record["manifests_low"], record["manifests_high"] = counts.low, counts.high

    def _detector(self, record: np.void, detector: ConflictDetector) -> None:
        if isinstance(detector, ProbabilisticConflictDetector):
            record["detector"] = layout.PROBABILISTIC
            record["real_probability"] = detector.real_conflict_probability
        else:
            record["detector"] = layout.PARTITION_OVERLAP

    def _sources(self) -> layout.Array:
        places = {cls.name: place for place, cls in enumerate(self.classes)}
        return np.array(
            [self._source(source, places[source.workload_class.name]) for source in self.workload.sources()], layout.SOURCE
        )

    def _source(self, source: Source, place: int) -> tuple[int, int, int, int, float, float, float, int, int]:
        end_ms = min(self.config.duration_ms, source.workload_class.end_ms)
        if isinstance(source, CommitterSource):
            end_ms = -math.inf
        base_ms = self.config.policy_of(source.workload_class).backoff.base_ms
        return (place, source.key, 0, source.writer, source.first_ms, end_ms, base_ms, 0, 0)

    def _tables(self) -> tuple[layout.Array, layout.Ints]:
        topology = self.workload.config
        tables = np.zeros(topology.num_tables, layout.TABLE)
        tables["group"] = topology.groups
        tables["batch_head"] = layout.NOBODY
        tables["partitions"] = topology.partitions_per_table
        tables["first_partition"] = np.cumsum([0, *topology.partitions_per_table[:-1]])
        model = self.config.catalog.table_model  # type: ignore[attr-defined]
        if model is not None:
            files = TableFiles.initial(model)
            for name in ("data", "data_bytes", "deletes", "delete_bytes", "snapshots"):
                tables[name] = getattr(files, name)
        return tables, np.zeros(sum(topology.partitions_per_table), np.int64)

    def _traits(self) -> layout.Array:
        """The snapshots that each operation of each class makes: the first ones, then the second ones."""
        codes = len(OPERATION_ORDER)
        traits = np.zeros((len(self.classes), 2 * codes), layout.TRAITS)
        traits["kind"] = layout.UNUSED
        for of_class, cls in zip(traits, self.classes, strict=True):
            python = self.config.policy_of(cls).commit_path == "pyiceberg"
            settings = cls.settings or OperationSettings()
            for code, operation in enumerate(OPERATION_ORDER):
                name = operation.operation_type
                made: tuple[Traits, ...] = ()
                if name in (PYICEBERG_OPERATIONS if python else ICEBERG_OPERATIONS):
                    made = pyiceberg_traits_of(name, settings) if python else (traits_of(name, settings),)
                for part, each in enumerate(made):
                    of_class[code + part * codes] = dataclasses.astuple(each)
        return traits

    def _weights_at(self, alpha: float) -> int:
        """Where the cumulative weights for this exponent begin."""
        if alpha not in self.weight_offsets:
            self.weight_offsets[alpha] = len(self.weights)
            self.weights.extend(zipf_cumulative(self.most_items, alpha))
        return self.weight_offsets[alpha]

    def _max_tables(self, cls: WorkloadClass) -> int:
        candidates = self.workload.config.num_tables if cls.tables is None else len(cls.tables)
        return candidates if isinstance(cls.tables_per_txn, ZipfCount) else min(cls.tables_per_txn, candidates)

    def _convoy_tables(self) -> layout.Floats:
        if self.config.convoy != "convolved":
            return np.zeros(0)
        from endive.simulation.compiled.convoys import kept_convoy_table

        return np.concatenate([kept_convoy_table(parameters, parallel) for parameters, parallel in self.convoys])


@lru_cache(maxsize=1)
def _quantiles(length: int) -> layout.Floats:
    """What ``normal_quantile`` looks up, as an array: a cell is in one line of the processor's cache."""
    table: layout.Floats = aligned(length, np.dtype(np.float64))
    table[:] = QUANTILES[:length]
    return table


def with_more_slots(world: World, slots: int) -> World:
    """The same run with room for so many transactions in flight."""
    old = len(world.txns)
    txns = aligned(slots, layout.TXN)
    txns[:old] = world.txns
    txns["txn_id"][old:] = -1
    txns["next_free"][old:] = np.arange(old + 1, slots + 1)
    run = world.run[0]
    txns["next_free"][-1] = run["free_head"]
    run["free_head"] = old
    touched = aligned((slots, *world.touched.shape[1:]), layout.TOUCHED)
    touched[:old] = world.touched
    partitions = np.zeros((slots, *world.partitions_touched.shape[1:]), layout.PARTITION)
    partitions[:old] = world.partitions_touched
    heap = _heap(world, slots, len(world.handovers))
    requests = np.zeros(slots if run["catalog_kind"] == layout.SERVICE else 0, layout.REQUEST)
    requests[: len(world.requests)] = world.requests
    return point(world._replace(txns=txns, touched=touched, partitions_touched=partitions, heap=heap, requests=requests))


def _heap(world: World, slots: int, handovers: int) -> layout.Array:
    """Return the same queue with room for an event of each slot, source and hand-over, and two of each committer."""
    size = slots + len(world.sources) + 2 * len(world.committers) + handovers
    heap = aligned(size, layout.EVENT, ahead=1)  # the four children of an event are in one line
    heap[: len(world.heap)] = world.heap
    return heap


def with_more_handovers(world: World) -> World:
    """The same run with room for twice as many hand-overs."""
    old = len(world.handovers)
    handovers = np.zeros(max(2 * old, INITIAL_HANDOVERS), layout.HANDOVER)
    handovers[:old] = world.handovers
    handovers["next"][old:] = np.arange(old + 1, len(handovers) + 1)
    run = world.run[0]
    handovers["next"][-1] = run["handover_free"]
    run["handover_free"] = old
    return point(world._replace(handovers=handovers, heap=_heap(world, len(world.txns), len(handovers))))


def with_room_in_history(world: World) -> World:
    """The same run with room for more snapshots: those that nobody will look back to are dropped."""
    run = world.run[0]
    first, end = int(run["history_first"]), int(run["history_end"])
    live = world.txns["txn_id"] >= 0
    needed = min(int(world.txns["history_start"][live].min(initial=end)), end)
    kept = slice(needed - first, end - first)
    length = len(world.history) if end - needed <= len(world.history) // 2 else 2 * len(world.history)
    while length < end - needed + 2 * (int(run["max_tables"]) + int(run["in_batches"])):
        length *= 2
    history = np.zeros(length, layout.HISTORY)
    partitions = np.zeros((length, world.history_partitions.shape[1]), np.int64)
    history[: end - needed] = world.history[kept]
    partitions[: end - needed] = world.history_partitions[kept]
    run["history_first"] = needed
    return point(world._replace(history=history, history_partitions=partitions))


def _parameters(distribution: LatencyDistribution | None) -> Parameters:
    if distribution is None:
        return _NOTHING
    assert isinstance(distribution, QuantileDistribution)
    return distribution.parameters
