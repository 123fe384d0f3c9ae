"""What people read in 80 columns: the same words as in 400, none of them broken, and no line that is wider."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import uvicorn

from tests.cli import assert_fits, invoke
from tests.cli.test_compare import CONFIG

SWEEP = """
[sweep]
seeds = "0-2"
base = "a.toml"

[axes]
"workload.ingest.rate" = [1, 2, 4]
"storage.provider" = ["s3", "s3x"]
"transaction.retry" = [4, 10]
"""
COMMANDS = (
    ("--help",),
    ("examples",),
    ("providers",),
    ("validate", "a.toml"),
    ("init", "new.toml", "--force"),
    ("run", "a.toml", "--seed", "1"),
    ("experiments", "list"),
    ("compare", "a.toml", "b.toml", "--seeds", "2"),
    ("frontier", "a.toml", "--vary", "workload.ingest.rate", "--until", "success < 50%", "--seeds", "2", "--max-seeds", "2"),
    ("sweep", "sweep.toml", "--dry-run"),
    ("report", "EXPERIMENT"),
    ("plot", "EXPERIMENT", "--list"),
    ("serve", "a.toml", "--no-open"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("width")
    (folder / "a.toml").write_text(CONFIG)
    (folder / "b.toml").write_text(CONFIG.replace("retry = 4", "retry = 1"))
    (folder / "sweep.toml").write_text(SWEEP)
    return folder


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_nothing_is_broken_in_80_columns(command: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(uvicorn.Server, "run", lambda server, sockets: None)  # it says where it is, and ends
    if "EXPERIMENT" in command:
        invoke("run", "a.toml", "--seed", "1")
        command = tuple(str(next(Path("experiments").glob("mix-*"))) if part == "EXPERIMENT" else part for part in command)
    wide = _told(command, 400, monkeypatch)
    narrow = _told(command, 80, monkeypatch)
    assert_fits(narrow)
    assert not any(re.search(r"\w\.\.\.$", line) for line in narrow), "what was cut is said"
    if "--help" not in command:
        assert _words(narrow) == _words(wide)


def _told(command: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    result = invoke(*command)
    assert result.exit_code == 0, result.output
    return [*result.stdout.splitlines(), *result.stderr.splitlines()]


def _words(lines: list[str]) -> set[str]:
    """All words; how long it took, and the address of a server, are not the same twice."""
    kept = [re.sub(r"\d+ runs in [\d.]+ s|http://127\S+", "", line) for line in lines if " new runs" not in line]
    return {word for line in kept for word in line.split()}
