"""Sizes and counts of a table's files, computed on plain namespaces."""

from __future__ import annotations

from dataclasses import asdict
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.arithmetic.manifests import ALL_MANIFESTS, counts_after, hits_of, mean_size, merge_bins, merged_away, merged_size
from endive.table import OPERATION_FACTS, OperationSettings, TableFiles, TableModel, traits_of


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
