"""``endive compare`` of three or more, and of the scenarios of a study."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from endive.config.sweep_file import Sweep
from endive.runs.execute import complete_run
from endive.runs.plan import keep_study, plan_sweep, remaining_work
from tests.cli import invoke
from tests.cli.test_compare import CONFIG as LONG
from tests.cli.test_compare import data, run_seeds

CONFIG = LONG.replace("30_000", "20_000")

STUDY = """
[sweep]
base = "a.toml"
seeds = "0-3"
baseline = "today"
question = "p50(ingest)"
[scenario."S3 Express"]
set = { "storage.provider" = "s3x" }
[scenario.slower.set]
storage.provider = "gcp"
[scenario.same_but_for_runtime_of_merge.set]
workload.merge.runtime.mean = 501
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(CONFIG)
    return Path("a.toml")


@pytest.fixture
def study(config: Path) -> Path:
    path = config.with_name("study.toml")
    path.write_text(STUDY)
    return path


def order(found: Any, ranking: int = 0) -> list[str]:
    return [each["name"] for each in found["rankings"][ranking]["order"]]


def verdicts(found: Any) -> dict[str, bool | None]:
    return {each["alternative"]: each["better"] for each in found["comparisons"]}


def test_the_scenarios_of_a_study_are_ordered_by_its_question(study: Path) -> None:
    found = data(study)
    assert (found["baseline"], found["question"], found["simultaneous"]) == ("today", "p50(ingest)", 3)
    assert [each["seeds"] for each in found["sides"]] == [[0, 1, 2, 3]] * 4
    (ranking,) = found["rankings"]
    assert (ranking["metric"], ranking["workload_class"]) == ("time_to_commit_p50_ms", "ingest")
    assert (order(found)[0], order(found)[-1]) == ("S3 Express", "slower")
    better = verdicts(found)
    assert (better["S3 Express"], better["slower"]) == (True, False)
    assert ranking["best"] == {"name": "S3 Express", "clear": True, "rivals": []}
    assert re.match(r"The p50 time to commit of ingest is [\d.]+ m?s in `today`; it ", found["answer"][0])
    assert "`slower` (" in found["answer"][0]
    assert "`same_but_for_runtime_of_merge` (" in found["answer"][0]
    assert found["answer"][1] == "Choose `S3 Express`, which is significantly better than all others (95%)."


def test_the_intervals_are_wider_than_those_of_two(study: Path, config: Path) -> None:
    found = data(study, "--warmup", "3000")
    alone = data(config, config, "--set-b", "storage.provider=s3x", "--seeds", "4", "--warmup", "3000")
    (among,) = [each for each in found["comparisons"] if each["alternative"] == "S3 Express"]
    (two,) = [e for e in alone["comparisons"] if (e["metric"], e["workload_class"]) == ("time_to_commit_p50_ms", "ingest")]
    assert among["difference"] == pytest.approx(two["difference"])
    assert among["half_width"] > 1.3 * two["half_width"]


def test_the_table_has_the_names_of_scenarios_and_simultaneous_intervals(study: Path) -> None:
    text = invoke("compare", str(study), "--seeds", "3").stdout
    assert "The p50 time to commit of ingest" in text
    assert "baseline" in text
    assert "Differences from today, with 3 simultaneous 95% intervals." in text
    assert text.index("S3 Express") < text.index("slower")


def test_files_can_be_named_and_metrics_chosen(config: Path) -> None:
    config.with_name("b.toml").write_text(CONFIG.replace('"s3"', '"s3x"'))
    config.with_name("c.toml").write_text(CONFIG.replace('"s3"', '"gcp"').replace("label", 'scenario = "Google"\nlabel'))
    found = data("now=a.toml", "b.toml", "c.toml", "--seeds", "3")
    assert [each["name"] for each in found["sides"]] == ["now", "b", "Google"]
    assert found["simultaneous"] == len(found["comparisons"]) == 2 * 3 * 3
    assert found["rankings"][0]["metric"] == "success_rate"
    asked = data("now=a.toml", "b.toml", "c.toml", "--seeds", "3", "--metric", "p50", "--question", "throughput(merge)")
    assert [(each["metric"], each["workload_class"]) for each in asked["rankings"]] == [
        ("throughput_per_s", "merge"),
        *(("time_to_commit_p50_ms", name) for name in ("all", "ingest", "merge")),
    ]
    twice = data("a.toml", "a.toml", "a.toml", "--seeds", "3", "--metric", "p50")
    assert [each["name"] for each in twice["sides"]] == ["a.toml (1)", "a.toml (2)", "a.toml (3)"]
    shown = twice["rankings"][0]["order"][0]["shown"]
    assert twice["answer"][0].endswith(f"; `a.toml (2)` ({shown}) and `a.toml (3)` ({shown}) do not differ significantly.")


def test_experiments_of_a_study_are_compared_by_their_scenarios(study: Path) -> None:
    root, sweep = Path("out"), Sweep(study, seeds="0-2")
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    for run in remaining_work(plan, root).todo:
        assert complete_run(run.point.document, run.seed, root, run.point.experiment).state == "done"
    stored, run_now = data(root), data(study, "--seeds", "3")
    assert (stored["comparisons"], stored["rankings"]) == (run_now["comparisons"], run_now["rankings"])
    assert stored["question"] == "p50(ingest)"


def test_conditions_are_judged_for_every_alternative(study: Path) -> None:
    found = data(study, "--seeds", "3", "--fail-if", "p50(ingest) > 120% of A", code=3)
    assert {each["alternative"] for each in found["conditions"] if each["holds"]} == {"slower"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.toml",), "compare needs at least two sources: pass a second configuration, or a study with [scenario.NAME]"),
        (("study.toml", "--set-b", "transaction.retry=3"), "--set-b needs exactly two"),
        (("study.toml", "--question", "sucess"), "unknown metric 'sucess'; did you mean 'success'?"),
        (("study.toml", "--seeds", "2", "--question", "success(ingst)"), "unknown class 'ingst'; did you mean 'ingest'?"),
        (("plain.toml",), "add a table [scenario.NAME] for each alternative"),
        (("axes.toml",), "compare the scenarios at one point with --set transaction.retry=..."),
        (("stored",), "expected one study that varies only scenarios"),
        (("a.toml", "a.toml", "--quick"), "--quick needs a study with scenarios"),
    ],
)
def test_wrong_calls_end_with_2(study: Path, arguments: tuple[str, ...], message: str) -> None:
    study.with_name("plain.toml").write_text('[sweep]\nbase = "a.toml"\n')
    study.with_name("axes.toml").write_text(STUDY + '[axes]\n"transaction.retry" = [1, 2]\n')
    if arguments == ("stored",):
        run_seeds(Path("a.toml"), Path("stored"), range(1))
    result = invoke("compare", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_axis_can_be_fixed(study: Path) -> None:
    study.write_text(STUDY + '[axes]\n"transaction.retry" = [1, 2]\n')
    assert data(study, "--set", "transaction.retry=2", "--seeds", "2")["simultaneous"] == 3
