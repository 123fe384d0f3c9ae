"""The answer in words: what it says of curves, of configurations and of single runs, and what it warns of."""

from __future__ import annotations

from typing import Any

import pytest

from endive.report.answer import answer_of, warnings_of
from endive.report.phrases import between, duration, listed, measured, percent, times
from tests.report.made_up import made_up

CURVE = [
    {"x": 2.0, "commit_latency_p50_ms": 120.0},
    {"x": 4.0, "success_rate": 0.99, "throughput_per_s": 3.9},
    {"x": 8.0, "success_rate": 0.8, "throughput_per_s": 6.1, "throughput_per_s_hw": 0.2, "commit_latency_p50_ms": 2400.0},
]


def test_a_curve_that_saturates() -> None:
    time = {"mean_per_attempt_io_ms": 71.0, "mean_catalog_commit_ms": 29.0, "mean_t_runtime": 9000.0}
    time |= {"mean_catalog_read_ms": 0.0, "mean_conflict_io_ms": 0.0, "mean_t_backoff": 0.0}
    assert answer_of(made_up([{**point, **time} for point in CURVE])) == [
        "Throughput saturates at 6.1 ± 0.2 commits/s.",
        "Above 4/s fewer than 99 % of transactions commit.",
        "The median commit latency is 120 ms at 2/s and 2.4 s at 8/s, where 1 % take more than 400 ms.",
        "Of the time of a commit, most goes into I/O of attempts: 71 % with 4/s.",
    ]


def test_a_curve_that_does_not_saturate_is_not_said_to() -> None:
    study = made_up([{"x": 2.0}, {"x": 4.0}])
    first, second, *_ = answer_of(study)
    assert first == "Throughput follows the load up to 4.00 ± 0.02 commits/s, at 4/s."
    assert second == "The load is carried up to 4/s, the highest load tried: 99 % or more commit."
    assert warnings_of(study) == [
        "1 configuration carried the highest load tried: where saturation begins, only higher loads tell."
    ]


def test_a_curve_that_is_saturated_from_the_start() -> None:
    study = made_up([{"x": 2.0, "success_rate": 0.5}, {"x": 4.0, "success_rate": 0.4}])
    assert "Already at 2/s, the lowest load tried, fewer than 99 % of transactions commit." in answer_of(study)
    assert any("only lower loads tell" in warning for warning in warnings_of(study))


def test_throughput_that_stays_behind_is_named_as_the_reason() -> None:
    study = made_up([{"x": 2.0}, {"x": 4.0, "throughput_per_s": 3.0}])
    assert "Above 2.4/s less than 95 % of the offered load is committed." in answer_of(study)


def test_the_best_and_the_worst_of_several_configurations() -> None:
    fast = [{**point, "series": "S3 Express", "throughput_per_s": point["x"], "success_rate": 1.0} for point in CURVE]
    middle = [{**point, "series": "Azure", "throughput_per_s": 0.9 * point["x"]} for point in CURVE]
    slow = [{**point, "throughput_per_s": min(point["x"], 2.0)} for point in CURVE]
    answer = answer_of(made_up([*fast, *middle, *slow]))
    assert answer[0] == "S3 Express commits the most: up to 8.0 ± 0.2 commits/s, 4 times as much as S3 (2.00 ± 0.02)."
    assert answer[1].startswith("With S3 Express, the load is carried up to 8/s")
    assert answer[2].startswith("With S3, above 2.2/s less")
    assert answer[3] == "At 8/s, the median commit latency is about 2.4 s in all configurations."


def test_configurations_that_are_alike_are_not_ranked_by_noise() -> None:
    points = [
        {"x": x, "series": name, "throughput_per_s": x + noise} for x in (2.0, 4.0) for name, noise in (("a", 0.0), ("b", 0.01))
    ]
    assert answer_of(made_up(points))[:2] == [
        "All configurations reach about 4.01 commits/s.",
        "In all 2 configurations, the load is carried up to 4/s, the highest load tried: 99 % or more commit.",
    ]


def test_configurations_without_a_load() -> None:
    points = [
        {"x": 1.0, "throughput_per_s": 2.0, "success_rate": 0.7, "commit_latency_p50_ms": 900.0},
        {"x": 16.0, "throughput_per_s": 6.0, "commit_latency_p50_ms": 90.0},
    ]
    study = made_up(points, by_load=False, column="param_catalog_num_tables", title="tables")
    assert answer_of(study)[:3] == [
        "Throughput is highest with tables = 16: 6.00 ± 0.02 commits/s, 3 times as much as with tables = 1 (2.00 ± 0.02).",
        "In 1 of 2 configurations fewer than 99 % of transactions commit; fewest with tables = 1: 70 %.",
        "The median commit latency is lowest with tables = 16 (90 ms) and highest, 10 times as much, with tables = 1 (900 ms).",
    ]


@pytest.mark.parametrize("success", [None, 1.0, 0.998])
def test_a_single_run(success: float | None) -> None:
    first, second, third = answer_of(made_up([{"success_rate": success, "offered_per_s_hw": None, "throughput_per_s_hw": None}]))
    told = {None: "none has finished", 1.0: "100 % of the transactions commit", 0.998: "99.8 % of the transactions commit"}[success]
    assert first == f"2 commits/s of 2 offered transactions/s; {told}."
    assert second == "Half of the commits take at most 100 ms, 99 % at most 400 ms, after 0.5 retries on average."
    assert third.startswith("20 % of the time of a commit goes into ")


def test_nothing_committed_is_said_without_latencies() -> None:
    nothing = {"success_rate": 0.0, "throughput_per_s": 0.0, "commit_latency_p50_ms": None}
    nothing |= {f"mean_{name}": None for name in ("catalog_read_ms", "per_attempt_io_ms", "conflict_io_ms", "t_backoff")}
    answer = answer_of(made_up([{**nothing, "mean_catalog_commit_ms": None}]))
    assert answer == ["0.00 ± 0.02 commits/s of 2.000 ± 0.010 offered transactions/s; 0 % of the transactions commit."]


def test_the_class_that_cannot_commit_is_named_with_its_threshold() -> None:
    upkeep = [(2.0, 1.0), (4.0, 0.98), (8.0, 0.0)]
    points = [{**point, "experiment": f"study-{i}"} for i, point in enumerate(CURVE)]
    points += [
        {"x": x, "workload_class": "upkeep", "success_rate": s, "experiment": f"study-{i}"} for i, (x, s) in enumerate(upkeep)
    ]
    points += [{"x": x, "workload_class": "ingest", "experiment": f"study-{i}"} for i, (x, _) in enumerate(upkeep)]
    answer = answer_of(made_up(points))
    assert (
        "Upkeep cannot commit with 8 ingest transactions/s: 0 % of its transactions get through, and fewer than 99 % above 3 ingest"
        in (answer[-2])
    )
    assert answer[-1] == "Of ingest, 99 % or more commit everywhere."


def test_a_class_of_which_nothing_has_finished() -> None:
    points = [{"workload_class": name, "success_rate": success} for name, success in (("all", 1.0), ("a", 1.0), ("b", None))]
    assert "None of the transactions of b has finished." in answer_of(made_up(points))


def test_classes_are_passed_over_where_there_is_one() -> None:
    points = [{"workload_class": name, "success_rate": 0.5} for name in ("all", "a")]
    assert not any(" a" in sentence[:8] for sentence in answer_of(made_up(points)))


def test_warnings_of_seeds_warm_up_and_what_still_runs() -> None:
    few = {"n_seeds": 1, "few_seeds": True, "warmup_settled": False, "in_flight": 100.0}
    assert warnings_of(made_up([few])) == [
        "Only 1 seed: intervals need 3 or more to say something.",
        "The run did not settle, or is too short to tell; a longer duration makes it surer.",
        "Up to 10 % of the transactions were still running at the end; a longer duration makes throughput surer.",
    ]
    some = warnings_of(made_up([{"x": 2.0, **few, "n_seeds": 2}, {"x": 4.0, "success_rate": 0.5}]))
    assert "1 of 2 experiments have fewer than 3 seeds: their intervals say little." in some


@pytest.mark.parametrize(
    ("value", "half_width", "told"),
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
def test_numbers_end_where_their_interval_begins(value: float, half_width: float | None, told: str) -> None:
    assert measured(value, half_width) == told


@pytest.mark.parametrize(
    ("share", "told"),
    [(1.0, "100 %"), (0.99999, "99.999 %"), (0.999999, "more than 99.999 %"), (0.9989, "99.9 %"), (0.8333, "83 %"), (0.0, "0 %")],
)
def test_what_is_not_quite_all_is_not_called_all(share: float, told: str) -> None:
    assert percent(share) == told


def test_small_words() -> None:
    assert percent(0.0001) == "0.01 %"
    assert percent(0.0000001) == "less than 0.001 %"
    assert [duration(ms) for ms in (12.345, 1500.0, 1_200_000.0)] == ["12.3 ms", "1.5 s", "20 min"]
    assert [times(factor) for factor in (2.71, 13.6)] == ["2.7 times", "14 times"]
    assert between(1.001, 1.002) == ""
    assert [between(1.0, 2.0), between(1.0, None), between(None, 2.0), between(None, None)] == [
        " (1 to 2)",
        " (at least 1)",
        " (at most 2)",
        "",
    ]
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_a_class_that_commits_in_one_configuration_and_not_in_another_and_why() -> None:
    points: list[dict[str, Any]] = [{"series": series} for series in ("compaction", "overwrite", "merging")]
    points += [
        {"workload_class": "upkeep", "series": "compaction"},
        {"workload_class": "upkeep", "series": "overwrite", "success_rate": 0.0, "manifest_list_reads_per_txn": 9000.0},
        {"workload_class": "upkeep", "series": "merging", "success_rate": 0.3, "manifest_file_reads_per_txn": 500.0},
    ]
    points += [{"workload_class": "ingest", "series": series} for series in ("compaction", "overwrite", "merging")]
    answer = answer_of(made_up(points, by_load=False))
    assert answer[:2] == [
        "Upkeep commits with compaction, but only 0 % with overwrite and 30 % with merging.",
        "What holds it up is what each of its transactions reads: 9,000 manifest lists with overwrite (against 1) and 500 "
        "manifests with merging (against 1).",
    ]
