"""How fast this machine simulates: CPU seconds for a run, a transaction and a step, measured once and kept in the cache.

CPU time is measured, not the clock, so other work on the machine hardly matters. The figures go by the code of the engine and
by the machine; where they cannot be measured or kept, those of a machine of 2024 serve.
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from endive import __version__
from endive.cache_directory import cache_root
from endive.config.schema import Document
from endive.output_files import write_text
from endive.runs.execute import run_experiment
from endive.simulation.expected import ExpectedWork
from endive.version import code_version

_REPEATED = 3


@dataclass(frozen=True)
class Speed:
    """CPU seconds that a run takes by itself, for each transaction, and for each step or access to files."""

    run_s: float = 0.02
    transaction_s: float = 4e-6
    step_s: float = 5e-8

    def cpu_seconds(self, work: ExpectedWork, runs: int = 1) -> float:
        """Return what so much work takes, in so many runs."""
        return runs * self.run_s + self.transaction_s * work.transactions + self.step_s * (work.steps + work.accesses)


USUAL = Speed()


@cache
def speed_of_this_machine() -> Speed:
    """Return the speed that was measured on this machine before; the usual one if none was."""
    try:
        kept = json.loads(_file().read_text(encoding="utf-8"))
        found = Speed(**{name: float(kept[name]) for name in asdict(USUAL)})
    except (OSError, ValueError, KeyError, TypeError):
        return USUAL
    return found if all(0.0 < value < 1.0 for value in asdict(found).values()) else USUAL


def is_measured() -> bool:
    """Whether the speed of this machine was measured before."""
    return speed_of_this_machine() != USUAL


def measure_speed() -> Speed:
    """Measure the speed of the compiled engine with all that is written, about a second of CPU, and keep it."""
    with tempfile.TemporaryDirectory(prefix="endive-speed-") as folder:
        nothing = _measured(Path(folder) / "0", rate=0.001, retry=0)
        many = _measured(Path(folder) / "1", rate=100.0, retry=0)
        crowded = _measured(Path(folder) / "2", rate=20.0, retry=20)
    step_s = max((crowded.cpu_s - nothing.cpu_s) / max(crowded.steps, 1), 1e-9)
    transaction_s = max((many.cpu_s - nothing.cpu_s - step_s * many.steps) / max(many.transactions, 1), 1e-8)
    step_s = max((crowded.cpu_s - nothing.cpu_s - transaction_s * crowded.transactions) / max(crowded.steps, 1), 1e-9)
    found = Speed(max(nothing.cpu_s, 1e-4), transaction_s, step_s)
    write_text(_file(), json.dumps(asdict(found), indent=2) + "\n")
    speed_of_this_machine.cache_clear()
    return found


@dataclass(frozen=True)
class _Measured:
    cpu_s: float
    transactions: int
    steps: int


def _measured(root: Path, rate: float, retry: int) -> _Measured:
    """The least CPU time of some runs, since what disturbs a run only adds to it."""
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
    return _Measured(min(seconds), int(summary["transactions"]), int(summary["event_count"] + accesses))


def _file() -> Path:
    machine = "".join(letter if letter.isalnum() else "-" for letter in platform.node())
    return cache_root() / "speed" / f"{__version__}-{code_version()}-{machine}.json"
