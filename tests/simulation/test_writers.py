"""Periodic writers: one transaction at a time, slots that are missed, and late starts, in both engines."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.simulation.runs import ENGINES, Engine, config_of, table_of
from tests.simulation.test_closed_forms import ALONE, fixed

both_engines = pytest.mark.parametrize("engine", ENGINES)


def run(engine: Engine, cls: dict[str, Any], duration_ms: float, **extra: Any) -> tuple[pd.DataFrame, int]:
    """Rows of one class of appends, by submission, and the number of slots that its writers missed."""
    tree = fixed(1, duration_ms)
    tree["workload"] = {"w": {"operation": "fast_append", **cls}}
    tree |= extra
    rows, counters = table_of(engine, config_of(tree))
    return rows.to_pandas().sort_values("txn_id").reset_index(drop=True), int(counters.counts["slots_missed"])


@both_engines
def test_a_writer_that_takes_longer_than_its_interval_runs_one_transaction_after_the_other(engine: Engine) -> None:
    rows, missed = run(engine, {"writers": 1, "every_ms": 100.0, "phase": "aligned"}, 600.0)
    assert list(rows["t_submit"]) == [n * ALONE for n in range(5)]
    assert missed == 5  # slots at 100, 200, 300, 400 and 500 ms; the run ends at 600 ms


@both_engines
def test_a_writer_that_is_done_at_its_slot_starts_on_time(engine: Engine) -> None:
    rows, missed = run(engine, {"writers": 2, "every_ms": 2 * ALONE, "phase": "staggered"}, 6 * ALONE)
    assert list(rows["t_submit"]) == [n * ALONE for n in range(6)]
    assert missed == 0


@both_engines
def test_a_late_start_does_not_move_the_slots_after_it(engine: Engine) -> None:
    spread = {"distribution": "lognormal", "mean": 70.0, "sigma": 1.0}
    rows, missed = run(engine, {"writers": 3, "every_ms": 100.0, "phase": "staggered", "runtime": spread}, 20_000.0)
    late = slots = 0
    for writer in range(3):
        own = rows[rows["client"] == writer]
        first = own["t_submit"].iloc[0]
        assert first == pytest.approx(100.0 * writer / 3)
        ends = own["t_submit"] + own["total_latency"]
        for start, before in zip(own["t_submit"].iloc[1:], ends, strict=False):
            on_time = abs((start - first) / 100.0 - round((start - first) / 100.0)) < 1e-9
            assert on_time or start == before
            assert start >= before
            late += not on_time
        for start, end in zip(own["t_submit"], ends, strict=True):
            slots += sum(start < first + 100.0 * n < min(end, 20_000.0) for n in range(200))
    assert late > 50
    assert missed == slots


@both_engines
def test_a_writer_with_a_committer_runs_one_job_at_a_time(engine: Engine) -> None:
    """Jobs of 100 ms every 40 ms: the next one begins when the files of the last one are handed off, committed or not."""
    cls = {"writers": 1, "every_ms": 40.0, "phase": "aligned", "committer": {}}
    rows, missed = run(engine, cls, 400.0)
    assert list(rows["t_submit"]) == [100.0, 200.0, 300.0, 400.0]
    assert list(rows["batch_size"]) == [1, 1, 1, 1]
    assert missed == 8  # 40, 80, 120, ..., 360, but not 200, at which a job ends and the next one starts


@both_engines
def test_the_data_of_a_commit_starts_at_the_last_submission_whose_data_is_visible(engine: Engine) -> None:
    """Every 500 ms; a commit without retries that meets a rival at 719 ms aborts, and the next one covers both intervals."""
    tree = fixed(1, 2_500.0, retry=0)
    tree["workload"] = {
        "rival": {"periodic": {"interval_ms": 1e6, "phase_ms": 590.0}, "operation": "fast_append", "retry": 9},
        "w": {"writers": 1, "every_ms": 500.0, "phase": "aligned", "operation": "fast_append", "start_ms": 100.0},
    }
    rows = table_of(engine, config_of(tree))[0].to_pandas().sort_values("txn_id")
    assert list(rows[rows["workload_class"] == "rival"]["t_data_start"]) == [-1.0]
    own = rows[rows["workload_class"] == "w"]
    assert list(own["status"]) == ["committed", "aborted", "committed", "committed", "committed"]
    assert list(own["t_submit"]) == [100.0, 600.0, 1100.0, 1600.0, 2100.0]
    assert list(own["t_data_start"]) == [100.0, 100.0, 100.0, 1100.0, 1600.0]


@both_engines
def test_the_data_of_a_committer_starts_at_the_previous_job_of_its_oldest_batch(engine: Engine) -> None:
    cls = {"writers": 3, "every_ms": 200.0, "phase": "aligned", "committer": {"round": "all_writers", "timeout_ms": 150.0}}
    rows, _ = run(engine, cls, 900.0)
    assert list(rows["t_submit"]) == [100.0, 300.0, 500.0, 700.0, 900.0]
    assert list(rows["t_data_start"]) == [0.0, 0.0, 200.0, 400.0, 600.0]
    # submissions at 0, 30, 60, ... without a writer: a batch has the data since the handoff before it
    rows, _ = run(engine, {"periodic": {"interval_ms": 30.0}, "committer": {"interval_ms": 90.0}}, 200.0)
    assert list(rows["t_submit"]) == [100.0, 190.0, 280.0]
    assert list(rows["t_data_start"]) == [0.0, 100.0, 190.0]


@both_engines
def test_no_writer_of_a_class_starts_after_its_end(engine: Engine) -> None:
    rows, missed = run(engine, {"writers": 1, "every_ms": 100.0, "phase": "aligned", "end_ms": 250.0}, 600.0)
    assert list(rows["t_submit"]) == [0.0, ALONE]
    assert missed == 2
