"""Writers that wait for their own commits are reported from random arrivals; where they cannot be, both ends are given."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import numpy as np
import pytest

from endive.analysis import Floats
from endive.calibrate.answers import simulate
from endive.calibrate.arrival_fit import AS_AT_RANDOM, find_loop_by_evenness, find_loop_by_overlap, most_at_once
from endive.calibrate.measurements import CommitReport
from endive.calibrate.table_history import parse_metadata
from endive.calibrate.table_import import Imported, configuration_text, import_history
from endive.config.load import check_document
from tests.calibrate.tables import START_MS, metadata_document

COMMIT_MS = 400.0


def closed(writers: int, think_ms: float, count: int, seed: int = 1) -> tuple[Floats, Floats]:
    """When commits of so many writers ended and how long they took; a writer thinks from half to one and a half times as long."""
    rng = np.random.default_rng(seed)
    ends, took = [], []
    for _ in range(writers):
        now = float(rng.uniform(0.0, think_ms + COMMIT_MS))
        for _ in range(count // writers):
            duration = COMMIT_MS * float(rng.lognormal(0.0, 0.2))
            now += think_ms * float(rng.uniform(0.5, 1.5)) + duration
            ends.append(now)
            took.append(duration)
    order = np.argsort(ends)
    return np.round(np.array(ends)[order]), np.array(took)[order]


def at_random(per_s: float, count: int, seed: int = 1) -> tuple[Floats, Floats]:
    """The same for operations that come whatever the earlier ones do."""
    rng = np.random.default_rng(seed)
    took = COMMIT_MS * rng.lognormal(0.0, 0.2, count)
    ends = np.cumsum(rng.exponential(1e3 / per_s, count)) + took
    order = np.argsort(ends)
    return np.round(ends[order]), took[order]


class TestWithReports:
    @pytest.mark.parametrize(("writers", "think_ms"), [(1, 0.0), (2, 0.0), (4, 0.0), (8, 0.0), (1, 400.0), (2, 400.0), (4, 400.0)])
    def test_writers_that_wait_are_counted(self, writers: int, think_ms: float) -> None:
        for seed in range(5):
            loop = find_loop_by_overlap(*closed(writers, think_ms, 400, seed), most_attempts=10)
            assert loop is not None
            assert loop.certain
            assert (loop.clients, loop.most) == (writers, writers)
            assert loop.think_ms(writers) == pytest.approx(think_ms, rel=0.08, abs=30.0)

    @pytest.mark.parametrize("per_s", [0.2, 1.0, 5.0, 20.0])
    def test_random_arrivals_are_hardly_ever_called_waiting_and_stay_in_the_range(self, per_s: float) -> None:
        taken = 0
        for seed in range(25):
            for count in (20, 100, 1_000):
                loop = find_loop_by_overlap(*at_random(per_s, count, seed))
                assert loop is None or loop.most is None
                taken += loop is not None and loop.certain
        assert taken <= 2

    def test_a_limit_of_attempts_is_not_taken_for_writers(self) -> None:
        """Two attempts bound how many successes overlap, as two or three writers would."""
        held = find_loop_by_overlap(*closed(3, 400.0, 400), failing=0.1, most_attempts=3)
        assert held is not None
        assert not held.certain
        assert find_loop_by_overlap(*closed(1, 400.0, 400), most_attempts=1).certain  # type: ignore[union-attr]

    def test_few_data_and_rare_commits_leave_it_open(self) -> None:
        assert find_loop_by_overlap(*closed(2, 0.0, 10)) is None
        rare = find_loop_by_overlap(*closed(1, 60_000.0, 16))
        assert rare is not None
        assert not rare.certain
        assert rare.most is None

    def test_writers_that_rarely_overlap_are_a_range(self) -> None:
        loop = find_loop_by_overlap(*closed(6, 2_000.0, 600))
        assert loop is not None
        assert loop.fewest <= 6
        assert loop.most is None or loop.most >= 6

    def test_adjacent_intervals_do_not_overlap(self) -> None:
        assert most_at_once(np.array([0.0, 10.0, 15.0]), np.array([10.0, 20.0, 30.0])) == 2
        assert most_at_once(np.zeros(0), np.zeros(0)) == 0


class TestWithoutReports:
    def test_even_arrivals_over_long_periods_are_detected(self) -> None:
        for writers in (1, 2, 4):
            loop = find_loop_by_evenness(closed(writers, 600.0, 400)[0])
            assert loop is not None
            assert loop.most is None
            assert not loop.certain

    def test_random_arrivals_are_not_even(self) -> None:
        found = [find_loop_by_evenness(at_random(2.0, count, seed)[0]) for count in (40, 400) for seed in range(50)]
        assert found == [None] * len(found)

    def test_few_commits_give_no_verdict(self) -> None:
        assert find_loop_by_evenness(closed(1, 600.0, 20)[0]) is None


def imported(ends: Floats, took: Floats, operation: str = "append", reported: bool = True) -> Imported:
    document = metadata_document([START_MS + int(end) for end in ends])
    for snapshot in document["snapshots"]:
        snapshot["summary"] |= {"operation": operation, "iceberg-version": "Apache Iceberg 1.10"}
    reports = [CommitReport(place, operation, 1, float(duration)) for place, duration in enumerate(took, 1)] if reported else []
    made = import_history(parse_metadata(json.dumps(document).encode(), "t.json"), reports=reports)
    check_document(tomllib.loads(configuration_text(made)), "made")
    return made


def arrivals(made: Imported) -> Any:
    return next(each for each in made.assumptions if each.about == "arrivals")


class TestImport:
    def test_closed_writers_become_closed(self) -> None:
        made = imported(*closed(3, 300.0, 200))
        section = made.tree["workload"]["append"]
        assert section["closed"]["clients"] == 3
        assert "rate" not in section
        assert "at most 3 commits of the class at the same time" in arrivals(made).assumed

    def test_random_arrivals_stay_a_rate(self) -> None:
        section = imported(*at_random(2.0, 400)).tree["workload"]["append"]
        assert "closed" not in section

    def test_an_undecided_kind_of_arrivals_is_a_range(self) -> None:
        made = imported(*closed(1, 60_000.0, 16))
        assert "rate" in made.tree["workload"]["append"]
        assert arrivals(made).low["workload.append.closed"]["clients"] == 1
        even = imported(*closed(2, 600.0, 200), reported=False)
        assert "closed" in even.tree["workload"]["append"]
        assert arrivals(even).high["workload.append.closed"]["clients"] == AS_AT_RANDOM
        assert "import with --reports to distinguish the two cases" in arrivals(even).assumed

    def test_work_is_part_of_the_time_between_commits(self) -> None:
        made = imported(*closed(1, 1_000.0, 100), operation="replace")
        section = made.tree["workload"]["replace"]
        whole = section["runtime"]["value"] + section["closed"]["think_time"]["mean"]
        assert whole == pytest.approx(1_000.0, rel=0.05)
        ends = next(each for each in made.assumptions if each.about.startswith("job durations"))
        assert ends.high["workload.replace.runtime.value"] == pytest.approx(1_000.0, rel=0.05)
        assert ends.low["workload.replace.closed"]["think_time"]["mean"] == pytest.approx(1_000.0, rel=0.05)

    def test_ends_of_the_range_can_be_simulated(self, tmp_path: Any) -> None:
        made = imported(*closed(1, 60_000.0, 16))
        path = tmp_path / "mine.toml"
        path.write_text(configuration_text(made))
        rows = simulate(path, arrivals(made).low, (1,))
        assert set(rows["workload_class"]) == {"append"}
