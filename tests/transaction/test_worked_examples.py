"""Two transactions step by step with each catalog mode: costs if the first commits before the second."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest

from endive.catalog import AppendCatalog, CatalogCounters, StoredCatalog
from endive.conflict_detector import PartitionOverlapConflictDetector
from endive.storage import FixedLatency
from endive.transaction import (
    CommitPolicy,
    FastAppendTransaction,
    ManifestCount,
    ManifestListCounters,
    ManifestLists,
    Transaction,
    TransactionResult,
    TransactionStatus,
    ValidatedOverwriteTransaction,
)
from tests.interleave import (
    APPEND,
    ATTEMPT_IO,
    CAS,
    CATALOG_READ,
    FAILED_APPEND,
    FAILED_CAS,
    FILE_READ,
    FILE_WRITE,
    LIST_READ,
    RUNTIME,
    cas_catalog,
    fixed_provider,
    interleave,
)

A, B = 0, 1
P1, P2 = frozenset({0}), frozenset({1})
MERGING = CommitPolicy(on_real_conflict="merge", conflicting_manifests=ManifestCount(FixedLatency(2.0)))


def log_catalog() -> AppendCatalog:
    return AppendCatalog(fixed_provider(), 2, (2, 2), log_entry_bytes=100)


def run_both(
    first: Transaction,
    second: Transaction,
    catalog: StoredCatalog,
    manifest_lists: ManifestLists | None = None,
    policy: CommitPolicy | None = None,
) -> tuple[TransactionResult, TransactionResult]:
    """Run both transactions on one catalog; with manifest lists, append entries to them."""
    storage = fixed_provider()
    steps = [
        txn.execute(
            catalog,
            storage,
            PartitionOverlapConflictDetector(),
            ml_append_mode=manifest_lists is not None,
            policy=policy,
            manifest_lists=manifest_lists,
        )
        for txn in (first, second)
    ]
    results = interleave(steps, starts_ms=[first.submit_time_ms, second.submit_time_ms]).results
    return results[0], results[1]


def counters(**expected: int) -> CatalogCounters:
    return dataclasses.replace(CatalogCounters(), **expected)


def manifest_io(result: TransactionResult) -> dict[str, int]:
    names = ("manifest_list_reads", "manifest_list_writes", "manifest_list_appends", "manifest_file_reads", "manifest_file_writes")
    return {name: getattr(result, name) for name in names if getattr(result, name)}


ONE_ATTEMPT = {"manifest_list_reads": 1, "manifest_list_writes": 1, "manifest_file_writes": 1}
ONE_APPENDED = {"manifest_list_reads": 1, "manifest_list_appends": 1, "manifest_file_writes": 1}


# -- transactions on different tables ---------------------------------------------------------------------------------------------


def on_different_tables() -> tuple[Transaction, Transaction]:
    return (
        FastAppendTransaction(1, 0.0, RUNTIME, frozenset({A})),
        FastAppendTransaction(2, 0.0, RUNTIME, frozenset({B})),
    )


def test_with_cas_the_second_fails_once_and_retries_without_manifest_io() -> None:
    catalog = cas_catalog(2)
    first, second = run_both(*on_different_tables(), catalog)
    assert (first.status, second.status) == (TransactionStatus.COMMITTED, TransactionStatus.COMMITTED)
    assert (first.total_retries, second.total_retries) == (0, 1)
    assert catalog.counters == counters(commit_success=2, commit_conflict=1)
    assert catalog.seq == 2
    assert manifest_io(first) == manifest_io(second) == ONE_ATTEMPT
    assert (second.false_conflicts, second.real_conflicts) == (0, 0)
    assert first.commit_time_ms == CATALOG_READ + RUNTIME + ATTEMPT_IO + CAS
    assert second.commit_time_ms == CATALOG_READ + RUNTIME + ATTEMPT_IO + FAILED_CAS + CATALOG_READ + CAS


def test_with_a_log_both_commit_after_one_physical_failure_and_no_logical_conflict() -> None:
    catalog = log_catalog()
    first, second = run_both(*on_different_tables(), catalog)
    assert (first.status, second.status) == (TransactionStatus.COMMITTED, TransactionStatus.COMMITTED)
    assert (first.total_retries, second.total_retries) == (0, 0)
    assert catalog.counters == counters(
        commit_success=2, append_physical_success=2, append_physical_failure=1, append_logical_success=2
    )
    assert (catalog.log_offset(), catalog.seq) == (200, 2)
    assert manifest_io(first) == manifest_io(second) == ONE_ATTEMPT
    assert first.commit_time_ms == CATALOG_READ + RUNTIME + ATTEMPT_IO + APPEND + CATALOG_READ
    assert second.commit_time_ms == CATALOG_READ + RUNTIME + ATTEMPT_IO + FAILED_APPEND + APPEND + CATALOG_READ


# -- appended manifest lists: the same table, different partitions ----------------------------------------------------------------
# The second starts a little later, so that it reads the manifest list after the first has appended to it, and the catalog before
# the first has committed.

LATER_MS = FILE_WRITE + APPEND + 1.0


def on_partitions(first: frozenset[int], second: frozenset[int]) -> tuple[Transaction, Transaction]:
    return (
        ValidatedOverwriteTransaction(1, 0.0, RUNTIME, frozenset({A}), {A: first}),
        ValidatedOverwriteTransaction(2, LATER_MS, RUNTIME, frozenset({A}), {A: second}),
    )


def test_with_a_log_an_entry_for_another_partition_stays_valid_through_a_logical_failure() -> None:
    catalog, lists = log_catalog(), ManifestLists(2)
    first, second = run_both(*on_partitions(P1, P2), catalog, lists)
    assert (first.status, second.status) == (TransactionStatus.COMMITTED, TransactionStatus.COMMITTED)
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=2)
    assert lists.end_of(A) == (100, False)
    assert manifest_io(first) == manifest_io(second) == ONE_APPENDED
    # the second aims at the end of the log that it saw at its start, so its record lands one failed append later
    assert catalog.counters == counters(
        commit_success=2,
        commit_conflict=1,
        append_physical_success=3,
        append_physical_failure=1,
        append_logical_success=2,
        append_logical_conflict=1,
    )
    assert (first.total_retries, second.total_retries) == (0, 1)
    assert (second.false_conflicts, second.real_conflicts) == (0, 0)
    assert (catalog.tables[A].version, catalog.tables[A].partition_versions) == (2, (1, 1))
    assert catalog.log_offset() == 300
    attempt = LIST_READ + FILE_WRITE + APPEND
    failed, retried = FAILED_APPEND + APPEND + CATALOG_READ, CATALOG_READ + APPEND + CATALOG_READ
    assert second.total_latency_ms == CATALOG_READ + RUNTIME + attempt + failed + retried


def test_with_cas_an_entry_for_another_partition_stays_valid_through_a_failed_cas() -> None:
    catalog, lists = cas_catalog(2), ManifestLists(2)
    first, second = run_both(*on_partitions(P1, P2), catalog, lists)
    assert (first.total_retries, second.total_retries) == (0, 1)
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=2)
    assert manifest_io(first) == manifest_io(second) == ONE_APPENDED
    assert catalog.counters == counters(commit_success=2, commit_conflict=1)
    assert (catalog.tables[A].version, catalog.tables[A].partition_versions) == (2, (1, 1))


# -- in contrast: the same partition ----------------------------------------------------------------------------------------------

MERGED = {
    "manifest_list_reads": 1 + 1 + 1 + 1,  # first attempt, validation of one snapshot, merge, second attempt
    "manifest_list_appends": 2,
    "manifest_file_reads": 2,
    "manifest_file_writes": 1 + 2 + 1,
}


def test_with_a_log_a_real_conflict_is_merged_and_its_entry_appended_again() -> None:
    catalog, lists = log_catalog(), ManifestLists(2)
    first, second = run_both(*on_partitions(P1, P1), catalog, lists, MERGING)
    assert (first.status, second.status) == (TransactionStatus.COMMITTED, TransactionStatus.COMMITTED)
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=3)
    assert lists.end_of(A) == (150, False)
    assert manifest_io(first) == ONE_APPENDED
    assert manifest_io(second) == MERGED
    assert (second.total_retries, second.false_conflicts, second.real_conflicts) == (1, 0, 1)
    assert second.conflict_io_ms == LIST_READ + LIST_READ + FILE_READ + FILE_WRITE
    assert catalog.counters.append_logical_conflict == 1
    assert (catalog.tables[A].version, catalog.tables[A].partition_versions) == (2, (2, 0))
    assert catalog.log_offset() == 300


def test_with_cas_a_real_conflict_is_merged_and_its_entry_appended_again() -> None:
    catalog, lists = cas_catalog(2), ManifestLists(2)
    _, second = run_both(*on_partitions(P1, P1), catalog, lists, MERGING)
    assert lists.counters == ManifestListCounters(manifest_append_physical_success=3)
    assert manifest_io(second) == MERGED
    assert catalog.counters == counters(commit_success=2, commit_conflict=1)
    assert catalog.tables[A].partition_versions == (2, 0)


@pytest.mark.parametrize("make_catalog", [partial(cas_catalog, 2), log_catalog])
def test_a_real_conflict_that_may_not_merge_aborts_and_leaves_its_entry_behind(
    make_catalog: Callable[[], StoredCatalog],
) -> None:
    catalog, lists = make_catalog(), ManifestLists(2)
    _, second = run_both(*on_partitions(P1, P1), catalog, lists)
    assert (second.status, second.abort_reason) == (TransactionStatus.ABORTED, "validation_exception")
    assert (second.manifest_list_appends, lists.end_of(A)) == (1, (100, False))
    assert catalog.tables[A].version == 1


@pytest.mark.parametrize("make_catalog", [partial(cas_catalog, 2), log_catalog])
def test_a_false_conflict_leaves_the_entry_valid(make_catalog: Callable[[], StoredCatalog]) -> None:
    """Appends to the same partition overlap without a conflict: the second rewrites its manifest, but appends no other entry."""
    catalog, lists = make_catalog(), ManifestLists(2)
    first = FastAppendTransaction(1, 0.0, RUNTIME, frozenset({A}), {A: P1})
    second = FastAppendTransaction(2, LATER_MS, RUNTIME, frozenset({A}), {A: P1})
    _, result = run_both(first, second, catalog, lists)
    assert (result.status, result.total_retries, result.false_conflicts) == (TransactionStatus.COMMITTED, 1, 1)
    assert (result.manifest_list_appends, result.manifest_file_writes) == (1, 2)
    assert lists.end_of(A) == (100, False)
