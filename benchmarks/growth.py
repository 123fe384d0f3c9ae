"""Measure speed and memory of the compiled engine as runs, tables, classes and selections grow."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import tomli_w

from benchmarks.cases import APPENDS, HOUR_MS, LIGHT, MILLION_PARTITIONS, ONE_PARTITION, Case
from benchmarks.engines import warm_up
from benchmarks.measure import Row, probe, steady_run
from endive.config import Document, build_simulation_config
from endive.runs.effort import estimate_effort
from endive.simulation.compiled.engine import CompiledEngine

_FACTORS = (1, 10, 100)
_MEMORY_RUNS = (1_000_000, 10_000_000)
_COMMAND_RUNS = (10_000_000, 40_000_000)
_ROW_BAR_US = 3.0
_PICK_US = 0.1
Tree = dict[str, Any]


def measure_growth(shorter: float) -> list[Row]:
    """Return rows for longer runs and larger systems.

    ``relative`` is the time per transaction relative to the row ``beside``, ``bar_us`` the maximum target time. Appends to manifest
    lists (ML+) have no target per transaction. An append that fails because of another append is sent again, so the number of
    appends grows with the number of waiting transactions.
    """
    warm_up(CompiledEngine)
    hour_ms = HOUR_MS / shorter
    longer = [_speed(APPENDS, hour_ms * factor, f"{APPENDS.what}, {factor}x the duration") for factor in _FACTORS]
    wider = [_speed(case, 10.0 * hour_ms, case.what) for case in (ONE_PARTITION, MILLION_PARTITIONS)]
    larger = [_measure(what, document, picks, shorter) for what, document, picks in _larger_systems()]
    return [*_relative(longer), *_relative(wider), *larger]


def _larger_systems() -> list[tuple[str, Tree, int]]:
    """Return systems with one large dimension, and the number of selections per transaction."""
    cases: list[tuple[str, Tree, int]] = [("one table", _system(600_000.0), 0)]
    for tables in (1_000, 10_000, 100_000):
        groups = {"num_tables": tables, "num_groups": tables}
        cases.append((f"{tables:,} tables = groups", _system(200_000.0, groups), 0))
    halved = {"num_tables": 100_000, "num_groups": 50_000}
    cases.append(("100,000 tables in 50,000 groups, 2 per transaction", _system(200_000.0, halved, {"tables_per_txn": 2}), 0))
    for picks in (10, 100, 1_000):
        partitions = {"partitions": {"num_partitions": 1_000_000 if picks == 1_000 else 10_000}}
        what = f"{picks:,} of {partitions['partitions']['num_partitions']:,} partitions"
        cases.append((what, _system(60_000.0, partitions, {"partitions_per_txn": picks}), picks))
    for picks in (10, 100, 1_000):
        keys = {"tables_per_txn": picks, "table_selection": {"write_fraction": 0.001}}
        cases.append((f"{picks:,} of 10,000 tables", _system(60_000.0, {"num_tables": 10_000}, keys), picks))
    for classes in (10, 1_000):
        document = _system(200_000.0)
        document["workload"] = {f"w{i}": {"rate": 50.0 / classes, "operation": "fast_append"} for i in range(classes)}
        cases.append((f"{classes:,} classes", document, 0))
    for rate in (50.0, 500.0, 2_000.0):
        document = _system(20_000.0, transaction={"manifest_list_mode": "append", "retry": 10}, rate=rate)
        document["storage"] = {"provider": "s3x"}
        cases.append((f"manifest lists that are appended to, {rate:,g} per second", document, 0))
    for in_flight in (100, 100_000):
        runtime = {"runtime": {"distribution": "fixed", "value": 20.0 * in_flight}}
        cases.append((f"{in_flight:,} in flight", _system(40.0 * in_flight + 100_000.0, transaction=runtime), 0))
    return cases


def _system(duration_ms: float, catalog: Tree | None = None, transaction: Tree | None = None, rate: float = 50.0) -> Tree:
    return {
        "simulation": {"duration_ms": duration_ms, "engine": "compiled"},
        "storage": {"provider": "instant"},
        "catalog": catalog or {},
        "transaction": {"runtime": {"distribution": "fixed", "value": 100.0}, **(transaction or {})},
        "workload": {"w": {"rate": rate, "operation": "fast_append"}},
    }


def _measure(what: str, tree: Tree, picks: int, shorter: float) -> Row:
    tree["simulation"]["duration_ms"] /= shorter
    document = Document.model_validate(tree)
    timed = steady_run(CompiledEngine, build_simulation_config(document, seed_override=1))
    return {
        "case": what,
        "beside": what,
        "transactions": timed.rows,
        "us_per_txn": timed.cpu_s / timed.rows * 1e6,
        "us_per_event": timed.cpu_s / timed.events * 1e6,
        "bar_us": _ROW_BAR_US + _PICK_US * picks * math.log2(max(picks, 1)) if "appended" not in what else None,
        "cpu_s": timed.cpu_s + timed.setup_cpu_s,
        "estimated_cpu_s": estimate_effort(document).cpu_seconds,
    }


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
    """Return the peak memory of long runs with few transactions in flight, of the engine and of ``endive run``."""
    note = {"note": "measured at this size; nothing is extrapolated"}
    rows = []
    for transactions in _MEMORY_RUNS:
        duration_ms = transactions * LIGHT.inter_arrival_ms / shorter
        rows.append({"case": LIGHT.what, **probe("memory", LIGHT.name, "compiled", str(duration_ms)), **note})
    for transactions in _COMMAND_RUNS:
        duration_ms = transactions * LIGHT.inter_arrival_ms / shorter
        with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
            file = Path(name) / "light.toml"
            file.write_text(tomli_w.dumps(LIGHT.tree(duration_ms)))
            row = probe("run", str(file))
        rows.append({"case": f"endive run: {LIGHT.what}", **row, "simulated_ms": duration_ms, **note})
    return rows
