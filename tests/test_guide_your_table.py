"""The guide "Your table in ten minutes" works from its first line to its last, on a real table made on the spot."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from endive.main import app
from tests.test_docs import ROOT, blocks

GUIDE = ROOT / "docs" / "guides" / "your_table.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the guide's table has been made."""
    path = tmp_path_factory.mktemp("guide")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        namespace: dict[str, Any] = {"__name__": "guide"}
        for line, code in blocks(GUIDE, "python"):
            exec(compile("\n" * (line - 1) + code, str(GUIDE), "exec"), namespace)
    return path


def commands() -> list[str]:
    return [line.removeprefix("$ ") for _, text in blocks(GUIDE, "console") for line in text.splitlines() if line.startswith("$ ")]


def test_every_command_works_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert len(commands()) == 8
    for command in commands():
        filled = re.sub(r"\$\(cat ([\w.]+)\)", lambda found: (folder / found[1]).read_text().strip(), command)
        program, *arguments = shlex.split(filled)
        assert program == "endive"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, (command, done.output)
        assert done.output.strip()
    assert {path.name for path in folder.glob("*.toml")} == {
        "mine.toml",
        "mine.store.toml",
        "measured.toml",
        "store.toml",
        "week.toml",
        "week.store.toml",
    }
    assert 'commit_path = "pyiceberg"' in (folder / "mine.toml").read_text()
