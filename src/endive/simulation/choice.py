"""Which engine runs a configuration. Rows do not depend on it, so ``auto`` takes the one that is done sooner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from endive.simulation.config import SimulationConfig

if TYPE_CHECKING:
    from endive.simulation.expected import ExpectedWork

_REFERENCE_STEP_S = 15e-6
"""CPU seconds of the reference engine for a step that bears a latency, with its share of the transaction (benchmarks)."""
_COMPILATION_S = 4.0
_COMPILATION_OF_A_PATH_S = 2.0
"""CPU seconds to compile a kernel, and for each commit path in it (benchmarks)."""


class EngineError(ValueError):
    """The engine that was asked for cannot run this configuration."""


@dataclass(frozen=True)
class Choice:
    """An engine, and why it was taken; whether its kernel has to be compiled first, or is compiled beside the run."""

    engine: Literal["reference", "compiled"]
    why: str
    compiles: Literal["no", "first", "beside"] = "no"


def choose_engine(config: SimulationConfig, *, among_many: bool = False) -> Choice:
    """Choose the engine of a run.

    A kernel that was not compiled yet is waited for if the run takes longer than that on the reference engine, or if the run is
    one among many that need it. Raises EngineError if the engine that the configuration asks for cannot run it.
    """
    if config.engine == "reference":
        return Choice("reference", "the configuration asks for it")
    from endive.simulation.compiled.cache import is_cached
    from endive.simulation.compiled.lower import NotLowerableError, check_lowerable, features_of

    try:
        check_lowerable(config)
    except NotLowerableError as error:
        if config.engine == "compiled":
            raise EngineError(f"the compiled engine cannot run this: {error}") from None
        return Choice("reference", str(error))
    features = features_of(config)
    if is_cached(features):
        return Choice("compiled", "its kernel was compiled before")
    if config.engine == "compiled":
        return Choice("compiled", "the configuration asks for it", "first")
    if among_many:
        return Choice("compiled", "many runs need its kernel", "first")
    compilation_s = _COMPILATION_S + _COMPILATION_OF_A_PATH_S * (features.endive + features.iceberg + features.pyiceberg)
    from endive.simulation.expected import expected_work

    reference_s = reference_seconds(expected_work(config))
    seconds = f"some {reference_s:.2g} s on the reference engine, {compilation_s:.2g} s to compile the other"
    if reference_s < compilation_s:
        return Choice("reference", seconds, "beside")
    return Choice("compiled", seconds, "first")


def reference_seconds(work: ExpectedWork) -> float:
    """Estimate what the reference engine takes for so much work, in CPU seconds."""
    return _REFERENCE_STEP_S * (work.steps + 0.5 * work.accesses)
