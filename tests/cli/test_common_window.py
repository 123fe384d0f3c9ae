"""The same runs and the same window give the same number in every command, and each says the window."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endive.report.study_data import load_study
from tests.cli import appends, invoke, strict

CONFIG = appends("60_000\nseed = 3", retry=3, rate=4, provider="s3x") + '[experiment]\nlabel = "late"\n'
LATE = """
[workload.late]
rate = 8
start_ms = 30_000
operation = "fast_append"
"""


@pytest.fixture
def ran(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(CONFIG + request.param)
    result = invoke("run", "a.toml", "--json")
    assert result.exit_code == 0, result.output
    return strict(result.stdout)


def total(data: Any) -> Any:
    (row,) = [row for row in data["metrics"] if row["workload_class"] == row["operation_type"] == "all"]
    return row


@pytest.mark.parametrize("ran", ["", LATE], indirect=True)
def test_run_report_and_compare_agree_and_print_the_window(ran: Any) -> None:
    """Half of a run whose second class began late was cut in silence: 94.97 % in one command, 93.1 % in the other."""
    report = invoke("report", str(Path(ran["results"]).parent), "--json")
    assert report.exit_code == 0, report.output
    assert strict(report.stdout)["window"] == ran["window"]
    study = load_study(Path(ran["results"]).parent)
    row = study.runs[(study.runs.workload_class == "all") & (study.runs.operation_type == "all")].iloc[0]
    for name in ("transactions", "success_low", "success_high", "throughput_per_s", "time_to_commit_p50_ms", "retries_per_txn"):
        assert row[name] == total(ran)[name], name
    compared = strict(invoke("compare", "a.toml", "a.toml", "--seeds", "1", "--json").stdout)
    assert compared["window"].startswith(ran["window"].split("(")[0][:12])


@pytest.mark.parametrize("ran", [LATE], indirect=True)
def test_a_class_that_begins_late_makes_the_run_be_measured_whole(ran: Any) -> None:
    assert ran["window"] == "The whole run of 1 min is measured, because its load follows a schedule."
    assert total(ran)["warmup_ms"] == 0.0


@pytest.mark.parametrize("ran", [""], indirect=True)
def test_every_command_takes_a_window(ran: Any) -> None:
    window = "The first 20 s and the last 10 s of 1 min are excluded as requested."
    asked = ("--warmup", "20000", "--cooldown", "10000", "--json")
    place = str(Path(ran["results"]).parent)
    assert strict(invoke("run", "a.toml", *asked).stdout)["window"] == window
    assert strict(invoke("report", place, *asked).stdout)["window"] == window
    assert strict(invoke("compare", "a.toml", place, *asked).stdout)["window"] == window
    question = ("--vary", "workload.ingest.rate", "--until", "success < 1%", "--to", "8", "--seeds", "2", "--max-seeds", "2")
    data = strict(invoke("frontier", "a.toml", *question, *asked).stdout)
    assert data["window"] == [window]
    assert data["answer"] == ["success < 1% is not met up to 8/s, the highest load of the search."]
    refused = invoke("run", "a.toml", "--warmup", "50000", "--cooldown", "10000")
    assert refused.exit_code == 2
    assert "leave nothing of the run" in refused.stderr


@pytest.mark.parametrize("ran", [""], indirect=True)
def test_a_search_in_which_nothing_can_be_measured_ends_with_a_sentence(ran: Any) -> None:
    question = ("--vary", "workload.ingest.rate", "--until", "p99(late) > 1s", "--from", "1", "--to", "4")
    Path("b.toml").write_text(CONFIG + LATE.replace("rate = 8", "rate = 0.0001"))
    data = strict(invoke("frontier", "b.toml", *question, "--seeds", "2", "--max-seeds", "2", "--json").stdout)
    assert data["answer"][0].startswith("No answer for p99(late) > 1s: time_to_commit_p99_ms(late) could not be measured")
