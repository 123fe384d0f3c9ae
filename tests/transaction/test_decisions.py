"""Decisions of the specification as exact scenarios.

Unless a test states otherwise, a transaction reads the catalog, works for ``RUNTIME`` and commits; other writers commit while it
works, so that its first attempt fails.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from endive.arithmetic.backoff import backoff_ms
from endive.catalog import AppendCatalog, CASCatalog, InstantCatalog
from endive.randomness import Purpose, Stream, TransactionStreams
from endive.storage import FixedLatency, ProfiledProvider, StorageProfile, UniformLatency
from endive.transaction import (
    Backoff,
    CommitPolicy,
    ConflictCost,
    FastAppendTransaction,
    ManifestCount,
    MergeAppendTransaction,
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
    FAILED_APPEND,
    FAILED_CAS,
    FILE_READ,
    FILE_WRITE,
    FIRST_FAILURE,
    LIST_READ,
    METADATA_READ,
    METADATA_WRITE,
    NEVER_REAL,
    RUNTIME,
    cas_catalog,
    commit_to,
    fixed_provider,
    group_seq,
    interleave,
    run_transaction,
    seen_through,
)

WHILE_IT_WORKS = 50.0
WRITING = [FastAppendTransaction, MergeAppendTransaction, ValidatedOverwriteTransaction]
P0, P1 = frozenset({0}), frozenset({1})


def overwrite(*tables: int, partitions: dict[int, frozenset[int]] | None = None) -> ValidatedOverwriteTransaction:
    return ValidatedOverwriteTransaction(1, 0.0, RUNTIME, frozenset(tables or {0}), partitions)


def commits(
    catalog: CASCatalog, *tables: int, start_ms: float = 10.0, partitions: dict[int, frozenset[int]] | None = None
) -> dict[float, Callable[[], object]]:
    """Return commits of other writers to these tables, one millisecond apart."""
    return {start_ms + i: partial(commit_to, catalog, table_id, partitions=partitions) for i, table_id in enumerate(tables)}


def manifest_io(result: TransactionResult) -> tuple[int, int, int, int]:
    return (
        result.manifest_list_reads,
        result.manifest_list_writes,
        result.manifest_file_reads,
        result.manifest_file_writes,
    )


# -- D1, D2: how far behind, and what overlaps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [1, 2, 3, 8])
def test_d1_n_snapshots_behind_cost_exactly_n_historical_lists(behind: int) -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(max_parallel=1)
    result = run_transaction(overwrite(), catalog, policy=policy, meanwhile=commits(catalog, *[0] * behind))
    assert result.status is TransactionStatus.COMMITTED
    assert manifest_io(result) == (2 + behind, 2, 0, 2)
    assert result.conflict_io_ms == behind * LIST_READ
    assert result.total_latency_ms == FIRST_FAILURE + CATALOG_READ + behind * LIST_READ + ATTEMPT_IO + CAS


def test_d1_snapshots_are_summed_over_the_written_tables_that_overlap() -> None:
    catalog = cas_catalog(3)
    partitions = {0: P0, 1: P0}
    others = commits(catalog, 0, 1, 0, partitions={0: P0, 1: P0}) | commits(catalog, 1, start_ms=20.0, partitions={1: P1})
    result = run_transaction(overwrite(0, 1, partitions=partitions), catalog, meanwhile=others)
    assert result.manifest_list_reads == 2 + 2 + 2 + 2  # two attempts on two tables; two snapshots of each table


def test_d1_each_retry_counts_from_the_snapshot_of_the_one_before() -> None:
    catalog = cas_catalog()
    second_failure_begins = FIRST_FAILURE + CATALOG_READ + 1.0
    others = commits(catalog, 0, 0) | commits(catalog, 0, 0, 0, start_ms=second_failure_begins)
    result = run_transaction(overwrite(), catalog, policy=CommitPolicy(max_parallel=1), meanwhile=others)
    assert result.total_retries == 2
    assert result.manifest_list_reads == 3 + 2 + 3
    assert result.conflict_io_ms == (2 + 3) * LIST_READ


def test_d1_a_merge_append_merges_by_the_snapshots_of_its_table() -> None:
    catalog = cas_catalog(2)
    txn = MergeAppendTransaction(1, 0.0, RUNTIME, frozenset({0}), manifests_per_concurrent_commit=1.5)
    result = run_transaction(txn, catalog, policy=CommitPolicy(max_parallel=1), meanwhile=commits(catalog, 0, 1, 0, 1, 0))
    assert manifest_io(result) == (2, 2, 4, 2 + 4)
    assert result.conflict_io_ms == 4 * FILE_READ + 4 * FILE_WRITE


# -- D3: retries that are free ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", WRITING)
@pytest.mark.parametrize("other", ["another table", "other partitions"])
def test_d3_without_an_overlap_a_retry_is_one_catalog_read_and_one_cas(cls: type[Transaction], other: str) -> None:
    catalog = cas_catalog(2)
    txn = cls(1, 0.0, RUNTIME, frozenset({0}), {0: P0})
    others = commits(catalog, 1, 1, 1) if other == "another table" else commits(catalog, 0, 0, 0, partitions={0: P1})
    result = run_transaction(txn, catalog, ALWAYS_REAL, meanwhile=others)
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 1)
    assert manifest_io(result) == (1, 1, 0, 1)
    assert (result.false_conflicts, result.real_conflicts, result.conflict_io_ms) == (0, 0, 0.0)
    assert result.total_latency_ms == FIRST_FAILURE + CATALOG_READ + CAS
    assert result.event_count == 1 + 1 + 3 + 1 + 1 + 1


def test_d3_a_free_retry_is_followed_by_a_full_one_when_the_overlap_comes_later() -> None:
    catalog = cas_catalog(2)
    others = commits(catalog, 1) | commits(catalog, 0, start_ms=FIRST_FAILURE + CATALOG_READ + 1.0)
    result = run_transaction(overwrite(), catalog, meanwhile=others)
    assert (result.total_retries, result.false_conflicts) == (2, 1)
    assert manifest_io(result) == (3, 2, 0, 2)


# -- D4: real conflicts -----------------------------------------------------------------------------------------------------------


def test_d4_by_default_a_real_conflict_aborts_after_its_validation_was_paid() -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(max_parallel=1)
    result = run_transaction(overwrite(), catalog, ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 0, 0))
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "validation_exception")
    assert (result.commit_time_ms, result.abort_time_ms) == (-1.0, FIRST_FAILURE + CATALOG_READ + 2 * LIST_READ)
    assert (result.real_conflicts, result.false_conflicts, result.total_retries) == (1, 0, 1)
    assert manifest_io(result) == (1 + 2, 1, 0, 1)
    assert catalog.seq == 2


@pytest.mark.parametrize("cls", [FastAppendTransaction, MergeAppendTransaction])
@pytest.mark.parametrize("on_real_conflict", ["abort", "merge", "restart"])
def test_d4_operations_without_real_conflicts_never_abort_by_one(cls: type[Transaction], on_real_conflict: OnRealConflict) -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(on_real_conflict=on_real_conflict)
    txn = cls(1, 0.0, RUNTIME, frozenset({0}))
    result = run_transaction(txn, catalog, ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 0))
    assert (result.status, result.restarts) == (TransactionStatus.COMMITTED, 0)
    assert (result.real_conflicts, result.false_conflicts) == (0, 1)


@pytest.mark.parametrize("manifests", [1, 3, 10])
def test_d4_merge_reads_the_list_and_reads_and_writes_k_manifests(manifests: int) -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(
        on_real_conflict="merge", conflicting_manifests=ManifestCount(FixedLatency(float(manifests))), max_parallel=1
    )
    result = run_transaction(overwrite(), catalog, ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 0, 0))
    assert (result.status, result.real_conflicts) == (TransactionStatus.COMMITTED, 1)
    assert manifest_io(result) == (2 + 2 + 1, 2, manifests, 2 + manifests)
    assert result.conflict_io_ms == 2 * LIST_READ + LIST_READ + manifests * (FILE_READ + FILE_WRITE)
    assert catalog.tables[0].version == 3


@pytest.mark.parametrize(("drawn", "merged"), [(0.2, 2), (2.4, 2), (2.5, 3), (99.0, 5)])
def test_d4_the_number_of_manifests_is_rounded_within_its_bounds(drawn: float, merged: int) -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(on_real_conflict="merge", conflicting_manifests=ManifestCount(FixedLatency(drawn), low=2, high=5))
    result = run_transaction(overwrite(), catalog, ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 0))
    assert result.manifest_file_reads == merged


def test_d4_the_number_of_manifests_is_drawn_from_the_conflict_stream() -> None:
    catalog = cas_catalog()
    count = ManifestCount(UniformLatency(0.0, 100.0), low=1, high=1000)
    steps = overwrite().execute(
        catalog,
        fixed_provider(),
        ALWAYS_REAL,
        policy=CommitPolicy(on_real_conflict="merge", conflicting_manifests=count),
        streams=TransactionStreams(77),
    )
    result = interleave([steps], meanwhile=commits(catalog, 0)).results[0]
    twin = TransactionStreams(77).stream(Purpose.CONFLICT)
    twin.random_sample()  # the detector's
    assert result.manifest_file_reads == count.sample(twin)


def restarting(max_restarts: int, conflicts: int) -> tuple[TransactionResult, CASCatalog]:
    """Return an overwrite that restarts, with a real conflict in each of its first ``conflicts`` rounds."""
    catalog = cas_catalog()
    round_ms = FIRST_FAILURE + CATALOG_READ + LIST_READ
    others = {
        i * round_ms + WHILE_IT_WORKS: partial(commit_to, catalog, 0)
        for i in range(conflicts)
        if i <= max_restarts  # the others commit no more when it has given up
    }
    policy = CommitPolicy(on_real_conflict="restart", max_restarts=max_restarts)
    return run_transaction(overwrite(), catalog, ALWAYS_REAL, policy=policy, meanwhile=others), catalog


@pytest.mark.parametrize("conflicts", [0, 1, 2])
def test_d4_a_restart_repeats_the_runtime(conflicts: int) -> None:
    result, catalog = restarting(max_restarts=2, conflicts=conflicts)
    assert (result.status, result.restarts, result.real_conflicts) == (TransactionStatus.COMMITTED, conflicts, conflicts)
    assert result.runtime_ms == (conflicts + 1) * RUNTIME
    round_ms = FIRST_FAILURE + CATALOG_READ + LIST_READ
    assert result.total_latency_ms == conflicts * round_ms + COMMIT_STARTS + ATTEMPT_IO + CAS
    assert result.commit_latency_ms == result.total_latency_ms - (conflicts + 1) * COMMIT_STARTS
    assert catalog.seq == conflicts + 1


@pytest.mark.parametrize("max_restarts", [0, 1, 3])
def test_d4_after_the_last_restart_a_real_conflict_aborts(max_restarts: int) -> None:
    result, _ = restarting(max_restarts=max_restarts, conflicts=99)
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "validation_exception")
    assert (result.restarts, result.real_conflicts) == (max_restarts, max_restarts + 1)
    assert result.runtime_ms == (max_restarts + 1) * RUNTIME


def test_d4_a_restart_resets_the_retries() -> None:
    catalog = cas_catalog()
    round_ms = FIRST_FAILURE + CATALOG_READ + LIST_READ
    others = {WHILE_IT_WORKS + i * round_ms: partial(commit_to, catalog, 0) for i in range(2)}
    policy = CommitPolicy(on_real_conflict="restart")
    result = run_transaction(overwrite(), catalog, ALWAYS_REAL, max_retries=1, policy=policy, meanwhile=others)
    assert (result.status, result.restarts, result.total_retries) == (TransactionStatus.COMMITTED, 2, 2)


# -- D5, D6: the retry budget -----------------------------------------------------------------------------------------------------


def outrun(catalog: CASCatalog, times: int, table_id: int = 0) -> dict[float, Callable[[], object]]:
    """Return commits of another writer to a table that is not written, so that the first attempts fail and retries are short."""
    retry_ms = CATALOG_READ + FAILED_CAS
    return {FIRST_FAILURE - 30.0 + i * retry_ms: partial(commit_to, catalog, table_id) for i in range(times)}


@pytest.mark.parametrize("max_retries", [0, 1, 4])
def test_d5_after_the_last_attempt_it_aborts_at_once(max_retries: int) -> None:
    catalog = cas_catalog(2)
    others = outrun(catalog, max_retries + 1, table_id=1)
    events: list[TraceEvent] = []
    result = run_transaction(overwrite(0), catalog, max_retries=max_retries, meanwhile=others, trace=events.append)
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "max_retries_exceeded")
    assert result.total_retries == max_retries
    assert result.catalog_read_ms == (1 + max_retries) * CATALOG_READ
    assert result.catalog_commit_ms == (1 + max_retries) * FAILED_CAS
    assert result.abort_time_ms == FIRST_FAILURE + max_retries * (CATALOG_READ + FAILED_CAS)
    assert [event.event for event in events[-2:]] == ["commit_failed", "abort"]
    assert sum(event.event == "attempt" for event in events) == max_retries + 1


def test_d5_one_retry_more_would_have_committed() -> None:
    catalog = cas_catalog(2)
    result = run_transaction(overwrite(0), catalog, max_retries=3, meanwhile=outrun(catalog, 3, table_id=1))
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 3)


def test_d5_the_last_failure_pays_no_backoff() -> None:
    catalog = cas_catalog(2)
    policy = CommitPolicy(backoff=Backoff(enabled=True))
    result = run_transaction(overwrite(0), catalog, max_retries=0, policy=policy, meanwhile=commits(catalog, 1))
    assert (result.status, result.backoff_ms) == (TransactionStatus.ABORTED, 0.0)


FIRST_TRY = ATTEMPT_IO + FAILED_CAS


@pytest.mark.parametrize(
    ("timeout_ms", "failures"), [(FIRST_TRY - 0.5, 1), (FIRST_TRY, 2), (FIRST_TRY + 33.5, 2), (FIRST_TRY + 34.0, 3)]
)
def test_d6_the_timeout_is_checked_after_each_failed_attempt(timeout_ms: float, failures: int) -> None:
    catalog = cas_catalog(2)
    policy = CommitPolicy(total_timeout_ms=timeout_ms)
    result = run_transaction(overwrite(0), catalog, policy=policy, meanwhile=outrun(catalog, failures, table_id=1))
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "commit_timeout")
    assert result.total_retries == failures - 1
    assert result.abort_time_ms == FIRST_FAILURE + (failures - 1) * (CATALOG_READ + FAILED_CAS)
    assert result.catalog_read_ms == failures * CATALOG_READ


def test_d6_an_attempt_that_succeeds_after_the_timeout_has_committed() -> None:
    result = run_transaction(overwrite(), cas_catalog(), policy=CommitPolicy(total_timeout_ms=1.0))
    assert result.status is TransactionStatus.COMMITTED
    assert result.commit_latency_ms > 1.0


RETRIED_IO = FIRST_FAILURE + CATALOG_READ
RETRIED_CAS = RETRIED_IO + LIST_READ + ATTEMPT_IO


@pytest.mark.parametrize(
    ("limit_ms", "end_ms", "retries", "installs"),
    [
        (FIRST_FAILURE - 1.0, FIRST_FAILURE, 0, 0),  # the first attempt is not cut short
        (FIRST_FAILURE + 2.0, RETRIED_IO, 1, 0),  # a read of the catalog is not recalled
        (RETRIED_IO + 5.0, RETRIED_IO + 5.0, 1, 0),
        (RETRIED_IO + LIST_READ + 20.0, RETRIED_IO + LIST_READ + 20.0, 1, 0),
        (RETRIED_CAS + CAS - 0.5, RETRIED_CAS + CAS, 1, 1),  # the commit took effect, and its response came too late
    ],
)
def test_a_client_cancels_an_operation_at_its_time_limit(limit_ms: float, end_ms: float, retries: int, installs: int) -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(operation_timeout_ms=limit_ms)
    result = run_transaction(overwrite(), catalog, policy=policy, meanwhile=commits(catalog, 0))
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "operation_timeout")
    assert (result.abort_time_ms, result.total_retries) == (end_ms, retries)
    assert (result.installs, result.unknown_outcomes) == (installs, installs)


@pytest.mark.parametrize("limit_ms", [1.0, RETRIED_CAS + CAS])
def test_an_operation_commits_in_its_first_attempt_or_within_its_time_limit(limit_ms: float) -> None:
    catalog = cas_catalog()
    others = commits(catalog, 0) if limit_ms > FIRST_FAILURE else {}
    result = run_transaction(overwrite(), catalog, policy=CommitPolicy(operation_timeout_ms=limit_ms), meanwhile=others)
    assert (result.status, result.unknown_outcomes) == (TransactionStatus.COMMITTED, 0)


def test_the_time_limit_of_an_operation_includes_its_job_and_restarts() -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(operation_timeout_ms=RETRIED_IO + LIST_READ + CATALOG_READ + 40.0, on_real_conflict="restart")
    result = run_transaction(overwrite(), catalog, detector=ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 0))
    assert (result.abort_reason, result.restarts) == ("operation_timeout", 1)
    assert (result.abort_time_ms, result.runtime_ms) == (policy.operation_timeout_ms, RUNTIME + 40.0)


def test_d6_the_work_itself_does_not_count() -> None:
    catalog = cas_catalog(2)
    txn = FastAppendTransaction(1, 0.0, 1e6, frozenset({0}))
    policy = CommitPolicy(total_timeout_ms=FIRST_TRY)
    result = run_transaction(txn, catalog, policy=policy, meanwhile=commits(catalog, 1))
    assert result.status is TransactionStatus.COMMITTED


# -- D7: backoff ------------------------------------------------------------------------------------------------------------------


def test_d7_backoff_doubles_up_to_its_greatest_value_and_has_a_column_of_its_own() -> None:
    catalog = cas_catalog(2)
    waits = [10.0, 20.0, 35.0, 35.0]
    failures = [FIRST_FAILURE + sum(waits[:i]) + i * (CATALOG_READ + FAILED_CAS) for i in range(4)]
    others = {failure_ms - 10.0: partial(commit_to, catalog, 1) for failure_ms in failures}
    policy = CommitPolicy(backoff=Backoff(enabled=True, base_ms=10.0, multiplier=2.0, max_ms=35.0, jitter=0.0))
    events: list[TraceEvent] = []
    result = run_transaction(overwrite(0), catalog, policy=policy, meanwhile=others, trace=events.append)
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 4)
    assert [event.duration_ms for event in events if event.event == "backoff"] == waits
    assert result.backoff_ms == sum(waits)
    assert result.total_latency_ms == failures[3] + 35.0 + CATALOG_READ + CAS


def test_d7_the_wait_comes_between_the_failure_and_the_next_attempt_s_first_read() -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(backoff=Backoff(enabled=True, base_ms=10.0, jitter=0.0))
    others = commits(catalog, 0) | commits(catalog, 0, start_ms=FIRST_FAILURE + 5.0)
    events: list[TraceEvent] = []
    result = run_transaction(overwrite(), catalog, policy=policy, meanwhile=others, trace=events.append)
    names = [event.event for event in events]
    failed = names.index("commit_failed")
    assert names[failed : failed + 4] == ["commit_failed", "backoff", "catalog_read", "io"]
    assert result.total_retries == 1  # what was committed during the wait was seen after it
    assert result.manifest_list_reads == 2 + 2


def test_d7_backoff_is_off_by_default() -> None:
    catalog = cas_catalog()
    result = run_transaction(overwrite(), catalog, meanwhile=commits(catalog, 0))
    assert (result.total_retries, result.backoff_ms) == (1, 0.0)


def test_d7_jitter_moves_the_wait_by_a_draw_of_the_backoff_stream() -> None:
    twin = TransactionStreams(9).stream(Purpose.BACKOFF)
    catalog = InstantCatalog(2, (1, 1))
    policy = CommitPolicy(backoff=Backoff(enabled=True, base_ms=10.0, multiplier=3.0, max_ms=80.0, jitter=0.25))
    events: list[TraceEvent] = []
    steps = overwrite(0).execute(
        catalog, fixed_provider(), NEVER_REAL, 5, policy=policy, streams=TransactionStreams(9), trace=events.append
    )

    def spoil(now_ms: float, index: int) -> None:
        commit_to(catalog, 1)

    result = interleave([steps], after_each=spoil).results[0]
    waits = [event.duration_ms for event in events if event.event == "backoff"]
    assert waits == [grown * (1.0 + 0.25 * (2.0 * twin.random_sample() - 1.0)) for grown in (10.0, 30.0, 80.0, 80.0, 80.0)]
    assert len(set(waits[2:])) == 3
    assert result.abort_reason == "max_retries_exceeded"


@pytest.mark.parametrize(("u", "factor"), [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1)])
def test_d7_jitter_reaches_from_minus_to_plus(u: float, factor: float) -> None:
    assert backoff_ms(1, 100.0, 2.0, 5000.0, 0.1, u) == pytest.approx(100.0 * factor, rel=1e-15)


# -- D8: parallel accesses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("max_parallel", "steps"), [(1, 10), (3, 4), (4, 3), (5, 2), (10, 1), (64, 1)])
def test_d8_like_accesses_go_in_batches(max_parallel: int, steps: int) -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(max_parallel=max_parallel)
    result = run_transaction(overwrite(), catalog, policy=policy, meanwhile=commits(catalog, *[0] * 10))
    assert result.manifest_list_reads == 2 + 10
    assert result.conflict_io_ms == steps * LIST_READ
    assert result.event_count == 1 + 1 + 3 + 1 + 1 + steps + 3 + 1


def test_d8_four_at_once_by_default() -> None:
    catalog = cas_catalog()
    events: list[TraceEvent] = []
    run_transaction(overwrite(), catalog, meanwhile=commits(catalog, *[0] * 10), trace=events.append)
    assert [event.count for event in events if event.kind == "manifest_list_reads"] == [1, 4, 4, 2, 1]


def test_d8_a_batch_takes_as_long_as_its_slowest() -> None:
    uniform = UniformLatency(0.0, 1000.0)
    profile = StorageProfile("uniform", 0.0, {"*": uniform}, {"*": uniform}, cas=FixedLatency(1.0))
    catalog = cas_catalog()
    events: list[TraceEvent] = []
    result = run_transaction(
        overwrite(),
        catalog,
        storage=ProfiledProvider(profile, np.random.RandomState(4)),
        meanwhile=commits(catalog, *[0] * 10),
        trace=events.append,
    )
    twin = np.random.RandomState(4)
    latencies = [1000.0 * float(twin.random_sample()) for _ in range(16)]
    batches = [latencies[0:1], latencies[1:2], latencies[2:3], latencies[3:7], latencies[7:11], latencies[11:13]]
    batches += [latencies[13:14], latencies[14:15], latencies[15:16]]
    assert [event.duration_ms for event in events if event.event == "io"] == [max(batch) for batch in batches]
    assert result.conflict_io_ms == pytest.approx(sum(max(batch) for batch in batches[3:6]), rel=1e-12)


def test_d8_accesses_of_different_kinds_do_not_share_a_batch() -> None:
    catalog = cas_catalog(2)
    result = run_transaction(overwrite(0, 1), catalog)
    assert manifest_io(result) == (2, 2, 0, 2)
    assert result.per_attempt_io_ms == ATTEMPT_IO


# -- D9, D18: when the catalog is looked at ---------------------------------------------------------------------------------------


def test_d9_a_commit_is_visible_to_readers_before_its_writer_knows() -> None:
    catalog = CASCatalog(fixed_provider(), 1, (1,), linearization=0.5)
    writer = FastAppendTransaction(0, 0.0, RUNTIME, frozenset({0}))
    begins = CATALOG_READ + RUNTIME + ATTEMPT_IO
    view = seen_through(catalog, fixed_provider(catalog_read=2.0))
    reader = ReadOnlyTransaction(1, begins + CAS / 2.0 + 1.0, 1.0, frozenset(), tables_read=frozenset({0}))
    seen: list[int] = []
    timeline = interleave(
        [
            writer.execute(catalog, fixed_provider(), NEVER_REAL),
            reader.execute(view, fixed_provider(), NEVER_REAL),
        ],
        starts_ms=[0.0, reader.submit_time_ms],
        after_each=lambda now_ms, index: seen.append(catalog.seq) if index == 1 else None,
    )
    assert seen[0] == 1
    assert timeline.ends_ms[1] < timeline.ends_ms[0] == begins + CAS


def test_d18_the_first_attempt_is_made_against_the_snapshot_of_the_start() -> None:
    catalog = cas_catalog()
    events: list[TraceEvent] = []
    result = run_transaction(overwrite(), catalog, meanwhile=commits(catalog, 0), trace=events.append)
    names = [event.event for event in events]
    assert names[: names.index("commit_failed") + 1] == [
        "submit", "catalog_read", "runtime", "io", "io", "io", "attempt", "commit_failed",
    ]  # fmt: skip
    assert result.total_retries == 1


# -- D10: table groups ------------------------------------------------------------------------------------------------------------


def in_groups(streams: bool) -> tuple[TransactionResult, CASCatalog]:
    """Run a transaction of group 1 while group 0 commits twice."""
    catalog = CASCatalog(fixed_provider(), 2, (1, 1), table_groups=(0, 1))
    commit_to(catalog, 0)
    txn = FastAppendTransaction(1, 0.0, RUNTIME, frozenset({1}), group=1)
    steps = txn.execute(catalog, fixed_provider(), NEVER_REAL, streams=TransactionStreams(1) if streams else None)
    result = interleave([steps], meanwhile={WHILE_IT_WORKS: lambda: commit_to(catalog, 0)}).results[0]
    return result, catalog


def test_d10_commits_of_another_group_do_not_disturb() -> None:
    result, catalog = in_groups(streams=True)
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 0)
    assert (group_seq(catalog, 0), group_seq(catalog, 1)) == (2, 1)


def test_d10_a_transaction_without_streams_belongs_to_its_group_too() -> None:
    result, catalog = in_groups(streams=False)
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 0)
    assert (group_seq(catalog, 0), group_seq(catalog, 1)) == (2, 1)


# -- D11: the catalog log, seen from the transaction ------------------------------------------------------------------------------


def log_catalog() -> AppendCatalog:
    return AppendCatalog(fixed_provider(), 2, (2, 2))


def test_d11_a_physical_failure_is_no_retry_of_the_transaction() -> None:
    catalog = log_catalog()
    result = run_transaction(overwrite(0), catalog, meanwhile={WHILE_IT_WORKS: lambda: commit_to(catalog, 1)})
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 0)
    assert result.catalog_commit_ms == FAILED_APPEND + APPEND + CATALOG_READ
    assert result.event_count == 1 + 1 + 3 + 3


def test_d11_a_logical_conflict_of_the_same_table_is_a_retry_with_its_costs() -> None:
    catalog = log_catalog()
    result = run_transaction(overwrite(0), catalog, meanwhile={WHILE_IT_WORKS: lambda: commit_to(catalog, 0)})
    assert (result.total_retries, result.false_conflicts) == (1, 1)
    assert manifest_io(result) == (2 + 1, 2, 0, 2)
    assert result.catalog_commit_ms == (FAILED_APPEND + APPEND + CATALOG_READ) + (APPEND + CATALOG_READ)


def test_d11_a_change_of_the_read_set_alone_is_a_retry_without_manifest_io() -> None:
    catalog = log_catalog()
    txn = ValidatedOverwriteTransaction(1, 0.0, RUNTIME, frozenset({0}), tables_read=frozenset({1}))
    result = run_transaction(txn, catalog, meanwhile={WHILE_IT_WORKS: lambda: commit_to(catalog, 1)})
    assert (result.status, result.total_retries) == (TransactionStatus.COMMITTED, 1)
    assert catalog.counters.append_logical_conflict == 1
    assert manifest_io(result) == (1, 1, 0, 1)


def test_d11_a_catalog_s_own_retries_do_not_use_up_the_budget() -> None:
    catalog = log_catalog()
    result = run_transaction(overwrite(0), catalog, max_retries=0, meanwhile={WHILE_IT_WORKS: lambda: commit_to(catalog, 1)})
    assert result.status is TransactionStatus.COMMITTED


# -- D13: table metadata in files of its own --------------------------------------------------------------------------------------

APART = CommitPolicy(table_metadata_inlined=False)


def test_d13_inlined_metadata_is_neither_read_nor_written() -> None:
    result = run_transaction(overwrite(), cas_catalog())
    assert (result.metadata_reads, result.metadata_writes) == (0, 0)


def test_d13_metadata_is_read_per_table_at_the_start_and_written_per_written_table() -> None:
    txn = FastAppendTransaction(1, 0.0, RUNTIME, frozenset({0, 1}), tables_read=frozenset({2}))
    policy = CommitPolicy(table_metadata_inlined=False, max_parallel=1)
    result = run_transaction(txn, cas_catalog(3), policy=policy)
    assert (result.metadata_reads, result.metadata_writes) == (3, 2)
    assert result.catalog_read_ms == CATALOG_READ + 3 * METADATA_READ
    assert result.per_attempt_io_ms == 2 * ATTEMPT_IO + 2 * METADATA_WRITE


def test_d13_an_attempt_that_redoes_its_manifests_writes_metadata_again() -> None:
    catalog = cas_catalog()
    result = run_transaction(overwrite(), catalog, policy=APART, meanwhile=commits(catalog, 0))
    assert (result.total_retries, result.metadata_reads, result.metadata_writes) == (1, 1, 2)
    assert result.per_attempt_io_ms == 2 * (ATTEMPT_IO + METADATA_WRITE)
    assert result.catalog_read_ms == 2 * CATALOG_READ + METADATA_READ


def test_d13_a_free_retry_writes_no_metadata() -> None:
    catalog = cas_catalog(2)
    result = run_transaction(overwrite(0), catalog, policy=APART, meanwhile=commits(catalog, 1))
    assert (result.total_retries, result.metadata_reads, result.metadata_writes) == (1, 1, 1)


def test_d13_a_restart_reads_metadata_again() -> None:
    catalog = cas_catalog()
    policy = CommitPolicy(table_metadata_inlined=False, on_real_conflict="restart")
    result = run_transaction(overwrite(), catalog, ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 0))
    assert (result.restarts, result.metadata_reads, result.metadata_writes) == (1, 2, 2)


@pytest.mark.parametrize("log", [False, True], ids=["cas", "log"])
def test_d13_both_kinds_of_catalogs_pay_for_it_alike(log: bool) -> None:
    catalog = log_catalog() if log else cas_catalog(2)
    result = run_transaction(overwrite(0, 1), catalog, policy=APART)
    assert (result.metadata_reads, result.metadata_writes) == (2, 2)
    assert result.catalog_read_ms == CATALOG_READ + METADATA_READ
    assert result.per_attempt_io_ms == ATTEMPT_IO + METADATA_WRITE


# -- streams ----------------------------------------------------------------------------------------------------------------------


def test_a_detector_draws_from_the_conflict_stream_only_when_there_is_an_overlap() -> None:
    catalog = cas_catalog(2)
    streams = TransactionStreams(3)
    steps = overwrite(0).execute(catalog, fixed_provider(), ALWAYS_REAL, streams=streams)
    interleave([steps], meanwhile=commits(catalog, 1))
    assert streams.stream(Purpose.CONFLICT).draws == 0

    steps = overwrite(0).execute(catalog, fixed_provider(), ALWAYS_REAL, streams=streams)
    interleave([steps], meanwhile=commits(catalog, 0))
    assert streams.stream(Purpose.CONFLICT).draws == 1


def test_catalog_and_storage_draw_from_streams_of_their_own() -> None:
    catalog = cas_catalog()
    untouched = Stream(0)
    storage = ProfiledProvider(fixed_provider().profile, untouched)
    streams = TransactionStreams(3)
    interleave([overwrite().execute(catalog, storage, NEVER_REAL, streams=streams)])
    assert streams.stream(Purpose.CATALOG).draws == 2  # a read and a compare-and-swap
    assert streams.stream(Purpose.STORAGE).draws == 3  # the manifests of one attempt
    assert untouched.draws == 0


# -- an attempt after an overlap ---------------------------------------------------------------------------------------------------


def test_an_attempt_rewrites_only_manifests_of_overlapping_tables() -> None:
    catalog = cas_catalog(3)
    txn = FastAppendTransaction(1, 0.0, RUNTIME, frozenset({0, 1, 2}))
    result = run_transaction(txn, catalog, meanwhile=commits(catalog, 1))
    assert manifest_io(result) == (3 + 1, 3 + 1, 0, 3 + 1)


def test_metadata_files_are_rewritten_only_for_overlapping_tables() -> None:
    catalog = cas_catalog(3)
    txn = FastAppendTransaction(1, 0.0, RUNTIME, frozenset({0, 1, 2}))
    policy = CommitPolicy(table_metadata_inlined=False)
    result = run_transaction(txn, catalog, policy=policy, meanwhile=commits(catalog, 0, 2))
    assert result.metadata_writes == 3 + 2


def test_a_merged_conflict_reads_the_lists_of_the_tables_that_overlapped() -> None:
    catalog = cas_catalog(2)
    policy = CommitPolicy(on_real_conflict="merge", conflicting_manifests=ManifestCount(FixedLatency(2.0)))
    result = run_transaction(overwrite(0, 1), catalog, ALWAYS_REAL, policy=policy, meanwhile=commits(catalog, 1))
    assert manifest_io(result) == (2 + 1 + 1 + 1, 2 + 1, 2, 2 + 2 + 1)


class _Lavish(FastAppendTransaction):
    def get_per_attempt_cost(self, ml_append_mode: bool) -> ConflictCost:
        return ConflictCost(manifest_list_reads=1, manifest_file_writes=7, manifest_list_writes=3)


def test_a_custom_cost_is_scaled_to_the_overlapping_tables_and_rounded_up() -> None:
    catalog = cas_catalog(3)
    result = run_transaction(_Lavish(1, 0.0, RUNTIME, frozenset({0, 1, 2})), catalog, meanwhile=commits(catalog, 1))
    assert manifest_io(result) == (1 + 1, 3 + 1, 0, 7 + 3)


# -- what a detector gets ----------------------------------------------------------------------------------------------------------
