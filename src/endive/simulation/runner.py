"""The runner: takes a configuration, chooses an engine, hands on its rows."""

from __future__ import annotations

import logging

from endive.simulation.config import SimulationConfig
from endive.simulation.reference import Progress, ReferenceEngine
from endive.simulation.rows import Sink
from endive.simulation.statistics import Statistics
from endive.simulation.summary import RunCounters

log = logging.getLogger(__name__)


class Simulation:
    """One run of the model.

    ``run`` keeps all rows; ``stream`` hands them on in batches and keeps none. Both may be called again, with the same outcome.
    """

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config

    @property
    def engine(self) -> str:
        """The engine that runs this configuration."""
        return "reference"

    def run(self) -> Statistics:
        """Run to the end and return all results."""
        statistics = Statistics()
        statistics.counters = self.stream(statistics)
        return statistics

    def stream(self, sink: Sink, *, trace: Sink | None = None, progress: Progress | None = None) -> RunCounters:
        """Run to the end, handing result rows to ``sink`` and events to ``trace``, batch by batch."""
        return ReferenceEngine(self.config, sink, trace, progress).run()
