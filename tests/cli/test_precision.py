"""``--precision`` of run, compare, frontier and tune, and ``precision=`` in Python."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import endive
from tests.cli import appends, invoke, strict

CONFIG = appends("20_000", retry=1, rate=2, runtime="mean = 200, sigma = 0.5") + '[experiment]\nlabel = "small"\n'
TREE = tomllib.loads(CONFIG)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    return path


def data_of(*arguments: str | Path) -> Any:
    result = invoke(*map(str, arguments), "--json")
    assert result.exit_code == 0, result.output
    return strict(result.stdout)


def seeds_in(folder: Path) -> list[int]:
    return sorted(int(path.parent.name) for path in folder.rglob("summary.json"))


def test_run_adds_seeds_until_the_interval_is_narrow_and_reuses_them(config: Path, tmp_path: Path) -> None:
    command = ("run", config, "-o", tmp_path / "out", "--precision", "6%", "--for", "throughput")
    found = data_of(*command)["precision"]
    estimate = found["estimates"]["throughput_per_s"]
    assert found["reached"]
    assert found["most_seeds"] == estimate["n"] > 8
    assert (estimate["high"] - estimate["low"]) / 2.0 <= 0.06 * estimate["mean"]
    assert seeds_in(tmp_path / "out") == list(range(estimate["n"]))
    written = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("results.parquet") if path.parent.name != "0"}
    again = data_of(*command)["precision"]
    assert again == found
    assert {path: path.stat().st_mtime_ns for path in written} == written


def test_run_prints_the_precision(config: Path, tmp_path: Path) -> None:
    command = ("run", config, "-o", tmp_path / "out", "--precision", "1%", "--max-seeds", "9", "--fail-if", "throughput < 0.1")
    result = invoke(*map(str, command))
    text = " ".join(result.output.split())
    assert result.exit_code == 0
    assert "Mean across 9 seeds" in text
    assert "The precision of 1% is not reached with 9 seeds. With the maximum number of seeds, the half width of" in text
    assert re.search(r"PASS: throughput is [\d.]+/s \([\d.–]+/s\), not below 0.1\.", text)


def test_compare_adds_seeds_until_the_difference_is_precise(config: Path, tmp_path: Path) -> None:
    command = ("compare", config, config, "--set-b", "transaction.retry=4", "-o", tmp_path / "out", "--metric", "throughput")
    found = data_of(*command, "--precision", "3%")
    (total,) = [each for each in found["comparisons"] if each["workload_class"] == "all"]
    assert total["half_width"] <= 0.03 * total["a"]
    assert [side["seeds"] for side in found["sides"]] == [list(range(total["n_a"]))] * 2
    assert total["n_a"] > 8


def test_compare_cannot_add_seeds_to_results(config: Path, tmp_path: Path) -> None:
    data_of("run", config, "-o", tmp_path / "out")
    result = invoke("compare", str(tmp_path / "out"), str(config), "--precision", "5%", "-o", str(tmp_path / "compare"))
    assert result.exit_code == 2
    assert "contains stored results, to which no seeds can be added" in " ".join(result.output.split())


def test_the_precision_of_a_frontier_is_that_of_the_load(config: Path, tmp_path: Path) -> None:
    command = ("frontier", config, "--vary", "workload.ingest.rate", "--until", "success < 80%", "-o", tmp_path / "out")
    found = data_of(*command, "--precision", "20%", "--max-seeds", "30")
    assert found["search"]["tolerance"] == pytest.approx(0.5)
    assert found["search"]["max_seeds"] == 30
    assert found["narrow"]
    assert found["high"] / found["low"] <= 1.5
    for options, message in (
        (["--precision", "1pp"], "a load is not a proportion"),
        (["--precision", "5%", "--seeds", "5"], "cannot be combined with --seeds"),
        (["--precision", "5%", "--tolerance", "5%"], "cannot be combined with --tolerance"),
    ):
        result = invoke(*map(str, command), *options)
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())


@pytest.mark.slow
def test_tune_adds_seeds_to_the_final_comparison(config: Path, tmp_path: Path) -> None:
    command = ("tune", config, "--for", "throughput", "--quick", "--candidates", "3", "-o", tmp_path / "out")
    found = data_of(*command, "--precision", "3%", "--max-seeds", "60")
    assert found["reached"]
    over, today = found["over_today"], next(each for each in found["last_comparison"] if each["name"] == "today")
    assert (over["high"] - over["low"]) / 2.0 <= 0.03 * today["mean"]
    assert over["seeds"] == found["most_seeds"] == len(today["seeds"]) > 8


def test_seeds_that_do_not_help_are_not_added(config: Path, tmp_path: Path) -> None:
    """Transactions in flight at the end of the run leave success uncertain, whatever the number of seeds."""
    found = invoke("run", str(config), "-o", str(tmp_path / "out"), "--precision", "0.1pp")
    text = " ".join(found.output.split())
    assert "Mean across 8 seeds" in text
    assert "success_rate depends on transactions in flight at the end of the run, so more seeds do not help." in text
    assert "Raise simulation.duration_ms." in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--precision", "1%", "--seed", "3"], "cannot be combined with --seed"),
        (["run", "--precision", "1%", "--seeds", "3"], "cannot be combined with --seeds"),
        (["run", "--for", "p99"], "no effect without --precision"),
        (["run", "--max-seeds", "9"], "no effect without --precision"),
        (["run", "--precision", "much"], "is not a precision"),
        (["tune", "--for", "p95", "--precision", "1pp"], "1pp applies to proportions"),
        (["tune", "--for", "success", "--precision", "1%", "--seeds", "9"], "cannot be combined with --seeds"),
    ],
)
def test_contradictions_are_errors(config: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    result = invoke(arguments[0], str(config), *arguments[1:], "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_run_in_python_takes_a_precision(tmp_path: Path) -> None:
    study = endive.run(TREE, precision="6%", question="throughput", directory=tmp_path / "out", progress=False)
    row = study.to_pandas("experiments").iloc[0]
    assert row["throughput_per_s_hw"] <= 0.06 * row["throughput_per_s"]
    assert row["n_seeds"] == len(seeds_in(tmp_path / "out")) > 8
    with pytest.raises(endive.ConfigError, match="cannot be combined with --seeds"):
        endive.run(TREE, precision="6%", seeds=3)


def test_a_precision_that_is_not_reached_is_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"The precision of 0\.5% is not reached with 9 seeds"):
        endive.run(TREE, precision="0.5%", max_seeds=9, progress=False)


def test_compare_in_python_takes_a_precision() -> None:
    found = endive.compare(TREE, {**TREE, "storage": {"provider": "s3x"}}, precision="10pp", metrics=["success"], progress=False)
    assert "seeds" in repr(found)
