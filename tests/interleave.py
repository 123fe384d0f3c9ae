"""Run several generators of latencies on one virtual clock, and build small scenarios.

Scenarios are exact: every kind of access has a unique prime latency, so that a sum identifies its parts. A generator is resumed
when its latency has passed; of two generators due at the same time, the one with the lower index is resumed first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from endive.catalog import CASCatalog, Catalog, CatalogSnapshot, CommitResult, StoredCatalog
from endive.conflict_detector import ProbabilisticConflictDetector
from endive.randomness import Stream
from endive.steps import Step
from endive.storage import (
    CATALOG,
    MANIFEST_FILE,
    MANIFEST_LIST,
    TABLE_METADATA,
    FixedLatency,
    ProfiledProvider,
    StorageProfile,
    StorageProvider,
)
from endive.transaction import (
    CommitPolicy,
    ConflictDetector,
    ManifestLists,
    Tracer,
    Transaction,
    TransactionResult,
)

MOST_STEPS = 10_000
"""Maximum number of steps; a scenario that exceeds it does not terminate."""

T = TypeVar("T")
Steps = Generator[Step, None, T]

CATALOG_READ = 3.0
METADATA_READ = 5.0
LIST_READ = 11.0
FILE_READ = 13.0
METADATA_WRITE = 17.0
LIST_WRITE = 19.0
FILE_WRITE = 23.0
CAS = 29.0
FAILED_CAS = 31.0
APPEND = 37.0
FAILED_APPEND = 41.0
COMPACTION = 43.0

ATTEMPT_IO = LIST_READ + FILE_WRITE + LIST_WRITE
"""Duration of writing the manifests of one attempt on one table."""
RUNTIME = 100.0
COMMIT_STARTS = CATALOG_READ + RUNTIME
FIRST_FAILURE = COMMIT_STARTS + ATTEMPT_IO + FAILED_CAS

NEVER_REAL = ProbabilisticConflictDetector(0.0)
ALWAYS_REAL = ProbabilisticConflictDetector(1.0)


def latency_of(step: Step) -> float:
    """Return the step as a number; these tests cannot wake waiting transactions."""
    assert isinstance(step, float | int)
    return step


@dataclass
class Timeline(Generic[T]):
    """Result of an interleaving: results and ends by index, and every resumption as (time, index), in order."""

    results: dict[int, T] = field(default_factory=dict)
    ends_ms: dict[int, float] = field(default_factory=dict)
    moments: list[tuple[float, int]] = field(default_factory=list)


def interleave(
    tasks: Sequence[Steps[T]],
    *,
    starts_ms: Sequence[float] | None = None,
    meanwhile: Mapping[float, Callable[[], object]] | None = None,
    until_ms: float = float("inf"),
    after_each: Callable[[float, int], None] | None = None,
) -> Timeline[T]:
    """Run the tasks concurrently, from their starts (0) to their ends or to ``until_ms``.

    ``meanwhile`` contains actions by time; they precede steps of the tasks at that time. ``after_each`` is called after every
    resumption.
    """
    timeline: Timeline[T] = Timeline()
    heap = [(start, index) for index, start in enumerate(starts_ms or [0.0] * len(tasks))]
    heapq.heapify(heap)
    actions = sorted((meanwhile or {}).items(), reverse=True)
    while heap and heap[0][0] <= until_ms:
        now_ms, index = heapq.heappop(heap)
        while actions and actions[-1][0] <= now_ms:
            actions.pop()[1]()
        timeline.moments.append((now_ms, index))
        assert len(timeline.moments) < MOST_STEPS
        try:
            heapq.heappush(heap, (now_ms + latency_of(next(tasks[index])), index))
        except StopIteration as stop:
            timeline.results[index] = stop.value
            timeline.ends_ms[index] = now_ms
        if after_each is not None:
            after_each(now_ms, index)
    assert not actions or until_ms < float("inf"), f"actions at {[time for time, _ in actions]} come after the end"
    return timeline


def spend(steps: Steps[T]) -> tuple[list[float], T]:
    """Run one generator alone; return the latencies that it yields, and its result."""
    latencies: list[float] = []
    while len(latencies) < MOST_STEPS:
        try:
            latencies.append(latency_of(next(steps)))
        except StopIteration as stop:
            return latencies, stop.value
    raise AssertionError(f"no end after {MOST_STEPS} steps")


def outcome(steps: Steps[T]) -> T:
    """Return the result of a generator, ignoring its latencies."""
    return spend(steps)[1]


def fixed_provider(
    *,
    catalog_read: float = CATALOG_READ,
    cas: float = CAS,
    failed_cas: float | None = FAILED_CAS,
    append: float | None = APPEND,
    failed_append: float | None = FAILED_APPEND,
    compaction: float | None = COMPACTION,
    log_entry_read: float | None = None,
) -> ProfiledProvider:
    """Return an object store with one fixed latency per kind of access; None disables an operation."""

    def fixed(latency_ms: float | None) -> FixedLatency | None:
        return None if latency_ms is None else FixedLatency(latency_ms)

    profile = StorageProfile(
        "fixed",
        0.0,
        reads={
            CATALOG: FixedLatency(catalog_read),
            TABLE_METADATA: FixedLatency(METADATA_READ),
            MANIFEST_LIST: FixedLatency(LIST_READ),
            MANIFEST_FILE: FixedLatency(FILE_READ),
        },
        writes={
            TABLE_METADATA: FixedLatency(METADATA_WRITE),
            MANIFEST_LIST: FixedLatency(LIST_WRITE),
            MANIFEST_FILE: FixedLatency(FILE_WRITE),
        },
        cas=FixedLatency(cas),
        failed_cas=fixed(failed_cas),
        append=fixed(append),
        failed_append=fixed(failed_append),
        compaction=fixed(compaction),
        log_entry_read=fixed(log_entry_read),
    )
    return ProfiledProvider(profile, Stream(0))


def cas_catalog(num_tables: int = 1, linearization: float = 1.0) -> CASCatalog:
    """Return a CAS catalog of tables with two partitions."""
    return CASCatalog(fixed_provider(), num_tables, (2,) * num_tables, linearization=linearization)


C = TypeVar("C", bound=StoredCatalog)


def seen_through(catalog: C, storage: StorageProvider, group: int = 0) -> C:
    """Return a view of the catalog with the latencies of another object store, to give two clients different latencies."""
    view = catalog.bind(Stream(0), group)
    view.storage = storage
    return view


def group_seq(catalog: StoredCatalog, group: int) -> int:
    """Return the number of commits of one table group that took effect."""
    return catalog.bind(None, group).observe(0.0).seq


def commit_to(
    catalog: StoredCatalog, *tables: int, partitions: Mapping[int, frozenset[int]] | None = None, group: int = 0
) -> CommitResult:
    """Commit to these tables from the current state as another writer, outside the clock."""
    view = seen_through(catalog, catalog.storage, group)
    snapshot: CatalogSnapshot = outcome(view.read())
    writes = {table_id: snapshot.get_table(table_id).version + 1 for table_id in tables}
    result = outcome(view.commit(snapshot.seq, writes, partitions_written=partitions))
    assert result.success
    return result


def run_transaction(
    txn: Transaction,
    catalog: Catalog,
    detector: ConflictDetector = NEVER_REAL,
    *,
    storage: StorageProvider | None = None,
    max_retries: int = 10,
    ml_append_mode: bool = False,
    policy: CommitPolicy | None = None,
    manifest_lists: ManifestLists | None = None,
    trace: Tracer | None = None,
    meanwhile: Mapping[float, Callable[[], object]] | None = None,
) -> TransactionResult:
    """Run one transaction from submission to end, with other actions at the given times."""
    steps = txn.execute(
        catalog,
        storage or fixed_provider(),
        detector,
        max_retries,
        ml_append_mode,
        policy=policy,
        manifest_lists=manifest_lists,
        trace=trace,
    )
    return interleave([steps], starts_ms=[txn.submit_time_ms], meanwhile=meanwhile).results[0]
