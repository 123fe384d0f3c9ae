"""Choose the engine of a run, and run it.

Both engines produce the same rows, so ``auto`` selects the engine with the shorter expected time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from endive.simulation.columns import Progress, Sink
from endive.simulation.config import SimulationConfig
from endive.simulation.summary import RunCounters, Statistics
from endive.transaction.paths import COMMIT_PATHS

if TYPE_CHECKING:
    from endive.simulation.compiled.features import Features

_COMPILATION_S = 4.0
_COMPILATION_OF_A_PATH_S = 2.0
"""CPU seconds to compile a kernel, and additional CPU seconds for each commit path of the kernel (from benchmarks)."""
_PLAIN_COMPILATION = 3.0
"""Ratio of the time to compile a kernel by ``numba.njit`` to the time to compile object code."""


class EngineError(ValueError):
    """Raised if the requested engine cannot run the configuration."""


@dataclass(frozen=True)
class Choice:
    """Chosen engine, with the reason for the choice."""

    engine: Literal["reference", "compiled"]
    why: str
    compiles: Literal["no", "first", "beside"] = "no"
    """Compilation of the kernel: none, before the run, or in the background during the run."""
    features: Features | None = None
    """Features of the required kernel.

    None if the reference engine was requested, or if the compiled engine cannot run the configuration.
    """


def choose_engine(config: SimulationConfig, *, among_many: bool = False) -> Choice:
    """Choose the engine of a run.

    If the kernel is not in the cache, the run waits for its compilation if the reference engine would take longer, or if many runs
    need the kernel.

    Raises:
        EngineError: If the requested engine cannot run the configuration.
    """
    if config.engine == "reference":
        return Choice("reference", "the configuration requests this engine")
    from endive.simulation.compiled.kernel_cache import UNTESTED_RELEASE, is_cached
    from endive.simulation.compiled.lower import NotLowerableError, check_lowerable, features_of

    try:
        check_lowerable(config)
    except NotLowerableError as error:
        if config.engine == "compiled":
            raise EngineError(f"the compiled engine cannot run this configuration: {error}") from None
        return Choice("reference", str(error))
    features = features_of(config)
    if is_cached(features):
        return Choice("compiled", "the kernel is in the cache", features=features)
    if config.engine == "compiled":
        return Choice("compiled", "the configuration requests this engine", "first", features)
    if among_many:
        return Choice("compiled", "many runs need the kernel", "first", features)
    compilation_s = _COMPILATION_S + _COMPILATION_OF_A_PATH_S * len(features.names & COMMIT_PATHS.keys())
    if UNTESTED_RELEASE:
        compilation_s *= _PLAIN_COMPILATION
    from endive.simulation.expected import expected_work

    reference_s = expected_work(config).reference_s
    seconds = f"the reference engine takes about {reference_s:.2g} s, and compiling the kernel takes about {compilation_s:.2g} s"
    if reference_s < compilation_s:
        return Choice("reference", seconds, "no" if UNTESTED_RELEASE else "beside", features)
    return Choice("compiled", seconds, "first", features)


log = logging.getLogger(__name__)

__all__ = ["EngineError", "Simulation"]


class Simulation:
    """Simulation of one configuration.

    ``run`` keeps all rows in memory. ``stream`` passes the rows to a callback in batches and does not keep them. Repeated calls
    return the same rows. The engine is chosen when ``choice`` is first read.

    Args:
        config: Configuration of the run.
        among_many: Whether many similar runs follow. If so, the run waits for the compilation of its kernel.
    """

    def __init__(self, config: SimulationConfig, *, among_many: bool = False) -> None:
        self.config = config
        self._among_many = among_many

    @cached_property
    def choice(self) -> Choice:
        """Engine that runs this configuration, and the reason for choosing it.

        Raises:
            EngineError: If the requested engine cannot run the configuration.
        """
        return choose_engine(self.config, among_many=self._among_many)

    @property
    def engine(self) -> str:
        """Name of the engine that runs this configuration."""
        return self.choice.engine

    def run(self) -> Statistics:
        """Run to the end, and return all results."""
        statistics = Statistics()
        statistics.counters = self.stream(statistics)
        return statistics

    def stream(self, sink: Sink, *, trace: Sink | None = None, progress: Progress | None = None) -> RunCounters:
        """Run to the end, and pass result rows to ``sink`` and trace events to ``trace`` in batches.

        A run with ``trace`` uses the reference engine, because the compiled engine does not write traces.
        """
        if trace is not None:
            if self.config.engine == "compiled":
                raise EngineError("the compiled engine writes no trace; use the reference engine")
            log.info("running on the reference engine: the compiled engine writes no trace")
        else:
            log.info("running on the %s engine: %s", self.engine, self.choice.why)
            if self.engine == "compiled":
                from endive.simulation.compiled.engine import CompiledEngine

                return CompiledEngine(self.config, sink, progress).run()
            if self.choice.compiles == "beside" and self.choice.features is not None:
                from endive.simulation.compiled.kernel_cache import compile_in_background

                compile_in_background(self.choice.features)
        from endive.simulation.reference import ReferenceEngine

        return ReferenceEngine(self.config, sink, trace, progress).run()
