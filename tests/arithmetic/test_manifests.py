"""Sizes and counts of a table's files, and reviews of one snapshot, with expected values computed by hand."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.arithmetic.manifests import (
    ALL_MANIFESTS,
    Review,
    counts_after,
    files_made,
    files_of_lost_attempts,
    hits_of,
    is_start_expired,
    manifests_to_filter,
    mean_size,
    merge_bins,
    merged_away,
    merged_size,
    nothing_found,
    reads_history,
    review_record,
)
from endive.table import OPERATION_FACTS, OperationSettings, TableFiles, TableModel, pyiceberg_traits_of, traits_of
from endive.table.operations import APPEND, DELETE, OVERWRITE


@given(st.integers(0, 500), st.integers(1, 50_000), st.integers(2, 120), st.integers(1, 10_000_000))
def test_bins_hold_all_manifests_and_merging_leaves_at_least_one(count: int, mean: int, least: int, target: int) -> None:
    bins, per_bin, newest = merge_bins(count, count * mean, least, target)
    assert bins * per_bin + newest <= count
    assert per_bin * mean <= target or bins == 0
    assert newest == 0 or newest >= max(2, least)
    assert count == 0 or count - merged_away(bins, per_bin, newest) >= 1


@pytest.mark.parametrize(("data", "hits", "expected"), [(5, 2, 2), (1, 3, 1), (0, 3, 0), (7, ALL_MANIFESTS, 7)])
def test_an_operation_hits_no_more_manifests_than_there_are(data: int, hits: int, expected: int) -> None:
    assert hits_of(SimpleNamespace(data=data), SimpleNamespace(hits=hits)) == expected


def test_an_empty_table_is_taken_to_have_manifests_of_the_size_of_a_new_one() -> None:
    model = SimpleNamespace(manifest_bytes=7_100, manifest_header_bytes=6_900)
    assert mean_size(model, SimpleNamespace(data=0, data_bytes=0)) == 7_100
    assert mean_size(model, SimpleNamespace(data=4, data_bytes=40_001)) == 10_000
    assert merged_size(model, 7_100, 3) == 7_100 + 2 * 200


@pytest.mark.parametrize("operation", [facts.name for facts in OPERATION_FACTS if facts.java and facts.name != "expire_snapshots"])
@pytest.mark.parametrize("hit", [0, 2, ALL_MANIFESTS])
def test_records_of_any_kind_give_the_same_counts(operation: str, hit: int) -> None:
    model = TableModel(manifests=6, delete_manifests=3, min_count_to_merge=4)
    files, traits = TableFiles.initial(model), traits_of(operation, OperationSettings(manifests_hit=hit))
    plain = SimpleNamespace(**{name: getattr(files, name) for name in counts_after(model, files, traits)._fields})
    counts = counts_after(SimpleNamespace(**asdict(model)), plain, SimpleNamespace(**asdict(traits)))
    assert counts == counts_after(model, files, traits)
    assert (counts.snapshots, counts.length) == (files.snapshots + 1, 1)
    assert counts.data >= 0
    assert counts.data_bytes >= counts.data


SERIALIZABLE = traits_of("overwrite", OperationSettings(isolation="serializable"))
BY_FILTER = traits_of("overwrite", OperationSettings(isolation="serializable", by="filter"))
COMPACTION = traits_of("rewrite_files", OperationSettings())


def record(kind: int, data: int = 1, deletes: int = 0) -> SimpleNamespace:
    return SimpleNamespace(kind=kind, data=data, deletes=deletes)


def test_an_append_of_the_same_partitions_is_listed_read_and_a_conflict() -> None:
    found = review_record(nothing_found(), record(APPEND), SERIALIZABLE, in_range=True, overlaps=True, is_new=True)
    assert found == Review(lists=1, manifests=1, conflicting=1, hits=1, misses=0, deletes=0, delete_hits=0)


def test_an_append_of_other_partitions_is_listed_and_pruned() -> None:
    found = review_record(nothing_found(), record(APPEND), SERIALIZABLE, in_range=False, overlaps=False, is_new=True)
    assert found == Review(lists=1, manifests=0, conflicting=0, hits=0, misses=0, deletes=0, delete_hits=0)


def test_snapshots_of_the_last_attempt_are_read_again_without_effect() -> None:
    found = review_record(nothing_found(), record(APPEND), SERIALIZABLE, in_range=True, overlaps=False, is_new=False)
    assert found == Review(lists=1, manifests=1, conflicting=0, hits=0, misses=0, deletes=0, delete_hits=0)


def test_compaction_cares_for_no_append() -> None:
    found = review_record(nothing_found(), record(APPEND), COMPACTION, in_range=True, overlaps=True, is_new=True)
    assert (found.lists, found.manifests, found.conflicting) == (0, 0, 0)
    found = review_record(found, record(DELETE, deletes=2), COMPACTION, in_range=False, overlaps=False, is_new=True)
    assert (found.lists, found.manifests, found.deletes) == (1, 2, 2)


def test_findings_add_up() -> None:
    found = nothing_found()
    for kind in (APPEND, OVERWRITE, APPEND):
        found = review_record(found, record(kind), SERIALIZABLE, in_range=True, overlaps=True, is_new=True)
    assert (found.lists, found.conflicting, found.hits) == (3, 3, 3)


@pytest.mark.parametrize(("operation", "expected"), [("fast_append", False), ("merge_append", False), ("overwrite", True)])
def test_appends_do_not_validate(operation: str, expected: bool) -> None:
    assert reads_history(traits_of(operation, OperationSettings())) is expected


def test_pyiceberg_validates_from_the_start_at_each_attempt() -> None:
    assert reads_history(pyiceberg_traits_of("fast_append", OperationSettings())[0])


def test_later_attempts_filter_only_new_manifests() -> None:
    table = SimpleNamespace(data=5, deletes=3, merges=0)
    found = Review(0, 0, 0, hits=2, misses=1, deletes=4, delete_hits=1)
    first = SimpleNamespace(prepared=False, merges=0)
    assert tuple(manifests_to_filter(table, first, SERIALIZABLE, found)) == (1, 0, 3, 0)
    assert tuple(manifests_to_filter(table, first, BY_FILTER, found)) == (1 + 2, 1, 3, 1)
    later = SimpleNamespace(prepared=True, merges=0)
    assert tuple(manifests_to_filter(table, later, SERIALIZABLE, found)) == (0, 0, 4, 0)
    merged = SimpleNamespace(data=5, deletes=3, merges=1)
    assert manifests_to_filter(merged, later, SERIALIZABLE, found).hits == 1


def test_files_to_delete() -> None:
    handle = SimpleNamespace(lost=2, made=3, merged=True, made_list=True)
    assert files_of_lost_attempts(handle) == 2 + 3
    assert files_made(handle, SimpleNamespace(deletes=1)) == 2 + 1 + 1 + 3 + 1
    assert files_made(SimpleNamespace(lost=0, made=0, merged=False, made_list=False), SimpleNamespace(deletes=1)) == 0


@pytest.mark.parametrize(("length", "snapshots", "start", "expected"), [(5, 3, 2, True), (5, 4, 2, False), (5, 1, 5, False)])
def test_a_start_is_expired_when_fewer_snapshots_are_left_than_came_since(
    length: int, snapshots: int, start: int, expected: bool
) -> None:
    assert is_start_expired(SimpleNamespace(length=length, snapshots=snapshots), start) is expected
