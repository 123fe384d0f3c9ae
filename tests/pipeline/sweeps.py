"""Sweeps for tests: small, on the reference engine; and checks of their files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from endive.config.sweep_file import Sweep
from endive.runs.plan import SweepPlan, plan_sweep
from endive.runs.stored import find_experiments

TEXT = """
[sweep]
{about}
[base.simulation]
duration_ms = {duration_ms}
engine = "reference"
[base.storage]
provider = "instant"
[base.transaction]
runtime = {{ mean = 20, sigma = 0.5 }}
[base.workload.w]
rate = 50.0
operation = "fast_append"
[axes]
"workload.w.rate" = {rates}
{more}
"""
POINTS = 6


def write_sweep(folder: Path, about: str, rates: str, duration_ms: float, more: str = "") -> Path:
    """Write a sweep over rates; ``about`` is the content of ``[sweep]``, ``more`` follows its axes."""
    path = folder / "study.toml"
    path.write_text(TEXT.format(about=about, rates=rates, duration_ms=duration_ms, more=more))
    return path


def sweep_file(folder: Path, *, seeds: int = 2, duration_ms: float = 1_000.0) -> Path:
    """Write a sweep of six points."""
    return write_sweep(folder, f'seeds = "0-{seeds - 1}"', "[20, 50, 80]", duration_ms, '"catalog.num_tables" = [1, 4]')


def plan_of(path: Path) -> SweepPlan:
    """Return the plan of a sweep."""
    return plan_sweep(Sweep(path))


def digests(root: Path) -> dict[str, str]:
    """Return the checksum of every results file, by path below ``root``."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("results.parquet"))
    }


def problems(root: Path) -> list[str]:
    """Return the problems of a directory, including partial files."""
    found = [f"{run.directory}: {run.problem()}" for each in find_experiments(root) for run in each.runs if run.problem()]
    return found + [str(path) for path in root.rglob("*.tmp")]
