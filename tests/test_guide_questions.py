"""The pages of the questions: every file that they give is valid, and every command works, in a short form."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from endive.main import app
from tests.test_docs import ROOT, blocks

PAGES = sorted(path for path in (ROOT / "docs/guides/questions").glob("*.md") if path.name != "README.md")
_FILE = re.compile(r"[Ss]ave this as `(?P<name>[\w.]+\.toml)`:\s*```toml\n(?P<text>.*?)```", re.DOTALL)
_SHORT = {"compaction.md": "21min", "compaction_interval.md": "1d", "through_time.md": "21min"}
"""How long runs are here: long enough for what the page is about to happen once."""


def commands(page: Path) -> list[list[str]]:
    """What the page tells to type."""
    texts = [text.replace("\\\n", " ") for _, text in blocks(page, "console")]
    return [shlex.split(line.removeprefix("$ ")) for text in texts for line in text.splitlines() if line.startswith("$ ")]


def shortened(command: list[str], length: str) -> list[str]:
    """The same command on short runs and few seeds."""
    if command[0] not in ("run", "compare", "frontier"):
        return command
    few = ["--seeds", "2", "--max-seeds", "2"] if command[0] == "frontier" else ["--seeds", "2"] if command[0] == "compare" else []
    given = [part for place, part in enumerate(command) if not ({part, command[place - 1]} & {"--seeds", "--max-seeds", "--to"})]
    few += ["--to", "1min" if "--from" in command else "10"] if command[0] == "frontier" else []
    return [*given, *few, "--set", f"simulation.duration_ms={length}", "--set", "simulation.engine=reference"]


def test_all_questions_are_listed() -> None:
    assert len(PAGES) == 9
    listed = (ROOT / "docs/guides/questions/README.md").read_text()
    assert all(f"]({page.name})" in listed for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_works_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in _FILE.finditer(page.read_text()):
        Path(file["name"]).write_text(file["text"])
    for line, code in blocks(page, "python"):
        namespace: dict[str, Any] = {"__name__": "guide"}
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
    typed = commands(page)
    assert typed
    for program, *arguments in typed:
        assert program == "endive"
        call = shortened(arguments, _SHORT.get(page.name, "2min"))
        done = CliRunner().invoke(app, call)
        assert done.exit_code == 0, (call, done.output)
        assert done.output.strip()
