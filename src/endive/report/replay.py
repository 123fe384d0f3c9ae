"""A run once more, watched: what its transactions did around a moment.

Runs a stored run again from its configuration and seed, and keeps the events and rows of all transactions that were alive in a
window of time. Stored rows only have totals; the reference engine tells every step. A run that does not give the stored rows again
is of other code, and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.catalog import AppendCatalog
from endive.config import ConfigError, build_simulation_config
from endive.config.load import load_document
from endive.report.errors import ReportError
from endive.report.places import RunPlace
from endive.simulation import Simulation, SimulationConfig
from endive.simulation.rows import Progress
from endive.simulation.runner import EngineError

_KEPT = ("txn_id", "t_submit", "total_latency", "status", "operation_type", "workload_class", "tables_written", "commit_latency")
_TOLERANCE_MS = 1e-6
_FINISHED = ("committed", "aborted")
Row = Mapping[str, Any]


@dataclass
class Replay:
    """What was seen: events and rows by transaction, and the group of each table.

    ``by_table``: commits are refused for changes of the same tables only, as in a log, and not for any in the group.
    """

    start_ms: float
    end_ms: float
    groups: tuple[int, ...]
    by_table: bool
    events: dict[int, list[Row]] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    commits: list[tuple[float, int]] = field(default_factory=list)
    """All commits until the end, with their transactions, in order of time."""
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The tables that each transaction writes."""

    def compete(self, one: int, other: int) -> bool:
        """Whether a commit of one can refuse a commit of the other."""
        tables, others = self.tables[one], self.tables.get(other, ())
        if one == other or not tables or not others:
            return False
        return not set(tables).isdisjoint(others) if self.by_table else self.groups[tables[0]] == self.groups[others[0]]


def stored_row(run: RunPlace, txn: int) -> Row:
    """The stored row of a transaction. Raises ReportError if there is none."""
    rows = pq.read_table(run.results, columns=list(_KEPT), filters=[("txn_id", "=", txn)]).to_pylist()
    if not rows:
        last = pc.max(pq.read_table(run.results, columns=["txn_id"]).column("txn_id")).as_py()
        raise ReportError(f"{run.results}: there is no transaction {txn}; the last one is {last}")
    found: Row = rows[0]
    return found


def replay(run: RunPlace, start_ms: float, end_ms: float) -> Replay:
    """Run it again until a little after the window. Raises ReportError if that cannot be done."""
    duration = float(run.record["parameters"]["simulation"]["duration_ms"])
    until = min(duration, end_ms + (end_ms - start_ms))
    overrides: dict[str, Any] = {"simulation.engine": "reference", "simulation.duration_ms": until, "simulation.drain": False}
    try:
        seen = watch(build_simulation_config(load_document(run.config, overrides), seed_override=run.seed), start_ms, end_ms)
    except (ConfigError, EngineError) as error:
        raise ReportError(f"{run.results}: this run cannot be run again: {error}") from None
    _check(run, seen, until)
    return seen


def watch(config: SimulationConfig, start_ms: float, end_ms: float, progress: Progress | None = None) -> Replay:
    """Run a configuration on the reference engine and keep what its transactions did in a window of time."""
    seen = Replay(start_ms, end_ms, config.workload.config.groups, isinstance(config.catalog, AppendCatalog))
    Simulation(config).stream(
        lambda batch: _keep_rows(seen, batch), trace=lambda batch: _keep_events(seen, batch), progress=progress
    )
    seen.commits.sort()
    alive = seen.rows.keys() & seen.events.keys()
    seen.events = {txn: seen.events[txn] for txn in sorted(alive)}
    return seen


def _keep_rows(seen: Replay, batch: pa.RecordBatch) -> None:
    """Rows of transactions that were alive in the window, and the tables of all."""
    for txn, tables in zip(batch.column("txn_id").to_pylist(), batch.column("tables_written").to_pylist(), strict=True):
        seen.tables[txn] = tuple(tables)
    ends = pc.add(batch.column("t_submit"), batch.column("total_latency"))
    alive = batch.filter(pc.and_(pc.greater_equal(ends, seen.start_ms), pc.less_equal(batch.column("t_submit"), seen.end_ms)))
    for row in alive.select(list(_KEPT)).to_pylist():
        seen.rows[row["txn_id"]] = row


def _keep_events(seen: Replay, batch: pa.RecordBatch) -> None:
    for event in batch.to_pylist():
        events = seen.events.setdefault(event["txn_id"], [])
        events.append(event)
        if event["event"] == "commit":
            seen.commits.append((event["time_ms"], event["txn_id"]))
        if event["event"] in ("commit", "abort") and event["time_ms"] < seen.start_ms:
            del seen.events[event["txn_id"]]


def _check(run: RunPlace, seen: Replay, until_ms: float) -> None:
    """Whether what ended in time ended as it is stored."""
    columns = ["txn_id", "status", "total_latency", "t_submit"]
    rows = pq.read_table(run.results, columns=columns, filters=[("t_submit", "<=", seen.end_ms)])
    stored = {row["txn_id"]: row for row in rows.to_pylist()}
    for txn, row in seen.rows.items():
        if row["status"] not in _FINISHED or row["t_submit"] + row["total_latency"] > until_ms:
            continue
        known = stored.get(txn)
        if (
            known is None
            or known["status"] != row["status"]
            or abs(known["total_latency"] - row["total_latency"]) > max(_TOLERANCE_MS, 1e-9 * row["total_latency"])
        ):
            version = run.record.get("code_version", "another version")
            raise ReportError(f"{run.results}: running it again gives other results; it was made by {version}: run it anew first")
