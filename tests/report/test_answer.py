"""The answer in words: what it says of curves, of configurations and of single runs, and what it warns of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from endive.report.answer import answer_of, warnings_of, window_sentence
from endive.report.phrases import between, duration, listed, measured, percent, times
from tests.report.made_up import made_up

CURVE = [
    {"x": 2.0, "time_to_commit_p50_ms": 120.0},
    {"x": 4.0, "success_rate": 0.99, "throughput_per_s": 3.9},
    {"x": 8.0, "success_rate": 0.8, "throughput_per_s": 6.1, "throughput_per_s_hw": 0.2, "time_to_commit_p50_ms": 2400.0},
]


def test_a_curve_that_saturates() -> None:
    time = {"mean_per_attempt_io_ms": 71.0, "mean_catalog_commit_ms": 29.0, "mean_t_runtime": 9000.0}
    time |= {"mean_catalog_read_ms": 0.0, "mean_conflict_io_ms": 0.0, "mean_t_backoff": 0.0}
    assert answer_of(made_up([{**point, **time} for point in CURVE])) == [
        "Throughput saturates at 6.1 ± 0.2 commits/s.",
        "Above 4/s (4 to 8) fewer than 99 % of transactions commit.",
        "The median time to commit is 120 ms at 2/s and 2.4 s at 8/s, where 99 % commit within 400 ms.",
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
    assert "Above 2.3/s (2 to 4) less than 95 % of the offered load is committed." in answer_of(study)


def test_the_best_and_the_worst_of_several_configurations() -> None:
    fast = [{**point, "series": "S3 Express", "throughput_per_s": point["x"], "success_rate": 1.0} for point in CURVE]
    middle = [{**point, "series": "Azure", "throughput_per_s": 0.9 * point["x"]} for point in CURVE]
    slow = [{**point, "throughput_per_s": min(point["x"], 2.0)} for point in CURVE]
    answer = answer_of(made_up([*fast, *middle, *slow]))
    assert answer[0] == (
        "S3 Express commits the most: up to 8.0 ± 0.2 commits/s, 4 times as much as S3 (2.00 ± 0.02); "
        "between them Azure (7.2 ± 0.2)."
    )
    assert answer[1].startswith("With S3 Express, the load is carried up to 8/s")
    assert answer[2].startswith("With Azure, ")
    assert answer[3].startswith("With S3, above 2.14/s (2 to 4) less")
    assert answer[4] == "At 8/s, the median time to commit is about 2.4 s in all configurations."


def test_of_many_configurations_it_is_said_how_many_lie_between() -> None:
    points = [{**point, "series": f"c{n}", "throughput_per_s": n * point["x"]} for n in range(1, 11) for point in CURVE]
    answer = answer_of(made_up(points))
    assert "; 8 others lie between." in answer[0]
    assert answer[1].startswith("In all 10 configurations, ")


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
        {"x": 1.0, "throughput_per_s": 2.0, "success_rate": 0.7, "time_to_commit_p50_ms": 900.0},
        {"x": 16.0, "throughput_per_s": 6.0, "time_to_commit_p50_ms": 90.0},
    ]
    study = made_up(points, by_load=False, column="param_catalog_num_tables", title="tables")
    assert answer_of(study)[:3] == [
        "Throughput is highest with tables = 16: 6.00 ± 0.02 commits/s, 3 times as much as with tables = 1 (2.00 ± 0.02).",
        "In 1 of 2 configurations fewer than 99 % of transactions commit; fewest with tables = 1: 70 %.",
        "The median time to commit is lowest with tables = 16 (90 ms) and highest, 10 times as much, with tables = 1 (900 ms).",
    ]


@pytest.mark.parametrize("success", [None, 1.0, 0.998])
def test_a_single_run(success: float | None) -> None:
    first, *rest = answer_of(made_up([{"success_rate": success, "offered_per_s_hw": None, "throughput_per_s_hw": None}]))
    told = {None: "none has entered", 1.0: "100 % of those that entered commit", 0.998: "99.8 % of those that entered commit"}
    assert first == f"2 commits/s of 2 offered transactions/s; {told[success]}."
    times = "Time to commit of all that entered: half within 100 ms, 99 % within 400 ms, after 0.5 retries on average."
    assert rest[:-1] == ([] if success is None else [times])
    assert rest[-1].startswith("20 % of the time of a commit goes into ")


def test_percentiles_that_are_no_numbers_are_bounds_or_never() -> None:
    bounds: dict[str, Any] = {"time_to_commit_p50_ms": None, "time_to_commit_p50_at_least_ms": 12_000.0}
    bounds |= {"time_to_commit_p99_ms": None, "time_to_commit_p99_at_least_ms": math.inf}
    answer = answer_of(made_up([bounds]))
    assert answer[1].startswith("Time to commit of all that entered: half in more than 12 s, 99 % never,")


def test_success_is_a_range_where_much_is_unfinished() -> None:
    first = answer_of(made_up([{"success_rate": 1.0, "in_flight": 900.0}]))[0]
    assert first.endswith("; 10 to 100 % of those that entered commit.")


def test_nothing_committed_is_said() -> None:
    nothing: dict[str, Any] = {"success_rate": 0.0, "throughput_per_s": 0.0}
    for name in ("time_to_commit_p50", "time_to_commit_p99"):
        nothing |= {f"{name}_ms": None, f"{name}_at_least_ms": math.inf}
    nothing |= {f"mean_{name}": None for name in ("catalog_read_ms", "per_attempt_io_ms", "conflict_io_ms", "t_backoff")}
    answer = answer_of(made_up([{**nothing, "mean_catalog_commit_ms": None}]))
    assert answer == [
        "0.00 ± 0.02 commits/s of 2.000 ± 0.010 offered transactions/s; 0 % of those that entered commit.",
        "Time to commit of all that entered: half never, 99 % never, after 0.5 retries on average.",
    ]


def test_the_class_that_cannot_commit_is_named_with_its_threshold() -> None:
    upkeep = [(2.0, 1.0), (4.0, 0.98), (8.0, 0.0)]
    points = [{**point, "experiment": f"study-{i}"} for i, point in enumerate(CURVE)]
    points += [
        {"x": x, "workload_class": "upkeep", "success_rate": s, "experiment": f"study-{i}"} for i, (x, s) in enumerate(upkeep)
    ]
    points += [{"x": x, "workload_class": "ingest", "experiment": f"study-{i}"} for i, (x, _) in enumerate(upkeep)]
    answer = answer_of(made_up(points))
    assert (
        "cannot commit with 8 ingest transactions/s: 0 % of its transactions get through, and fewer than 99 % above 2.83 ingest"
        in (answer[-2])
    )
    assert answer[-1] == "Of ingest, 99 % or more commit everywhere."


def test_a_class_of_which_nothing_has_entered() -> None:
    points = [{"workload_class": name, "success_rate": success} for name, success in (("all", 1.0), ("a", 1.0), ("b", None))]
    assert "None of the transactions of b has entered." in answer_of(made_up(points))


def test_classes_are_passed_over_where_there_is_one() -> None:
    points = [{"workload_class": name, "success_rate": 0.5} for name in ("all", "a")]
    assert not any(" a" in sentence[:8] for sentence in answer_of(made_up(points)))


def test_warnings_of_seeds_and_of_runs_that_are_too_short() -> None:
    few = {"n_seeds": 1, "few_seeds": True, "warmup_settled": False, "needed_ms": 1_378_000.0}
    assert warnings_of(made_up([few])) == [
        "Only 1 seed: intervals need 3 or more to say something.",
        "The run is too short: entries are stationary after 689 s only, so the first half is cut; it should last 1,378 s.",
    ]
    some = warnings_of(made_up([{"x": 2.0, **few, "n_seeds": 2}, {"x": 4.0, "success_rate": 0.5}]))
    assert "1 of 2 experiments have fewer than 3 seeds: their intervals say little." in some


def test_overload_is_named_and_no_longer_run_is_asked_for() -> None:
    """It was said that a longer duration would make it surer."""
    over = {"in_flight": 790.0, "throughput_per_s": 0.4, "warmup_settled": False, "needed_ms": 1_000_000.0}
    assert warnings_of(made_up([over])) == [
        "79 % never finish: this load is beyond what it carries. A longer run would only have more of them."
    ]
    several = warnings_of(made_up([{"x": 2.0}, {"x": 4.0, **over}]))
    assert any("1 of 2 experiments is overloaded; with 4/s, 79 % never finish" in warning for warning in several)
    failing = warnings_of(made_up([{"success_rate": 0.6}]))
    assert failing == ["40 % give up: this load is beyond what it carries."]
    growing = warnings_of(made_up([{"saturated": "backlog"}]))
    assert growing[0].startswith("More enter than leave: this load is beyond what it carries.")


def test_the_window_is_said() -> None:
    assert window_sentence(made_up([{}])) == "The first 100 s of 600 s are cut (until 95 % of the entry rate is reached)."
    other = made_up([{"x": 1.0}, {"x": 2.0, "warmup_ms": 200_000.0, "window_ms": 400_000.0}])
    assert window_sentence(other) == "What is cut as warm-up differs between configurations: from 100 s to 200 s."


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
        "Upkeep commits with compaction, but not at all with overwrite, and only 30 % with merging.",
        "What holds it up is what each of its transactions reads: 9,000 manifest lists with overwrite (against 1) and 500 "
        "manifests with merging (against 1).",
    ]
