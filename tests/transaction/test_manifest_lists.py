"""Appended manifest lists (ML+): positions of entries, sealing of lists, and entries that remain valid after a conflict."""

from __future__ import annotations

import pytest

from endive.randomness import TransactionStreams
from endive.storage import UnsupportedOperationError
from endive.transaction import (
    CommitPolicy,
    FastAppendTransaction,
    ManifestListCounters,
    ManifestLists,
    TransactionStatus,
    ValidatedOverwriteTransaction,
)
from tests.interleave import (
    ALWAYS_REAL,
    APPEND,
    COMMIT_STARTS,
    FAILED_APPEND,
    FILE_WRITE,
    LIST_READ,
    LIST_WRITE,
    NEVER_REAL,
    RUNTIME,
    cas_catalog,
    commit_to,
    fixed_provider,
    interleave,
    outcome,
    run_transaction,
)

ENTRY = 50
LIST_READ_ENDS = COMMIT_STARTS + LIST_READ
APPEND_STARTS = LIST_READ_ENDS + FILE_WRITE


def fast_append(*tables: int) -> FastAppendTransaction:
    return FastAppendTransaction(1, 0.0, RUNTIME, frozenset(tables or {0}))


def overwrite() -> ValidatedOverwriteTransaction:
    return ValidatedOverwriteTransaction(1, 0.0, RUNTIME, frozenset({0}), {0: frozenset({0})})


# -- the lists --------------------------------------------------------------------------------------------------------------------


def test_an_entry_lands_at_the_end_that_was_expected() -> None:
    lists = ManifestLists(2)
    assert lists.append(1, 0, ENTRY)
    assert lists.append(1, ENTRY, ENTRY)
    assert (lists.end_of(0), lists.end_of(1)) == ((0, False), (2 * ENTRY, False))
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=2)


@pytest.mark.parametrize("offset", [0, 49, 51, 100])
def test_an_entry_that_expects_another_end_is_refused(offset: int) -> None:
    lists = ManifestLists(1)
    lists.append(0, 0, ENTRY)
    assert not lists.append(0, offset, ENTRY)
    assert lists.end_of(0) == (ENTRY, False)
    assert lists.counters.manifest_append_physical_failure == 1


def test_a_list_is_sealed_once_it_is_longer_than_the_threshold_and_takes_no_more() -> None:
    lists = ManifestLists(1, seal_threshold_bytes=2 * ENTRY)
    seals = [(lists.append(0, i * ENTRY, ENTRY), lists.end_of(0)[1]) for i in range(4)]
    assert seals == [(True, False), (True, False), (True, True), (False, True)]


def test_a_threshold_of_zero_never_seals() -> None:
    lists = ManifestLists(1)
    for i in range(100):
        assert lists.append(0, i * ENTRY, ENTRY)
    assert lists.end_of(0) == (100 * ENTRY, False)


def test_only_the_first_rewrite_replaces_a_sealed_list() -> None:
    lists = ManifestLists(1, seal_threshold_bytes=1)
    lists.append(0, 0, ENTRY)
    lists.replace_sealed(0)
    assert lists.end_of(0) == (ENTRY, False)
    lists.append(0, ENTRY, 1)
    lists.replace_sealed(0)
    assert lists.end_of(0) == (ENTRY + 1, False)
    assert lists.counters.manifest_append_sealed_rewrite == 1


# -- what an append costs ---------------------------------------------------------------------------------------------------------


def test_the_append_is_paid_in_place_of_the_write() -> None:
    lists = ManifestLists(1)
    result = run_transaction(fast_append(), cas_catalog(), ml_append_mode=True, manifest_lists=lists)
    assert result.per_attempt_io_ms == LIST_READ + FILE_WRITE + APPEND
    assert (result.manifest_list_reads, result.manifest_list_writes, result.manifest_list_appends) == (1, 0, 1)
    assert lists.end_of(0) == (ENTRY, False)


def test_without_ml_plus_nothing_is_appended() -> None:
    lists = ManifestLists(1)
    result = run_transaction(fast_append(), cas_catalog(), manifest_lists=lists)
    assert (result.manifest_list_writes, result.manifest_list_appends) == (1, 0)
    assert lists.counters == ManifestListCounters()


def test_each_written_table_gets_an_entry_one_after_the_other() -> None:
    lists = ManifestLists(3)
    result = run_transaction(fast_append(0, 2), cas_catalog(3), ml_append_mode=True, manifest_lists=lists)
    assert result.manifest_list_appends == 2
    assert result.per_attempt_io_ms == LIST_READ + FILE_WRITE + 2 * APPEND
    assert [lists.end_of(t)[0] for t in range(3)] == [ENTRY, 0, ENTRY]


def test_the_size_of_an_entry_is_the_policy_s() -> None:
    lists = ManifestLists(1)
    policy = CommitPolicy(manifest_list_entry_bytes=7)
    run_transaction(fast_append(), cas_catalog(), ml_append_mode=True, manifest_lists=lists, policy=policy)
    assert lists.end_of(0) == (7, False)


def test_an_append_by_another_since_the_list_was_read_is_a_physical_failure() -> None:
    lists = ManifestLists(1)
    result = run_transaction(
        fast_append(),
        cas_catalog(),
        ml_append_mode=True,
        manifest_lists=lists,
        meanwhile={LIST_READ_ENDS + 1.0: lambda: lists.append(0, 0, ENTRY)},
    )
    assert result.per_attempt_io_ms == LIST_READ + FILE_WRITE + FAILED_APPEND + APPEND
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=2, manifest_append_physical_failure=1)
    assert (result.manifest_list_appends, result.total_retries) == (2, 0)
    assert lists.end_of(0) == (2 * ENTRY, False)


def test_an_append_before_the_list_was_read_is_no_failure() -> None:
    lists = ManifestLists(1)
    result = run_transaction(
        fast_append(),
        cas_catalog(),
        ml_append_mode=True,
        manifest_lists=lists,
        meanwhile={LIST_READ_ENDS - 1.0: lambda: lists.append(0, 0, ENTRY)},
    )
    assert (result.manifest_list_appends, lists.counters.manifest_append_physical_failure) == (1, 0)


def test_appends_to_another_table_s_list_do_not_matter() -> None:
    lists = ManifestLists(2)
    run_transaction(
        fast_append(0),
        cas_catalog(2),
        ml_append_mode=True,
        manifest_lists=lists,
        meanwhile={LIST_READ_ENDS + 1.0: lambda: lists.append(1, 0, ENTRY)},
    )
    assert lists.counters.manifest_append_physical_failure == 0


def test_the_entry_lands_at_the_linearization_of_the_append() -> None:
    lists = ManifestLists(1)
    seen: list[tuple[float, int]] = []
    steps = fast_append().execute(
        cas_catalog(),
        fixed_provider(),
        NEVER_REAL,
        ml_append_mode=True,
        policy=CommitPolicy(linearization=0.5),
        manifest_lists=lists,
    )
    interleave([steps], after_each=lambda now_ms, _: seen.append((now_ms, lists.end_of(0)[0])))
    assert next(now_ms for now_ms, offset in seen if offset == ENTRY) == APPEND_STARTS + APPEND / 2.0
    assert (APPEND_STARTS + APPEND, ENTRY) in seen


def test_a_provider_that_cannot_append_cannot_append_to_lists() -> None:
    steps = fast_append().execute(cas_catalog(), fixed_provider(append=None), NEVER_REAL, ml_append_mode=True)
    with pytest.raises(UnsupportedOperationError, match="append"):
        outcome(steps)


# -- sealed lists -----------------------------------------------------------------------------------------------------------------


def test_a_sealed_list_is_rewritten_before_the_append() -> None:
    lists = ManifestLists(1, seal_threshold_bytes=ENTRY)
    for offset in (0, ENTRY):
        lists.append(0, offset, ENTRY)
    result = run_transaction(fast_append(), cas_catalog(), ml_append_mode=True, manifest_lists=lists)
    assert result.per_attempt_io_ms == LIST_READ + FILE_WRITE + LIST_READ + LIST_WRITE + APPEND
    assert (result.manifest_list_reads, result.manifest_list_writes, result.manifest_list_appends) == (2, 1, 1)
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=3, manifest_append_sealed_rewrite=1)
    assert lists.end_of(0) == (3 * ENTRY, False)


def test_a_list_sealed_since_it_was_read_refuses_the_entry_and_is_then_rewritten() -> None:
    lists = ManifestLists(1, seal_threshold_bytes=1)
    result = run_transaction(
        fast_append(),
        cas_catalog(),
        ml_append_mode=True,
        manifest_lists=lists,
        meanwhile={LIST_READ_ENDS + 1.0: lambda: lists.append(0, 0, ENTRY)},
    )
    assert result.per_attempt_io_ms == LIST_READ + FILE_WRITE + FAILED_APPEND + LIST_READ + LIST_WRITE + APPEND
    assert lists.counters == ManifestListCounters(2, 1, 1)


def test_the_second_rewrite_of_a_sealed_list_is_paid_without_effect() -> None:
    lists = ManifestLists(1, seal_threshold_bytes=2 * ENTRY)
    for i in range(3):
        lists.append(0, i * ENTRY, ENTRY)
    result = run_transaction(
        fast_append(),
        cas_catalog(),
        ml_append_mode=True,
        manifest_lists=lists,
        meanwhile={APPEND_STARTS + 1.0: lambda: lists.replace_sealed(0)},
    )
    assert result.per_attempt_io_ms == LIST_READ + FILE_WRITE + LIST_READ + LIST_WRITE + APPEND
    assert lists.counters.manifest_append_sealed_rewrite == 1


def test_each_entry_that_seals_makes_the_next_writer_rewrite() -> None:
    lists = ManifestLists(1, seal_threshold_bytes=2 * ENTRY)
    catalog = cas_catalog()
    results = [run_transaction(fast_append(), catalog, ml_append_mode=True, manifest_lists=lists) for _ in range(7)]
    assert [result.manifest_list_writes for result in results] == [0, 0, 0, 1, 0, 0, 1]


# -- entries and conflicts --------------------------------------------------------------------------------------------------------


def test_a_restarted_transaction_appends_again() -> None:
    catalog, lists = cas_catalog(), ManifestLists(1)
    result = run_transaction(
        overwrite(),
        catalog,
        ALWAYS_REAL,
        ml_append_mode=True,
        manifest_lists=lists,
        policy=CommitPolicy(on_real_conflict="restart"),
        meanwhile={50.0: lambda: commit_to(catalog, 0)},
    )
    assert (result.status, result.restarts) == (TransactionStatus.COMMITTED, 1)
    assert (result.manifest_list_appends, lists.end_of(0)) == (2, (2 * ENTRY, False))


def test_a_retry_without_an_overlap_neither_appends_nor_reads() -> None:
    catalog, lists = cas_catalog(2), ManifestLists(2)
    result = run_transaction(
        fast_append(0),
        catalog,
        ml_append_mode=True,
        manifest_lists=lists,
        meanwhile={50.0: lambda: commit_to(catalog, 1)},
    )
    assert (result.total_retries, result.manifest_list_appends, result.manifest_list_reads) == (1, 1, 1)


def test_transactions_share_the_lists_that_they_are_given() -> None:
    catalog, lists = cas_catalog(), ManifestLists(1)
    steps = [
        FastAppendTransaction(i, 0.0, RUNTIME, frozenset({0}), {0: frozenset({i})}).execute(
            catalog,
            fixed_provider(),
            NEVER_REAL,
            ml_append_mode=True,
            manifest_lists=lists,
            streams=TransactionStreams(i),
        )
        for i in range(2)
    ]
    results = interleave(steps).results
    assert [results[i].manifest_list_appends for i in range(2)] == [1, 2]
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=2, manifest_append_physical_failure=1)


def test_a_rewritten_list_is_not_taken_for_the_one_before() -> None:
    """A transaction that read the first list must not append to the second list by chance."""
    lists = ManifestLists(1, seal_threshold_bytes=1)
    seen_at_first, _ = lists.end_of(0)
    lists.append(0, seen_at_first, ENTRY)
    lists.replace_sealed(0)
    assert not lists.append(0, seen_at_first, ENTRY)
    assert lists.append(0, lists.end_of(0)[0], ENTRY)
