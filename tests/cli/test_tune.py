"""``endive tune``, as a user calls it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from endive.config.load import load_document
from endive.runs.identity import compute_experiment_hash
from tests.cli import appends, assert_fits, files, invoke, narrow_invoke, strict

CONFIG = (
    appends("60_000", retry=1, rate=2)
    + """
[workload.compaction]
periodic = { interval_ms = 6_000 }
operation = "validated_overwrite"
"""
)
QUESTION = ("--for", "success(ingest)", "--subject-to", "success(compaction) >= 20%", "--quick", "--candidates", "6")


def tune(folder: Path, text: str, *arguments: str) -> Any:
    """Return the JSON output of a search with this configuration."""
    (folder / "load.toml").write_text(text)
    result = invoke("tune", str(folder / "load.toml"), *arguments, "-o", str(folder / "out"), "--json")
    assert result.exit_code == 0, result.output
    return strict(result.stdout)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, str]:
    """A search that was run once: its directory, what it printed, and what it said on the side."""
    folder = tmp_path_factory.mktemp("tune")
    (folder / "load.toml").write_text(CONFIG)
    result = invoke("tune", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out"), "--json")
    assert result.exit_code == 0, result.output
    return folder, strict(result.stdout), result.stderr


def test_more_retries_are_better_than_one(asked: tuple[Path, Any, str]) -> None:
    _, data, _ = asked
    assert data["clear"]
    assert not data["today_is_iceberg"]
    assert data["settings"]["workload.ingest.retry"] > 1
    assert 0.0 < data["over_today"]["low"] < data["over_today"]["advantage"] < data["over_today"]["high"]
    assert data["answer"][0].startswith(f"Best success_rate(ingest): {data['best']}: retry = ")
    assert data["answer"][1].startswith("Compared with the current settings: ")
    assert data["answer"][2].startswith("Compared with Iceberg's defaults: ")
    assert data["answer"][3].startswith("Runner-up: candidate ")
    assert "success(compaction) >= 20% " in data["answer"][-1]


def test_only_the_class_of_the_goal_is_tuned(asked: tuple[Path, Any, str]) -> None:
    _, data, _ = asked
    keys = {key for each in data["candidates"] for key in each["settings"]}
    assert {key.rpartition(".")[0] for key in keys} == {"workload.ingest", "workload.ingest.retry_backoff"}
    assert data["candidates"][0]["settings"] == {}
    assert data["candidates"][1]["settings"]["workload.ingest.retry"] == 4


def test_the_settings_of_the_best_can_be_set(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    document = load_document(folder / "load.toml", data["settings"])
    best = next(each for each in data["candidates"] if each["name"] == data["best"])
    assert compute_experiment_hash(document) == best["experiment"]


def test_the_advantage_is_that_of_paired_seeds_which_chose_nothing(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    last = {each["name"]: each for each in data["last_comparison"]}
    assert {"today", "Iceberg's defaults", data["best"]} <= set(last)
    best, today = (last[name]["seeds"] for name in (data["best"], "today"))
    assert list(best) == list(today) == ["4", "5", "6", "7", "8", "9"]
    experiment = next(each["experiment"] for each in data["candidates"] if each["name"] == data["best"])
    middles = []
    for name, each in ((experiment, best), (data["candidates"][0]["experiment"], today)):
        kept = [json.loads((folder / "out/runs" / name / f"{seed}/metrics.json").read_text())["rows"] for seed in each]
        ingest = [next(row for row in rows if (row["workload_class"], row["operation_type"]) == ("ingest", "all")) for rows in kept]
        assert [row["success_rate"] for row in ingest] == list(each.values())
        middles.append(sum((row["success_low"] + row["success_high"]) / 2 for row in ingest) / len(ingest))
    assert data["over_today"]["advantage"] == pytest.approx(middles[0] - middles[1])


def test_the_runs_are_announced_before_they_begin_and_not_exceeded(asked: tuple[Path, Any, str]) -> None:
    _, data, said = asked
    lines = said.splitlines()
    assert lines[0].startswith(f"8 candidates, at most {data['most_runs']} runs")
    assert "round 1 of 2: 8 candidates" in lines
    assert 0 < data["runs"] <= data["most_runs"]


def test_the_answer_is_written(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    assert {name for name in files(folder / "out") if not name.startswith("runs/")} == {"tune.json"}
    assert json.loads((folder / "out/tune.json").read_text()) == {key: value for key, value in data.items() if key != "files"}
    assert not any(name.endswith(".parquet") for name in files(folder))


def test_a_rerun_reuses_all_runs(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    again = strict(invoke("tune", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out"), "--json").stdout)
    assert again["runs"] == 0
    assert {**again, "runs": data["runs"], "seconds": data["seconds"]} == data


def test_people_read_sentences_and_a_table(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    text = invoke("tune", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out")).stdout
    assert text.startswith("\n".join(data["answer"]))
    narrow = narrow_invoke("tune", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out"))
    sentences, _, command = narrow.stdout.partition("Check:\n")
    assert_fits([*sentences.splitlines(), *narrow.stderr.splitlines()])
    assert command.startswith("endive compare "), "what is pasted is not wrapped"
    words = re.sub(r"runs in [\d.]+ s;", "", text).split()  # two calls do not take the same time
    assert set(words) <= set(narrow.stdout.split()), "no word is broken"
    assert "\ntoday " in text
    assert "\nIceberg's defaults " in text
    assert " pp higher (95% interval " in text


def test_another_place_to_begin_makes_other_candidates(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    options = (*QUESTION[:-1], "1", "--seed", "7", "--seeds", "2", "-o", str(folder / "other"), "--json")
    other = strict(invoke("tune", str(folder / "load.toml"), *options).stdout)
    same, different = ([each["candidates"][place]["settings"] for each in (data, other)] for place in (1, 2))
    assert same[0] == same[1]
    assert different[0] != different[1]


def test_there_is_no_winner_if_retries_change_nothing(tmp_path: Path) -> None:
    """Arrivals are so far apart that no commits overlap: all settings are equal."""
    calm = CONFIG.partition("[workload.compaction]")[0].replace("rate = 2", "rate = 0.05").replace("60_000", "900_000")
    data = tune(tmp_path, calm, "--for", "p50", "--quick", "--candidates", "3")
    assert not data["clear"]
    assert data["answer"][0].startswith("No clear winner")
    assert data["paste"] == []


def test_a_goal_without_a_value_is_reported(tmp_path: Path) -> None:
    """Retries cannot help where every overlap of the table is a real conflict."""
    hopeless = CONFIG.replace("retry = 1", "retry = 1\nreal_conflict_probability = 1.0").replace("60_000", "180_000")
    data = tune(tmp_path, hopeless, "--for", "p50(compaction)", "--quick", "--candidates", "2", "--seeds", "2")
    assert not data["clear"]
    assert "No clear winner" in data["answer"][0]
    assert any("is infinite in 2 of 2 seeds, because transactions abort" in sentence for sentence in data["answer"])


def test_conditions_that_no_candidate_meets_are_no_advice(tmp_path: Path) -> None:
    (tmp_path / "load.toml").write_text(CONFIG)
    question = ("--for", "p50(ingest)", "--subject-to", "throughput(ingest) >= 1000/s", "--quick", "--candidates", "2")
    done = invoke("tune", str(tmp_path / "load.toml"), *question, "-o", str(tmp_path / "out"))
    assert "No candidate meets throughput(ingest) >= 1000/s. Search other ranges with --vary." in done.stdout
    data = tune(tmp_path, CONFIG, *question)
    assert (data["best"], data["settings"], data["paste"], data["clear"]) == (None, None, [], False)


def test_icebergs_defaults_are_recognized(tmp_path: Path) -> None:
    question = ("--for", "success(ingest)", "--quick", "--candidates", "2", "--seeds", "2")
    data = tune(tmp_path, CONFIG.replace("retry = 1", 'retry_policy = "iceberg"'), *question)
    assert data["today_is_iceberg"]
    assert "The current settings are Iceberg's defaults." in data["answer"]
    assert not any(sentence.startswith("Compared with Iceberg's defaults") for sentence in data["answer"])


def test_keys_with_ranges_and_choices_are_searched_too(tmp_path: Path) -> None:
    ranges = ("workload.ingest.retry=5..9", "storage.provider=s3,s3x", "workload.ingest.retry_backoff.max_ms=2s..4s")
    vary = [text for each in ranges for text in ("--vary", each)]
    data = tune(tmp_path, CONFIG, "--for", "success", "--quick", "--seeds", "2", *vary, "--candidates", "4")
    searched = [each["settings"] for each in data["candidates"][2:]]
    assert all(5 <= each["workload.ingest.retry"] <= 9 for each in searched)
    assert all(isinstance(each["workload.ingest.retry"], int) for each in searched)
    assert {each.get("storage.provider", "s3") for each in searched} == {"s3", "s3x"}
    assert all(2000.0 <= each["workload.ingest.retry_backoff.max_ms"] <= 4000.0 for each in searched)
    assert all(each["workload.compaction.retry_backoff.max_ms"] >= 5000.0 for each in searched)


def test_classes_that_differ_are_reported_apart(tmp_path: Path) -> None:
    ranges = ("--vary", "workload.ingest.retry=5..9", "--candidates", "1", "--seeds", "2")
    found = tune(tmp_path, CONFIG, "--for", "success", "--quick", *ranges)
    data = {each["name"]: each["settings"] for each in found["last_comparison"]}
    assert "workload.ingest.retry = " in data["candidate 1"]
    assert "workload.compaction.retry = " in data["candidate 1"]
    assert ", multiplier = " in data["candidate 1"]
    assert data["today"] == "unchanged"


def test_a_condition_that_fails_today_is_reported_first(tmp_path: Path) -> None:
    (tmp_path / "load.toml").write_text(CONFIG)
    question = ("--for", "retries_per_txn(ingest)", "--subject-to", "success(ingest) >= 85%", "--quick", "--candidates", "4")
    refused = invoke("tune", str(tmp_path / "load.toml"), *question, "-o", str(tmp_path / "out"))
    assert refused.exit_code == 2
    question = ("--for", "p50(ingest)", *question[2:])
    data = tune(tmp_path, CONFIG, *question)
    assert data["clear"]
    assert data["answer"][0] == "The current settings do not meet success(ingest) >= 85%."
    assert data["answer"][1].startswith("Best time_to_commit_p50_ms(ingest) among candidates that do: ")
    assert data["answer"][-1] == "success(ingest) >= 85% is met."


FLINK = """
[simulation]
duration_ms = "4min"
engine = "reference"

[storage]
provider = "s3"

[transaction]
commit_path = "iceberg"
retry_policy = "iceberg"

[workload.ingest]
operation = "fast_append"
writers = 4
every = "10s"
phase = "aligned"
runtime = { mean = 300, sigma = 0.3 }
"""


def test_several_conditions_and_the_settings_to_paste(tmp_path: Path) -> None:
    """Appends of aligned writers lose races: fewer commits, or staggered ones, need fewer retries."""
    conditions = ["success(ingest) >= 99%", "throughput >= 0.3/s"]
    goal = ["--for", "manifest_list_writes_per_txn", *(text for each in conditions for text in ("--subject-to", each))]
    data = tune(tmp_path, FLINK, *goal, "--search", "interval", "--search", "phase", "--candidates", "12", "--quick")
    assert data["subject_to"] == conditions
    assert data["settings"]["workload.ingest.phase"] == "staggered"
    assert data["settings"].get("workload.ingest.every_ms") != 60_000, "four commits every minute are less than 0.1/s"
    assert {"where": "scheduler, ingest", "text": data["paste"][0]["text"]} == data["paste"][0]
    assert [sentence for sentence in data["answer"] if sentence.endswith(" is met.")] == [f"{each} is met." for each in conditions]


def test_kinds_of_backoff_can_be_searched(tmp_path: Path) -> None:
    kinds = ("--vary", "workload.ingest.retry_backoff.kind=exponential,slots,aimd", "--candidates", "6", "--seeds", "2")
    data = tune(tmp_path, CONFIG, "--for", "p50(ingest)", "--quick", *kinds)
    found = {each["settings"]["workload.ingest.retry_backoff.kind"]: set(each["settings"]) for each in data["candidates"][2:8]}
    assert set(found) == {"exponential", "slots", "aimd"}
    assert "workload.ingest.retry_backoff.base_ms" not in found["slots"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--for", "success(ingst)"), "unknown class 'ingst'; did you mean 'ingest'?"),
        (("--for", "sucess"), "unknown metric 'sucess'; did you mean 'success'?"),
        (("--for", "success < 5%"), "is not a metric; expected METRIC"),
        (("--for", "overhead"), "overhead cannot be optimized, because neither higher nor lower values are better"),
        (("--subject-to", "success(compactin) > 5%"), "unknown class 'compactin'; did you mean 'compaction'?"),
        (("--subject-to", "success"), "a condition is METRIC"),
        (("--vary", "workload.ingest.retry"), "must have the form KEY=LOW..HIGH or KEY=a,b,c"),
        (("--vary", "workload.ingest.retry=9..3"), "9 should be below 3"),
        (("--vary", "workload.ingest.retry=few..many"), "both ends of a range should be numbers"),
        (("--vary", "workload.ingest.rtry=1..3"), "did you mean 'retry'?"),
        (("--vary", "storage.provider=s3,s4"), "storage.provider"),
        (("--warmup", "70000"), "leave nothing of the run"),
        (("--set", "storage.provider=s4"), "storage.provider"),
    ],
)
def test_wrong_calls_end_with_2_and_write_nothing(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "load.toml").write_text(CONFIG)
    result = invoke("tune", str(tmp_path / "load.toml"), *QUESTION, *arguments, "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert message in result.stderr
    assert files(tmp_path) == {"load.toml"}


INTERVAL = """
[simulation]
duration_ms = "30min"

[storage]
provider = "s3"

[catalog]
type = "service"

[transaction]
commit_path = "iceberg"
retry_policy = "iceberg"

[workload.ingest]
writers = 12
every = "1min"
operation = "fast_append"
runtime = { median = "3s", sigma = 0.4 }
"""


def test_a_better_candidate_that_may_not_meet_the_condition_is_named(tmp_path: Path) -> None:
    """It was said not to differ significantly, although its freshness is a third of the current one."""
    question = ("--for", "freshness_p95(ingest)", "--subject-to", "success(ingest) >= 99.9%", "--search", "interval", "--quick")
    answer = tune(tmp_path, INTERVAL, *question)["answer"]
    assert answer[0] == (
        "No clear winner: no candidate that meets success(ingest) >= 99.9% improves freshness_p95_ms(ingest) significantly over "
        "the current settings."
    )
    (runner_up,) = [each for each in answer if each.startswith("Runner-up")]
    assert runner_up.endswith("It may not meet success(ingest) >= 99.9%. Raise --seeds or simulation.duration_ms.")
