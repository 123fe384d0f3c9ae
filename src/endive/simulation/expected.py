"""Estimate the transactions and the CPU time of a run from pilot runs.

The estimate extrapolates the work of the last two pilot runs to the duration of the run. Pilot runs use the compiled engine if its
kernel is in the cache or the caller waits for its compilation. Otherwise, they use the reference engine and are shorter. CPU time
is measured, so the estimates of two machines differ.
"""

from __future__ import annotations

from dataclasses import dataclass

from endive.simulation.compiled import kernel_cache
from endive.simulation.compiled.lower import NotLowerableError, check_lowerable, features_of
from endive.simulation.config import SimulationConfig
from endive.simulation.pilot import (
    COMPILED,
    QUICK,
    REFERENCE,
    STEADY_GROWTH,
    Pilot,
    PilotEngine,
    growth,
    run_pilots,
    selection_units,
    steady_after_ms,
)
from endive.workload import WorkloadClass

REFERENCE_RATIO = 150.0
"""CPU time of the reference engine divided by the CPU time of the compiled engine (from benchmarks)."""
_LEAST_COST = 0.6
"""Minimum CPU time per unit of work after the last pilot run, relative to the mean in that run. The maximum is 1."""
_BACKLOG = 4.0
"""Time until a backlog stops growing because its transactions run out of retries, relative to the last pilot run."""
_MANY_PICKS = 20_000.0
"""Work of selections per transaction, in steps, above which compiling the kernel takes less time than reference pilot runs."""


@dataclass(frozen=True)
class ExpectedWork:
    """Expected work of a run.

    Attributes:
        transactions: Number of transactions.
        engine_s: CPU seconds of the engine that runs the configuration.
        reference_s: CPU seconds of the reference engine.
        setup_s: CPU seconds to set up the engine, independent of the duration of the run.
    """

    transactions: float = 0.0
    engine_s: float = 0.0
    reference_s: float = 0.0
    setup_s: float = 0.0

    def __add__(self, other: ExpectedWork) -> ExpectedWork:
        return ExpectedWork(
            self.transactions + other.transactions,
            self.engine_s + other.engine_s,
            self.reference_s + other.reference_s,
            self.setup_s + other.setup_s,
        )


def expected_work(config: SimulationConfig, *, compiles: bool = False) -> ExpectedWork:
    """Estimate the work of one run.

    Args:
        config: Configuration of the run.
        compiles: Whether to wait for the compilation of a kernel that is not in the cache. If False, the pilot runs are
            shorter or use the reference engine, and the estimate is less precise.
    """
    if config.duration_ms <= 0.0 or not config.workload.config.workload_classes:
        return ExpectedWork()
    is_compiled = _is_compiled(config)
    on = (COMPILED if compiles else QUICK) if is_compiled and (compiles or _is_ready(config)) else REFERENCE
    pilots = run_pilots(config, on)
    transactions, cpu_s = _extrapolate(config, pilots, on)
    compiled_s, reference_s = (cpu_s, cpu_s * REFERENCE_RATIO) if on is not REFERENCE else (cpu_s / REFERENCE_RATIO, cpu_s)
    return ExpectedWork(transactions, compiled_s if is_compiled else reference_s, reference_s, min(each.setup_s for each in pilots))


def _is_compiled(config: SimulationConfig) -> bool:
    """Return whether the compiled engine can run the configuration, and the configuration permits it."""
    if config.engine == "reference":
        return False
    try:
        check_lowerable(config)
    except NotLowerableError:
        return False
    return True


def _is_ready(config: SimulationConfig) -> bool:
    """Return whether the kernel is in the cache, or compiling it takes less time than pilot runs on the reference engine."""
    picks = max(selection_units(config, cls) for cls in config.workload.config.workload_classes)
    return kernel_cache.is_cached(features_of(config)) or picks > _MANY_PICKS


def _extrapolate(config: SimulationConfig, pilots: list[Pilot], on: PilotEngine) -> tuple[float, float]:
    """Return the number of transactions of a run and the CPU seconds of its engine, extrapolated from its pilot runs."""
    last = pilots[-1]
    classes = config.workload.config.workload_classes
    if last.duration_ms >= config.duration_ms:
        return sum(_known_count(config, cls, last.by_class[cls.name]) for cls in classes), last.cpu_s
    before = pilots[-2]
    counts = {cls.name: _continue_line(config, pilots, before.by_class[cls.name], last.by_class[cls.name]) for cls in classes}
    transactions = sum(_known_count(config, cls, counts[cls.name]) for cls in classes)
    units = _continue(config, pilots, before.units, last.units)
    first_s, last_s = (max(each.cpu_s - on.empty_s, 1e-5) for each in (before, last))
    at_mean_cost = units * last_s / last.units
    cpu_s = min(max(_continue(config, pilots, first_s, last_s), _LEAST_COST * at_mean_cost), at_mean_cost)
    return transactions, on.empty_s + cpu_s * transactions / max(sum(counts.values()), 1.0)


def _known_count(config: SimulationConfig, cls: WorkloadClass, estimated: float) -> float:
    """Return the mean number of transactions of a class if its arrivals determine it, and ``estimated`` otherwise."""
    repeats = cls.settings is not None and cls.settings.commits_per_job > 1
    if cls.arrivals.waits or cls.arrivals.paced or cls.committer is not None or repeats:
        return estimated
    return cls.arrivals.expected_submissions(max(0.0, min(config.duration_ms, cls.end_ms) - cls.start_ms))


def _continue_line(config: SimulationConfig, pilots: list[Pilot], before: float, last: float) -> float:
    """Extrapolate a quantity of the last two pilot runs linearly to the duration of the run."""
    per_ms = (last - before) / (pilots[-1].duration_ms - pilots[-2].duration_ms)
    return last + max(0.0, per_ms) * (config.duration_ms - pilots[-1].duration_ms)


def _continue(config: SimulationConfig, pilots: list[Pilot], before: float, last: float) -> float:
    """Extrapolate a quantity of the last two pilot runs to the duration of the run.

    If the rate of work grows, the quantity's rate is assumed to grow linearly until the number of transactions in flight is
    constant.
    """
    first_ms, last_ms = pilots[-2].duration_ms, pilots[-1].duration_ms
    early, late = before / first_ms, (last - before) / (last_ms - first_ms)
    growing_ms = min(_constant_after_ms(config, pilots), config.duration_ms) - last_ms
    if growth(pilots) <= STEADY_GROWTH or late <= early or growing_ms <= 0.0:
        return _continue_line(config, pilots, before, last)
    rise = 2.0 * (late - early) / last_ms
    rate = late + rise * (last_ms - first_ms) / 2.0
    left_ms = config.duration_ms - last_ms
    return last + rate * left_ms + rise * growing_ms * (left_ms - growing_ms / 2.0)


def _constant_after_ms(config: SimulationConfig, pilots: list[Pilot]) -> float:
    """Return the time after which the number of transactions in flight is constant.

    If a log or a store is overloaded, clients send rejected writes again, so this number grows until the end of the run.
    """
    if pilots[-1].refusals > 0.0:
        return config.duration_ms
    return max(steady_after_ms(config), _BACKLOG * pilots[-1].duration_ms)
