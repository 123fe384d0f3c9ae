"""The summary of a run, compared with its rows."""

from __future__ import annotations

import json
import math

from endive.simulation import RunCounters, Simulation, Statistics, Summary
from endive.simulation.columns import IO_COLUMNS, TIME_COLUMNS
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


def test_counts_are_those_of_the_rows() -> None:
    summary, statistics = summarised(MIXED)
    frame = statistics.to_dataframe()
    result = summary.to_dict(statistics.counters)
    groups = {(group["workload_class"], group["operation_type"]): group for group in result["by_class_and_operation"]}
    assert set(groups) == set(zip(frame.workload_class, frame.operation_type, strict=True))
    assert len(groups) == 8
    for (cls, operation), group in [*groups.items(), (("", ""), result["total"])]:
        rows = frame if not cls else frame[(frame.workload_class == cls) & (frame.operation_type == operation)]
        assert group["transactions"] == len(rows)
        assert group["committed"] == (rows.status == "committed").sum()
        assert group["aborted"] == (rows.status == "aborted").sum()
        assert group["in_flight"] == (rows.status == "in_flight").sum()
        assert group["abort_reasons"] == rows.abort_reason.dropna().value_counts().to_dict()
        assert group["n_retries"] == rows.n_retries.sum()
        for name in (*IO_COLUMNS, *TIME_COLUMNS):
            assert math.isclose(group[name], rows[name].sum(), rel_tol=1e-9)
    assert result["total"]["abort_reasons"].keys() == {"max_retries_exceeded", "validation_exception"}


def test_batches_make_no_difference() -> None:
    summary, statistics = summarised(MIXED)
    at_once = Summary(2_000.0)
    for batch in statistics.to_table().to_batches():
        at_once(batch)
    small, large = (item.to_dict(statistics.counters) for item in (summary, at_once))
    assert small["total"]["committed"] == large["total"]["committed"]


def test_the_counters_of_the_catalog_are_there() -> None:
    summary, statistics = summarised("")
    counters = summary.to_dict(statistics.counters)["counters"]
    assert counters["commit_success"] == statistics.committed
    assert {"append_physical_failure", "append_compactions_completed", "manifest_append_sealed_rewrite"} <= set(counters)


def test_an_empty_run_has_no_nan() -> None:
    summary = Summary(1_000.0)
    result = summary.to_dict(RunCounters({}))
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["total"]["transactions"] == 0
    assert result["by_class_and_operation"] == []
