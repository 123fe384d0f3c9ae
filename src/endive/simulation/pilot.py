"""Simulate the beginning of a run in pilot runs, and measure their work and CPU time.

A pilot run simulates the same configuration for a shorter duration. Schedules, starts and ends of classes are shortened
proportionally. Rates and latencies are unchanged.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from endive.simulation.columns import IO_COLUMNS
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.compiled.kernel_cache import load_kernel
from endive.simulation.compiled.lower import features_of
from endive.simulation.config import SimulationConfig
from endive.simulation.reference import ReferenceEngine
from endive.simulation.summary import counts_of
from endive.workload import ScheduledArrivals, Workload, WorkloadClass, ZipfCount, mean_ms

_FIRST = 200
"""Maximum expected number of transactions in the first pilot run, in addition to one per writer."""
_TRANSACTION_UNITS = 8.0
"""Work of a transaction in addition to its steps, in steps."""
_STEADY_JOBS = 3.0
"""Number of mean job durations after which the number of running jobs is nearly constant."""
STEADY_GROWTH = 0.25
"""Maximum exponent of ``growth`` at which the rate of work counts as constant."""
_BURST_GROWTH = -0.5
"""Exponent of ``growth`` below which most of the work is due to the first transactions of all clients."""
_SHORTEST_STEP, _LONGEST_STEP = 4.0, 16.0
"""Limits of the ratio between the durations of two consecutive pilot runs."""
_REFUSALS = ("append_physical_failure", "manifest_append_physical_failure", "commit_throttled")
"""Counters of writes that clients send again without a limit. They are not among the steps of transactions."""


@dataclass(frozen=True)
class PilotEngine:
    """Engine of pilot runs, and the amounts of work after which the pilot runs end.

    Attributes:
        engine: Class of the engine.
        units: Minimum work of the last pilot run, in steps.
        most_units: Work of the last pilot run if the number of transactions in flight grows.
        empty_s: CPU seconds of a run without transactions, after its setup.
    """

    engine: type[CompiledEngine] | type[ReferenceEngine]
    units: float
    most_units: float
    empty_s: float


COMPILED = PilotEngine(CompiledEngine, 50_000.0, 2_000_000.0, 6e-4)
QUICK = replace(COMPILED, most_units=200_000.0)
"""The compiled engine with shorter pilot runs, for the live page, which estimates many configurations for each answer."""
REFERENCE = PilotEngine(ReferenceEngine, 3_000.0, 10_000.0, 0.0)


@dataclass
class Pilot:
    """Work of a pilot run.

    Attributes:
        duration_ms: Simulated duration.
        by_class: Number of transactions by workload class.
        units: Work of the engine, as the number of steps that would take about the same time.
        refusals: Number of writes that were rejected and retried; the retries count as work.
        setup_s: CPU seconds to set up the engine.
        cpu_s: CPU seconds of the engine after its setup.
    """

    duration_ms: float
    by_class: Counter[str] = field(default_factory=Counter)
    units: float = 0.0
    refusals: float = 0.0
    setup_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add the transactions of a batch of rows, and their steps and file accesses."""
        self.by_class += counts_of(rows, "workload_class")
        self.units += sum(pc.sum(rows.column(name)).as_py() for name in ("event_count", *IO_COLUMNS))


def run_pilots(config: SimulationConfig, on: PilotEngine) -> list[Pilot]:
    """Execute pilot runs of increasing duration.

    The last pilot run has the duration of the run, or the minimum work if the work grows linearly, or otherwise the maximum work.
    """
    pilots: list[Pilot] = []
    varies_not = all(cls.is_steady for cls in config.workload.config.workload_classes)
    for duration_ms in _durations(config, on, pilots):
        pilots.append(_run_pilot(config, duration_ms, on))
        if len(pilots) == 1:
            continue
        units, exponent = pilots[-1].units, growth(pilots)
        is_steady = varies_not and duration_ms >= steady_after_ms(config) and exponent <= STEADY_GROWTH
        if (units >= on.units and is_steady) or (units >= on.most_units and exponent >= _BURST_GROWTH):
            break
    return pilots


def _durations(config: SimulationConfig, on: PilotEngine, pilots: list[Pilot]) -> Iterator[float]:
    """Yield the durations of pilot runs. Each duration depends on the work of the previous pilot run."""
    classes = config.workload.config.workload_classes
    picks = max(selection_units(config, cls) for cls in classes)
    first = max(1.0, min(_FIRST, on.units / (20.0 + picks))) + sum(cls.arrivals.numbered_writers for cls in classes)
    duration_ms = config.duration_ms * min(1.0, first / max(_most_transactions(config), 1.0))
    while duration_ms < config.duration_ms:
        yield duration_ms
        units = max(pilots[-1].units, 1.0)
        wanted = max(on.units / units, steady_after_ms(config) / duration_ms)
        cautious = max(2.0, math.sqrt(2.0 * on.most_units / units))
        duration_ms *= min(max(wanted, _SHORTEST_STEP), _LONGEST_STEP, cautious)
    yield config.duration_ms


def _most_transactions(config: SimulationConfig) -> float:
    """Estimate the number of transactions without contention."""
    total = 0.0
    for cls in config.workload.config.workload_classes:
        active_ms = max(0.0, min(config.duration_ms, cls.end_ms) - cls.start_ms)
        if cls.arrivals.waits:
            total += cls.arrivals.submissions_per_ms(mean_ms, mean_ms(cls.runtime)) * active_ms
        else:
            total += cls.arrivals.expected_submissions(active_ms)
    return total


def steady_after_ms(config: SimulationConfig) -> float:
    """Return the time after which the number of running jobs is nearly constant."""
    return _STEADY_JOBS * max(mean_ms(cls.runtime) for cls in config.workload.config.workload_classes)


def growth(pilots: list[Pilot]) -> float:
    """Return the exponent with which the rate of work grows over time, from the last two pilot runs; 0 for a constant rate.

    In an overloaded log or store, rejected writes grow from the start, although they may be a small part of the work at first. The
    exponent is then that of the rejected writes.
    """
    first, last = pilots[-2:]
    times = first.duration_ms, last.duration_ms
    return max(_growth(*times, first.units, last.units), _growth(*times, first.refusals, last.refusals))


def _growth(first_ms: float, last_ms: float, first: float, last: float) -> float:
    """Return the exponent with which the rate of a quantity grows, from its sums until ``first_ms`` and ``last_ms``."""
    early, late = max(first, 1.0) / first_ms, max(last - first, 1.0) / (last_ms - first_ms)
    return math.log(late / early) / math.log(1.0 + last_ms / first_ms)


def _run_pilot(config: SimulationConfig, duration_ms: float, on: PilotEngine) -> Pilot:
    pilot = Pilot(duration_ms)
    if on.engine is CompiledEngine:
        load_kernel(features_of(config))  # exclude loading and compiling the kernel from the setup
    began = time.thread_time()
    engine = on.engine(_shorten(config, duration_ms), pilot.add)
    ready = time.thread_time()
    counters = engine.run().counts
    pilot.setup_s, pilot.cpu_s = ready - began, time.thread_time() - ready
    pilot.refusals = float(sum(counters[name] for name in _REFUSALS))
    pilot.units += pilot.refusals + _TRANSACTION_UNITS * pilot.by_class.total()
    classes = {cls.name: cls for cls in config.workload.config.workload_classes}
    pilot.units += sum(count * selection_units(config, classes[name]) for name, count in pilot.by_class.items())
    return pilot


def _shorten(config: SimulationConfig, duration_ms: float) -> SimulationConfig:
    """Return the configuration of a pilot run."""
    share = duration_ms / config.duration_ms
    topology = config.workload.config
    classes = tuple(_shorten_class(cls, share) for cls in topology.workload_classes)
    return replace(config, duration_ms=duration_ms, workload=Workload(replace(topology, classes=classes), config.workload.seed))


def _shorten_class(cls: WorkloadClass, share: float) -> WorkloadClass:
    arrivals = cls.arrivals
    if isinstance(arrivals, ScheduledArrivals):
        arrivals = ScheduledArrivals(tuple((start_ms * share, per_s) for start_ms, per_s in arrivals.steps))
    return replace(cls, arrivals=arrivals, start_ms=cls.start_ms * share, end_ms=cls.end_ms * share)


def selection_units(config: SimulationConfig, cls: WorkloadClass) -> float:
    """Return the work of selecting the tables and partitions of a transaction, in steps.

    Each item is inserted into a sorted list, so the work has a small quadratic component in the number of items.
    """
    topology = config.workload.config
    tables = 1.0 if isinstance(cls.tables_per_txn, ZipfCount) else float(min(cls.tables_per_txn, topology.num_tables))
    partitions = min(cls.partitions_per_txn or 0.0, float(max(topology.partitions_per_table)))
    return _selection_units(tables) + tables * _selection_units(partitions)


def _selection_units(items: float) -> float:
    return 0.0 if items <= 1.0 else 2.0 * items + items * items / 100.0
