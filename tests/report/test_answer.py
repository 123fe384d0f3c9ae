"""The answer in words: what it says of curves, of configurations and of single runs, and what it warns of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from endive.formatting import (
    format_duration,
    format_estimate,
    format_interval,
    format_minimum_duration,
    format_percent,
    format_ratio,
    join_names,
)
from endive.report.answer import answer_study, describe_windows, warn_study
from tests.report.synthetic import synthetic_study

CURVE = [
    {"x": 2.0, "time_to_commit_p50_ms": 120.0},
    {"x": 4.0, "success_rate": 0.99, "throughput_per_s": 3.9},
    {"x": 8.0, "success_rate": 0.8, "throughput_per_s": 6.1, "throughput_per_s_hw": 0.2, "time_to_commit_p50_ms": 2400.0},
]


def test_a_curve_that_saturates() -> None:
    time = {"mean_per_attempt_io_ms": 71.0, "mean_catalog_commit_ms": 29.0, "mean_t_runtime": 9000.0}
    time |= {"mean_catalog_read_ms": 0.0, "mean_conflict_io_ms": 0.0, "mean_t_backoff": 0.0}
    assert answer_study(synthetic_study([{**point, **time} for point in CURVE])) == [
        "Throughput saturates at 6.1 ± 0.2 commits/s.",
        "Maximum sustainable load: 4/s (4–8). At higher loads, fewer than 99% of transactions commit.",
        "The p50 of the time to commit is 120 ms at 2/s and 2.4 s at 8/s (p99 400 ms).",
        "Metadata I/O dominates commit time at 4/s (71%).",
    ]


def test_a_curve_that_does_not_saturate() -> None:
    study = synthetic_study([{"x": 2.0}, {"x": 4.0}])
    first, second, *_ = answer_study(study)
    assert first == "Throughput follows the offered load up to 4.00 ± 0.02 commits/s, at 4/s."
    assert second == "The highest simulated load, 4/s, is sustained: at least 99% of transactions commit."
    assert warn_study(study) == [
        "1 configuration sustains the highest simulated load. Add higher loads to find the maximum sustainable load."
    ]


def test_a_curve_that_is_saturated_from_the_start() -> None:
    study = synthetic_study([{"x": 2.0, "success_rate": 0.5}, {"x": 4.0, "success_rate": 0.4}])
    assert "The lowest simulated load, 2/s, is not sustained: fewer than 99% of transactions commit." in answer_study(study)
    assert any("Add lower loads" in warning for warning in warn_study(study))


def test_throughput_that_stays_behind_is_named_as_the_reason() -> None:
    study = synthetic_study([{"x": 2.0}, {"x": 4.0, "throughput_per_s": 3.0}])
    assert "Maximum sustainable load: 2.3/s (2–4). At higher loads, less than 95% of the offered load commits." in answer_study(
        study
    )


def test_the_best_and_the_worst_of_several_configurations() -> None:
    fast = [{**point, "series": "S3 Express", "throughput_per_s": point["x"], "success_rate": 1.0} for point in CURVE]
    middle = [{**point, "series": "Azure", "throughput_per_s": 0.9 * point["x"]} for point in CURVE]
    slow = [{**point, "throughput_per_s": min(point["x"], 2.0)} for point in CURVE]
    answer = answer_study(synthetic_study([*fast, *middle, *slow]))
    assert answer[0] == (
        "S3 Express reaches 4× the commit rate of S3: 8.0 ± 0.2 versus 2.00 ± 0.02 commits/s; in between: Azure (7.2 ± 0.2)."
    )
    assert answer[1].startswith("Maximum sustainable load: 2.14/s (2–4) with S3. At higher loads, less than 95%")
    assert answer[2].startswith("The highest simulated load, 8/s, is sustained with S3 Express")
    assert answer[3].startswith("The lowest simulated load, 2/s, is not sustained with Azure")
    assert answer[4] == "At 8/s, the p50 of the time to commit is about 2.4 s in all configurations."


def test_configurations_between_best_and_worst_are_counted() -> None:
    points = [{**point, "series": f"c{n}", "throughput_per_s": n * point["x"]} for n in range(1, 11) for point in CURVE]
    answer = answer_study(synthetic_study(points))
    assert "; 8 configurations are in between." in answer[0]
    assert answer[1].startswith("Maximum sustainable load in all configurations: 4/s (4–8).")


def test_configurations_that_are_alike_are_not_ranked_by_noise() -> None:
    points = [
        {"x": x, "series": name, "throughput_per_s": x + noise} for x in (2.0, 4.0) for name, noise in (("a", 0.0), ("b", 0.01))
    ]
    assert answer_study(synthetic_study(points))[:2] == [
        "Both configurations reach about 4.01 commits/s.",
        "The highest simulated load, 4/s, is sustained in all configurations: at least 99% of transactions commit.",
    ]


def test_configurations_without_a_load() -> None:
    points = [
        {"x": 1.0, "throughput_per_s": 2.0, "success_rate": 0.7, "time_to_commit_p50_ms": 900.0},
        {"x": 16.0, "throughput_per_s": 6.0, "time_to_commit_p50_ms": 90.0},
    ]
    study = synthetic_study(points, by_load=False, column="param_catalog_num_tables", title="tables")
    assert answer_study(study)[:3] == [
        "16 tables reach 3× the commit rate of 1 table: 6.00 ± 0.02 versus 2.00 ± 0.02 commits/s.",
        "Success is below 99% in 1 of 2 configurations and lowest with 1 table (70%).",
        "The p50 of the time to commit is lowest with 16 tables (90 ms) and highest with 1 table (900 ms, 10×).",
    ]


@pytest.mark.parametrize("success", [None, 1.0, 0.998])
def test_a_single_run(success: float | None) -> None:
    first, *rest = answer_study(synthetic_study([{"success_rate": success, "offered_per_s_hw": None, "throughput_per_s_hw": None}]))
    if success is None:
        assert first == "No transaction started committing in the measurement window."
    else:
        assert first == f"{'100%' if success == 1.0 else '99.8%'} of transactions commit: 2 commits/s at an offered load of 2/s."
        assert rest[0] == "Time to commit: p50 100 ms, p99 400 ms; 0.5 retries per transaction."
    assert rest[-1] == "Catalog reads are the largest component of commit time (20%)."


def test_percentiles_that_are_no_numbers_are_bounds_or_never() -> None:
    bounds: dict[str, Any] = {"time_to_commit_p50_ms": None, "time_to_commit_p50_at_least_ms": 12_000.0}
    bounds |= {"time_to_commit_p99_ms": None, "time_to_commit_p99_at_least_ms": math.inf}
    answer = answer_study(synthetic_study([bounds]))
    assert answer[1].startswith("Time to commit: p50 > 12 s, p99 aborted;")


def test_success_is_a_range_where_much_is_unfinished() -> None:
    first = answer_study(synthetic_study([{"success_rate": 1.0, "in_flight": 900.0}]))[0]
    assert first.startswith("10–100% of transactions commit: ")


def test_nothing_committed_is_reported() -> None:
    nothing: dict[str, Any] = {"success_rate": 0.0, "throughput_per_s": 0.0}
    for name in ("time_to_commit_p50", "time_to_commit_p99"):
        nothing |= {f"{name}_ms": None, f"{name}_at_least_ms": math.inf}
    nothing |= {f"mean_{name}": None for name in ("catalog_read_ms", "per_attempt_io_ms", "conflict_io_ms", "t_backoff")}
    answer = answer_study(synthetic_study([{**nothing, "mean_catalog_commit_ms": None}]))
    assert answer == [
        "0% of transactions commit: 0.00 ± 0.02 commits/s at an offered load of 2.000 ± 0.010/s.",
        "Time to commit: p50 aborted, p99 aborted; 0.5 retries per transaction.",
    ]


def test_the_class_that_cannot_commit_is_named_with_its_threshold() -> None:
    upkeep = [(2.0, 1.0), (4.0, 0.98), (8.0, 0.0)]
    points = [{**point, "experiment": f"study-{i}"} for i, point in enumerate(CURVE)]
    points += [
        {"x": x, "workload_class": "upkeep", "success_rate": s, "experiment": f"study-{i}"} for i, (x, s) in enumerate(upkeep)
    ]
    points += [{"x": x, "workload_class": "ingest", "experiment": f"study-{i}"} for i, (x, _) in enumerate(upkeep)]
    answer = answer_study(synthetic_study(points))
    assert answer[-2] == (
        "No upkeep transactions commit at 8 ingest transactions/s; success falls below 99% at 2.83 ingest transactions/s."
    )
    assert answer[-1] == "At least 99% of ingest transactions commit in all configurations."


def test_a_class_of_which_nothing_has_entered() -> None:
    points = [{"workload_class": name, "success_rate": success} for name, success in (("all", 1.0), ("a", 1.0), ("b", None))]
    assert "No b transaction started committing in the measurement window." in answer_study(synthetic_study(points))


def test_classes_are_passed_over_where_there_is_one() -> None:
    points = [{"workload_class": name, "success_rate": 0.5} for name in ("all", "a")]
    assert not any(" a" in sentence[:8] for sentence in answer_study(synthetic_study(points)))


def test_warnings_of_seeds_and_of_runs_that_are_too_short() -> None:
    few = {"n_seeds": 1, "few_seeds": True, "warmup_settled": False, "needed_ms": 1_378_000.0}
    assert warn_study(synthetic_study([few])) == [
        "The study has only 1 seed, and intervals need at least 3 seeds. Run more seeds.",
        "The run is too short: commits start at their steady rate only after 11.5 min. "
        "Set simulation.duration_ms to at least 23 min.",
    ]
    some = warn_study(synthetic_study([{"x": 2.0, **few, "n_seeds": 2}, {"x": 4.0, "success_rate": 0.5}]))
    assert "1 of 2 experiments has fewer than 3 seeds; its intervals are not reliable." in some


def test_overload_is_reported_without_asking_for_a_longer_run() -> None:
    """It was said that a longer duration would make it surer."""
    over = {"in_flight": 790.0, "throughput_per_s": 0.4, "warmup_settled": False, "needed_ms": 1_000_000.0}
    assert warn_study(synthetic_study([over])) == [
        "Overloaded: 79% of transactions are still in flight at the end of the run. A longer run does not help."
    ]
    several = warn_study(synthetic_study([{"x": 2.0}, {"x": 4.0, **over}]))
    assert any("1 of 2 experiments is overloaded. At 4/s, 79% of transactions" in warning for warning in several)
    failing = warn_study(synthetic_study([{"success_rate": 0.6}]))
    assert failing == ["Overloaded: 40% of transactions abort at this load."]
    growing = warn_study(synthetic_study([{"saturated": "backlog"}]))
    assert growing[0].startswith("Overloaded: transactions start to commit faster than they finish.")


def test_the_window_is_reported() -> None:
    assert describe_windows(synthetic_study([{}])) == "The first 100 s of 10 min are excluded as warm-up."
    other = synthetic_study([{"x": 1.0}, {"x": 2.0, "warmup_ms": 200_000.0, "window_ms": 400_000.0}])
    assert (
        describe_windows(other)
        == "The first 100 s to 3.33 min of the runs are excluded as warm-up, depending on the configuration."
    )


@pytest.mark.parametrize(
    ("value", "half_width", "data"),
    [
        (6.1234, 0.2, "6.1 ± 0.2"),
        (6.1234, 0.14, "6.12 ± 0.14"),
        (6.1234, 0.0961, "6.12 ± 0.10"),
        (12345.0, 300.0, "12,300 ± 300"),
        (6.1234, None, "6.12"),
        (6.1234, float("nan"), "6.12"),
        (6.1234, 0.0, "6.12"),
        (1234.5, None, "1,234"),
    ],
)
def test_numbers_end_where_their_interval_begins(value: float, half_width: float | None, data: str) -> None:
    assert format_estimate(value, half_width) == data


@pytest.mark.parametrize(
    ("share", "data"),
    [(1.0, "100%"), (0.9999, "99.99%"), (0.999999, ">99.999%"), (0.9989, "99.89%"), (0.8333, "83.3%"), (0.0, "0%")],
)
def test_a_share_below_one_is_not_rounded_to_100_percent(share: float, data: str) -> None:
    assert format_percent(share) == data


def test_small_words() -> None:
    assert format_percent(0.0001) == "0.01%"
    assert format_percent(0.0000001) == "<0.001%"
    assert [format_duration(ms) for ms in (12.345, 1500.0, 1_200_000.0)] == ["12.3 ms", "1.5 s", "20 min"]
    needed = [format_minimum_duration(ms) for ms in (12_000_000.0, 3_600_000.0, 333.4, 59_999_000.0)]
    assert needed == ["3.34 h", "1 h", "334 ms", "16.7 h"]
    assert [format_ratio(factor) for factor in (2.71, 13.6)] == ["2.7×", "14×"]
    assert format_interval(1.001, 1.002) == ""
    assert [format_interval(1.0, 2.0), format_interval(1.0, None), format_interval(None, 2.0), format_interval(None, None)] == [
        "1–2",
        "at least 1",
        "at most 2",
        "",
    ]
    assert join_names(["a", "b", "c"]) == "a, b and c"


def test_a_class_that_commits_in_one_configuration_and_not_in_another_and_why() -> None:
    points: list[dict[str, Any]] = [{"series": series} for series in ("compaction", "overwrite", "merging")]
    points += [
        {"workload_class": "upkeep", "series": "compaction"},
        {"workload_class": "upkeep", "series": "overwrite", "success_rate": 0.0, "manifest_list_reads_per_txn": 9000.0},
        {"workload_class": "upkeep", "series": "merging", "success_rate": 0.3, "manifest_file_reads_per_txn": 500.0},
    ]
    points += [{"workload_class": "ingest", "series": series} for series in ("compaction", "overwrite", "merging")]
    answer = answer_study(synthetic_study(points, by_load=False))
    assert answer[:2] == [
        "At least 99% of upkeep transactions commit with compaction, but only 0% with overwrite, 30% with merging.",
        "Metadata reads are the cause: 9,000 manifest lists per transaction with overwrite (at most 1 in the other "
        "configurations), 500 manifests per transaction with merging (at most 1 in the other configurations).",
    ]


def test_a_class_in_many_configurations_is_described_by_the_lowest() -> None:
    names = [f"design {number}" for number in range(8)]
    points: list[dict[str, Any]] = [{"series": name} for name in names]
    points += [{"workload_class": "upkeep", "series": name} for name in names[:5]]
    points += [
        {"workload_class": "upkeep", "series": "design 5", "success_rate": 0.2, "manifest_list_reads_per_txn": 9000.0},
        {"workload_class": "upkeep", "series": "design 6", "success_rate": 0.1, "manifest_list_reads_per_txn": 8000.0},
        {"workload_class": "upkeep", "series": "design 7", "success_rate": 0.3, "manifest_list_reads_per_txn": 7000.0},
    ]
    points += [{"workload_class": "ingest", "series": name} for name in names]
    answer = answer_study(synthetic_study(points, by_load=False))
    assert answer[:2] == [
        "At least 99% of upkeep transactions commit in 5 of 8 configurations; lowest success: 10% with design 6.",
        "Metadata reads are the cause: 8,000 manifest lists per transaction with design 6 (at most 1 in the other configurations).",
    ]
