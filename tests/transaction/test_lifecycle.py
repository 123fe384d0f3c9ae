"""Account of a transaction: status, times, counts and events."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from functools import partial
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.catalog import (
    AppendCatalog,
    CASCatalog,
    Catalog,
    CatalogSnapshot,
    CommitResult,
    InstantCatalog,
    IntentionRecord,
    StoredCatalog,
    TableMetadata,
)
from endive.conflict_detector import PartitionOverlapConflictDetector, ProbabilisticConflictDetector
from endive.randomness import RandomSource, Stream, TransactionStreams
from endive.storage import (
    MANIFEST_LIST,
    ProfiledProvider,
    StorageProfile,
    StorageProvider,
    StorageResult,
    UniformLatency,
    UnsupportedOperationError,
)
from endive.transaction import (
    OPERATIONS,
    Backoff,
    CommitPolicy,
    ConflictCost,
    ConflictDetector,
    FastAppendTransaction,
    ManifestCount,
    ManifestLists,
    ReadOnlyTransaction,
    TraceEvent,
    Transaction,
    TransactionResult,
    TransactionStatus,
    ValidatedOverwriteTransaction,
)
from endive.transaction.policy import OnRealConflict
from tests.interleave import (
    ALWAYS_REAL,
    APPEND,
    ATTEMPT_IO,
    CAS,
    CATALOG_READ,
    COMMIT_STARTS,
    FAILED_CAS,
    FILE_READ,
    FILE_WRITE,
    FIRST_FAILURE,
    LIST_READ,
    LIST_WRITE,
    METADATA_READ,
    NEVER_REAL,
    RUNTIME,
    cas_catalog,
    commit_to,
    fixed_provider,
    interleave,
    outcome,
    run_transaction,
    spend,
)


def fast_append(submit_time_ms: float = 0.0) -> FastAppendTransaction:
    return FastAppendTransaction(7, submit_time_ms, RUNTIME, frozenset({0}))


def components_ms(result: TransactionResult) -> float:
    return math.fsum(
        (
            result.catalog_read_ms,
            result.runtime_ms,
            result.per_attempt_io_ms,
            result.conflict_io_ms,
            result.backoff_ms,
            result.catalog_commit_ms,
        )
    )


# -- one transaction --------------------------------------------------------------------------------------------------------------


def test_an_undisturbed_transaction_reads_works_and_commits() -> None:
    txn = FastAppendTransaction(7, 1000.0, RUNTIME, frozenset({1, 0}), workload_class="ingest")
    catalog = cas_catalog(2)
    end_ms = 1000.0 + COMMIT_STARTS + ATTEMPT_IO + CAS
    assert run_transaction(txn, catalog) == TransactionResult(
        status=TransactionStatus.COMMITTED,
        txn_id=7,
        commit_time_ms=end_ms,
        abort_time_ms=-1.0,
        abort_reason=None,
        total_retries=0,
        commit_latency_ms=ATTEMPT_IO + CAS,
        total_latency_ms=end_ms - 1000.0,
        operation_type="fast_append",
        runtime_ms=RUNTIME,
        manifest_list_reads=2,
        manifest_list_writes=2,
        manifest_file_writes=2,
        catalog_read_ms=CATALOG_READ,
        per_attempt_io_ms=ATTEMPT_IO,
        catalog_commit_ms=CAS,
        event_count=6,
        submit_time_ms=1000.0,
        workload_class="ingest",
        tables_written=(0, 1),
        commit_start_ms=1000.0 + COMMIT_STARTS,
        installs=1,
    )
    assert [table.version for table in catalog.tables] == [1, 1]


@pytest.mark.parametrize("operation", ["fast_append", "merge_append", "validated_overwrite", "read_only"])
def test_the_result_names_the_operation(operation: str) -> None:
    result = run_transaction(OPERATIONS[operation](1, 0.0, RUNTIME, frozenset({0})), cas_catalog())
    assert result.operation_type == operation


def test_the_catalog_is_reported_which_partitions_were_written() -> None:
    catalog = cas_catalog()
    run_transaction(FastAppendTransaction(1, 0.0, RUNTIME, frozenset({0}), {0: frozenset({1})}), catalog)
    assert catalog.tables[0] == TableMetadata(0, 1, 2, (0, 1))


def test_the_status_follows_the_transaction() -> None:
    txn = fast_append()
    steps = txn.execute(cas_catalog(), fixed_provider(), NEVER_REAL)
    assert txn.lifecycle is not None
    statuses = [txn.lifecycle.status]
    interleave([steps], after_each=lambda now_ms, _: statuses.append(txn.lifecycle.status if txn.lifecycle else statuses[0]))
    assert [status.name for status in statuses] == ["PENDING"] + ["EXECUTING"] * 2 + ["COMMITTING"] * 4 + ["COMMITTED"]


@pytest.mark.parametrize("num_tables", [0, 1, 3])
def test_a_reader_reads_works_and_is_done(num_tables: int) -> None:
    catalog = cas_catalog(3)
    txn = ReadOnlyTransaction(1, 0.0, RUNTIME, frozenset(), tables_read=frozenset(range(num_tables)))
    result = run_transaction(txn, catalog, meanwhile={50.0: lambda: commit_to(catalog, 0)})
    assert result.status is TransactionStatus.COMMITTED
    assert (result.commit_time_ms, result.commit_latency_ms, result.event_count) == (CATALOG_READ + RUNTIME, 0.0, 2)
    assert (result.manifest_list_reads, result.total_retries, result.tables_written) == (0, 0, ())
    assert catalog.seq == 1


def test_a_reader_reads_table_metadata_and_writes_no_files() -> None:
    txn = ReadOnlyTransaction(1, 0.0, RUNTIME, frozenset(), tables_read=frozenset({0, 2}))
    result = run_transaction(txn, cas_catalog(3), policy=CommitPolicy(table_metadata_inlined=False))
    assert (result.metadata_reads, result.metadata_writes) == (2, 0)
    assert result.catalog_read_ms == CATALOG_READ + METADATA_READ


def test_a_first_committer_makes_the_others_of_its_moment_retry_one_after_the_other() -> None:
    catalog = cas_catalog()
    txns = [FastAppendTransaction(i, 0.0, RUNTIME, frozenset({0})) for i in range(3)]
    timeline = interleave([txn.execute(catalog, fixed_provider(), NEVER_REAL) for txn in txns])
    assert [timeline.results[i].total_retries for i in range(3)] == [0, 1, 2]
    first = COMMIT_STARTS + ATTEMPT_IO + CAS
    second = FIRST_FAILURE + CATALOG_READ + ATTEMPT_IO + CAS
    third = FIRST_FAILURE + 2 * (CATALOG_READ + ATTEMPT_IO) + FAILED_CAS + CAS
    assert timeline.ends_ms == {0: first, 1: second, 2: third}
    assert catalog.tables[0].version == 3


# -- where the time went ----------------------------------------------------------------------------------------------------------


def test_times_of_a_retry_are_entered_where_they_belong() -> None:
    catalog = cas_catalog()
    txn = ValidatedOverwriteTransaction(1, 5.0, RUNTIME, frozenset({0}))
    policy = CommitPolicy(backoff=Backoff(enabled=True, base_ms=40.0, jitter=0.0))
    result = run_transaction(txn, catalog, policy=policy, meanwhile={50.0: lambda: commit_to(catalog, 0)})
    assert result.catalog_read_ms == 2 * CATALOG_READ
    assert result.runtime_ms == RUNTIME
    assert result.per_attempt_io_ms == 2 * ATTEMPT_IO
    assert result.conflict_io_ms == LIST_READ
    assert result.backoff_ms == 40.0
    assert result.catalog_commit_ms == FAILED_CAS + CAS
    assert components_ms(result) == result.total_latency_ms == result.commit_time_ms - 5.0
    assert result.commit_latency_ms == result.total_latency_ms - COMMIT_STARTS


@pytest.mark.parametrize("linearization", [0.0, 0.25, 1.0])
def test_the_moment_of_effect_changes_neither_the_times_nor_the_number_of_steps(linearization: float) -> None:
    policy = CommitPolicy(linearization=linearization)
    result = run_transaction(fast_append(), cas_catalog(linearization=linearization), policy=policy, ml_append_mode=True)
    assert result.total_latency_ms == COMMIT_STARTS + LIST_READ + FILE_WRITE + APPEND + CAS
    assert result.event_count == 6


CAN_CONFLICT = {"validated_overwrite", "overwrite", "row_delta", "rewrite_files"}

Scenario = tuple[list[Transaction], StoredCatalog, ConflictDetector, CommitPolicy, bool, int, StorageProvider]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw transactions on a few contended tables. Failures take as long as successes, so that a step is one latency."""
    seed = draw(st.integers(0, 2**32))
    latency = UniformLatency(1.0, 30.0)
    profile = StorageProfile("uniform", 0.0, {"*": latency}, {"*": latency}, cas=latency, append=latency)
    storage = ProfiledProvider(profile, Stream(seed))
    tables = draw(st.integers(1, 2))
    log = draw(st.booleans())
    catalog: StoredCatalog = (
        AppendCatalog(storage, tables, (2,) * tables, compaction_max_entries=draw(st.integers(0, 3)))
        if log
        else CASCatalog(storage, tables, (2,) * tables)
    )
    txns: list[Transaction] = []
    for txn_id in range(draw(st.integers(2, 6))):
        operation = draw(st.sampled_from(sorted(OPERATIONS)))
        written = frozenset() if operation == "read_only" else draw(st.frozensets(st.integers(0, tables - 1), min_size=1))
        touched = draw(st.none() | st.frozensets(st.integers(0, 1)))
        partitions = None if touched is None else dict.fromkeys(written, touched)
        runtime_ms = draw(st.floats(1.0, 40.0))
        txns.append(OPERATIONS[operation](txn_id, draw(st.floats(0.0, 60.0)), runtime_ms, written, partitions))
    on_real_conflict: OnRealConflict = draw(st.sampled_from(["abort", "merge", "restart"]))
    policy = CommitPolicy(
        backoff=Backoff(enabled=draw(st.booleans())),
        total_timeout_ms=draw(st.none() | st.floats(50.0, 500.0)),
        on_real_conflict=on_real_conflict,
        conflicting_manifests=ManifestCount(UniformLatency(1.0, 10.0)),
        max_parallel=draw(st.integers(1, 4)),
        table_metadata_inlined=draw(st.booleans()),
    )
    detector = ProbabilisticConflictDetector(draw(st.sampled_from([0.0, 0.5, 1.0])))
    return txns, catalog, detector, policy, draw(st.booleans()), draw(st.integers(0, 4)), storage


def run_all(scenario: Scenario) -> tuple[list[TransactionResult], list[int], StoredCatalog]:
    """Run a scenario; return the results, the number of latencies of each transaction, and the final catalog."""
    txns, catalog, detector, policy, ml_append_mode, max_retries, storage = scenario
    lists = ManifestLists(len(catalog.tables), seal_threshold_bytes=100)
    steps = [
        txn.execute(
            catalog,
            storage,
            detector,
            max_retries,
            ml_append_mode,
            policy=policy,
            streams=TransactionStreams(txn.txn_id),
            manifest_lists=lists,
        )
        for txn in txns
    ]
    timeline = interleave(steps, starts_ms=[txn.submit_time_ms for txn in txns])
    yields = [sum(of == index for _, of in timeline.moments) - 1 for index in range(len(txns))]
    results = [timeline.results[index] for index in range(len(txns))]
    for index, result in enumerate(results):
        ended_ms = max(result.commit_time_ms, result.abort_time_ms)
        assert ended_ms == pytest.approx(timeline.ends_ms[index], rel=1e-12)
    return results, yields, catalog


@settings(max_examples=150)
@given(scenarios())
def test_the_parts_add_up_to_the_total_and_every_latency_is_a_counted_step(scenario: Scenario) -> None:
    results, yields, _ = run_all(scenario)
    for result, count in zip(results, yields, strict=True):
        assert components_ms(result) == pytest.approx(result.total_latency_ms, rel=1e-12)
        assert result.event_count == count
        assert (result.commit_time_ms >= 0.0) is (result.status is TransactionStatus.COMMITTED)
        assert (result.abort_time_ms >= 0.0) is (result.status is TransactionStatus.ABORTED)


@settings(max_examples=150)
@given(scenarios())
def test_every_committed_transaction_is_one_version_of_each_of_its_tables(scenario: Scenario) -> None:
    results, _, catalog = run_all(scenario)
    committed = [result for result in results if result.status is TransactionStatus.COMMITTED and result.tables_written]
    assert catalog.seq == len(committed)
    for table in catalog.tables:
        assert table.version == sum(table.table_id in result.tables_written for result in committed)
    for result in results:
        assert result.status in (TransactionStatus.COMMITTED, TransactionStatus.ABORTED)
        if result.abort_reason == "validation_exception":
            assert result.operation_type in CAN_CONFLICT
            assert result.real_conflicts > 0
        if result.operation_type not in CAN_CONFLICT:
            assert result.real_conflicts == result.restarts == 0


# -- transactions in flight -------------------------------------------------------------------------------------------------------

BOUNDARIES = [
    0.0,
    CATALOG_READ,
    COMMIT_STARTS,
    COMMIT_STARTS + LIST_READ,
    COMMIT_STARTS + LIST_READ + FILE_WRITE,
    COMMIT_STARTS + ATTEMPT_IO,
]
"""End times of the steps of a transaction without contention, except the last."""


@pytest.mark.parametrize(
    ("now_ms", "steps", "list_reads", "file_writes", "commit_latency_ms"),
    [
        (BOUNDARIES[1] - 1.0, 0, 0, 0, 0.0),
        (BOUNDARIES[2] - 1.0, 1, 0, 0, 0.0),
        (BOUNDARIES[3] - 1.0, 2, 0, 0, LIST_READ - 1.0),
        (BOUNDARIES[3], 3, 1, 0, LIST_READ),
        (BOUNDARIES[4] - 1.0, 3, 1, 0, LIST_READ + FILE_WRITE - 1.0),
        (BOUNDARIES[4] + 1.0, 4, 1, 1, LIST_READ + FILE_WRITE + 1.0),
        (BOUNDARIES[5] + CAS - 1.0, 5, 1, 1, ATTEMPT_IO + CAS - 1.0),
    ],
)
def test_a_result_taken_in_flight_counts_only_what_is_finished(
    now_ms: float, steps: int, list_reads: int, file_writes: int, commit_latency_ms: float
) -> None:
    txn = fast_append()
    interleave([txn.execute(cas_catalog(), fixed_provider(), NEVER_REAL)], until_ms=now_ms)
    assert txn.lifecycle is not None
    result = txn.lifecycle.result(now_ms)
    assert result.status is TransactionStatus.IN_FLIGHT
    assert (result.commit_time_ms, result.abort_time_ms, result.abort_reason) == (-1.0, -1.0, None)
    assert (result.event_count, result.manifest_list_reads, result.manifest_file_writes) == (steps, list_reads, file_writes)
    assert result.total_latency_ms == now_ms
    assert result.commit_latency_ms == commit_latency_ms
    assert components_ms(result) == max(boundary for boundary in BOUNDARIES if boundary <= now_ms)


def test_a_transaction_that_has_not_begun_is_in_flight_with_an_empty_account() -> None:
    txn = fast_append()
    txn.execute(cas_catalog(), fixed_provider(), NEVER_REAL)
    assert txn.lifecycle is not None
    result = txn.lifecycle.result(12.0)
    assert (result.status, result.event_count, components_ms(result)) == (TransactionStatus.IN_FLIGHT, 0, 0.0)
    assert result.total_latency_ms == 12.0


def test_retries_begun_count_in_flight() -> None:
    catalog = cas_catalog()
    txn = fast_append()
    interleave(
        [txn.execute(catalog, fixed_provider(), NEVER_REAL)],
        meanwhile={50.0: lambda: commit_to(catalog, 0)},
        until_ms=FIRST_FAILURE + CATALOG_READ + 1.0,
    )
    assert txn.lifecycle is not None
    result = txn.lifecycle.result(FIRST_FAILURE + CATALOG_READ + 1.0)
    assert (result.total_retries, result.false_conflicts, result.manifest_list_reads) == (1, 1, 1)
    assert (result.catalog_read_ms, result.catalog_commit_ms) == (2 * CATALOG_READ, FAILED_CAS)


# -- events -----------------------------------------------------------------------------------------------------------------------


def test_the_trace_contains_each_finished_step() -> None:
    catalog = cas_catalog()
    txn = ValidatedOverwriteTransaction(7, 0.0, RUNTIME, frozenset({0}))
    events: list[TraceEvent] = []
    run_transaction(
        txn,
        catalog,
        policy=CommitPolicy(backoff=Backoff(enabled=True, base_ms=10.0, jitter=0.0)),
        trace=events.append,
        meanwhile={50.0 + i: partial(commit_to, catalog, 0) for i in range(6)},
    )
    step = partial(TraceEvent, txn_id=7)
    assert events == [
        step(0.0, event="submit"),
        step(3.0, event="catalog_read", kind="0:0", duration_ms=CATALOG_READ),
        step(103.0, event="runtime", duration_ms=RUNTIME),
        step(114.0, event="io", kind="manifest_list_reads", duration_ms=LIST_READ),
        step(137.0, event="io", kind="manifest_file_writes", duration_ms=FILE_WRITE),
        step(156.0, event="io", kind="manifest_list_writes", duration_ms=LIST_WRITE),
        step(156.0, event="attempt"),
        step(187.0, event="commit_failed", kind="0:0", duration_ms=FAILED_CAS),
        step(197.0, event="backoff", duration_ms=10.0, attempt=1),
        step(200.0, event="catalog_read", kind="0:6", duration_ms=CATALOG_READ, attempt=1),
        step(211.0, event="io", kind="manifest_list_reads", count=4, duration_ms=LIST_READ, attempt=1),
        step(222.0, event="io", kind="manifest_list_reads", count=2, duration_ms=LIST_READ, attempt=1),
        step(222.0, event="conflict", kind="false", count=6, attempt=1),
        step(233.0, event="io", kind="manifest_list_reads", duration_ms=LIST_READ, attempt=1),
        step(256.0, event="io", kind="manifest_file_writes", duration_ms=FILE_WRITE, attempt=1),
        step(275.0, event="io", kind="manifest_list_writes", duration_ms=LIST_WRITE, attempt=1),
        step(275.0, event="attempt", attempt=1),
        step(304.0, event="commit", kind="0:6", duration_ms=CAS, attempt=1),
    ]


def test_the_trace_contains_retries_without_a_conflict() -> None:
    catalog = cas_catalog(2)
    events: list[TraceEvent] = []
    run_transaction(fast_append(), catalog, trace=events.append, meanwhile={50.0: lambda: commit_to(catalog, 1)})
    assert [(event.event, event.kind) for event in events[-5:]] == [
        ("commit_failed", "0:0"),
        ("catalog_read", "0:0"),
        ("conflict", "none"),
        ("attempt", ""),
        ("commit", "0:0"),
    ]


def test_the_trace_contains_restarts_and_the_reason_of_an_abort() -> None:
    catalog = cas_catalog()
    txn = ValidatedOverwriteTransaction(7, 0.0, RUNTIME, frozenset({0}))
    events: list[TraceEvent] = []
    round_ms = FIRST_FAILURE + CATALOG_READ + LIST_READ
    result = run_transaction(
        txn,
        catalog,
        ALWAYS_REAL,
        policy=CommitPolicy(on_real_conflict="restart", max_restarts=1),
        trace=events.append,
        meanwhile={50.0: lambda: commit_to(catalog, 0), round_ms + 50.0: lambda: commit_to(catalog, 0)},
    )
    answer = [(event.time_ms, event.event, event.kind) for event in events if event.event in ("conflict", "restart", "abort")]
    assert answer == [
        (round_ms, "conflict", "real"),
        (round_ms, "restart", ""),
        (2 * round_ms, "conflict", "real"),
        (2 * round_ms, "abort", "validation_exception"),
    ]
    assert result.abort_time_ms == 2 * round_ms


def test_the_durations_of_the_trace_add_up_to_the_total_latency() -> None:
    catalog = AppendCatalog(fixed_provider(), 1, (1,))
    events: list[TraceEvent] = []
    result = run_transaction(
        fast_append(),
        catalog,
        ml_append_mode=True,
        policy=CommitPolicy(table_metadata_inlined=False),
        trace=events.append,
        meanwhile={50.0: lambda: commit_to(catalog, 0)},
    )
    assert sum(event.duration_ms for event in events) == result.total_latency_ms
    assert [event.time_ms for event in events] == sorted(event.time_ms for event in events)
    assert [event.kind for event in events if event.kind.startswith("manifest_list_a")] == ["manifest_list_appends"]


def test_tracing_changes_nothing() -> None:
    def run(traced: bool) -> TransactionResult:
        catalog = cas_catalog()
        events: list[TraceEvent] = []
        trace = events.append if traced else None
        return run_transaction(fast_append(), catalog, trace=trace, meanwhile={50.0: lambda: commit_to(catalog, 0)})

    assert run(traced=True) == run(traced=False)


# -- parts of one's own -----------------------------------------------------------------------------------------------------------


class Compaction(Transaction):
    """Custom operation that reads metadata and manifests at each attempt, and more per concurrent snapshot."""

    operation_type: ClassVar[str] = "compaction"

    def can_have_real_conflict(self) -> bool:
        return True

    def should_abort_on_real_conflict(self) -> bool:
        return False

    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        return ConflictCost(metadata_reads=2, manifest_file_reads=3, manifest_list_writes=1)

    def get_conflict_cost(self, n_snapshots_behind: int, ml_append_mode: bool) -> ConflictCost:
        return ConflictCost(historical_ml_reads=2 * n_snapshots_behind, manifest_list_writes=1)


def test_a_custom_transaction_has_its_own_costs() -> None:
    catalog = cas_catalog()
    result = run_transaction(
        Compaction(1, 0.0, RUNTIME, frozenset({0})),
        catalog,
        ALWAYS_REAL,
        policy=CommitPolicy(max_parallel=1),
        meanwhile={50.0 + i: partial(commit_to, catalog, 0) for i in range(3)},
    )
    assert (result.status, result.operation_type) == (TransactionStatus.COMMITTED, "compaction")
    assert (result.real_conflicts, result.total_retries) == (1, 1)  # a real conflict that it may survive
    assert (result.metadata_reads, result.manifest_list_reads, result.manifest_list_writes) == (2 * 2, 2 * 3, 2 + 1)
    assert (result.manifest_file_reads, result.manifest_file_writes) == (2 * 3, 0)
    assert result.per_attempt_io_ms == 2 * (2 * METADATA_READ + 3 * FILE_READ + LIST_WRITE)
    assert result.conflict_io_ms == 6 * LIST_READ + LIST_WRITE
    assert components_ms(result) == result.total_latency_ms


class EveryOther(ConflictDetector):
    """Detector that records its arguments and reports every second overlap as a real conflict."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, int]] = []

    def is_real_conflict(self, txn: Transaction, current_snapshot: CatalogSnapshot, start_snapshot: CatalogSnapshot) -> bool:
        self.asked.append((txn.txn_id, start_snapshot.seq, current_snapshot.seq))
        return len(self.asked) % 2 == 0


@pytest.mark.parametrize("streams", [None, TransactionStreams(1)], ids=["unbound", "bound"])
def test_a_custom_detector_is_called_once_for_each_overlap(streams: TransactionStreams | None) -> None:
    catalog, detector = cas_catalog(), EveryOther()
    txn = ValidatedOverwriteTransaction(5, 0.0, RUNTIME, frozenset({0}))
    steps = txn.execute(catalog, fixed_provider(), detector, streams=streams)
    again_ms = FIRST_FAILURE + CATALOG_READ + LIST_READ + 1.0
    others = {50.0: partial(commit_to, catalog, 0), 51.0: partial(commit_to, catalog, 0), again_ms: partial(commit_to, catalog, 0)}
    result = interleave([steps], meanwhile=others).results[0]
    assert detector.asked == [(5, 0, 2), (5, 0, 3)]
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "validation_exception")
    assert (result.false_conflicts, result.real_conflicts) == (1, 1)


def test_a_custom_detector_is_not_called_for_appends() -> None:
    catalog, detector = cas_catalog(), EveryOther()
    steps = fast_append().execute(catalog, fixed_provider(), detector)
    result = interleave([steps], meanwhile={50.0: partial(commit_to, catalog, 0)}).results[0]
    assert detector.asked == []
    assert (result.status, result.false_conflicts) == (TransactionStatus.COMMITTED, 1)


class AnyChange(ValidatedOverwriteTransaction):
    """Overwrite for which any change of its tables is an overlap, in all partitions."""

    def has_write_overlap(self, old_snapshot: CatalogSnapshot, new_snapshot: CatalogSnapshot) -> bool:
        return old_snapshot.seq != new_snapshot.seq


def test_a_custom_overlap_reads_the_list_of_each_concurrent_snapshot() -> None:
    catalog = CASCatalog(fixed_provider(), 1, (2,))
    others = {50.0 + i: partial(commit_to, catalog, 0, partitions={0: frozenset({1})}) for i in range(3)}
    txn = AnyChange(1, 0.0, RUNTIME, frozenset({0}), {0: frozenset({0})})
    result = run_transaction(txn, catalog, NEVER_REAL, meanwhile=others)
    assert result.status is TransactionStatus.COMMITTED
    assert result.manifest_list_reads == 2 + 3, "one at each attempt, and those of the snapshots between"


def test_the_partition_detector_aborts_an_overwrite_of_the_same_partition_alone() -> None:
    def status(partition: int) -> TransactionStatus:
        catalog = cas_catalog()
        txn = ValidatedOverwriteTransaction(5, 0.0, RUNTIME, frozenset({0}), {0: frozenset({partition})})
        others = {50.0: lambda: commit_to(catalog, 0, partitions={0: frozenset({0})})}
        return run_transaction(txn, catalog, PartitionOverlapConflictDetector(), meanwhile=others).status

    assert (status(0), status(1)) == (TransactionStatus.ABORTED, TransactionStatus.COMMITTED)


class Ramp(StorageProvider):
    """Custom object store with the five operations only: each access takes a millisecond longer than the previous one."""

    name = "ramp"
    min_latency_ms = 0.0
    supports_cas = True
    supports_append = False
    supports_tail_append = False

    def __init__(self, rng: RandomSource) -> None:
        super().__init__(rng)
        self.keys: list[str] = []

    def _next(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        self.keys.append(key)
        latency_ms = float(len(self.keys))
        yield latency_ms
        return StorageResult(True, latency_ms, size_bytes)

    def read(self, key: str, expected_size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._next(key, expected_size_bytes)

    def write(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._next(key, size_bytes)

    def cas(self, key: str, expected_version: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._next(key, size_bytes)

    def append(self, key: str, offset: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        raise UnsupportedOperationError(self.name)

    def tail_append(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        raise UnsupportedOperationError(self.name)


def test_a_custom_store_serves_catalog_and_transaction() -> None:
    store = Ramp(Stream(0))
    catalog = CASCatalog(store, 1, (1,))
    result = run_transaction(fast_append(), catalog, storage=store)
    assert store.keys == ["catalog", MANIFEST_LIST, "manifest_file", MANIFEST_LIST, "catalog"]
    assert (result.catalog_read_ms, result.per_attempt_io_ms, result.catalog_commit_ms) == (1.0, 2.0 + 3.0 + 4.0, 5.0)


def test_a_batch_on_a_custom_store_takes_as_long_as_its_slowest_access() -> None:
    store = Ramp(Stream(0))
    txn = FastAppendTransaction(1, 0.0, RUNTIME, frozenset({0, 1, 2}))
    result = run_transaction(txn, InstantCatalog(3, (1, 1, 1)), storage=store, policy=CommitPolicy(max_parallel=2))
    assert result.per_attempt_io_ms == (2.0 + 3.0) + (5.0 + 6.0) + (8.0 + 9.0)


class Flaky(Catalog):
    """Custom catalog that rejects some commits before it accepts one, each in three steps."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self._tables: tuple[TableMetadata, ...] = (TableMetadata(0, 0, 1, (0,)),)

    @property
    def seq(self) -> int:
        return self._tables[0].version

    def read(self, timestamp_ms: float = 0.0) -> Generator[float, None, CatalogSnapshot]:
        yield 2.0
        return CatalogSnapshot(self.seq, self._tables, timestamp_ms)

    def commit(
        self,
        expected_seq: int,
        writes: Mapping[int, int],
        timestamp_ms: float = 0.0,
        intention: IntentionRecord | None = None,
        *,
        partitions_written: Mapping[int, frozenset[int]] | None = None,
    ) -> Generator[float, None, CommitResult]:
        yield from (1.0, 2.0, 3.0)
        if self.refusals > 0:
            self.refusals -= 1
            return CommitResult(False, 6.0, 3)
        self._tables = tuple(table.with_version(writes[table.table_id]) for table in self._tables)
        return CommitResult(True, 6.0, 3)


def test_a_custom_catalog_needs_only_read_and_commit() -> None:
    catalog = Flaky(2)
    steps = fast_append().execute(catalog, fixed_provider(), NEVER_REAL, streams=TransactionStreams(1))
    latencies, result = spend(steps)
    assert (result.status, result.total_retries, catalog.seq) == (TransactionStatus.COMMITTED, 2, 1)
    assert (result.catalog_read_ms, result.catalog_commit_ms) == (3 * 2.0, 3 * 6.0)
    assert result.event_count == len(latencies) == 3 * 1 + 1 + 3 + 3 * 3
    assert outcome(catalog.read()).get_table(0).version == 1
