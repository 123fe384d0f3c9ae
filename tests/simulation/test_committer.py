"""Committers: outcomes that can be computed by hand, in both engines, exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from endive.config import ConfigError
from endive.config.load import check_document
from endive.simulation import RunCounters
from tests.simulation.runs import ENGINES, Engine, config_of, table_of
from tests.simulation.test_closed_forms import ATTEMPT_IO, CAS, CATALOG_READ, fixed

COMMIT = CATALOG_READ + ATTEMPT_IO + CAS
"""Duration of a commit without contention."""


def run(engine: Engine, cls: dict[str, Any], duration_ms: float, **extra: Any) -> tuple[pd.DataFrame, RunCounters]:
    tree = fixed(1, duration_ms)
    tree["workload"] = {"w": {"operation": "fast_append", "runtime": {"distribution": "fixed", "value": 0.0}, **cls}}
    tree |= extra
    rows, counters = table_of(engine, config_of(tree))
    return rows.to_pandas(), counters


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("clients", "max_batch", "sizes"), [(1, 0, {1}), (7, 0, {7}), (8, 4, {4}), (9, 5, {5})])
def test_a_commit_has_one_handoff_of_each_client_of_a_closed_loop_up_to_max_batch(
    engine: Engine, clients: int, max_batch: int, sizes: set[int]
) -> None:
    """N clients that wait only for their commits: each commit, of a fixed time, has min(N, max_batch)."""
    rows, counters = run(engine, {"closed": {"clients": clients}, "committer": {"max_batch": max_batch}}, 100 * COMMIT - 1.0)
    assert len(rows) >= 100
    assert set(rows["batch_size"][:100]) == sizes
    assert list(rows["t_commit"][:100]) == [n * COMMIT for n in range(1, 101)]
    assert counters.counts["handovers_committed"] == rows["batch_size"].sum() == counters.counts["handovers_made"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_is_what_was_handed_over_since_the_last_commit_began_and_its_waits_are_summed(engine: Engine) -> None:
    """Handoffs at 0, 10, 20, ... and commits of 29 ms: at 0 one, at 29 those of 10 and 20, at 58 those of 30, 40 and 50, ..."""
    rows, _ = run(engine, {"periodic": {"interval_ms": 10.0}, "committer": {}}, 95.0)
    assert list(rows["t_submit"]) == [0.0, 29.0, 58.0, 87.0, 116.0]
    assert list(rows["batch_size"]) == [1, 2, 3, 3, 1]
    assert list(rows["batch_wait_ms"]) == [0.0, 19.0 + 9.0, 28.0 + 18.0 + 8.0, 27.0 + 17.0 + 7.0, 26.0]
    assert list(rows["batch_longest_wait_ms"]) == [0.0, 19.0, 28.0, 27.0, 26.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_commits_begin_an_interval_apart_or_when_the_batch_is_full(engine: Engine) -> None:
    every_20_ms = {"periodic": {"interval_ms": 20.0}}
    rows, _ = run(engine, {**every_20_ms, "committer": {"interval_ms": 100.0}}, 301.0)
    assert list(rows["t_submit"]) == [100.0, 200.0, 300.0]
    assert list(rows["batch_size"]) == [6, 5, 5]
    rows, _ = run(engine, {**every_20_ms, "committer": {"interval_ms": 100.0, "max_batch": 3}}, 161.0)
    assert list(rows["t_submit"]) == [40.0, 100.0, 160.0]
    assert list(rows["batch_size"]) == [3, 3, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_writers_work_at_the_same_time_and_hand_over_when_they_are_done(engine: Engine) -> None:
    slow = {"writers": 3, "every_ms": 1000.0, "phase": "aligned", "runtime": {"distribution": "fixed", "value": 150.0}}
    rows, counters = run(engine, {**slow, "committer": {}}, 1_100.0, simulation={"duration_ms": 1_100.0, "seed": 1})
    assert list(rows["t_submit"]) == [150.0]
    assert list(rows["batch_size"]) == [3]
    assert list(rows["t_runtime"]) == [0.0]
    assert list(rows["client"]) == [-1]
    assert (counters.counts["handovers_begun"], counters.counts["handovers_made"]) == (6, 3)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_writer_waits_while_as_many_of_its_hand_overs_are_uncommitted_as_may_be(engine: Engine) -> None:
    eager = {"writers": 1, "every_ms": 10.0, "phase": "aligned"}
    free, _ = run(engine, {**eager, "committer": {}}, 60.0)
    assert list(free["batch_size"]) == [1, 2, 3]
    held, _ = run(engine, {**eager, "committer": {"max_in_flight": 1}}, 60.0)
    assert list(held["batch_size"]) == [1, 1, 1]
    assert list(held["batch_wait_ms"]) == [0.0, 0.0, 0.0]
    two, _ = run(engine, {**eager, "committer": {"max_in_flight": 2}}, 60.0)
    # the handoff of 10 ms waits for the commit that ends at 29, and so does the writer's next work; at 39 it waits again
    assert list(two["batch_size"]) == [1, 2, 1]
    assert list(two["batch_wait_ms"]) == [0.0, 19.0 + 0.0, 0.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_of_a_closed_loop_goes_on_thinking_as_long_as_it_may(engine: Engine) -> None:
    think = {"clients": 1, "think_time": {"distribution": "fixed", "value": 5.0}}
    one, _ = run(engine, {"closed": think, "committer": {}}, 100.0)
    assert list(one["t_submit"]) == [5.0, 39.0, 73.0]
    two, _ = run(engine, {"closed": think, "committer": {"max_in_flight": 2}}, 100.0)
    assert list(two["t_submit"]) == [5.0, 34.0, 63.0, 92.0, 121.0]
    assert list(two["batch_wait_ms"]) == [0.0, 24.0, 24.0, 24.0, 24.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_that_fails_is_committed_with_what_comes_after_it(engine: Engine) -> None:
    """A commit that loses to another class's and may not retry leaves its batch to the next one; nothing is lost or done twice."""
    tree = fixed(1, 2_000.0, retry=0)
    tree["catalog"] = {"num_tables": 2, "num_groups": 1}
    appends = {"operation": "fast_append", "runtime": {"distribution": "fixed", "value": 0.0}}
    tree["workload"] = {
        "other": {"periodic": {"interval_ms": 100.0, "phase_ms": 1.0}, "retry": 9, "tables": [1], **appends},
        "w": {"periodic": {"interval_ms": 10.0}, "committer": {}, "tables": [0], **appends},
    }
    rows, counters = table_of(engine, config_of(tree))
    own = rows.to_pandas().query("workload_class == 'w'").reset_index(drop=True)
    lost = own.index[own["status"] == "aborted"]
    assert len(lost) > 5
    for place in lost[lost < len(own) - 1]:
        assert own["batch_size"][place + 1] > own["batch_size"][place]
        assert own["batch_longest_wait_ms"][place + 1] == own["batch_longest_wait_ms"][place] + own["total_latency"][place]
    counts = counters.counts
    assert counts["handovers_made"] == 200 == counts["handovers_committed"] + counts["handovers_given_up"]
    assert own["batch_size"][own["status"] == "committed"].sum() == counts["handovers_committed"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_drained_run_ends_although_every_commit_fails(engine: Engine) -> None:
    rows, counters = run(engine, {"rate": 50.0, "committer": {}}, 1_000.0, failures={"client_crash": 1.0})
    assert set(rows["status"]) == {"aborted"}
    assert counters.counts["handovers_given_up"] == counters.counts["handovers_made"] > 20


def test_a_batch_whose_outcome_was_never_learned_is_not_committed_twice() -> None:
    failures = {"lost_answer": 0.6, "status_checks": 0, "min_wait_ms": 1.0}
    for engine in ENGINES:
        rows, counters = run(engine, {"rate": 50.0, "committer": {}}, 5_000.0, failures=failures)
        unknown = rows[rows["abort_reason"] == "commit_state_unknown"]
        assert (unknown["installs"] == 1).sum() > 10
        installed = rows[rows["installs"] > 0]
        assert installed["batch_size"].sum() == counters.counts["handovers_committed"]


WRITERS, INTERVAL, TIMEOUT = 12, 5_000.0, 500.0


def with_late_tasks(engine: Engine, committer: dict[str, Any]) -> tuple[pd.DataFrame, RunCounters]:
    """400 rounds of 12 tasks that deliver after 80 ms in the median; 3% of them after more than 500 ms."""
    tasks = {"writers": WRITERS, "every_ms": INTERVAL, "phase": "aligned", "runtime": {"median": 80.0, "sigma": 1.0}}
    rows, counters = run(engine, {**tasks, "committer": committer}, 400 * INTERVAL)
    return rows.sort_values("txn_id").reset_index(drop=True), counters


@pytest.mark.parametrize("engine", ENGINES)
def test_a_late_task_makes_only_its_own_batch_late(engine: Engine) -> None:
    """Without rounds, a late batch counts for the next commit, which then starts without one batch of its own, and so on."""
    queue, _ = with_late_tasks(engine, {"max_batch": WRITERS, "interval_ms": INTERVAL + TIMEOUT})
    assert queue["batch_longest_wait_ms"].median() > 0.8 * INTERVAL
    rows, counters = with_late_tasks(engine, {"round": "all_writers", "timeout_ms": TIMEOUT})
    assert rows["batch_longest_wait_ms"].median() < TIMEOUT
    starts = INTERVAL * pd.Series(range(len(rows)), dtype=float)
    late = WRITERS * (rows.index + 1) - rows["batch_size"].cumsum()
    assert 20 < (late > 0).sum() < 200
    # a round ends at its timeout if, and only if, a batch is late; that batch is the only one in the next commit that has waited
    assert list(rows["t_submit"] == starts + TIMEOUT) == list(late > 0)
    assert (rows["t_submit"] <= starts + TIMEOUT).all()
    assert list(rows["batch_longest_wait_ms"] > TIMEOUT)[1:] == list(late > 0)[:-1]
    assert counters.counts["handovers_made"] == counters.counts["handovers_committed"] == 400 * WRITERS


@pytest.mark.parametrize("engine", ENGINES)
def test_a_round_ends_with_the_last_delivery_or_at_the_timeout(engine: Engine) -> None:
    tasks = {"writers": 3, "every_ms": 100.0, "phase": "aligned", "runtime": {"distribution": "fixed", "value": 10.0}}
    rows, _ = run(engine, {**tasks, "committer": {"round": "all_writers", "timeout_ms": 10.5}}, 300.0)
    assert list(rows["t_submit"]) == [10.0, 110.0, 210.0]
    assert list(rows["batch_size"]) == [3, 3, 3]
    # no batch is there at the timeout: all of them join the next round, and the last ones are committed at the end of arrivals
    rows, _ = run(engine, {**tasks, "committer": {"round": "all_writers", "timeout_ms": 5.0}}, 300.0)
    assert list(rows["t_submit"]) == [105.0, 205.0, 300.0]
    assert list(rows["batch_size"]) == [3, 3, 3]
    assert list(rows["batch_longest_wait_ms"]) == [95.0, 95.0, 90.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_round_that_lasts_longer_than_the_interval_delays_the_next_one(engine: Engine) -> None:
    """Tasks that deliver after 130 ms, every 100 ms: a round begins when the one before it has ended."""
    tasks = {"writers": 2, "every_ms": 100.0, "phase": "aligned", "runtime": {"distribution": "fixed", "value": 130.0}}
    rows, counters = run(engine, {**tasks, "committer": {"round": "all_writers", "timeout_ms": 1_000.0}}, 400.0)
    assert list(rows["t_submit"]) == [130.0, 260.0, 390.0, 520.0]
    assert list(rows["batch_size"]) == [2, 2, 2, 2]
    assert counters.counts["slots_missed"] == 6


ALIGNED = {"writers": 2, "every_ms": 100.0, "phase": "aligned"}
ROUNDS = {"round": "all_writers", "timeout_ms": 10.0}
BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"rate": 1.0, "committer": {"max_in_flight": 2}}, "workload.w.committer.max_in_flight", "closed, or writers and every"),
    ({"rate": 1.0, "committer": {"interval_ms": "2h"}}, "workload.w.committer.interval_ms", "nothing is committed"),
    ({"rate": 1.0, "committer": {"max_batch": -1}}, "workload.w.committer.max_batch", "greater than or equal to 0"),
    ({"rate": 1.0, "committer": {"interval": 1.0, "max_btch": 1}}, "workload.w.committer.max_btch", "max_batch"),
    ({"rate": 1.0, "committer": {"timeout_ms": 1.0}}, "workload.w.committer.timeout_ms", "no effect without round"),
    ({**ALIGNED, "committer": {"round": "all_writers"}}, "workload.w.committer.timeout_ms", "is missing"),
    ({**ALIGNED, "phase": "random", "committer": ROUNDS}, "workload.w.committer.round", 'phase = "aligned"'),
    ({"rate": 1.0, "committer": ROUNDS}, "workload.w.committer.round", "needs writers that start together"),
    ({**ALIGNED, "committer": {**ROUNDS, "max_batch": 2}}, "workload.w.committer.max_batch", "has no effect with round"),
    ({**ALIGNED, "committer": {**ROUNDS, "interval_ms": 2.0}}, "workload.w.committer.interval_ms", "has no effect with round"),
    ({"rate": 1.0, "committer": {}, "operation": "read_only"}, "workload.w.committer", "cannot commit read_only operations"),
]


@pytest.mark.parametrize(("cls", "key", "message"), BAD, ids=[f"{key}: {message}" for _, key, message in BAD])
def test_what_contradicts_a_committer_is_an_error(cls: dict[str, Any], key: str, message: str) -> None:
    tree = fixed(1, 1_000.0)
    tree["workload"] = {"w": {"operation": "fast_append", **cls}}
    with pytest.raises(ConfigError) as error:
        check_document(tree, "test")
    assert key in str(error.value)
    assert message in str(error.value)


def test_group_commit_of_the_service_is_rejected_with_a_single_committer() -> None:
    tree = fixed(1, 1_000.0)
    tree["catalog"] = {"type": "service", "coalesce": {"linger_ms": 1.0}}
    tree["workload"]["writers"]["committer"] = {}
    with pytest.raises(ConfigError, match=r"`catalog\.coalesce` has no effect with a committer"):
        check_document(tree, "test")


def test_a_trace_with_a_committer_has_only_times_and_runtimes(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    tree = fixed(1, 1_000.0)
    tree["workload"] = {"w": {"trace": str(path), "operation": "fast_append", "committer": {}}}
    path.write_text("time_ms,runtime_ms\n0,5ms\n1,4ms\n")
    for engine in ENGINES:
        assert list(table_of(engine, config_of(tree))[0].to_pandas()["batch_size"]) == [2]
    path.write_text("time_ms,table\n0,0\n")
    with pytest.raises(ConfigError, match="must not have the column table with a committer"):
        check_document(tree, "test")
