"""Operations: their costs, whether they can conflict, and overlaps."""

from __future__ import annotations

import pytest

from endive.catalog import CatalogSnapshot, TableMetadata
from endive.transaction import (
    ConflictCost,
    FastAppendTransaction,
    MergeAppendTransaction,
    ReadOnlyTransaction,
    Transaction,
    ValidatedOverwriteTransaction,
)

WRITING = [FastAppendTransaction, MergeAppendTransaction, ValidatedOverwriteTransaction]


def snapshot(*tables: tuple[int, ...]) -> CatalogSnapshot:
    """Return a snapshot of tables, each given as version and partition versions."""
    return CatalogSnapshot(0, tuple(TableMetadata(i, v, len(p), tuple(p)) for i, (v, *p) in enumerate(tables)), 0.0)


def overwrite(*tables: int, partitions: dict[int, frozenset[int]] | None = None) -> ValidatedOverwriteTransaction:
    return ValidatedOverwriteTransaction(1, 0.0, 10.0, frozenset(tables), partitions)


# -- costs ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", WRITING)
@pytest.mark.parametrize("tables", [1, 3])
def test_an_attempt_reads_a_list_writes_a_manifest_and_a_list_for_each_table(cls: type[Transaction], tables: int) -> None:
    txn = cls(1, 0.0, 10.0, frozenset(range(tables)))
    expected = ConflictCost(manifest_list_reads=tables, manifest_file_writes=tables, manifest_list_writes=tables)
    assert txn.get_per_attempt_cost(ml_append_mode=False) == expected


@pytest.mark.parametrize("cls", WRITING)
@pytest.mark.parametrize("tables", [1, 3])
def test_with_appended_lists_an_attempt_writes_no_list(cls: type[Transaction], tables: int) -> None:
    txn = cls(1, 0.0, 10.0, frozenset(range(tables)))
    expected = ConflictCost(manifest_list_reads=tables, manifest_file_writes=tables)
    assert txn.get_per_attempt_cost(ml_append_mode=True) == expected


@pytest.mark.parametrize(("behind", "per_commit", "manifests"), [(1, 1.5, 1), (2, 1.5, 3), (5, 1.5, 7), (3, 2.0, 6), (4, 0.2, 0)])
def test_a_merge_append_merges_the_manifests_of_the_commits_between(behind: int, per_commit: float, manifests: int) -> None:
    txn = MergeAppendTransaction(1, 0.0, 10.0, frozenset({0}), manifests_per_concurrent_commit=per_commit)
    expected = ConflictCost(manifest_file_reads=manifests, manifest_file_writes=manifests)
    assert txn.get_conflict_cost(behind, False) == expected
    assert txn.get_conflict_cost(behind, True) == expected


@pytest.mark.parametrize("behind", [0, 1, 2, 17])
@pytest.mark.parametrize("ml_append_mode", [False, True])
def test_a_validated_overwrite_reads_exactly_as_many_lists_as_snapshots_came_between(behind: int, ml_append_mode: bool) -> None:
    assert overwrite(0).get_conflict_cost(behind, ml_append_mode) == ConflictCost(historical_ml_reads=behind)


@pytest.mark.parametrize(
    ("cls", "can_conflict"),
    [
        (FastAppendTransaction, False),
        (MergeAppendTransaction, False),
        (ValidatedOverwriteTransaction, True),
        (ReadOnlyTransaction, False),
    ],
)
def test_only_an_overwrite_can_have_a_real_conflict_and_ends_by_it(cls: type[Transaction], can_conflict: bool) -> None:
    txn = cls(1, 0.0, 10.0, frozenset({0}))
    assert txn.can_have_real_conflict() is can_conflict
    assert txn.should_abort_on_real_conflict() is can_conflict


def test_written_tables_are_also_read() -> None:
    assert FastAppendTransaction(1, 0.0, 1.0, frozenset({2})).tables_read == {2}
    assert FastAppendTransaction(1, 0.0, 1.0, frozenset({2}), tables_read=frozenset({0})).tables_read == {0, 2}


# -- overlap ----------------------------------------------------------------------------------------------------------------------

BEFORE = snapshot((5, 1, 2, 2), (3, 0, 3))


def test_without_partitions_any_change_of_the_table_is_an_overlap() -> None:
    after = snapshot((6, 1, 2, 3), (3, 0, 3))
    assert overwrite(0).has_write_overlap(BEFORE, after)
    assert overwrite(0).snapshots_behind(BEFORE, after) == 1


def test_a_change_of_another_table_is_no_overlap_and_does_not_count() -> None:
    after = snapshot((5, 1, 2, 2), (9, 6, 3))
    assert not overwrite(0).has_write_overlap(BEFORE, after)
    assert overwrite(0).snapshots_behind(BEFORE, after) == 0


def test_a_change_of_other_partitions_of_the_table_is_no_overlap_and_does_not_count() -> None:
    txn = overwrite(0, partitions={0: frozenset({0, 1})})
    after = snapshot((8, 1, 2, 5), (3, 0, 3))
    assert not txn.has_write_overlap(BEFORE, after)
    assert txn.snapshots_behind(BEFORE, after) == 0


def test_an_overlap_in_one_partition_counts_all_snapshots_of_the_table() -> None:
    txn = overwrite(0, partitions={0: frozenset({0, 1})})
    after = snapshot((9, 1, 3, 5), (3, 0, 3))
    assert txn.has_write_overlap(BEFORE, after)
    assert txn.snapshots_behind(BEFORE, after) == 4


def test_snapshots_behind_sums_over_the_tables_that_overlap_alone() -> None:
    txn = overwrite(0, 1, partitions={0: frozenset({0}), 1: frozenset({1})})
    assert txn.snapshots_behind(BEFORE, snapshot((7, 3, 2, 2), (6, 0, 6))) == 2 + 3
    assert txn.snapshots_behind(BEFORE, snapshot((7, 3, 2, 2), (6, 3, 3))) == 2
    assert overwrite(0, 1).snapshots_behind(BEFORE, snapshot((7, 3, 2, 2), (6, 3, 3))) == 5


def test_a_table_without_written_partitions_never_overlaps() -> None:
    txn = overwrite(0, 1, partitions={0: frozenset({0})})
    assert not txn.has_write_overlap(BEFORE, snapshot((5, 1, 2, 2), (6, 3, 3)))
