"""What a transaction costs where it picks among many tables, groups and partitions, and what the estimate says."""

from __future__ import annotations

from typing import Any

from benchmarks.engines import warm_up
from benchmarks.measure import Row, steady_run
from endive.config import Document, build_simulation_config
from endive.runs.effort import estimate_effort
from endive.simulation.compiled.engine import CompiledEngine

_TABLES = 100_000
_CASES: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    "one table": ({}, {}, 600_000.0),
    f"{_TABLES:,} tables = groups": ({"num_tables": _TABLES, "num_groups": _TABLES}, {}, 200_000.0),
    f"{_TABLES:,} tables = groups, 3 per transaction": (
        {"num_tables": _TABLES, "num_groups": _TABLES},
        {"tables_per_txn": 3},
        200_000.0,
    ),
    "200 of 1,000 partitions": ({"partitions": {"num_partitions": 1_000}}, {"partitions_per_txn": 200}, 100_000.0),
    "1,000 of 1,000,000 partitions": ({"partitions": {"num_partitions": 1_000_000}}, {"partitions_per_txn": 1_000}, 60_000.0),
}
"""Keys of the catalog and of transactions, and the simulated time."""


def measure_picks(shorter: float) -> list[Row]:
    """Rows of µs per transaction, and of the CPU time beside its estimate."""
    warm_up(CompiledEngine)
    return [_measure(what, *case, shorter) for what, case in _CASES.items()]


def _measure(what: str, catalog: dict[str, Any], transaction: dict[str, Any], duration_ms: float, shorter: float) -> Row:
    document = Document.model_validate(
        {
            "simulation": {"duration_ms": duration_ms / shorter, "engine": "compiled"},
            "storage": {"provider": "instant"},
            "catalog": catalog,
            "transaction": {"runtime": {"distribution": "fixed", "value": 100.0}, **transaction},
            "workload": {"w": {"rate": 50.0, "operation": "fast_append"}},
        }
    )
    timed = steady_run(CompiledEngine, build_simulation_config(document, seed_override=1))
    estimate_s = estimate_effort(document).cpu_seconds
    return {
        "case": what,
        "transactions": timed.rows,
        "us_per_txn": timed.cpu_s / timed.rows * 1e6,
        "cpu_s": timed.cpu_s + timed.setup_cpu_s,
        "estimated_cpu_s": estimate_s,
    }
