"""Measure the CPU time of every ``endive frontier`` and ``endive tune`` command in the documentation, one after the other.

A command that compiles a kernel runs again, so that the figures exclude compilation. ``ENDIVE_BEFORE`` names a directory with an
earlier source (``git worktree add --detach DIR COMMIT``, then ``DIR/src``), which then runs each command as well.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, Row, environment_with
from endive.cache_directory import CACHE_VARIABLE

_PAGES = ("README.md", "docs/**/*.md")
_FILE = re.compile(r"[Ss]ave this as `(?P<name>[\w.]+\.toml)`:\s*```toml\n(?P<text>.*?)```", re.DOTALL)
_COMMAND = re.compile(r"(?:^\$ |`)(?P<command>endive (?:frontier|tune) [\w/.]+\.toml[^`\n]*)", re.MULTILINE)
_PLACEHOLDER = "my.toml"


def measure_searches(shorter: float) -> list[Row]:
    """Return a row for each command, with the CPU time of the earlier source if there is one."""
    before = os.environ.get("ENDIVE_BEFORE")
    commands = list(dict.fromkeys(_find_commands()))
    rows = []
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as cache:
        for page, command in commands if shorter == 1.0 else commands[-1:]:
            row = {"case": command, "page": page, **_measure(page, command, ROOT / "src", Path(cache))}
            if before is not None:
                earlier = _measure(page, command, Path(before), Path(cache))
                row |= {f"before_{name}": value for name, value in earlier.items()}
                row["ratio"] = row["before_cpu_s"] / row["cpu_s"]
            rows.append(row)
    return rows


def _find_commands() -> Iterator[tuple[str, str]]:
    """Yield the pages and the searches that they show."""
    for pattern in _PAGES:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8").replace("\\\n", " ")
            for found in _COMMAND.finditer(text):
                if _PLACEHOLDER not in found["command"]:
                    yield str(path.relative_to(ROOT)), " ".join(found["command"].split())


def _measure(page: str, command: str, source: Path, cache: Path) -> dict[str, Any]:
    """Run a command of a page until it compiles no kernel."""
    environment = {"PYTHONPATH": str(source), CACHE_VARIABLE: str(cache / "endive")}
    while True:
        kernels = sorted(cache.rglob("*.o"))
        found = _run(page, command, environment)
        if sorted(cache.rglob("*.o")) == kernels:
            return found


def _run(page: str, command: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Run a command of a page in an empty directory; return its CPU time, its runs and its answer."""
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        for given in _FILE.finditer((ROOT / page).read_text(encoding="utf-8")):
            (folder / given["name"]).write_text(given["text"], encoding="utf-8")
        with (folder / "answer.json").open("w+") as answer:
            process = subprocess.Popen(
                [sys.executable, "-m", "endive", *shlex.split(command)[1:], "--json"],
                cwd=folder,
                env=environment_with(environment),
                stdout=answer,
                stderr=subprocess.DEVNULL,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise RuntimeError(f"{command} ended with {process.returncode}")
            answer.seek(0)
            record = json.load(answer)
        transactions = sum(json.loads(path.read_text())["rows"] for path in folder.rglob("provenance.json"))
    return {
        "cpu_s": used.ru_utime + used.ru_stime,
        "runs": record["runs"],
        "transactions": transactions,
        "answer": " ".join(record["answer"]),
    }
