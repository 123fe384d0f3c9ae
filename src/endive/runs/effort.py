"""Estimate the CPU time and disk space of runs, and give reasons not to run them.

Estimates use the speed of this machine, if it is known: it is measured once in CPU time, and cached by version and machine.
Otherwise they use the speed of a 2024 machine.
"""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from endive import __version__
from endive.cache_directory import cache_root
from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.formatting import format_bytes, format_duration
from endive.output_files import write_text
from endive.runs.execute import run_experiment
from endive.simulation.expected import ExpectedWork, expected_work
from endive.version import code_version

_BYTES_PER_TRANSACTION = 110.0
_TABLE_S = 1e-5
"""CPU seconds to build the state of one table, measured with 20,000 to 200,000 tables on a 2024 machine."""
_STEADY_TABLE_S = 3e-5
"""Further CPU seconds for the steady state of a table with manifests, measured with 2,000 to 10,000 tables."""
_CLASS_S = 0.01
"""CPU seconds to set up, measure and summarize one class, measured with 100 to 400 classes."""
_WORTH_MEASURING_S = 30.0
"""Estimated CPU time above which the speed of the machine is measured; the measurement takes a second."""
LONG_SECONDS = 24 * 3_600.0
"""Estimated duration above which a sweep needs --yes."""
_FREE_SHARE = 0.9
"""Fraction of the free disk space that results may take."""


@dataclass(frozen=True)
class Effort:
    """Estimated transactions, CPU time and disk space of some runs."""

    work: ExpectedWork = field(default_factory=ExpectedWork)
    runs: int = 0
    setup_s: float = 0.0
    """CPU seconds of a 2024 machine for tables and classes, independent of the length of a run."""

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.work + other.work, self.runs + other.runs, self.setup_s + other.setup_s)

    @property
    def transactions(self) -> float:
        """Number of transactions to simulate."""
        return self.work.transactions

    @property
    def cpu_seconds(self) -> float:
        """CPU time in seconds on this machine."""
        speed = speed_of_this_machine()
        return speed.cpu_seconds(self.work, self.runs) + self.setup_s * speed.run_s / USUAL.run_s

    @property
    def disk_bytes(self) -> float:
        """Size of the results on disk."""
        return self.work.transactions * _BYTES_PER_TRANSACTION


def estimate_effort(document: Document) -> Effort:
    """Estimate the effort of one run of a configuration from the model."""
    config = build_simulation_config(document, seed_override=0)
    classes = config.workload.config.workload_classes
    table_s = _TABLE_S + _STEADY_TABLE_S * any(config.policy_of(cls).path.keeps_files for cls in classes)
    return Effort(expected_work(config), 1, document.catalog.num_tables * table_s + len(classes) * _CLASS_S)


def estimation_seconds(document: Document) -> float:
    """Return the CPU time of ``estimate_effort`` itself, which builds the catalog and runs transactions of each class."""
    classes = max(1, len(document.workload))
    return document.catalog.num_tables * _TABLE_S * (1 + classes) + classes * _CLASS_S


def measure_for(effort: Effort) -> None:
    """Measure the speed of this machine if it is unknown and the effort is large enough."""
    if effort.cpu_seconds > _WORTH_MEASURING_S and not is_measured():
        measure_speed()


def objections(effort: Effort, root: Path, cores: int | None) -> Iterator[str]:
    """Yield the reasons not to start runs with this effort. ``cores`` is None if the number of cores is unknown."""
    free = free_bytes(root)
    if effort.disk_bytes > free * _FREE_SHARE:
        yield f"results would take about {format_bytes(effort.disk_bytes)}, and {format_bytes(free)} are free in {root}"
    if cores is not None and effort.cpu_seconds / cores > LONG_SECONDS:
        yield f"this would take about {format_duration(1000.0 * effort.cpu_seconds / cores)} on {cores} cores"


def free_bytes(root: Path) -> int:
    """Return the free disk space in bytes for a directory that may not exist yet."""
    existing = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


_REPEATED = 3


@dataclass(frozen=True)
class Speed:
    """CPU seconds per run, per transaction, and per step or access to a file."""

    run_s: float = 0.02
    transaction_s: float = 4e-6
    step_s: float = 5e-8

    def cpu_seconds(self, work: ExpectedWork, runs: int = 1) -> float:
        """Return the CPU time in seconds of some work that is divided into a number of runs."""
        return runs * self.run_s + self.transaction_s * work.transactions + self.step_s * (work.steps + work.accesses + work.picks)


USUAL = Speed()


@cache
def speed_of_this_machine() -> Speed:
    """Return the measured speed of this machine, or the default if it was not measured."""
    try:
        kept = json.loads(_file().read_text(encoding="utf-8"))
        found = Speed(**{name: float(kept[name]) for name in asdict(USUAL)})
    except (OSError, ValueError, KeyError, TypeError):
        return USUAL
    return found if all(0.0 < value < 1.0 for value in asdict(found).values()) else USUAL


def is_measured() -> bool:
    """Return whether the speed of this machine is known."""
    return speed_of_this_machine() != USUAL


def measure_speed() -> Speed:
    """Measure the speed of the compiled engine and of writing results, about a second of CPU, and cache it."""
    with tempfile.TemporaryDirectory(prefix="endive-speed-") as folder:
        nothing = _time_runs(Path(folder) / "0", rate=0.001, retry=0)
        many = _time_runs(Path(folder) / "1", rate=100.0, retry=0)
        crowded = _time_runs(Path(folder) / "2", rate=20.0, retry=20)
    step_s = max((crowded.cpu_s - nothing.cpu_s) / max(crowded.steps, 1), 1e-9)
    transaction_s = max((many.cpu_s - nothing.cpu_s - step_s * many.steps) / max(many.transactions, 1), 1e-8)
    step_s = max((crowded.cpu_s - nothing.cpu_s - transaction_s * crowded.transactions) / max(crowded.steps, 1), 1e-9)
    found = Speed(max(nothing.cpu_s, 1e-4), transaction_s, step_s)
    write_text(_file(), json.dumps(asdict(found), indent=2) + "\n")
    speed_of_this_machine.cache_clear()
    return found


@dataclass(frozen=True)
class _Timing:
    cpu_s: float
    transactions: int
    steps: int


def _time_runs(root: Path, rate: float, retry: int) -> _Timing:
    """Return the minimum CPU time of several runs, because other load on the machine only increases it."""
    document = Document.model_validate(
        {
            "simulation": {"duration_ms": 300_000.0, "engine": "compiled"},
            "experiment": {"label": "speed"},
            "storage": {"provider": "s3"},
            "transaction": {"retry": retry, "runtime": {"distribution": "fixed", "value": 1_000.0}},
            "workload": {"writers": {"rate": rate, "operation": "fast_append"}},
        }
    )
    seconds = []
    summary: dict[str, Any] = {}
    for repetition in range(_REPEATED):
        began = time.process_time()
        summary = run_experiment(document, root=root / str(repetition), seed=1).summary["total"]
        seconds.append(time.process_time() - began)
    accesses = sum(value for name, value in summary.items() if name.endswith(("_reads", "_writes", "_appends", "_deletes")))
    return _Timing(min(seconds), int(summary["transactions"]), int(summary["event_count"] + accesses))


def _file() -> Path:
    machine = "".join(letter if letter.isalnum() else "-" for letter in platform.node())
    return cache_root() / "speed" / f"{__version__}-{code_version()}-{machine}.json"
