"""Save the configuration of the page as a study in the directory of the server, and create the report in the background.

The study varies the load, so that the report shows throughput by load. Existing files are not overwritten.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from endive.runs.layout import REPORT
from endive.serve.changes import FACTORS, load_changes
from endive.serve.messages import Tree

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SEEDS = "0-4"
_KEPT_LINES = 5
_HEADING = "# Written by the live page: multiples of the current load.\n# Run it with endive sweep, then endive report.\n"


class SaveError(ValueError):
    """Raised if a file cannot be written; the message is shown to the user."""


def study_text(tree: Tree) -> str:
    """Return the text of a sweep over multiples of the current load, or over seeds only if the load cannot be scaled."""
    by_factor = [dict(load_changes(tree, factor)) for factor in FACTORS]
    axes = {key: [changes[key] for changes in by_factor] for key in by_factor[0]}
    varied = {key: values for key, values in axes.items() if len({repr(value) for value in values}) == len(FACTORS)}
    study: dict[str, Any] = {"sweep": {"seeds": _SEEDS}, "base": {k: v for k, v in tree.items() if k != "experiment"}}
    if len(varied) == 1:
        study["axes"] = varied
    elif varied:
        study["zip"] = [varied]
    return f"{_HEADING}{tomli_w.dumps(study)}"


def sweep_arguments(study: str, tree: Tree) -> list[str]:
    """Return the command line arguments that run the study of a configuration."""
    return ["sweep", study, *(["--allow-code"] if tree.get("parts") else [])]


def save_study(directory: Path, name: str, tree: Tree) -> Path:
    """Write a study to a file. Raises SaveError if the name is invalid or taken."""
    path = directory / f"{checked_name(name)}.toml"
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(study_text(tree))
    except FileExistsError:
        raise SaveError(f"{path.name} already exists. Choose another name.") from None
    except OSError as error:
        raise SaveError(f"Cannot write {path.name}: {error.strerror}.") from None
    return path


def checked_name(name: str) -> str:
    """Return a file name without ``.toml``. Raises SaveError if the name is not valid."""
    stem = name.removesuffix(".toml")
    if not _NAME.fullmatch(stem):
        raise SaveError("A name contains only letters, digits, dots, dashes and underscores, and starts with a letter or a digit.")
    return stem


@dataclass
class Report:
    """Creation of a report in a background process."""

    name: str
    sweep: list[str]
    out: Path
    state: str = "running"
    lines: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """Path of the report."""
        return self.out / REPORT

    def to_json(self) -> dict[str, str]:
        """Return the state of the report for the page."""
        return {"name": self.name, "state": self.state, "line": self.lines[-1] if self.lines else "", "file": str(self.file)}


class Reports:
    """Reports of a server by name, with the processes that create them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._tasks: set[asyncio.Task[None]] = set()
        self.by_name: dict[str, Report] = {}

    def begin(self, name: str, tree: Tree) -> Report:
        """Save a study, and create the report in the background. Raises SaveError if another file has this name."""
        stem = checked_name(name)
        path = self._directory / f"{stem}.toml"
        same = path.is_file() and path.read_text(encoding="utf-8") == study_text(tree)
        running = self.by_name.get(stem)
        if running is not None and running.state == "running":
            return running
        study = path if same else save_study(self._directory, stem, tree)
        report = Report(stem, sweep_arguments(str(study), tree), self._directory / "experiments" / stem)
        self.by_name[stem] = report
        task = asyncio.create_task(self._make(report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return report

    async def close(self) -> None:
        """Stop the processes that create reports."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _make(self, report: Report) -> None:
        steps = ([*report.sweep, "--out", str(report.out)], ["report", str(report.out)])
        for step in steps:
            report.lines.append(f"endive {step[0]} …")
            if await self._run(report, step) != 0:
                report.state = "failed"
                return
        report.state = "done" if report.file.is_file() else "failed"

    async def _run(self, report: Report, arguments: Sequence[str]) -> int:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "endive",
            *arguments,
            cwd=self._directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async for line in process.stderr:
                text = line.decode("utf-8", "replace").strip()
                if text:
                    report.lines = [*report.lines[-_KEPT_LINES:], text[:300]]
            return await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
