"""Functions that run the command line: in this process, or in a separate one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from endive.main import app

_POWER = re.compile(r"\de[+-]\d\d")
ENDIVE = [sys.executable, "-m", "endive"]


def appends(duration_ms: str, *, retry: int, rate: float, provider: str = "s3", runtime: str = "mean = 500, sigma = 0.5") -> str:
    """Return a configuration of appends on the reference engine, to which further tables can be added."""
    return f"""
[simulation]
duration_ms = {duration_ms}
engine = "reference"

[storage]
provider = "{provider}"

[transaction]
retry = {retry}
runtime = {{ {runtime} }}

[workload.ingest]
rate = {rate}
operation = "fast_append"
"""


def invoke(*arguments: str) -> Result:
    """Run a command in this process. An uncaught exception is an error of the test, not an exit code."""
    result = CliRunner().invoke(app, list(arguments), prog_name="endive")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def narrow_invoke(*arguments: str) -> Result:
    """Run a command as in a terminal of 80 columns."""
    return CliRunner().invoke(app, list(arguments), prog_name="endive", env={"COLUMNS": "80"})


def assert_fits(lines: list[str]) -> None:
    """Check that lines are wrapped at 80 columns between words, and that no number is a power of ten."""
    for line in lines:
        assert len(line) <= 80 or len(line.split()) == 1, line
        assert line == line.rstrip(), line
        assert not _POWER.search(line), line


def call(*arguments: str, cwd: Path, file_limit_bytes: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a separate process, without a terminal."""

    def limit() -> None:
        if file_limit_bytes is not None:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit_bytes, file_limit_bytes))

    return subprocess.run(
        [*ENDIVE, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, preexec_fn=limit, timeout=300
    )


def start(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    """Start a command that the test interrupts."""

    def interruptible() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    return subprocess.Popen(
        [*ENDIVE, *arguments],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    )


def environment() -> dict[str, str]:
    """Return an environment without terminal width or color settings."""
    return {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR", "PYTHONWARNINGS")}


def strict(text: str) -> Any:
    """Parse strict JSON: one document, without NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def files(directory: Path) -> set[str]:
    """Return all files below a directory."""
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
