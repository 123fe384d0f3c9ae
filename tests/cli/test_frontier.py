"""``endive frontier``, as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import appends, files, invoke, strict

CONFIG = appends("30_000", retry=3, rate=1)
QUESTION = ("--vary", "workload.ingest.rate", "--until", "success < 90%", "--tolerance", "50%", "--seeds", "3", "--max-seeds", "6")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, str]:
    """A search that was run once: its directory, what it printed, and what it said on the side."""
    folder = tmp_path_factory.mktemp("frontier")
    (folder / "load.toml").write_text(CONFIG)
    result = invoke("frontier", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out"), "--json")
    assert result.exit_code == 0, result.output
    return folder, strict(result.stdout), result.stderr


def test_the_load_is_found_between_one_that_fails_and_one_that_holds(asked: tuple[Path, Any, str]) -> None:
    _, data, _ = asked
    assert data["bound"] == "crossed"
    assert 1.0 <= data["low"] < data["load"] < data["high"] <= 64.0
    verdicts = {point["load"]: point["verdict"] for point in data["points"]}
    assert verdicts[max(load for load in verdicts if load <= data["low"])] == "fails"
    assert verdicts[min(load for load in verdicts if load >= data["high"])] == "holds"


def test_every_point_can_be_traced_to_its_seeds(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    for point in data["points"]:
        seeds = point["seeds"].values()
        good = sum(seed["committed"] + seed["in_flight"] / 2 for seed in seeds)
        assert point["estimate"]["mean"] == pytest.approx(good / sum(seed["transactions"] for seed in seeds))
        assert point["estimate"]["n"] == len(seeds) >= 3
        for seed in point["seeds"]:
            kept = json.loads((folder / "out/runs" / point["experiment"] / f"{seed}/metrics.json").read_text())
            assert kept["rows"][0]["success_rate"] == point["seeds"][seed]["success_rate"]
    assert data["configuration"]["storage"] == {"provider": "s3"}
    assert data["runs"] == sum(len(point["seeds"]) for point in data["points"])


def test_the_answer_and_the_figure_are_written(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    names = {name for name in files(folder / "out") if not name.startswith("runs/")}
    assert names == {"frontier.json", "frontier.png", "frontier.svg"}
    written = json.loads((folder / "out/frontier.json").read_text())
    assert written == {key: value for key, value in data.items() if key != "files"}


def test_each_load_is_reported_on_the_side(asked: tuple[Path, Any, str]) -> None:
    _, data, said = asked
    assert all(f"{point['load']:.4g}/s: " in said for point in data["points"])


def test_a_rerun_reuses_all_runs(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    again = invoke("frontier", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out"), "--json")
    repeated = strict(again.stdout)
    assert repeated["runs"] == 0
    assert {**repeated, "runs": data["runs"], "seconds": data["seconds"]} == data


def test_people_read_a_sentence_and_a_table(asked: tuple[Path, Any, str]) -> None:
    folder, data, _ = asked
    text = invoke("frontier", str(folder / "load.toml"), *QUESTION, "-o", str(folder / "out")).stdout
    assert text.startswith(data["answer"][0])
    assert f"success falls below 90% at {data['load']:.3g}/s (95% interval: {data['low']:.3g}–{data['high']:.3g}/s)" in text
    assert "workload.ingest.rate  success_rate" in text


@pytest.mark.parametrize(
    ("bounds", "bound", "sentence"),
    [
        (("--from", "0.5", "--to", "1"), "above", "success < 90% is not met up to 1/s"),
        (("--from", "40", "--to", "80"), "at_or_below", "success < 90% is already met at the lowest load of the search, 40/s."),
    ],
)
def test_a_range_without_a_crossing_is_an_answer(
    asked: tuple[Path, Any, str], bounds: tuple[str, ...], bound: str, sentence: str
) -> None:
    folder, _, _ = asked
    result = invoke("frontier", str(folder / "load.toml"), *QUESTION, *bounds, "-o", str(folder / bound), "--json")
    data = strict(result.stdout)
    assert result.exit_code == 0
    assert (data["bound"], data["load"]) == (bound, None)
    assert sentence in data["answer"][0]


def test_a_search_without_an_answer_is_reported(asked: tuple[Path, Any, str]) -> None:
    """A few transactions a run, all committed: that is no proof of anything."""
    folder, _, _ = asked
    bounds = ("--from", "0.1", "--to", "0.2", "--max-seeds", "3")
    data = strict(invoke("frontier", str(folder / "load.toml"), *QUESTION, *bounds, "-o", str(folder / "few"), "--json").stdout)
    assert (data["bound"], data["low"], data["high"], data["narrow"]) == ("crossed", None, None, False)
    assert "No answer for" in data["answer"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--vary", "workload.ingest.rte", "--from", "1"), "unknown key; did you mean 'rate'?"),
        (("--until", "success(ingst) < 90%"), "unknown class 'ingst'; did you mean 'ingest'?"),
        (("--until", "sucess < 90%"), "unknown metric 'sucess'; did you mean 'success'?"),
        (("--tolerance", "much"), "'much' is not a fraction such as 5% or 0.05"),
        (("--warmup", "40000"), "leave nothing of the run"),
        (("--set", "storage.provider=s4"), "storage.provider"),
        (("--quick",), "[frontier]"),
    ],
)
def test_wrong_calls_end_with_2_and_write_nothing(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "load.toml").write_text(CONFIG)
    result = invoke("frontier", str(tmp_path / "load.toml"), *QUESTION, *arguments, "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert message in result.stderr
    assert files(tmp_path) == {"load.toml"}


def test_an_unknown_class_cannot_be_varied(tmp_path: Path) -> None:
    (tmp_path / "load.toml").write_text(CONFIG)
    result = invoke("frontier", str(tmp_path / "load.toml"), "--vary", "workload.ingst.rate", "--until", "success < 90%")
    assert result.exit_code == 2
    assert "unknown class 'ingst'" in result.stderr


def test_a_misspelled_table_of_a_frontier_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('[frontir]\nvary = "x"\n')
    assert "frontir: unknown key; did you mean 'frontier'?" in invoke("frontier", str(tmp_path / "study.toml")).stderr
