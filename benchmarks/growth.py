"""What becomes of the compiled engine's speed and memory as runs and tables grow."""

from __future__ import annotations

from benchmarks.cases import APPENDS, HOUR_MS, LIGHT, MILLION_PARTITIONS, ONE_PARTITION, Case
from benchmarks.engines import warm_up
from benchmarks.measure import Row, probe, steady_run
from endive.simulation.compiled.engine import CompiledEngine

_FACTORS = (1, 10, 100)
_MEMORY_RUNS = (1_000_000, 10_000_000)


def measure_growth(shorter: float) -> list[Row]:
    """Rows for longer runs and for more tables; ``relative`` is the time of a transaction beside that of the row ``beside``."""
    warm_up(CompiledEngine)
    hour_ms = HOUR_MS / shorter
    longer = [_speed(APPENDS, hour_ms * factor, f"{APPENDS.what}, {factor}x the duration") for factor in _FACTORS]
    wider = [_speed(case, 10.0 * hour_ms, case.what) for case in (ONE_PARTITION, MILLION_PARTITIONS)]
    return [*_relative(longer), *_relative(wider)]


def _speed(case: Case, duration_ms: float, what: str) -> Row:
    timed = steady_run(CompiledEngine, case.config(duration_ms))
    return {
        "case": what,
        "simulated_ms": duration_ms,
        "transactions": timed.rows,
        "cpu_s": timed.cpu_s,
        "setup_cpu_s": timed.setup_cpu_s,
        "us_per_txn": timed.cpu_s / timed.rows * 1e6,
    }


def _relative(rows: list[Row]) -> list[Row]:
    first = rows[0]
    return [{**row, "beside": first["case"], "relative": row["us_per_txn"] / first["us_per_txn"]} for row in rows]


def measure_memory(shorter: float) -> list[Row]:
    """Peak memory of long runs of which little is in flight at any time."""
    rows = []
    for transactions in _MEMORY_RUNS:
        duration_ms = transactions * LIGHT.inter_arrival_ms / shorter
        row = probe("memory", LIGHT.name, "compiled", str(duration_ms))
        rows.append({"case": LIGHT.what, **row, "note": "measured at this size; nothing is extrapolated"})
    return rows
