"""Catalog types: immutable values."""

from __future__ import annotations

import pytest

from endive.catalog import CatalogSnapshot, InstantCatalog, TableMetadata
from tests.interleave import commit_to, outcome

TABLE = TableMetadata(3, 7, 3, (4, 5, 6))


def test_with_version_changes_the_version_and_leaves_the_original() -> None:
    assert TABLE.with_version(9) == TableMetadata(3, 9, 3, (4, 5, 6))
    assert TABLE.version == 7


@pytest.mark.parametrize(("partition", "expected"), [(0, (9, 5, 6)), (1, (4, 9, 6)), (2, (4, 5, 9))])
def test_with_partition_version_changes_that_partition_alone(partition: int, expected: tuple[int, ...]) -> None:
    assert TABLE.with_partition_version(partition, 9) == TableMetadata(3, 7, 3, expected)
    assert TABLE.partition_versions == (4, 5, 6)


def test_a_snapshot_finds_tables_by_id() -> None:
    other = TableMetadata(0, 1, 1, (1,))
    snapshot = CatalogSnapshot(5, (other, TABLE), 0.0)
    assert snapshot.get_table(1) is TABLE


def test_a_snapshot_keeps_its_state_through_later_commits() -> None:
    catalog = InstantCatalog(2, (2, 1))
    commit_to(catalog, 0, partitions={0: frozenset({1})})
    snapshot = outcome(catalog.read())
    for _ in range(3):
        commit_to(catalog, 0)
        commit_to(catalog, 1)
    assert snapshot == CatalogSnapshot(1, (TableMetadata(0, 1, 2, (0, 1)), TableMetadata(1, 0, 1, (0,))), 1.0)
    assert catalog.seq == 7


def test_a_snapshot_shares_its_tables_with_the_catalog() -> None:
    catalog = InstantCatalog(3, (100, 100, 100))
    before = outcome(catalog.read())
    assert before.tables is catalog.tables
    commit_to(catalog, 1)
    after = outcome(catalog.read())
    assert after.tables is catalog.tables
    assert after.get_table(0) is before.get_table(0)
    assert after.get_table(2) is before.get_table(2)
    assert after.get_table(1) is not before.get_table(1)
