"""Known answers of the steady state of a table: manifests between two merges, snapshots at their retention."""

from __future__ import annotations

import math
from typing import Any

import pytest

from endive.simulation.steady_start import CommitRate, steady_files
from endive.table import ALL_MANIFESTS, OperationSettings, TableChange, TableFiles, TableModel, traits_of

PER_MINUTE, PER_HOUR = 1 / 60_000, 1 / 3_600_000
DAY_MS = 86_400_000.0


class Draws:
    """Sequence of uniform random numbers, whose last one repeats."""

    def __init__(self, *values: float) -> None:
        self.values = list(values)

    def random_sample(self) -> float:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


def rate(operation: str, per_ms: float, regular: bool = False, **settings: Any) -> CommitRate:
    return CommitRate((traits_of(operation, OperationSettings(**settings)),), per_ms, regular)


def start(u: float, *commits: CommitRate, **model: Any) -> TableFiles:
    return steady_files(TableModel(**model), commits, Draws(u))


def test_a_merging_table_starts_anywhere_between_two_merges() -> None:
    appends = rate("merge_append", PER_MINUTE)
    drawn = [start((i + 0.5) / 99, appends).data for i in range(99)]
    assert drawn == list(range(1, 100))  # the 100th manifest is merged with the others into one
    seen, files = set(), TableFiles.initial(TableModel())
    for _ in range(1000):
        files = files.after(TableChange(appends.traits[0]))
        seen.add(files.data)
    assert seen == set(drawn)


def test_a_later_merge_by_another_operation_makes_longer_teeth() -> None:
    commits = rate("fast_append", 150 * PER_HOUR), rate("row_delta", PER_HOUR)  # 151 manifests from one merge to the next
    assert [start(u, *commits).data for u in (0.0, 0.5, 0.9999)] == [1, 76, 151]
    commits = rate("fast_append", 59 * PER_HOUR), rate("row_delta", PER_HOUR)  # 60, then 120: every second one merges
    assert start(0.9999, *commits).data == 120


def test_bytes_are_those_of_one_merged_manifest_and_the_new_ones() -> None:
    files = start(0.5, rate("merge_append", PER_MINUTE))
    assert files.data == 50
    assert files.data_bytes == 100 * 7_100 - 99 * 6_900 + 49 * 7_100


def test_full_bins_are_merged_before_the_threshold() -> None:
    assert start(0.9999, rate("merge_append", PER_MINUTE), target_bytes=71_000).data == 10


def test_delete_manifests_have_teeth_of_their_own() -> None:
    files = steady_files(TableModel(), [rate("row_delta", PER_MINUTE)], Draws(0.1, 0.8, 0.0))
    assert (files.data, files.deletes) == (1 + int(9.9), 1 + int(0.8 * 99))


def test_a_rewrite_of_all_manifests_limits_them_without_merging() -> None:
    commits = rate("fast_append", PER_MINUTE), rate("rewrite_files", PER_HOUR, regular=True, manifests_hit=ALL_MANIFESTS)
    assert [start(u, *commits, merge_manifests=False).data for u in (0.0, 0.5, 0.999)] == [1, 31, 60]
    poisson = commits[0], rate("rewrite_files", PER_HOUR, manifests_hit=ALL_MANIFESTS)
    assert start(1 - math.exp(-2.0), *poisson, merge_manifests=False).data == 1 + 120


def test_what_nothing_bounds_starts_as_given() -> None:
    files = start(0.7, rate("fast_append", PER_MINUTE), manifests=7, snapshots=3)
    assert files == TableFiles.initial(TableModel(manifests=7, snapshots=3))
    assert start(0.7, rate("merge_append", PER_MINUTE), merge_manifests=False).data == 1


def test_a_table_with_expiry_starts_at_its_retention() -> None:
    commits = rate("fast_append", PER_MINUTE), rate("expire_snapshots", 1 / DAY_MS, regular=True)
    files = start(0.5, *commits)
    assert files.snapshots == 5 * 1440 + 720  # five days, and half a day since the last expiry
    assert files.initial_interval_ms == pytest.approx(60_000.0)
    expired = files.after(TableChange(commits[1].traits[0], time_ms=DAY_MS / 2))
    assert expired.snapshots == pytest.approx(5 * 1440 - 720, abs=1)  # nothing was committed in this half day


def test_an_expiry_by_number_keeps_that_number() -> None:
    settings = {"max_snapshot_age_ms": -math.inf, "min_snapshots_to_keep": 100}
    commits = rate("fast_append", PER_MINUTE), rate("expire_snapshots", PER_HOUR, regular=True, **settings)
    assert [start(u, *commits).snapshots for u in (0.0, 0.5)] == [100, 130]


def test_numbers_that_are_given_are_kept() -> None:
    commits = rate("merge_append", PER_MINUTE), rate("expire_snapshots", PER_HOUR)
    model = TableModel(manifests=7, snapshots=9)
    files = steady_files(model, commits, Draws(0.5), fixed=("manifests", "snapshots"))
    assert (files.data, files.data_bytes, files.snapshots) == (7, 7 * model.manifest_bytes, 9)
    assert files.initial_interval_ms == pytest.approx(60_000.0)


def test_retention_is_bounded_by_what_the_table_can_commit() -> None:
    commits = rate("fast_append", 1 / 100), rate("expire_snapshots", 1 / DAY_MS)
    files = steady_files(TableModel(), commits, Draws(0.0), gap_ms=lambda snapshots: 200.0 + snapshots / 1000.0)
    # r (200 + 5 days r / 1000) = 1 per ms
    per_ms = (-200.0 + math.sqrt(200.0**2 + 4 * 5 * DAY_MS / 1000)) / (2 * 5 * DAY_MS / 1000)
    assert files.snapshots == pytest.approx(5 * DAY_MS * per_ms, abs=2)
    limited = steady_files(TableModel(), commits, Draws(0.0), most_snapshots=500)
    assert limited.snapshots == 500
