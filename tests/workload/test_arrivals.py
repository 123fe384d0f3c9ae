"""Arrival processes: writers, schedules, traces, and classes with start and end, on both engines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.arithmetic.costs import scheduled_delay_ms
from endive.config import compute_experiment_hash
from endive.config.load import check_document
from endive.storage import FixedLatency
from endive.workload import (
    ClosedArrivals,
    ScheduledArrivals,
    TraceArrivals,
    WorkloadClass,
    WriterArrivals,
)
from tests.config import problems
from tests.simulation.runs import ENGINES, Engine, frame_of

Tree = dict[str, Any]
both_engines = pytest.mark.parametrize("engine", ENGINES)


def run_of(cls: Tree, duration_ms: float = 10_000.0, **catalog: Any) -> Tree:
    """Return a run of one class on an object store with 1 ms latency."""
    return {
        "simulation": {"duration_ms": duration_ms, "seed": 5},
        "storage": {"provider": "instant"},
        "catalog": catalog,
        "workload": {"w": {"operation": "fast_append", "runtime": {"distribution": "fixed", "value": 1.0}, **cls}},
    }


class TestWriters:
    @both_engines
    def test_aligned_writers_submit_at_once(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of({"writers": 3, "every": "4s", "phase": "aligned"}))
        assert sorted(rows["t_submit"]) == [0.0] * 3 + [4_000.0] * 3 + [8_000.0] * 3
        assert sorted(rows["client"]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]

    @both_engines
    def test_staggered_writers_share_the_interval(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of({"writers": 4, "every_ms": 10_000, "phase": "staggered"}))
        assert sorted(rows["t_submit"]) == [0.0, 2_500.0, 5_000.0, 7_500.0]

    @both_engines
    def test_random_phases_are_kept_and_differ(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of({"writers": 5, "every": "1s"}))
        first = rows.groupby("client")["t_submit"].min()
        assert len(set(first)) == 5
        assert (first < 1_000.0).all()
        for _, times in rows.sort_values("t_submit").groupby("client")["t_submit"]:
            assert np.diff(times) == pytest.approx(1_000.0)

    def test_a_writer_more_moves_no_other(self) -> None:
        four = frame_of(ENGINES[0], run_of({"writers": 4, "every": "1s"}))
        five = frame_of(ENGINES[0], run_of({"writers": 5, "every": "1s"}))
        assert sorted(four["t_submit"]) == sorted(five[five["client"] < 4]["t_submit"])

    @both_engines
    def test_only_clients_of_a_closed_loop_have_numbers(self, engine: Engine) -> None:
        closed = frame_of(engine, run_of({"closed": {"clients": 3}}, duration_ms=500.0))
        assert set(closed["client"]) == {0, 1, 2}
        assert set(frame_of(engine, run_of({"rate": 5.0}))["client"]) == {-1}


class TestStartAndEnd:
    @both_engines
    @pytest.mark.parametrize("arrivals", [{"rate": 5.0}, {"closed": {"clients": 2}}, {"periodic": {"interval_ms": 100}}])
    def test_nothing_is_submitted_outside(self, engine: Engine, arrivals: Tree) -> None:
        rows = frame_of(engine, run_of({**arrivals, "start": "2s", "end": "6s"}))
        assert len(rows) > 5
        assert rows["t_submit"].min() >= 2_000.0
        assert rows["t_submit"].max() < 6_000.0

    def test_a_later_start_moves_arrivals_and_changes_nothing_else(self) -> None:
        early = frame_of(ENGINES[0], run_of({"rate": 5.0, "end_ms": 3_000}))
        late = frame_of(ENGINES[0], run_of({"rate": 5.0, "start_ms": 4_000, "end_ms": 7_000}))
        assert list(late["t_submit"]) == pytest.approx([time + 4_000.0 for time in early["t_submit"]])
        assert list(late["total_latency"]) == pytest.approx(list(early["total_latency"]))

    def test_a_class_is_steady_unless_it_begins_ends_or_changes(self) -> None:
        runtime = FixedLatency(1.0)
        writers = WriterArrivals(2, 10.0)
        assert WorkloadClass("w", writers, runtime).is_steady
        assert not WorkloadClass("w", writers, runtime, start_ms=5.0).is_steady
        assert not WorkloadClass("w", writers, runtime, end_ms=5.0).is_steady
        assert not WorkloadClass("w", ScheduledArrivals(((0.0, 1.0),)), runtime).is_steady


class TestSchedule:
    @both_engines
    def test_each_step_has_its_rate(self, engine: Engine) -> None:
        steps = [{"from": "0s", "rate": 20.0}, {"from": "20s", "rate": 0.0}, {"from": "40s", "rate": 80.0}]
        rows = frame_of(engine, run_of({"schedule": steps}, duration_ms=60_000.0))
        counts, _ = np.histogram(rows["t_submit"], [0.0, 20_000.0, 40_000.0, 60_000.0])
        assert counts[1] == 0
        assert abs(counts[0] - 400) < 4 * math.sqrt(400)
        assert abs(counts[2] - 1_600) < 4 * math.sqrt(1_600)

    def test_one_step_is_a_rate(self) -> None:
        scheduled = frame_of(ENGINES[0], run_of({"schedule": [{"from": 0, "rate": 5.0}]}))
        constant = frame_of(ENGINES[0], run_of({"rate": 5.0}))
        assert list(scheduled["t_submit"]) == pytest.approx(list(constant["t_submit"]))

    @given(
        st.lists(st.tuples(st.floats(0.1, 100.0), st.sampled_from([0.0, 0.001, 0.02, 1.0])), min_size=1, max_size=6),
        st.floats(0.0, 300.0),
        st.floats(0.001, 5.0),
    )
    def test_the_delay_inverts_the_cumulative_rate(self, widths: list[tuple[float, float]], now: float, unit: float) -> None:
        starts = [float(start) for start in np.cumsum([0.0, *(width for width, _ in widths[:-1])])]
        rates = [rate for _, rate in widths]
        flat = [number for step in zip(starts, rates, strict=True) for number in step]

        def cumulative(time: float) -> float:
            ends = [*starts[1:], math.inf]
            return sum(
                max(0.0, min(time, end) - start) * rate for start, end, rate in zip(starts, ends, rates, strict=True) if rate > 0.0
            )

        delay = scheduled_delay_ms(now, unit, flat, len(rates))
        if delay == math.inf:
            assert rates[-1] == 0.0
            assert cumulative(starts[-1]) - cumulative(now) <= unit + 1e-9
        else:
            assert delay >= 0.0
            assert cumulative(now + delay) - cumulative(now) == pytest.approx(unit, rel=1e-6, abs=1e-9)

    def test_expected_numbers(self) -> None:
        schedule = ScheduledArrivals(((0.0, 1.0), (5_000.0, 4.0)))
        assert schedule.expected_submissions(10_000.0) == pytest.approx(25.0)
        assert WriterArrivals(3, 1_000.0).expected_submissions(10_000.0) == pytest.approx(30.0)
        with pytest.raises(TypeError):
            ClosedArrivals(2, FixedLatency(90.0)).expected_submissions(10_000.0)


TRACE = """time_ms,operation,runtime_ms,table,partitions
5,fast_append,20,1,0;2
5,,,,
30.25,merge_append,1.5,0,1
900,read_only,2s,,
"""


class TestTrace:
    @both_engines
    def test_submissions_have_exactly_the_times_of_the_trace(self, engine: Engine, tmp_path: Path) -> None:
        times = [2.2, 12.6, 12.6]
        assert 2.2 + (12.6 - 2.2) != 12.6, "a sum of delays misses the time"
        path = tmp_path / "trace.csv"
        path.write_text("".join(f"{line}\n" for line in ("time_ms", *times)))
        rows = frame_of(engine, run_of({"trace": str(path)}))
        assert rows.sort_values("txn_id")["t_submit"].tolist() == times

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "trace.csv"
        path.write_text(TRACE)
        return path

    def tree(self, path: Path) -> Tree:
        tree = run_of({"trace": str(path)}, num_tables=2, partitions={"num_partitions": 3})
        del tree["workload"]["w"]["operation"], tree["workload"]["w"]["runtime"]
        return tree

    @both_engines
    def test_it_is_replayed_as_it_is(self, engine: Engine, path: Path) -> None:
        rows = frame_of(engine, self.tree(path)).sort_values("txn_id")
        assert list(rows["t_submit"]) == pytest.approx([5.0, 5.0, 30.25, 900.0])
        named = rows.iloc[[0, 2, 3]]
        assert list(named["operation_type"]) == ["fast_append", "merge_append", "read_only"]
        assert list(named["t_runtime"]) == [20.0, 1.5, 2_000.0]
        assert [list(tables) for tables in named["tables_written"]] == [[1], [0], []]

    def test_a_parquet_file_is_the_same(self, path: Path, tmp_path: Path) -> None:
        table = pa.table(
            {
                "time": [5.0, 5.0, 30.25, 900.0],
                "operation": ["fast_append", None, "merge_append", "read_only"],
                "runtime": [20.0, None, 1.5, 2_000.0],
                "table": [1, None, 0, None],
                "partitions": [[0, 2], None, [1], None],
            }
        )
        other = tmp_path / "trace.parquet"
        pq.write_table(table, other)
        first, second = (frame_of(ENGINES[0], self.tree(each)) for each in (path, other))
        assert first.equals(second)

    def test_a_trace_is_identified_by_its_content(self, path: Path, tmp_path: Path) -> None:
        before = compute_experiment_hash(check_document(self.tree(path), "test"))
        moved = path.rename(tmp_path / "moved.csv")
        assert compute_experiment_hash(check_document(self.tree(moved), "test")) == before
        moved.write_text(TRACE.replace("30.25", "30.5"))
        assert compute_experiment_hash(check_document(self.tree(moved), "test")) != before

    def test_its_path_is_relative_to_the_file(self, path: Path) -> None:
        document = check_document(self.tree(Path("trace.csv")), "test", path.parent)
        assert document.workload["w"].trace == str(path)

    def test_the_model_wants_it_in_order(self) -> None:
        with pytest.raises(ValueError, match="chronological order"):
            TraceArrivals(())

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("time_ms\n5\n3\n", "row 2 is at 3 ms and row 1 at 5 ms; sort the rows by time"),
            (
                "time_ms\n5\n12000\n",
                "row 2 is at 12000 ms, after the end of the run at 2000 ms; set simulation.duration_ms = 120",
            ),
            ("time_ms\n", "must have at least one row"),
            ("tme_ms\n5\n", "unknown column 'tme_ms'; did you mean 'time_ms'?"),
            ("operation\nfast_append\n", "must have a column 'time_ms'"),
            ("time_ms,operation\n5,fast_apend\n", "row 1: unknown operation 'fast_apend'; did you mean 'fast_append'?"),
            ("time_ms,table\n5,1\n", "row 1: table must be from 0 to 0, not 1"),
            ("time_ms,table,partitions\n5,0,0;1\n", "row 1: partitions of table 0 must be from 0 to 0, not 1"),
            ("time_ms,partitions\n5,0\n", "row 1: partitions require a table"),
            ("time_ms,runtime\n5,-3\n", "row 1: runtime_ms must be a finite number"),
            ("time_ms,runtime\n5,4 mins\n", 'row 1: runtime_ms must be a number of milliseconds or a duration such as "250ms"'),
            ("time_ms,time\n5,5\n", "column 'time' is an alias of 'time_ms'"),
            ("time_ms,table\n5,0.5\n", "row 1: table must be a whole number"),
            ("time_ms\nsoon\n", "row 1: time_ms must be"),
        ],
    )
    def test_invalid_traces_are_reported(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "trace.csv"
        path.write_text(text)
        assert message in problems(f"[workload.w]\ntrace = '{path}'", over=_RUN)["workload.w.trace"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("time_ms,operation\n5," + "x" * 900_000, "unknown operation"),
            ("x" * 900_000 + "\n5\n", "unknown column"),
            ("time_ms,operation\n5," + "x" * 2_000_000, "unknown operation"),
            ("time_ms\n5," + "x" * 900_000, "cannot be read: CSV parse error"),
        ],
    )
    def test_a_huge_field_is_reported_in_a_line(self, tmp_path: Path, text: str, message: str) -> None:
        path = tmp_path / "trace.csv"
        path.write_text(text)
        answer = problems(f"[workload.w]\ntrace = '{path}'", over=_RUN)["workload.w.trace"]
        assert message in answer
        assert len(answer) < 1_500

    def test_a_file_that_is_missing_or_of_another_kind(self, tmp_path: Path) -> None:
        assert "no such file" in problems("[workload.w]\ntrace = 'none.csv'", over=_RUN)["workload.w.trace"]
        other = tmp_path / "trace.json"
        other.write_text("{}")
        assert ".parquet or .csv" in problems(f"[workload.w]\ntrace = '{other}'", over=_RUN)["workload.w.trace"]

    def test_keys_that_it_leaves_without_effect(self, tmp_path: Path) -> None:
        path = tmp_path / "trace.csv"
        path.write_text("time_ms,operation\n5,fast_append\n")
        found = problems(f"[workload.w]\ntrace = '{path}'\noperation = 'fast_append'", over=_RUN)
        assert "has no effect: every row of the trace has a value for operation" in found["workload.w.operation"]


_RUN = """
[simulation]
duration_ms = 2_000
[storage]
provider = "instant"
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedule = []", 'schedule must have at least one step, such as schedule = [{ from = "0s", rate = 2.0 }]'),
        ("schedule = [{ from = 5, rate = 1 }, { from = 5, rate = 2 }]", "must be in chronological order, but 5 ms follows 5 ms"),
        ("schedule = [{ from = 0, rate = 0 }]", "must have a rate above 0 before simulation.duration_ms = 2000"),
        ("schedule = [{ from = '3s', rate = 5 }]", "must have a rate above 0 before simulation.duration_ms = 2000"),
        ("schedule = [{ from = 0, rate = 5 }]\nrate = 3", "rate and schedule cannot be set together"),
        ("schedule = [{ from = 0, rate = 5 }]\nstart = 3", "start_ms has no effect with schedule"),
        ("writers = 3", 'writers needs every, such as every = "10s"'),
        ("rate = 3\nevery = '1s'", "every_ms needs writers, such as writers = 1"),
        ("rate = 3\nphase = 'random'", "phase needs writers"),
        ("writers = 3\nevery = '1s'\nphase = 'randm'", "did you mean 'random'?"),
        ("writers = 3\nevery = '1 sec'", 'did you mean "1s"?'),
        ("writers = 0\nevery = '1s'", "greater than or equal to 1"),
        ("rate = 3\nstart = '1s'\nend = '1s'", "end_ms 1000 must be later than start_ms 1000"),
        ("rate = 3\nstart = '5s'", "must be below simulation.duration_ms = 2000"),
        ("rate = 3\nstart = '1s'\nstart_ms = 1000", "is an alias of workload.w.start_ms; keep one of them"),
    ],
)
def test_contradictions_are_named(text: str, message: str) -> None:
    found = problems(f"[workload.w]\n{text}", over=_RUN)
    assert any(message in each for each in found.values()), found


def test_an_override_replaces_either_spelling() -> None:
    text = "[workload.w]\nwriters = 2\nevery_ms = 500"
    assert problems(text, {"workload.w.every": "1s"}, over=_RUN) == {}
