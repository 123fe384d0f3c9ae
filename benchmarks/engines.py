"""Compare the CPU time of ``run()`` of the two engines, with the same workload and seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.cases import APPENDS, COMPARED, HOUR_MS, MINUTE_MS, WARM_UP_MS, Case
from benchmarks.measure import Engine, Row, Timed, probe, steady_run, timed_run, timed_table
from endive.simulation import RESULT_SCHEMA
from endive.simulation.columns import IO_COLUMNS
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine

_TOLERANCE = 1e-12
"""Relative tolerance; the engines may differ in the order of a sum."""


def warm_up(engine: Engine) -> None:
    """Load the engine, so that following runs are measured without loading time."""
    timed_run(engine, APPENDS.config(WARM_UP_MS))


def measure_engines(shorter: float) -> Iterator[Row]:
    """Return a row for each case; durations are divided by ``shorter``."""
    warm_up(CompiledEngine)
    for case in COMPARED:
        yield _compare(case, *timed_table(ReferenceEngine, case.config(case.compared_ms / shorter)), shorter)


def _compare(case: Case, reference: Timed, expected: pa.Table, shorter: float) -> Row:
    duration_ms = case.compared_ms / shorter
    config = case.config(duration_ms)
    compiled = steady_run(CompiledEngine, config)
    _, table = timed_table(CompiledEngine, config)
    assert_equal_rows(expected, table)
    memory = probe("memory", case.name, "compiled", str(HOUR_MS / shorter))
    return {
        "case": case.what,
        "reference_txn_per_s": reference.per_s,
        "compiled_txn_per_s": compiled.per_s,
        "ratio": compiled.per_s / reference.per_s,
        "ns_per_draw": compiled.cpu_s / draws(table) * 1e9,
        "peak_mib": memory["peak_mib"],
        "transactions": compiled.rows,
        "events": pc.sum(table["event_count"]).as_py(),
        "draws": draws(table),
        "reference_cpu_s": reference.cpu_s,
        "compiled_cpu_s": compiled.cpu_s,
        "compiled_setup_cpu_s": compiled.setup_cpu_s,
        "simulated_ms_reference": duration_ms,
        "simulated_ms_compiled": duration_ms,
        "hour": {key: memory[key] for key in ("simulated_ms", "transactions", "cpu_s", "peak_mib", "peak_rss_mib")},
        "note": _note(duration_ms),
    }


def _note(duration_ms: float) -> str:
    notes = []
    if duration_ms < HOUR_MS:
        notes.append(f"both engines ran {duration_ms / MINUTE_MS:g} simulated minutes, not 60, for the reference to end in time")
    notes.append("rows of both engines are equal")
    notes.append("peak_mib is of the compiled run of 'hour', over that of a process with a warm engine")
    return "; ".join(notes)


def draws(table: pa.Table) -> int:
    """Return the number of latencies drawn from the streams of storage and catalog, except steps cut off at the end of the run.

    The kernel reuses its slots, and with them the positions of streams, so the number is derived from the rows. Each file access is
    a draw, also within a batch. ``event_count`` counts a batch once, so the draws of the catalog follow from the protocol: a
    transaction reads the catalog at the start and at each retry, and attempts the same number of commits (these cases have no
    restarts and no aborts for real conflicts). A transaction in flight is assumed to have read and not yet committed.
    """
    accesses = sum(pc.sum(table[name]).as_py() for name in IO_COLUMNS)
    requests = 2 * (table.num_rows + pc.sum(table["n_retries"]).as_py())
    cut_off = pc.sum(pc.equal(table["status"], "in_flight")).as_py()
    return int(accesses + requests - cut_off)


def assert_equal_rows(expected: pa.Table, actual: pa.Table) -> None:
    """Check that the rows of both engines are equal: integers and text exactly, floats to twelve digits."""
    assert actual.num_rows == expected.num_rows, f"{actual.num_rows} rows, not {expected.num_rows}"
    for column in RESULT_SCHEMA:
        ours, theirs = expected[column.name], actual[column.name]
        if pa.types.is_floating(column.type):
            np.testing.assert_allclose(theirs.to_numpy(), ours.to_numpy(), rtol=_TOLERANCE, atol=0.0, err_msg=column.name)
        else:
            assert theirs.equals(ours), f"column {column.name} differs"
