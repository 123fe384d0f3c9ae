"""Estimate the CPU time and disk space of runs, and give reasons not to run them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.formatting import format_bytes, format_duration
from endive.simulation.expected import ExpectedWork, expected_work

_BYTES_PER_TRANSACTION = 110.0
_RUN_S = 6e-3
"""CPU seconds to write and summarize a run without transactions, on a 2024 machine."""
_TRANSACTION_S = 8e-7
"""CPU seconds to write and summarize the row of a transaction, on a 2024 machine."""
_CLASS_S = 4e-4
"""CPU seconds to summarize one class, measured with 400 and 1,500 classes."""
_TABLE_S = 1e-5
"""CPU seconds to build the state of one table, measured with 100,000 and 1,000,000 tables."""
_MEASURED_CLASS_S = 0.01
"""CPU seconds to set up, measure and summarize one class, measured with 100 to 400 classes."""
LONG_SECONDS = 24 * 3_600.0
"""Estimated duration in seconds above which a sweep needs --yes."""
_FREE_SHARE = 0.9
"""Fraction of the free disk space that results may use."""


@dataclass(frozen=True)
class Effort:
    """Estimated transactions, CPU time and disk space of some runs."""

    work: ExpectedWork = field(default_factory=ExpectedWork)
    runs: int = 0
    build_s: float = 0.0
    """CPU seconds to build the model and to summarize its classes."""
    kept: float = 1.0
    """Fraction of the rows that are kept."""

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.work + other.work, self.runs + other.runs, self.build_s + other.build_s)

    @property
    def transactions(self) -> float:
        """Number of transactions to simulate."""
        return self.work.transactions

    @property
    def cpu_seconds(self) -> float:
        """CPU time in seconds on this machine, without the compilation of a kernel."""
        output_s = self.runs * _RUN_S + self.work.transactions * _TRANSACTION_S
        return self.build_s + self.work.setup_s + self.work.engine_s + output_s

    @property
    def disk_bytes(self) -> float:
        """Size of the results on disk."""
        return self.kept * self.work.transactions * _BYTES_PER_TRANSACTION


def estimate_effort(document: Document, *, compiles: bool = True) -> Effort:
    """Estimate the effort of one run of a configuration from pilot runs.

    Args:
        document: Configuration of the run.
        compiles: Whether to wait for the compilation of a kernel that is not in the cache. If False, the estimate is less precise.
    """
    began = time.thread_time()
    config = build_simulation_config(document, seed_override=0)
    build_s = time.thread_time() - began
    return Effort(expected_work(config, compiles=compiles), 1, build_s + _CLASS_S * len(config.workload.config.workload_classes))


def preparation_seconds(document: Document) -> float:
    """Estimate the CPU seconds to build a configuration twice (for the estimate and for a run) and to measure its classes."""
    return 2.0 * _TABLE_S * document.catalog.num_tables + _MEASURED_CLASS_S * max(1, len(document.workload))


def objections(effort: Effort, root: Path, cores: int | None) -> Iterator[str]:
    """Yield the reasons not to start runs with this effort. ``cores`` is None if the number of cores is unknown."""
    free = free_bytes(root)
    if effort.disk_bytes > free * _FREE_SHARE:
        yield f"results would take about {format_bytes(effort.disk_bytes)}, and {format_bytes(free)} are free in {root}"
    if cores is not None and effort.cpu_seconds / cores > LONG_SECONDS:
        yield f"this would take about {format_duration(1000.0 * effort.cpu_seconds / cores)} on {cores} cores"


def free_bytes(root: Path) -> int:
    """Return the free disk space in bytes for a directory, which does not have to exist."""
    existing = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free
