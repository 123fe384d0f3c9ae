"""State of a table: manifests that accumulate and are merged, snapshots that are committed and expired, and its history."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.arithmetic.manifests import is_start_expired
from endive.table import (
    ALL_MANIFESTS,
    APPEND,
    ICEBERG_OPERATIONS,
    OperationSettings,
    TableChange,
    TableFiles,
    TableModel,
    traits_of,
)
from endive.table.operations import REPLACE

USUAL = OperationSettings()
ONLY_ONE = OperationSettings(max_snapshot_age_ms=-math.inf)


def change(
    operation: str, partitions: frozenset[int] | None = None, settings: OperationSettings = USUAL, time_ms: float = 0.0
) -> TableChange:
    return TableChange(traits_of(operation, settings), partitions, time_ms)


def after(files: TableFiles, *operations: str) -> TableFiles:
    for operation in operations:
        files = files.after(change(operation))
    return files


def test_small_manifests_accumulate_until_a_merge() -> None:
    files = TableFiles.initial(TableModel(manifests=0, min_count_to_merge=4))
    files = after(files, "fast_append", "fast_append", "fast_append", "fast_append", "fast_append")
    assert files.data == 5
    files = after(files, "merge_append")
    assert files.data == 1
    model = files.model
    assert files.data_bytes == 6 * model.manifest_bytes - 5 * model.manifest_header_bytes
    assert after(files, "merge_append").data == 2


def test_bins_that_are_full_are_merged_whatever_their_number() -> None:
    model = TableModel(manifests=13, manifest_bytes=1000, manifest_header_bytes=900, target_bytes=5500)
    files = after(TableFiles.initial(model), "merge_append")
    assert files.data == 2 + 4  # two bins of five became one manifest each; the newest four are left
    assert files.data_bytes == 14 * 1000 - 8 * 900


def test_a_table_may_be_told_not_to_merge() -> None:
    files = TableFiles.initial(TableModel(manifests=500, merge_manifests=False))
    assert after(files, "merge_append", "overwrite").data == 502


def test_delete_manifests_are_merged_only_by_those_who_add_one() -> None:
    files = TableFiles.initial(TableModel(delete_manifests=9, min_count_to_merge=10))
    assert after(files, "rewrite_files").deletes == 9
    assert after(files, "row_delta").deletes == 1


def test_compaction_of_the_whole_table_leaves_one_manifest_and_no_deletes() -> None:
    files = TableFiles.initial(TableModel(manifests=50, delete_manifests=7))
    whole = OperationSettings(manifests_hit=ALL_MANIFESTS)
    compacted = files.after(change("rewrite_files", settings=whole))
    assert (compacted.data, compacted.deletes) == (1, 0)
    assert compacted.head is not None
    assert (compacted.head.kind, compacted.head.data) == (REPLACE, 51)


def test_sizes_grow_with_snapshots_and_manifests() -> None:
    files = TableFiles.initial(TableModel(manifests=10, snapshots=2000))
    assert files.metadata_size == pytest.approx(2_200_000, rel=0.01)
    assert files.list_size == 4_400 + 10 * 42
    later = after(files, "fast_append")
    assert later.metadata_size - files.metadata_size == 1_100
    assert later.list_size - files.list_size == 42


def test_an_expiry_makes_no_snapshot_and_forgets_old_ones() -> None:
    files = after(TableFiles.initial(TableModel(snapshots=10)), "fast_append", "fast_append")
    expired = files.after(change("expire_snapshots", settings=replace(ONLY_ONE, min_snapshots_to_keep=3)))
    assert (expired.snapshots, expired.length) == (3, 2)
    assert not is_start_expired(expired, 2)
    assert not is_start_expired(expired, 0)
    assert is_start_expired(after(expired, "fast_append").after(change("expire_snapshots", settings=ONLY_ONE)), 2)


@pytest.mark.parametrize(
    ("age_ms", "least", "kept"),
    [
        (0.0, 1, 1),  # the current snapshot stays
        (0.0, 4, 4),
        (50.0, 1, 6),  # of times 50 to 100
        (50.0, 8, 8),
        (99.5, 1, 10),
        (100.0, 1, 12),  # the initial ones count as made at the start
    ],
)
def test_an_expiry_retains_young_snapshots_and_at_least_the_given_number(age_ms: float, least: int, kept: int) -> None:
    files = TableFiles.initial(TableModel(snapshots=2))
    for time_ms in range(10, 101, 10):
        files = files.after(change("fast_append", time_ms=time_ms))
    usage = OperationSettings(max_snapshot_age_ms=age_ms, min_snapshots_to_keep=least)
    assert files.after(change("expire_snapshots", settings=usage, time_ms=100.0)).snapshots == kept


def test_snapshots_from_before_the_start_expire_one_after_the_other() -> None:
    files = replace(TableFiles.initial(TableModel(snapshots=20)), initial_interval_ms=10.0)  # at -10, -20, ..., -200
    expiry = traits_of("expire_snapshots", OperationSettings(max_snapshot_age_ms=105.0))
    assert [files.kept_by(expiry, time_ms) for time_ms in (0.0, 50.0, 99.0)] == [10, 5, 1]


def test_history_is_read_newest_first_and_old_states_keep_theirs() -> None:
    first = after(TableFiles.initial(TableModel()), "fast_append")
    later = after(first, "rewrite_files")
    assert [record.kind for record in later.history(0)] == [REPLACE, APPEND]
    assert [record.kind for record in later.history(1)] == [REPLACE]
    assert [record.kind for record in first.history(0)] == [APPEND]


@pytest.mark.parametrize(
    ("theirs", "mine", "near", "overlaps"),
    [
        ({9}, {5}, False, False),
        ({1, 9}, {5}, True, False),
        ({1, 5, 9}, {5}, True, True),
        ({1}, {0, 2}, False, False),
        (None, {5}, True, True),
        ({9}, None, True, True),
    ],
)
def test_ranges_of_partitions_tell_less_than_partitions(
    theirs: set[int] | None, mine: set[int] | None, near: bool, overlaps: bool
) -> None:
    written = None if theirs is None else frozenset(theirs)
    record = TableFiles.initial(TableModel()).after(change("fast_append", written)).head
    assert record is not None
    partitions = None if mine is None else frozenset(mine)
    assert record.range_has(partitions) is near
    assert record.overlaps(partitions) is overlaps


models = st.builds(
    TableModel,
    manifests=st.integers(0, 20),
    delete_manifests=st.integers(0, 20),
    snapshots=st.integers(1, 5),
    min_count_to_merge=st.integers(2, 12),
    target_bytes=st.sampled_from([10_000, 50_000, 8_000_000]),
)
usages = st.builds(
    OperationSettings,
    isolation=st.sampled_from([None, "none", "snapshot", "serializable"]),
    by=st.sampled_from(["files", "filter"]),
    deletes=st.sampled_from(["position", "equality", "vectors"]),
    manifests_hit=st.sampled_from([ALL_MANIFESTS, 0, 1, 5]),
    max_snapshot_age_ms=st.sampled_from([-math.inf, 0.0, 1.0]),
    min_snapshots_to_keep=st.integers(1, 3),
)


@settings(max_examples=200)
@given(models, st.lists(st.tuples(st.sampled_from(sorted(ICEBERG_OPERATIONS)), usages), max_size=30))
def test_no_state_makes_no_sense(model: TableModel, commits: list[tuple[str, OperationSettings]]) -> None:
    files = TableFiles.initial(model)
    for operation, usage in commits:
        later = files.after(change(operation, settings=usage))
        makes_snapshot = operation != "expire_snapshots"
        assert later.length == files.length + makes_snapshot
        assert len(list(later.history(0))) == later.length
        assert later.snapshots >= 1
        assert min(later.data, later.deletes) >= 0
        assert (later.data_bytes > 0) is (later.data > 0)
        assert (later.delete_bytes > 0) is (later.deletes > 0)
        assert later.data_bytes >= later.data * (model.manifest_bytes - model.manifest_header_bytes)
        assert later.manifests <= files.manifests + 2
        assert not is_start_expired(later, later.length)
        files = later
