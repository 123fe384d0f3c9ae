"""What runs are likely to cost, before they are run, and what speaks against it: too little disk, or days of computing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.formatting import format_bytes, format_duration
from endive.runs.speed import is_measured, measure_speed, speed_of_this_machine
from endive.simulation.expected import ExpectedWork, expected_work

_BYTES_PER_TRANSACTION = 110.0
_TABLE_S = 1e-5
"""CPU seconds to build the state of one table, measured with 20,000 to 200,000 tables on a machine of 2024."""
_CLASS_S = 0.01
"""CPU seconds to set up, measure and summarize one class, measured with 100 to 400 classes."""
_WORTH_MEASURING_S = 30.0
"""Measuring the speed of the machine takes a second of CPU: less than this is estimated without."""
LONG_SECONDS = 24 * 3_600.0
"""What takes longer is asked about first."""
_FREE_SHARE = 0.9
"""Results may take so much of the free disk."""


@dataclass(frozen=True)
class Effort:
    """What some runs will take."""

    work: ExpectedWork = field(default_factory=ExpectedWork)
    runs: int = 0
    setup_s: float = 0.0
    """CPU seconds for tables and classes, whatever happens in a run."""

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.work + other.work, self.runs + other.runs, self.setup_s + other.setup_s)

    @property
    def transactions(self) -> float:
        """Transactions to simulate."""
        return self.work.transactions

    @property
    def cpu_seconds(self) -> float:
        """Seconds of one core, by the speed of this machine as far as it is known."""
        return speed_of_this_machine().cpu_seconds(self.work, self.runs) + self.setup_s

    @property
    def disk_bytes(self) -> float:
        """Disk that the results will take."""
        return self.work.transactions * _BYTES_PER_TRANSACTION


def estimate_effort(document: Document) -> Effort:
    """Estimate what one run of a configuration takes, from its model. Nothing is timed for it.

    This is the one place where estimates come in: who plans, guards or deals runs to tasks asks here.
    """
    setup_s = document.catalog.num_tables * _TABLE_S + max(1, len(document.workload)) * _CLASS_S
    return Effort(expected_work(build_simulation_config(document, seed_override=0)), 1, setup_s)


def estimation_seconds(document: Document) -> float:
    """Return the CPU time of ``estimate_effort`` itself, which builds the catalog and tries each class on it."""
    classes = max(1, len(document.workload))
    return document.catalog.num_tables * _TABLE_S * (1 + classes) + classes * _CLASS_S


def measure_for(effort: Effort) -> None:
    """Measure the speed of this machine, unless it was before, where the effort is worth it."""
    if effort.cpu_seconds > _WORTH_MEASURING_S and not is_measured():
        measure_speed()


def objections(effort: Effort, root: Path, cores: int | None) -> Iterator[str]:
    """Yield what speaks against an effort, in words. ``cores`` is None where it is not known how many there are."""
    free = free_bytes(root)
    if effort.disk_bytes > free * _FREE_SHARE:
        yield f"results would take about {format_bytes(effort.disk_bytes)}, and {format_bytes(free)} are free in {root}"
    if cores is not None and effort.cpu_seconds / cores > LONG_SECONDS:
        yield f"this would take about {format_duration(1000.0 * effort.cpu_seconds / cores)} on {cores} cores"


def free_bytes(root: Path) -> int:
    """Return the free disk where a directory is, or will be."""
    existing = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free
