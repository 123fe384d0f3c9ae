"""Changes, and whether the page finds the one that helps most; twenty systems of this kind are in ``make verify``."""

from __future__ import annotations

import asyncio
import copy
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from endive.serve.changes import list_changes
from endive.serve.evaluation import Goal, Tried, choose_goal, rank
from endive.serve.messages import Answer, ClassRow, MetricValues, Value
from endive.serve.page_configuration import DEFAULT, put
from endive.serve.pool import Pool
from tests.serve.conftest import Client, small
from verification.statistics.levers import PLANTED, find_best, nothing_is_wrong, two_ways_to_mend


def with_pool(work: Callable[[Pool], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            pool = Pool(Path(folder), 2)
            pool.start()
            try:
                return await work(pool)
            finally:
                await pool.close()

    return asyncio.run(run())


def test_changes_make_valid_systems() -> None:
    before = copy.deepcopy(DEFAULT)
    changes = list(list_changes(DEFAULT))
    names = [change.name for change in changes]
    assert before == DEFAULT
    assert len(set(names)) == len(names) >= 12
    assert {"store", "group_commit", "retries", "batching", "partitions", "fast_append", "handle", "less_compaction"} <= set(names)
    assert all(change.tree != DEFAULT for change in changes)


def test_a_change_without_effect_is_left_out() -> None:
    names = [change.name for change in list_changes(put(DEFAULT, "storage.provider", "s3x"))]
    assert "store" not in names


@pytest.mark.parametrize(
    ("operation", "isolation", "offered"),
    [
        ("row_delta", None, True),
        ("row_delta", "serializable", True),
        ("row_delta", "snapshot", False),
        ("row_delta", "none", False),
        ("delete", None, False),
        ("replace_partitions", None, False),
        ("replace_partitions", "serializable", True),
    ],
)
def test_snapshot_isolation_is_offered_only_for_serializable_classes(operation: str, isolation: str | None, offered: bool) -> None:
    tree = put(DEFAULT, "workload.ingest.operation", operation)
    if isolation is not None:
        tree = put(tree, "workload.ingest.isolation", isolation)
    assert ("isolation" in {change.name for change in list_changes(tree)}) == offered


@pytest.mark.parametrize("planted", [pytest.param("retries", marks=pytest.mark.slow), "no_waits"])
def test_the_change_that_mends_a_system_is_found(planted: str) -> None:
    tree = put(PLANTED[planted](random.Random(3)), "simulation.duration_ms", "15min")
    best, sentence = with_pool(lambda pool: find_best(pool, tree))
    assert best == planted
    assert sentence.startswith("Largest improvement of ")


@pytest.mark.parametrize("make", [nothing_is_wrong, pytest.param(two_ways_to_mend, marks=pytest.mark.slow)])
def test_no_change_is_named_if_none_is_best(make: Callable[[random.Random], Any]) -> None:
    tree = put(make(random.Random(3)), "simulation.duration_ms", "5min")
    best, sentence = with_pool(lambda pool: find_best(pool, tree))
    assert best == ""
    assert sentence.startswith("No clear winner")


def value(mean: float | None, kind: str = "number") -> Value:
    return Value(mean, None, None, kind, 1, "", "")


def tried(name: str, values: list[float], in_flight: int = 0) -> Tried:
    return Tried(name, name, "", found(values, in_flight))


def found(values: list[float], in_flight: int = 0) -> MetricValues:
    return MetricValues(dict(enumerate(values)), value(sum(values) / len(values)), 10_000, in_flight)


def test_a_negligible_difference_is_not_an_improvement() -> None:
    ranked = rank(Goal("success_rate"), found([0.9] * 5), [tried("a", [0.903, 0.9031, 0.9029, 0.903, 0.9031])], 100.0)
    assert not ranked["clear"]
    assert "No clear winner" in ranked["sentence"]


def test_a_difference_within_the_range_of_transactions_in_flight_is_not_significant() -> None:
    """With 12% of the transactions in flight, success is 79% to 91% with the change, and 74% to 86% without."""
    better, present = [0.849, 0.85, 0.851], [0.80, 0.80, 0.80]
    ranked = rank(Goal("success_rate"), found(present, 1_200), [tried("a", better, 1_200)], 100.0)
    assert (ranked["best"], ranked["rows"][0]["significant"], ranked["rows"][0]["better"]) == (None, False, None)
    settled = rank(Goal("success_rate"), found(present), [tried("a", better)], 100.0)
    assert (settled["best"], settled["rows"][0]["significant"]) == ("a", True)


def test_the_best_by_chance_among_many_is_no_winner() -> None:
    draw = random.Random(5)
    present = found([draw.gauss(100.0, 5.0) for _ in range(8)])
    others = [tried(f"change {k}", [draw.gauss(100.0, 5.0) for _ in range(8)]) for k in range(20)]
    ranked = rank(Goal("time_to_commit_p95_ms"), present, others, 100.0)
    assert not any(row["significant"] for row in ranked["rows"])
    assert ranked["best"] is None


def test_changes_that_cannot_be_ranked_come_last() -> None:
    nowhere = Tried("never", "never", "", MetricValues({}, None, 10, 0))
    ranked = rank(Goal("time_to_commit_p95_ms"), found([100.0, 101.0, 99.0]), [nowhere, tried("a", [50.0, 51.0, 49.5])], 100.0)
    assert [row["name"] for row in ranked["rows"]] == ["a", "never"]
    assert ranked["best"] == "a"


def test_the_goal_is_the_worst_class() -> None:
    def row(name: str, share: float, entered: int = 1000) -> ClassRow:
        return ClassRow(name, (), entered, {"success_rate": value(share), "time_to_commit_p95_ms": value(1.0)})

    def goal(*rows: ClassRow) -> Goal:
        return choose_goal(Answer((), "", "", (0.0, 0.0, 0.0), (), rows))

    assert goal(row("a", 0.99), row("b", 0.5), row("all", 0.9)) == Goal("success_rate", "b")
    assert goal(row("a", 0.98), row("b", 0.5, entered=4), row("all", 0.99)) == Goal("success_rate", "a")
    unclear = ClassRow("b", (), 60, {"success_rate": Value(0.9, 0.8, 0.995, "number", 4, "", "")})
    clear = ClassRow("a", (), 900, {"success_rate": Value(0.97, 0.96, 0.98, "number", 4, "", "")})
    assert goal(clear, unclear, row("all", 0.97)) == Goal("success_rate", "a")
    assert goal(row("a", 1.0), unclear, row("all", 1.0)) == Goal("success_rate", "b")
    assert goal(row("a", 1.0), row("b", 1.0), row("all", 1.0)) == Goal("time_to_commit_p95_ms")


def test_transactions_in_flight_do_not_make_success_the_goal() -> None:
    """Success of 90 to 100%, because a tenth is in flight, does not show that transactions fail."""
    metrics = {
        "success_rate": Value(0.95, 0.9, 1.0, "number", 4, "", ""),
        "time_to_commit_p95_ms": Value(1.0, 1.0, 1.0, "number", 4, "", ""),
    }
    found = [ClassRow("all", (), 900, metrics, in_flight) for in_flight in (90, 60)]
    goals = [choose_goal(Answer((), "", "", (0.0, 0.0, 0.0), (), (row,))) for row in found]
    assert goals == [Goal("time_to_commit_p95_ms"), Goal("success_rate")]


def test_the_page_asks_for_it(client: Client) -> None:
    status, events = client.post(
        "/api/help",
        tree=small(transaction__retry=0, simulation__duration_ms=40_000.0),
        metric="success_rate",
        workload_class="ingest",
    )
    assert status == 200
    rankings = [event for event in events if event["kind"] == "ranking"]
    assert rankings[-1]["final"]
    assert len(rankings[-1]["seeds"]) > len(rankings[0]["seeds"])
    assert {row["name"] for row in rankings[-1]["rows"]} == set(rankings[-1]["trees"])
