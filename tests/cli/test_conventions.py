"""Conventions of the command line: options that all commands share, and plans that run nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from endive.main import app
from tests.cli import assert_fits, files, invoke, strict
from tests.cli.test_compare import CONFIG

COMMANDS = getattr(get_command(app), "commands")  # noqa: B009
WRITING = ("import", "replay", "probe", "calibrate", "run", "compare", "frontier", "tune", "sweep", "report", "plot")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_short_help_is_help_in_80_columns_without_type_names(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke(command, "-h").stdout
    assert text == invoke(command, "--help").stdout
    assert "{" not in text.splitlines()[0]
    assert "[[" not in text.splitlines()[0]
    assert_fits(text.splitlines())
    groups = set(re.findall(r"^([A-Z][a-z ]+):$", text, re.MULTILINE)) - {"Arguments", "Options"}
    assert len(text.splitlines()) <= 40 or groups


@pytest.mark.parametrize("command", WRITING)
def test_commands_that_write_have_output_and_its_old_spelling(command: str) -> None:
    option = next(each for each in COMMANDS[command].params if "--output" in each.opts)
    assert {"-o", "--out"} <= set(option.opts)
    text = invoke(command, "--help").stdout
    assert "-o, --output" in text
    assert "--out " not in text


@pytest.mark.parametrize("command", ["frontier", "tune"])
def test_a_dry_run_prints_an_estimate_and_writes_nothing(command: str, here: Path) -> None:
    options = {
        "frontier": ("--vary", "workload.ingest.rate", "--until", "success < 50%", "--seeds", "0-2", "--max-seeds", "3"),
        "tune": ("--for", "p99", "--quick", "--seeds", "3"),
    }[command]
    before = files(here)
    plan = strict(invoke(command, "a.toml", *options, "--dry-run", "--json").stdout)
    assert plan["most_runs"] % 3 == 0 or command == "tune"
    assert plan["estimated_core_seconds"] > 0.0
    assert "runs" in invoke(command, "a.toml", *options, "--dry-run").stdout
    assert files(here) == before


@pytest.mark.parametrize("seeds", ["1", "0-0", "2-4", "many", "0"])
def test_a_search_takes_two_seeds_or_more_from_0_on(seeds: str, here: Path) -> None:
    result = invoke("tune", "a.toml", "--for", "p99", "--seeds", seeds, "--dry-run")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --seeds: ")


@pytest.mark.parametrize("seeds", ["2", "0-1"])
def test_a_number_of_seeds_is_a_range_from_0(seeds: str, here: Path) -> None:
    found = strict(invoke("compare", "a.toml", "a.toml", "--seeds", seeds, "--json").stdout)
    assert found["sides"][0]["seeds"] == [0, 1]


def test_import_and_replay_replace_no_file(here: Path) -> None:
    for command in ("import", "replay"):
        result = invoke(command, "metadata.json", "-o", "a.toml")
        assert (result.exit_code, result.stderr) == (2, "error: a.toml already exists; use --force to replace it\n")
