"""The runner: takes a configuration, chooses an engine, hands on its rows."""

from __future__ import annotations

import logging
from functools import cached_property

from endive.simulation.choice import Choice, EngineError, choose_engine
from endive.simulation.config import SimulationConfig
from endive.simulation.rows import Progress, Sink
from endive.simulation.statistics import Statistics
from endive.simulation.summary import RunCounters

log = logging.getLogger(__name__)

__all__ = ["EngineError", "Simulation"]


class Simulation:
    """One run of the model.

    ``run`` keeps all rows; ``stream`` hands them on in batches and keeps none. Both may be called again, with the same outcome.
    ``among_many`` says that other runs like this one follow: a kernel that has to be compiled is then worth waiting for.
    """

    def __init__(self, config: SimulationConfig, *, among_many: bool = False) -> None:
        self.config = config
        self._among_many = among_many

    @cached_property
    def choice(self) -> Choice:
        """The engine that runs this configuration, and why. Raises EngineError if the one that was asked for cannot."""
        return choose_engine(self.config, among_many=self._among_many)

    @property
    def engine(self) -> str:
        """The name of the engine that runs this configuration."""
        return self.choice.engine

    def run(self) -> Statistics:
        """Run to the end and return all results."""
        statistics = Statistics()
        statistics.counters = self.stream(statistics)
        return statistics

    def stream(self, sink: Sink, *, trace: Sink | None = None, progress: Progress | None = None) -> RunCounters:
        """Run to the end, handing result rows to ``sink`` and events to ``trace``, batch by batch.

        Only the reference engine can trace, so a run with ``trace`` is run by it.
        """
        if trace is not None:
            if self.config.engine == "compiled":
                raise EngineError("the compiled engine writes no trace; use the reference engine")
            log.info("running on the reference engine: a trace was asked for")
        else:
            log.info("running on the %s engine: %s", self.engine, self.choice.why)
            if self.engine == "compiled":
                from endive.simulation.compiled.engine import CompiledEngine

                return CompiledEngine(self.config, sink, progress).run()
            if self.choice.compiles == "beside" and self.choice.features is not None:
                from endive.simulation.compiled.native.kernel_cache import compile_in_background

                compile_in_background(self.choice.features)
        from endive.simulation.reference import ReferenceEngine

        return ReferenceEngine(self.config, sink, trace, progress).run()
