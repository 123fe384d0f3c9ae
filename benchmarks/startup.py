"""Measure waiting times: first run with an empty cache, kernel compilation, later runs, a small study, imports."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import ROOT, Row, environment_with, median_of, probe
from endive.simulation.compiled.features import ALL, Features

_MODULES = ("endive", "endive.main", "endive.config", "endive.simulation")
_REPEATS = 5
_KERNELS = (
    *map(Features.named, ("endive-cas", "endive-log", "endive-service", "iceberg-files-cas", "pyiceberg-files-cas")),
    ALL,
)
_EXAMPLE = "examples/mixed.toml"
_ARCHIVE_SECONDS = 300.0
_STUDY = "load_by_provider"
"""Study that ``make run`` runs."""


def measure_startup() -> list[Row]:
    """Return rows for commands, kernels and imports. Times of commands exclude background processes."""
    return [*_commands(), *(_compilation(features) for features in _KERNELS), *(_import(module) for module in _MODULES)]


def _commands() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        folder = Path(name)
        environment = {"ENDIVE_CACHE_DIR": str(folder / "cache")}
        run = ("run", _EXAMPLE, "-o", str(folder / "out"))
        first = _command(environment, *run)
        _command(environment, *run, "--engine", "compiled")
        warm = [_command(environment, *run) for _ in range(_REPEATS)]
        study = ("examples", "run", _STUDY, "-o")
        _command(environment, *study, str(folder / "first"))
        _wait_for_archive(folder / "cache")
        again = _command(environment, *study, str(folder / "again"))
    return [
        {"case": f"endive run {_EXAMPLE}, empty cache", **first},
        {"case": f"endive run {_EXAMPLE}, warm", **{key: median_of(warm, key) for key in warm[0]}},
        {"case": "make run, warm", **again},
    ]


def _wait_for_archive(cache: Path) -> None:
    """Wait until the class archive of Spark is written, in the background of the first session; later starts use it."""
    end = time.monotonic() + _ARCHIVE_SECONDS
    while time.monotonic() < end and not list((cache / "classes").glob("*.jsa")):
        time.sleep(1.0)


def _command(environment: Mapping[str, str], *arguments: str) -> Row:
    """Run an Endive command; return elapsed seconds, and CPU seconds of the command and the processes that it waited for."""
    before = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "endive", *arguments],
        cwd=ROOT,
        env=environment_with(environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"endive {' '.join(arguments)} ended with {process.returncode}")
    return {"wall_s": time.perf_counter() - before, "cpu_s": used.ru_utime + used.ru_stime}


def _compilation(features: Features) -> Row:
    name = "largest kernel" if features == ALL else f"kernel {features.name}"
    return {"case": f"compile {name}", **probe("compile", features.name)}


def _import(module: str) -> Row:
    return {"case": f"import {module}", "wall_s": median_of([probe("import", module) for _ in range(_REPEATS)], "wall_s")}
