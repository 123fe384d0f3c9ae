"""What a run amounts to, against the rows themselves."""

from __future__ import annotations

import json
import math

import numpy as np
import numpy.typing as npt
import pytest

from endive.simulation import RunCounters, Simulation, Statistics, Summary
from endive.simulation.columns import IO_COLUMNS, TIME_COLUMNS
from endive.simulation.summary import PERCENTILES, LatencyHistogram
from tests.config import built

MIXED = """
[transaction]
retry = 2
real_conflict_probability = 0.5
[transaction.operation_types]
fast_append = 1
merge_append = 1
validated_overwrite = 1
read_only = 1
[workload.a]
rate = 10.0
[workload.b]
"""


def summarised(text: str) -> tuple[Summary, Statistics]:
    statistics = Simulation(built(text)).run()
    summary = Summary(2_000.0)
    for batch in statistics.to_table().to_batches(max_chunksize=7):
        summary(batch)
    return summary, statistics


def draws(name: str, n: int) -> npt.NDArray[np.float64]:
    rng = np.random.default_rng(3)
    shapes = {
        "exponential": rng.exponential(300.0, n),
        "lognormal": rng.lognormal(8.0, 2.0, n),
        "uniform": rng.uniform(0.01, 5.0, n),
        "hours": rng.normal(4e7, 1e6, n),
    }
    return shapes[name]


@pytest.mark.parametrize("n", [1, 2, 10, 9_999])
@pytest.mark.parametrize("name", ["exponential", "lognormal", "uniform", "hours"])
def test_percentiles_are_those_of_numpy(name: str, n: int) -> None:
    values = draws(name, n)
    histogram = LatencyHistogram()
    for part in np.array_split(values, 3):
        histogram.add(part)
    for percent in (1, 25, *PERCENTILES, 100):
        exact = float(np.percentile(values, percent, method="inverted_cdf"))
        assert histogram.percentile_ms(percent) == pytest.approx(exact, rel=0.002)


def test_percentiles_of_nothing() -> None:
    assert LatencyHistogram().percentile_ms(50) is None


def test_a_latency_of_nothing_is_nothing() -> None:
    histogram = LatencyHistogram()
    histogram.add(np.array([0.0, 0.0, 5.0]))
    assert histogram.percentile_ms(50) == 0.0
    assert histogram.percentile_ms(99) == pytest.approx(5.0, rel=0.002)


def test_counts_are_those_of_the_rows() -> None:
    summary, statistics = summarised(MIXED)
    frame = statistics.to_dataframe()
    result = summary.to_dict(statistics.counters)
    groups = {(group["workload_class"], group["operation_type"]): group for group in result["by_class_and_operation"]}
    assert set(groups) == set(zip(frame.workload_class, frame.operation_type, strict=True))
    assert len(groups) == 8
    for (cls, operation), group in [*groups.items(), (("", ""), result["total"])]:
        rows = frame if not cls else frame[(frame.workload_class == cls) & (frame.operation_type == operation)]
        committed = rows[rows.status == "committed"]
        assert group["transactions"] == len(rows)
        assert group["committed"] == len(committed)
        assert group["aborted"] == (rows.status == "aborted").sum()
        assert group["in_flight"] == (rows.status == "in_flight").sum()
        assert group["abort_reasons"] == rows.abort_reason.dropna().value_counts().to_dict()
        assert group["n_retries"] == rows.n_retries.sum()
        assert group["retries_per_transaction"] == rows.n_retries.sum() / len(rows)
        for name in (*IO_COLUMNS, *TIME_COLUMNS):
            assert math.isclose(group[name], rows[name].sum(), rel_tol=1e-9)
        assert group["throughput_per_s"] == len(committed) / 2.0
        finished = group["committed"] + group["aborted"]
        assert group["success_rate"] == (group["committed"] / finished if finished else None)
        for name, column in (("commit_latency_ms", committed.commit_latency), ("total_latency_ms", committed.total_latency)):
            exact = np.percentile(column, 95, method="inverted_cdf") if len(column) else None
            assert group[name]["p95"] == (None if exact is None else pytest.approx(exact, rel=0.002))
    assert result["total"]["abort_reasons"].keys() == {"max_retries_exceeded", "validation_exception"}


def test_batches_make_no_difference() -> None:
    summary, statistics = summarised(MIXED)
    at_once = Summary(2_000.0)
    for batch in statistics.to_table().to_batches():
        at_once(batch)
    small, large = (item.to_dict(statistics.counters) for item in (summary, at_once))
    assert small["total"]["commit_latency_ms"] == large["total"]["commit_latency_ms"]
    assert small["total"]["committed"] == large["total"]["committed"]


def test_the_counters_of_the_catalog_are_there() -> None:
    summary, statistics = summarised("")
    counters = summary.to_dict(statistics.counters)["counters"]
    assert counters["commit_success"] == statistics.committed
    assert {"append_physical_failure", "append_compactions_completed", "manifest_append_sealed_rewrite"} <= set(counters)


def test_an_empty_run_has_no_rates_and_no_nan() -> None:
    summary = Summary(1_000.0)
    result = summary.to_dict(RunCounters({}))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["total"]["transactions"] == 0
    assert result["total"]["throughput_per_s"] == 0.0
    assert result["total"]["success_rate"] is None
    assert result["total"]["total_latency_ms"] == {"p50": None, "p95": None, "p99": None}
    assert result["by_class_and_operation"] == []


def test_commits_after_the_end_are_no_throughput() -> None:
    """Draining lets transactions finish, but what they do after the end was not done within the duration."""
    text = '[simulation]\ndrain = true\n[transaction]\nruntime = { distribution = "fixed", value = 1_500 }'
    over = Simulation(built(text.replace("[transaction]", "[workload.a]"))).run()
    summary = Summary(2_000.0)
    for batch in over.to_table().to_batches():
        summary(batch)
    total = summary.to_dict(over.counters)["total"]
    in_time = sum(0.0 <= txn.commit_time_ms <= 2_000.0 for txn in over.transactions)
    assert total["throughput_per_s"] == in_time / 2.0
    assert 0 < in_time < total["committed"]
