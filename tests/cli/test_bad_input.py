"""What a user sees who makes a mistake: a line that helps, an exit code, and never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli import call, files, invoke, strict
from tests.config import BASE


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(BASE)
    (tmp_path / "afile").write_text("in the way")
    (tmp_path / "adir").mkdir()
    (tmp_path / "latin.toml").write_bytes(b"label = '\xe9'")
    (tmp_path / "no.toml").write_text("x = = 1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["run", "validate"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.toml"], "nowhere.toml: no such file"),
        (["adir"], "adir cannot be read: Is a directory"),
        (["no.toml"], "no.toml is not TOML: Invalid value (at line 1, column 5)"),
        (["latin.toml"], "latin.toml is not UTF-8 text"),
        (["run.toml", "--set", "retry"], "--set: 'retry' must have the form key=value"),
        (
            ["run.toml", "--set", "transaction.retries=3"],
            "run.toml: transaction.retries: unknown key; did you mean 'max_retries'?",
        ),
        (
            ["run.toml", "--set", "storage.provider=s3", "--set", "catalog.type=append"],
            "run.toml: catalog.type: append needs a provider with append support; 's3' has none (got 'append')",
        ),
    ],
)
def test_a_wrong_configuration(command: str, arguments: list[str], message: str, here: Path) -> None:
    before = files(here)
    result = invoke(command, *arguments)
    assert result.exit_code == 2
    assert result.stderr == f"error: {message}\n"
    assert result.stdout == ""
    assert files(here) == before


def test_an_unsupported_option_of_an_engine_is_an_error(here: Path) -> None:
    before = files(here)
    result = invoke("run", "run.toml", "--engine", "compiled", "--trace", "--json")
    assert result.exit_code == 2
    assert result.stderr == "error: the compiled engine writes no trace; use the reference engine\n"
    assert strict(result.stdout)["errors"] == [{"message": "the compiled engine writes no trace; use the reference engine"}]
    assert files(here) == before


def test_every_error_has_a_line_of_its_own() -> None:
    result = invoke("run", "run.toml", "--set", "sim=1", "--set", "catalog.num_tables=0", "--set", "transaction.foo=1")
    lines = result.stderr.splitlines()
    starts = ("run.toml: `catalog.num_tables` should", "run.toml: transaction.foo: unknown key", "run.toml: sim: unknown key")
    assert len(lines) == len(starts)
    assert all(line.startswith(f"error: {start}") for line, start in zip(lines, starts, strict=True))


def test_errors_as_json() -> None:
    result = invoke("validate", "run.toml", "--set", "catalog.num_tables=0", "--set", "transaction.retry=x", "--json")
    data = strict(result.stdout)
    assert result.exit_code == 2
    assert data["source"] == "run.toml"
    assert [error["key"] for error in data["errors"]] == ["catalog.num_tables", "transaction.retry"]
    assert all(error["message"].startswith(f"`{error['key']}` should") for error in data["errors"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "afile"], "afile is a file, but must be a directory"),
        (["--out", "afile/below"], "afile is a file, but must be a directory"),
        (["--set", "simulation.output_path=afile/results.parquet"], "afile is a file, but must be a directory"),
        (["--set", "simulation.output_path=adir"], "adir was not written by Endive, so it is not replaced"),
        (["--set", "experiment.label=exp", "--out", "afile"], "afile is a file"),
    ],
)
def test_a_place_that_cannot_be_written(arguments: list[str], message: str, here: Path) -> None:
    before = files(here)
    result = invoke("run", "run.toml", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {message}")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert files(here) == before
    data = strict(invoke("run", "run.toml", *arguments, "--json").stdout)
    assert data["errors"][0]["message"].startswith(message)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is of Linux")
def test_a_read_only_directory_is_an_error(here: Path) -> None:
    result = invoke("run", "run.toml", "--out", "/proc/endive")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: /proc/endive: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["run"],
        ["run", "run.toml", "--sed", "3"],
        ["run", "run.toml", "--seed", "-1"],
        ["run", "run.toml", "--seed", "x"],
        ["run", "run.toml", "--seed", str(2**63)],
        ["run", "run.toml", "--engine", "steam"],
        ["providers", "--profile", "1999-01"],
        ["validate"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Usage: endive" in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["metrics", "nowhere"], "nowhere: no such directory"),
        (["calibrate", "nowhere.csv"], "nowhere.csv: no such file"),
    ],
)
def test_a_missing_source_is_named(arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "nowhere.toml"], 2),
        (["run", "run.toml", "--out", "afile"], 1),
        (["run", "run.toml", "--set", "simulation.output_path=."], 2),
        (["run", "run.toml", "--set", "transaction.runtime={median=5, sigma=1000}"], 2),
        (["run", "run.toml", "--set", "transaction.inter_arrival={distribution='fixed', value=0}"], 2),
    ],
)
def test_an_error_is_one_line(arguments: list[str], code: int) -> None:
    result = invoke(*arguments)
    assert result.exit_code == code
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1


def test_the_program_prints_no_traceback(here: Path) -> None:
    done = call("run", "nowhere.toml", cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "error: nowhere.toml: no such file\n")


def test_long_messages_are_not_broken() -> None:
    (line,) = invoke("validate", "run.toml", "--set", "transaction.qqqqq=1").stderr.splitlines()
    assert len(line) > 200


@pytest.mark.parametrize(
    "command",
    [
        ["frontier", "run.toml", "--vary", "transaction.inter_arrival.scale", "--until", "success < 50%"],
        ["tune", "run.toml", "--for", "success"],
        ["compare", "run.toml", "run.toml", "--set-b", "transaction.retry=1"],
        ["import", "nowhere.metadata.json"],
        ["replay", "nowhere.metadata.json"],
    ],
    ids=lambda command: command[0],
)
def test_a_place_that_cannot_be_written_to_is_reported_before_anything_is_run(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endive.simulation.Simulation.run", None)
    result = invoke(*command, "--out", "afile/below/x.toml")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "afile is a file, but must be a directory" in result.stderr
