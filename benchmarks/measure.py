"""Measurement functions: CPU time of runs in this process, and probes in separate processes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from endive.simulation import RESULT_SCHEMA, SimulationConfig
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine

ROOT = Path(__file__).parent.parent
Row = dict[str, Any]
Engine = type[CompiledEngine] | type[ReferenceEngine]
T = TypeVar("T")

ENOUGH_S = 0.2
REPEATS = 9


@dataclass(frozen=True)
class Timed:
    """Run, and the CPU time of the engine's ``run()``."""

    cpu_s: float
    setup_cpu_s: float
    rows: int
    events: int = 0

    @property
    def per_s(self) -> float:
        """Transactions per second of CPU time."""
        return self.rows / self.cpu_s


class RowCounter:
    """Sink that only counts rows and events."""

    def __init__(self) -> None:
        self.rows = 0
        self.events = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.events += pc.sum(batch.column("event_count")).as_py()


def cpu_seconds(work: Callable[[], T]) -> tuple[float, T]:
    """Run a function; return its CPU time and its result."""
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def timed_run(engine: Engine, config: SimulationConfig) -> Timed:
    """Run a simulation; count and discard its rows."""
    counter = RowCounter()
    setup_s, ready = cpu_seconds(lambda: engine(config, counter))
    cpu_s, _ = cpu_seconds(ready.run)
    return Timed(cpu_s, setup_s, counter.rows, counter.events)


def steady_run(engine: Engine, config: SimulationConfig) -> Timed:
    """Run a simulation once if it is long enough to be measured; otherwise return the median of several runs."""
    first = timed_run(engine, config)
    if first.cpu_s >= ENOUGH_S:
        return first
    runs = sorted((timed_run(engine, config) for _ in range(REPEATS)), key=lambda run: run.cpu_s)
    return runs[REPEATS // 2]


def timed_table(engine: Engine, config: SimulationConfig) -> tuple[Timed, pa.Table]:
    """Run a simulation and keep its rows."""
    batches: list[pa.RecordBatch] = []
    setup_s, ready = cpu_seconds(lambda: engine(config, batches.append))
    cpu_s, _ = cpu_seconds(ready.run)
    table = pa.Table.from_batches(batches, schema=RESULT_SCHEMA)
    return Timed(cpu_s, setup_s, table.num_rows), table


def environment_with(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process with further variables; Python may write bytecode."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **variables}


def probe(*arguments: str, environment: Mapping[str, str] | None = None) -> Row:
    """Run ``python -m benchmarks.probe`` in a separate process and return its measurement."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.probe", *arguments],
        cwd=ROOT,
        env=environment_with(environment or {}),
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    row: Row = json.loads(done.stdout)
    return row


def median_of(rows: list[Row], key: str) -> float:
    """Return the median of one value."""
    values: list[float] = [row[key] for row in rows]
    return statistics.median(values)
