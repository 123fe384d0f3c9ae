"""Convert a configuration of built-in components to the arrays of the compiled engine.

Custom components raise an error that names the component.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from endive import storage, workload
from endive.arithmetic.draws import QUANTILES
from endive.arithmetic.manifests import FileCounts, reads_history
from endive.catalog import AppendCatalog, CASCatalog, Catalog, ServiceCatalog, StoredCatalog
from endive.catalog.kinds import CATALOG_KINDS
from endive.conflict_detector import PartitionOverlapConflictDetector, ProbabilisticConflictDetector
from endive.simulation.columns import BATCH_ROWS
from endive.simulation.compiled import run_state
from endive.simulation.compiled.features import FEATURES, Features
from endive.simulation.compiled.run_state import World, aligned, with_more_handovers, with_more_slots
from endive.simulation.config import SimulationConfig
from endive.storage.distributions import Parameters
from endive.table import OPERATION_CODES, OperationSettings
from endive.transaction import OPERATIONS, CommitPolicy, ConflictDetector
from endive.transaction.paths import COMMIT_PATHS
from endive.transaction.policy import Failures
from endive.transaction.protocol_path import CATALOG_OPERATIONS, PHASES, Protocol, ProtocolStep, StepAttempts, access_of
from endive.transaction.types import ACCESSES, COUNTERS, PROTOCOL_COUNTERS
from endive.workload import ARRIVAL_KINDS, Workload, WorkloadClass, ZipfCount
from endive.workload.classes import zipf_cumulative

INITIAL_SLOTS = 1024
_ROW_PADDING = 72
"""Padding of the columns of rows.

Without padding, columns would start at multiples of a power of two and compete for the same cache sets.
"""
INITIAL_HISTORY = 4096
OPERATION_ORDER = tuple(OPERATIONS[name] for name in OPERATION_CODES)
"""Operations in the order of their codes."""

_DISTRIBUTIONS = tuple(
    kind for kind in vars(storage).values() if isinstance(kind, type) and issubclass(kind, storage.QuantileDistribution)
)
_SERVICE_TIMES = ("network", "load", "commit", "check")
"""Latency distributions of a service, in the order of the constants from ``run_state.SERVICE_NETWORK`` on."""
_NOTHING: Parameters = (0, 0.0, 0.0, 0.0)


class NotLowerableError(Exception):
    """Raised if only the reference engine can run a component of the configuration."""


def check_lowerable(config: SimulationConfig) -> None:
    """Check that the compiled engine can run this configuration.

    Raises:
        NotLowerableError: If a component is not built in, or not compiled.
    """
    _builtin(config.catalog, [kind.catalog for kind in CATALOG_KINDS.values()], "catalog")
    if isinstance(config.catalog, ServiceCatalog):
        for name in _SERVICE_TIMES:
            _builtin(getattr(config.catalog.settings, name), _DISTRIBUTIONS, f"{name} of the catalog service")
    _builtin(config.storage_provider, (storage.ProfiledProvider,), "storage provider")
    assert isinstance(config.catalog, StoredCatalog)
    _builtin(config.catalog.storage, (storage.ProfiledProvider,), "storage provider of the catalog")
    _builtin(config.workload, (Workload,), "workload")
    for cls in config.workload.config.workload_classes:
        where = f"of class {cls.name!r}"
        policy = config.policy_of(cls)
        if policy.protocol is None and policy.commit_path not in FEATURES:
            raise NotLowerableError(f"the compiled engine does not support commit path {policy.commit_path} {where}")
        _builtin(config.detector_of(cls), (ProbabilisticConflictDetector, PartitionOverlapConflictDetector), f"detector {where}")
        _builtin(cls.table_selector, (workload.UniformTableSelector, workload.ZipfTableSelector), f"table selector {where}")
        selectors = (workload.UniformPartitionSelector, workload.ZipfPartitionSelector)
        _builtin(cls.partition_selector, selectors, f"partition selector {where}")
        _builtin(cls.runtime, _DISTRIBUTIONS, f"runtime {where}")
        client_time = config.policy_of(cls).client_time
        if client_time is not None:
            _builtin(client_time, _DISTRIBUTIONS, f"client time {where}")
        _builtin(cls.arrivals, [kind.process for kind in ARRIVAL_KINDS.values()], f"arrival process {where}")
        _builtin(cls.arrivals.interval, _DISTRIBUTIONS, f"inter-arrival time {where}")
        for operation in cls.operations:
            if operation not in OPERATION_ORDER:
                raise NotLowerableError(f"operation {operation.__name__} {where} is a custom component")
    followed = [config.policy_of(cls).protocol is not None for cls in config.workload.config.workload_classes]
    if any(followed) and not all(followed):
        raise NotLowerableError("one kernel cannot contain declarative protocols and other commit paths")
    profiles = (config.storage_provider.profile, config.catalog.storage.profile)  # type: ignore[attr-defined]
    for profile in profiles:
        parts = [*profile.reads.values(), *profile.writes.values(), profile.cas, profile.failed_cas, profile.append]
        parts += [profile.failed_append, profile.compaction, profile.log_entry_read]
        for part in parts:
            if part is not None:
                _builtin(part, _DISTRIBUTIONS, f"latency of provider {profile.name!r}")


def _builtin(part: object, allowed: Sequence[type], what: str) -> None:
    if type(part) not in allowed:
        raise NotLowerableError(f"{what} {type(part).__name__} is a custom component")


def features_of(config: SimulationConfig) -> Features:
    """Return the kernel features that a configuration needs.

    A run with classes on several commit paths uses a kernel with all paths.
    """
    classes = config.workload.config.workload_classes
    policies = [config.policy_of(cls) for cls in classes]
    protocol = any(policy.protocol is not None for policy in policies)
    paths = set() if protocol else {policy.commit_path for policy in policies}
    several = len(paths) > 1
    log, service = isinstance(config.catalog, AppendCatalog), isinstance(config.catalog, ServiceCatalog)
    return Features.select(
        **{name: several or name in paths for name in COMMIT_PATHS if name in FEATURES},
        protocol=protocol,
        files=config.catalog.table_model is not None,  # type: ignore[attr-defined]
        cas=not log and not service,
        log=log,
        service=service,
        limits=_has_limits(config.catalog),
        failures=any(policy.failures is not None or policy.operation_timeout_ms is not None for policy in policies),
        list_appends=config.ml_append_mode,
        clients=any(_has_client(policy) for policy in policies),
        committers=any(cls.committer is not None for cls in classes),
    )


def _has_limits(catalog: Catalog) -> bool:
    """Return whether commits can be throttled, exceed the metadata limit, or fail with a conflict of the database."""
    assert isinstance(catalog, StoredCatalog)
    if isinstance(catalog, ServiceCatalog) and catalog.settings.database_conflict > 0.0:
        return True
    throttled = isinstance(catalog, CASCatalog) and catalog.storage.object_writes_per_s is not None
    return throttled or catalog.metadata_limit_bytes is not None


def _has_client(policy: CommitPolicy) -> bool:
    """Return whether clients use CPU time, cache table handles, or use a backoff kind other than exponential."""
    unusual = policy.backoff.enabled and policy.backoff.kind != "exponential"
    return unusual or policy.table_handle == "kept" or policy.client_time is not None


def lower(config: SimulationConfig) -> World:
    """Return the arrays of a run in their initial state, converted from a configuration."""
    check_lowerable(config)
    return _Lowering(config).world()


class _Lowering:
    """Converter of one configuration. Its attributes collect the contents of the arrays."""

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config
        self.workload = config.workload if config.seed is None else config.workload.reseeded(config.seed)
        self.classes = self.workload.config.workload_classes
        self.weights: list[float] = []
        self.weight_offsets: dict[float, int] = {}
        self.candidates: list[run_state.Ints] = []
        self.candidates_of: dict[tuple[int, ...] | None, int] = {}
        self.schedules: list[float] = []
        self.submissions: list[tuple[float, int, float, int, int, int]] = []
        self.traced_partitions: list[int] = []
        self.steps: list[run_state.Array] = []
        topology = self.workload.config
        self.most_items = max(topology.num_tables, *topology.partitions_per_table)

    def world(self) -> World:
        classes = np.zeros(len(self.classes), run_state.CLASS)
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
            txns=np.zeros(0, run_state.TXN),
            touched=np.zeros((0, max_tables), run_state.TOUCHED),
            partitions_touched=np.zeros((0, max_tables, max_partitions), run_state.PARTITION),
            groups=np.zeros(max(self.workload.config.groups) + 1, run_state.GROUP),
            tables=tables,
            partitions=partitions,
            heap=np.zeros(len(sources), run_state.EVENT),
            rows=np.zeros((run_state.ROW.itemsize // 8, BATCH_ROWS + _ROW_PADDING), np.int64),
            row_tables=np.zeros((BATCH_ROWS, max_tables), np.int64),
            weights=np.array(self.weights or [0.0]),
            quantiles=_quantiles(len(QUANTILES)),
            candidates=np.concatenate(self.candidates),
            scratch=np.zeros((4, self.most_items), np.int64),
            traits=self._traits(),
            history=np.zeros(INITIAL_HISTORY * max_tables if tracked else 0, run_state.HISTORY),
            history_partitions=np.zeros((INITIAL_HISTORY * max_tables if tracked else 0, max_partitions), np.int64),
            schedules=np.array(self.schedules, np.float64),
            submissions=np.array(self.submissions, run_state.SUBMISSION),
            traced_partitions=np.array(self.traced_partitions, np.int64),
            requests=np.zeros(0, run_state.REQUEST),
            committers=self._committers(sources),
            handovers=np.zeros(0, run_state.HANDOVER),
            ages=np.zeros(0, run_state.AGE),
            kept_tables=np.zeros((0, len(tables)), run_state.TABLE),
            kept_handles=np.zeros((0, len(tables)), run_state.KEPT),
            steps=np.concatenate([np.zeros(0, run_state.STEP), *self.steps]),
            known_versions=np.full((len(sources) if classes["keeps_handles"].any() else 0, len(tables)), -1, np.int64),
        )
        if classes["starts_from_handle"].any():
            shape = (len(sources), len(tables))
            world = world._replace(kept_tables=np.zeros(shape, run_state.TABLE), kept_handles=np.zeros(shape, run_state.KEPT))
        world = with_more_slots(world, INITIAL_SLOTS)
        return with_more_handovers(world) if len(world.committers) else world

    def _committers(self, sources: run_state.Array) -> run_state.Array:
        """Return the records of the committers, in the order of their classes."""
        found = [cls for cls in self.classes if cls.committer is not None]
        committers = np.zeros(len(found), run_state.COMMITTER)
        for record, cls in zip(committers, found, strict=True):
            settings = cls.committer
            assert settings is not None
            record["source"] = np.flatnonzero(sources["cls"] == self.classes.index(cls))[-1]
            _fill(record, settings)
            record["limit"] = cls.most_uncommitted
            record["next_ms"] = cls.start_ms + settings.interval_ms
            record["head"] = run_state.NO_SLOT
            record["num_writers"] = cls.arrivals.numbered_writers
            record["deadline_ms"] = math.inf
            record["end_ms"] = min(self.config.duration_ms, cls.end_ms)
        return committers

    def _run(self) -> run_state.Array:
        config, catalog = self.config, self.config.catalog
        assert isinstance(catalog, StoredCatalog)
        array = np.zeros(1, run_state.RUN)
        run = array[0]
        run["end_ms"] = math.inf if config.drain else config.duration_ms
        run["duration_ms"] = config.duration_ms
        run["free_head"] = -1
        run["handover_free"] = run_state.NO_SLOT
        run["catalog_kind"] = run_state.LOG if isinstance(catalog, AppendCatalog) else run_state.CAS
        run["metadata_limit"] = -1 if catalog.metadata_limit_bytes is None else catalog.metadata_limit_bytes
        limit = catalog.storage.object_writes_per_s
        run["write_interval_ms"] = 0.0 if limit is None else 1000.0 / limit
        run["spans_groups"] = self.workload.config.spans_groups
        if isinstance(catalog, ServiceCatalog):
            _fill_service(run, catalog)
            run["unpublished_limit"] = catalog.unpublished_limit or 0
        run["linearization"] = catalog.linearization
        run["seal_threshold"] = config.manifest_list_seal_threshold_bytes
        run["num_groups"] = max(self.workload.config.groups) + 1
        if isinstance(catalog, AppendCatalog):
            for name in ("log_entry_bytes", "compaction_threshold_bytes", "compaction_max_entries"):
                run[name] = getattr(catalog, name)
        if catalog.table_model is not None:
            run["tracks_files"] = 1
            run["tracks_ages"] = self._expires()
            run["age_free"] = run_state.NO_SLOT
            _fill(run, catalog.table_model)
        profile = _profile(catalog.storage)
        logged = isinstance(catalog, AppendCatalog) and profile.log_entry_read is not None
        run["log_entry_read"] = logged
        run["catalog"][:] = (
            profile.read_parameters(storage.CATALOG, catalog.size_bytes),
            _parameters(profile.cas),
            _parameters(profile.failed_cas or profile.cas),
            _parameters(profile.append),
            _parameters(profile.failed_append or profile.append),
            _parameters(profile.compaction or profile.cas),
            _parameters(profile.failed_cas or profile.compaction or profile.cas),
            _parameters(profile.log_entry_read if logged else None),
        )
        return array

    def _expires(self) -> bool:
        """Return whether a transaction can expire snapshots. If so, the kernel tracks the times of snapshots."""
        expiry = OPERATION_ORDER[run_state.EXPIRE_SNAPSHOTS]
        drawn = any(cls.operations.get(expiry, 0.0) > 0.0 for cls in self.classes)
        return drawn or any(operation == run_state.EXPIRE_SNAPSHOTS for _, operation, *_ in self.submissions)

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
        jobs = cls.settings or OperationSettings()
        record["commits_per_job"] = jobs.commits_per_job
        record["max_failed_commits"] = jobs.commits_per_job if jobs.max_failed_commits is None else jobs.max_failed_commits
        with_committer = [each.name for each in self.classes if each.committer is not None]
        record["committer"] = with_committer.index(cls.name) if cls.committer is not None else run_state.NO_SLOT
        self._policy(record, policy)
        record["reads_history"] = _reads_history(cls, policy)
        if policy.protocol is not None:
            self._protocol(record, policy.protocol)
        self._detector(record, config.detector_of(cls))

    def _arrivals(self, record: np.void, cls: WorkloadClass) -> None:
        arrivals = cls.arrivals
        record["arrival_kind"] = arrivals.code
        record["waits"], record["paced"] = arrivals.waits, arrivals.paced
        record["arrival"] = _parameters(arrivals.interval)
        record["first_step"], record["steps"] = len(self.schedules), len(arrivals.flat_steps) // 2
        self.schedules.extend(arrivals.flat_steps)
        record["first_submission"], record["submissions"] = len(self.submissions), len(arrivals.traced)
        for submission in arrivals.traced:
            self._submission(submission)

    def _submission(self, submission: workload.Submission) -> None:
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
        assert isinstance(tables, workload.UniformTableSelector | workload.ZipfTableSelector)
        assert isinstance(partitions, workload.UniformPartitionSelector | workload.ZipfPartitionSelector)
        count = cls.tables_per_txn
        record["tables_per_txn"] = 0 if isinstance(count, ZipfCount) else count
        record["table_count_weights"] = self._weights_at(count.alpha) if isinstance(count, ZipfCount) else -1
        record["table_weights"] = self._weights_at(tables.alpha)
        record["table_write_fraction"] = tables.write_fraction
        if cls.tables not in self.candidates_of:
            self.candidates_of[cls.tables] = sum(map(len, self.candidates))
            self.candidates += self._candidates(cls)
        record["first_candidate"] = self.candidates_of[cls.tables]
        record["candidates"] = self.workload.config.num_tables if cls.tables is None else len(cls.tables)
        record["partitions_per_txn"] = -1.0 if cls.partitions_per_txn is None else cls.partitions_per_txn
        record["partition_weights"] = self._weights_at(partitions.alpha)
        record["partition_write_fraction"] = partitions.write_fraction
        record["range_first"], record["range_end"] = cls.partition_range or (0, -1)

    def _candidates(self, cls: WorkloadClass) -> tuple[run_state.Ints, ...]:
        """Return the tables that a class can select.

        If the class depends on table groups, also return the tables in order of group, and the index of each table in that order.
        """
        topology = self.workload.config
        tables = np.arange(topology.num_tables) if cls.tables is None else np.array(cls.tables, np.int64)
        if max(topology.groups) in (0, topology.num_tables - 1):
            return (tables,)
        order = np.argsort(np.array(topology.groups)[tables], kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return tables, tables[order], places

    def _policy(self, record: np.void, policy: CommitPolicy) -> None:
        profile = _profile(self.config.storage_provider)
        for kind, access in enumerate(ACCESSES):
            size = getattr(policy.sizes, access.size) if access.size else 0
            record["access"][kind] = (profile.read_parameters if access.reading else profile.write_parameters)(access.kind, size)
            record["sized"][kind] = _growth(profile, access.kind, write=not access.reading)
        record["list_append"] = _parameters(profile.append)
        record["failed_list_append"] = _parameters(profile.failed_append or profile.append)
        _fill(record, policy)
        record["handles_metadata"] = policy.handles_metadata(server_writes=self.config.catalog.takes_requirements)
        record["keeps_files"], record["refreshes_first"] = policy.path.keeps_files, policy.path.refreshes_first
        _fill(record, policy.failures or Failures())
        _fill(record, policy.backoff, "backoff_")
        _fill(record, policy.conflicting_manifests, "manifests_")
        record["manifests"] = policy.conflicting_manifests.distribution.parameters
        kept = policy.table_handle == "kept"
        record["keeps_handles"] = kept
        record["starts_from_handle"] = kept and policy.path.keeps_files and isinstance(self.config.catalog, ServiceCatalog)
        record["computes"] = policy.client_time is not None
        record["time_limits"] = [policy.time_limit_ms(operation) for operation in OPERATION_CODES]
        record["timeout_ms"] = math.inf if policy.total_timeout_ms is None else policy.total_timeout_ms

    def _protocol(self, record: np.void, protocol: Protocol) -> None:
        """Convert the steps of each phase of a protocol, and its conflict rules, to records."""
        record["commit_path"] = run_state.PROTOCOL
        for place, phase in enumerate(PHASES):
            record["phase_first"][place] = sum(map(len, self.steps))
            self.steps.append(np.zeros(len(protocol.phase(phase)), run_state.STEP))
            record["phase_end"][place] = sum(map(len, self.steps))
            for lowered, step in zip(self.steps[-1], protocol.phase(phase), strict=True):
                self._step(lowered, step)
        for name in ("checkpoint_every", "checkpoint_by_writer", "rebases"):
            record[name] = getattr(protocol, name)

    def _step(self, lowered: np.void, step: ProtocolStep) -> None:
        for field in dataclasses.fields(step):
            if field.name in (run_state.STEP.names or ()) and field.name != "attempts":
                lowered[field.name] = getattr(step, field.name)
        lowered["attempts"] = get_args(StepAttempts).index(step.attempts)
        lowered["in_catalog"] = step.operation in CATALOG_OPERATIONS
        if lowered["in_catalog"]:
            return
        access, profile = access_of(step), _profile(self.config.storage_provider)
        lowered["counter"] = (*COUNTERS, *PROTOCOL_COUNTERS).index(access.counter)
        lowered["access"] = (profile.read_parameters if access.reading else profile.write_parameters)(access.kind, step.size_bytes)
        lowered["sized"] = _growth(profile, access.kind, write=not access.reading)

    def _detector(self, record: np.void, detector: ConflictDetector) -> None:
        if isinstance(detector, ProbabilisticConflictDetector):
            record["detector"] = run_state.PROBABILISTIC
            record["real_probability"] = detector.real_conflict_probability
        else:
            record["detector"] = run_state.PARTITION_OVERLAP

    def _sources(self) -> run_state.Array:
        places = {cls.name: place for place, cls in enumerate(self.classes)}
        return np.array(
            [self._source(source, places[source.workload_class.name]) for source in self.workload.sources()], run_state.SOURCE
        )

    def _source(self, source: workload.Source, place: int) -> tuple[int | float, ...]:
        end_ms = min(self.config.duration_ms, source.workload_class.end_ms)
        if isinstance(source, workload.CommitterSource):
            end_ms = -math.inf
        base_ms = self.config.policy_of(source.workload_class).backoff.base_ms
        start_ms = source.workload_class.start_ms
        return (
            place,
            source.key,
            0,
            source.writer,
            source.first_ms,
            end_ms,
            base_ms,
            0,
            0,
            0,
            0,
            0,
            math.inf,
            0,
            0,
            start_ms,
            start_ms,
        )

    def _tables(self) -> tuple[run_state.Array, run_state.Ints]:
        topology = self.workload.config
        tables = np.zeros(topology.num_tables, run_state.TABLE)
        tables["group"] = topology.groups
        tables["batch_head"] = run_state.NO_SLOT
        tables["partitions"] = topology.partitions_per_table
        tables["first_partition"] = np.cumsum([0, *topology.partitions_per_table[:-1]])
        files = self.config.catalog.initial_files  # type: ignore[attr-defined]
        if files:
            for name in (*FileCounts._fields, "initial_interval_ms"):
                tables[name] = [getattr(each, name) for each in files[: topology.num_tables]]
        return tables, np.zeros(sum(topology.partitions_per_table), np.int64)

    def _traits(self) -> run_state.Array:
        """Return the records of the snapshots that each operation creates, by class.

        The first snapshots of all operations precede the second snapshots, which only PyIceberg creates.
        """
        codes = run_state.NUM_OPERATIONS
        traits = np.zeros((len(self.classes), 2 * codes), run_state.TRAITS)
        traits["kind"] = run_state.UNUSED
        for of_class, cls in zip(traits, self.classes, strict=True):
            path, settings = self.config.policy_of(cls).path, cls.settings or OperationSettings()
            for operation in path.operations:
                for part, each in enumerate(path.snapshots(operation, settings)):
                    of_class[OPERATION_CODES[operation] + part * codes] = dataclasses.astuple(each)
        return traits

    def _weights_at(self, alpha: float) -> int:
        """Return the offset of the cumulative Zipf weights with this exponent."""
        if alpha not in self.weight_offsets:
            self.weight_offsets[alpha] = len(self.weights)
            self.weights.extend(zipf_cumulative(self.most_items, alpha))
        return self.weight_offsets[alpha]

    def _max_tables(self, cls: WorkloadClass) -> int:
        candidates = self.workload.config.num_tables if cls.tables is None else len(cls.tables)
        return candidates if isinstance(cls.tables_per_txn, ZipfCount) else min(cls.tables_per_txn, candidates)


def _reads_history(cls: WorkloadClass, policy: CommitPolicy) -> bool:
    """Return whether an operation of the class depends on the snapshots that were committed since its start."""
    drawn = {operation for operation, weight in cls.operations.items() if weight > 0.0}
    operations = drawn | {each.operation for each in cls.arrivals.traced if each.operation is not None}
    settings, path = cls.settings or OperationSettings(), policy.path
    names = {operation.operation_type for operation in operations} & set(path.operations)
    return any(reads_history(each) for name in names for each in path.snapshots(name, settings))


@lru_cache(maxsize=1)
def _quantiles(length: int) -> run_state.Floats:
    """Return the table of normal quantiles as an array in which each cell lies within one cache line."""
    table: run_state.Floats = aligned(length, np.dtype(np.float64))
    table[:] = QUANTILES[:length]
    return table


def _fill_service(run: np.void, catalog: ServiceCatalog) -> None:
    """Copy the settings of a catalog service to the record of the run."""
    settings = catalog.settings
    run["catalog_kind"] = run_state.SERVICE
    run["service"][:] = [getattr(settings, name).parameters for name in _SERVICE_TIMES]
    run["own_pointers"] = catalog.own_pointers
    run["queue_limit"] = run["queue_head"] = run["lock_head"] = run_state.NO_SLOT
    run["locks_tables"] = settings.lock == "table"
    run["rechecks"] = settings.server_retry_mode == "recheck"
    run["fixed_metadata_bytes"] = catalog.metadata_bytes
    _fill(run, settings)
    if settings.coalesce is not None:
        run["coalesces"] = 1
        _fill(run, settings.coalesce)
    profile = _profile(catalog.storage)
    run["metadata_write"] = profile.write_parameters(storage.TABLE_METADATA, catalog.metadata_bytes)
    run["metadata_sized"] = _growth(profile, storage.TABLE_METADATA, write=True)


def _fill(record: Any, part: Any, prefix: str = "") -> None:
    """Copy the fields of a model object to the fields of a record with the same names, prefixed by ``prefix``.

    A text value becomes its code, and a distribution becomes its parameters. A field with the value None is not copied.
    """
    for field in dataclasses.fields(part):
        name, value = prefix + field.name, getattr(part, field.name)
        if name not in record.dtype.names or value is None:
            continue
        if isinstance(value, storage.QuantileDistribution):
            value = value.parameters
        record[name] = run_state.CODES[name].index(value) if isinstance(value, str) else value


def _profile(provider: storage.StorageProvider) -> storage.StorageProfile:
    assert isinstance(provider, storage.ProfiledProvider)
    return provider.profile


def _growth(profile: storage.StorageProfile, kind: str, *, write: bool) -> tuple[float, float, float]:
    """Return how the median latency of an access grows with the object size.

    Returns:
        1 if the latency depends on the size, otherwise 0; the median for size 0 in ms; the growth in ms per MiB.
    """
    found = profile.distribution(kind, write=write)
    if isinstance(found, storage.SizeBasedLatency | storage.TableLatency):
        return 1.0, found.base_latency_ms, found.latency_per_mib_ms
    return 0.0, 0.0, 0.0


def _parameters(distribution: storage.LatencyDistribution | None) -> Parameters:
    if distribution is None:
        return _NOTHING
    assert isinstance(distribution, storage.QuantileDistribution)
    return distribution.parameters
