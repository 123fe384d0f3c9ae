"""The runner: takes a configuration, chooses an engine, hands on its rows."""

from __future__ import annotations

import logging
from functools import cached_property

from endive.simulation.config import SimulationConfig
from endive.simulation.reference import ReferenceEngine
from endive.simulation.rows import Progress, Sink
from endive.simulation.statistics import Statistics
from endive.simulation.summary import RunCounters

log = logging.getLogger(__name__)


class EngineError(ValueError):
    """The engine that was asked for cannot run this configuration."""


class Simulation:
    """One run of the model.

    ``run`` keeps all rows; ``stream`` hands them on in batches and keeps none. Both may be called again, with the same outcome.
    """

    def __init__(self, config: SimulationConfig) -> None:
        self.config = config

    @cached_property
    def engine(self) -> str:
        """The engine that runs this configuration: ``auto`` compiles what can be compiled."""
        if self.config.engine == "reference":
            if self.config.convoy != "exact":
                raise EngineError("convolved convoys are for the compiled engine; the reference engine draws each batch")
            return "reference"
        from endive.simulation.compiled.lower import NotLowerableError, check_lowerable

        try:
            check_lowerable(self.config)
        except NotLowerableError as error:
            if self.config.engine == "compiled" or self.config.convoy != "exact":
                raise EngineError(f"the compiled engine cannot run this: {error}") from None
            log.info("running on the reference engine: %s", error)
            return "reference"
        return "compiled"

    @property
    def is_compiled(self) -> bool:
        """Whether the kernel that the compiled engine needs for this configuration was compiled before."""
        from endive.simulation.compiled.cache import is_cached
        from endive.simulation.compiled.lower import features_of

        return is_cached(features_of(self.config))

    def run(self) -> Statistics:
        """Run to the end and return all results."""
        statistics = Statistics()
        statistics.counters = self.stream(statistics)
        return statistics

    def stream(self, sink: Sink, *, trace: Sink | None = None, progress: Progress | None = None) -> RunCounters:
        """Run to the end, handing result rows to ``sink`` and events to ``trace``, batch by batch.

        Only the reference engine can trace, so a run with ``trace`` is run by it.
        """
        if trace is None and self.engine == "compiled":
            from endive.simulation.compiled.engine import CompiledEngine

            return CompiledEngine(self.config, sink, progress).run()
        if trace is not None and self.engine == "compiled":
            if self.config.engine == "compiled":
                raise EngineError("the compiled engine writes no trace; use the reference engine")
            log.info("running on the reference engine: a trace was asked for")
        return ReferenceEngine(self.config, sink, trace, progress).run()
