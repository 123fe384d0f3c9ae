"""Measure the overhead of the reference engine over SimPy, and its memory when streaming."""

from __future__ import annotations

import statistics
from collections.abc import Generator

import pyarrow as pa
import simpy

from benchmarks.cases import LIGHT, MINUTE_MS, MIXED
from benchmarks.measure import Row, cpu_seconds, probe, timed_run, timed_table
from endive.simulation.columns import BATCH_ROWS
from endive.simulation.reference import ReferenceEngine

_REPEATS = 3
_SIMULATED_MS = 3.0 * MINUTE_MS
_ROWS_AT_ONCE = 1.1 * BATCH_ROWS
"""Number of rows of the shorter streaming run, more than a batch, because up to a batch of rows is always in memory."""

Plan = list[tuple[float, int, float]]
"""Submission time, number of timeouts and duration of each timeout, by transaction."""


def measure_reference(shorter: float) -> Row:
    """Return the content of ``reference.json``."""
    return {"simpy": _beside_simpy(_SIMULATED_MS / shorter), "streaming": _streaming(shorter)}


def _beside_simpy(duration_ms: float) -> Row:
    config = MIXED.config(duration_ms)
    _, table = timed_table(ReferenceEngine, config)
    plan = _plan(table)
    events = sum(count for _, count, _ in plan)
    engine_s, plain_s = [], []
    for _ in range(_REPEATS):
        engine_s.append(timed_run(ReferenceEngine, config).cpu_s)
        plain_s.append(cpu_seconds(lambda: _run_plain(plan))[0])
    engine, plain = statistics.median(engine_s), statistics.median(plain_s)
    return {
        "case": MIXED.what,
        "simulated_ms": duration_ms,
        "transactions": len(plan),
        "events": events,
        "reference_us_per_event": engine / events * 1e6,
        "simpy_us_per_event": plain / events * 1e6,
        "ratio": engine / plain,
        "note": "SimPy: a process for each transaction, with as many timeouts as its row has events, and no model",
    }


def _plan(table: pa.Table) -> Plan:
    submits, counts, latencies = (table[name].to_pylist() for name in ("t_submit", "event_count", "total_latency"))
    return sorted(
        (submit, count, latency / max(count, 1)) for submit, count, latency in zip(submits, counts, latencies, strict=True)
    )


def _run_plain(plan: Plan) -> None:
    environment = simpy.Environment()
    environment.process(_arrive(environment, plan))
    environment.run()


def _arrive(environment: simpy.Environment, plan: Plan) -> Generator[simpy.Event, None, None]:
    for submit_ms, count, step_ms in plan:
        yield environment.timeout(submit_ms - environment.now)
        environment.process(_transaction(environment, count, step_ms))


def _transaction(environment: simpy.Environment, count: int, step_ms: float) -> Generator[simpy.Event, None, None]:
    for _ in range(count):
        yield environment.timeout(step_ms)


def _streaming(shorter: float) -> Row:
    duration_ms = _ROWS_AT_ONCE * LIGHT.inter_arrival_ms / shorter
    once, four_times = (probe("memory", LIGHT.name, "reference", str(duration_ms * factor)) for factor in (1, 4))
    return {
        "case": LIGHT.what,
        "once": once,
        "four_times": four_times,
        "ratio": four_times["peak_mib"] / once["peak_mib"],
        "note": f"up to {BATCH_ROWS} rows are held as objects before they are handed on; both runs fill that, unless --quick",
    }
