"""What runs are likely to cost, before they are run."""

from __future__ import annotations

from dataclasses import dataclass, field

from endive.config.build import build_simulation_config
from endive.config.schema import Document
from endive.runs.speed import is_measured, measure_speed, speed_of_this_machine
from endive.simulation.expected import ExpectedWork, expected_work

_BYTES_PER_TRANSACTION = 110.0
_WORTH_MEASURING_S = 30.0
"""Measuring the speed of the machine takes a second of CPU: less than this is estimated without."""


@dataclass(frozen=True)
class Effort:
    """What some runs will take."""

    work: ExpectedWork = field(default_factory=ExpectedWork)
    runs: int = 0

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.work + other.work, self.runs + other.runs)

    @property
    def transactions(self) -> float:
        """Transactions to simulate."""
        return self.work.transactions

    @property
    def cpu_seconds(self) -> float:
        """Seconds of one core, by the speed of this machine as far as it is known."""
        return speed_of_this_machine().cpu_seconds(self.work, self.runs)

    @property
    def disk_bytes(self) -> float:
        """Disk that the results will take."""
        return self.work.transactions * _BYTES_PER_TRANSACTION


def estimate_effort(document: Document) -> Effort:
    """Estimate what one run of a configuration takes, from its model. Nothing is timed for it.

    This is the one place where estimates come in: who plans, guards or deals runs to tasks asks here.
    """
    return Effort(expected_work(build_simulation_config(document, seed_override=0)), 1)


def measure_for(effort: Effort) -> None:
    """Measure the speed of this machine, unless it was before, where the effort is worth it."""
    if effort.cpu_seconds > _WORTH_MEASURING_S and not is_measured():
        measure_speed()
