"""Build the commit timeline of one run: a lane for each transaction, with its steps and the commits that invalidated it.

Stored rows contain totals only, so the run is replayed on the reference engine, which traces every step. A replay that differs from
the stored rows is rejected, because another code version produced them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.catalog import AppendCatalog
from endive.config import ConfigError, build_simulation_config
from endive.config.load import load_document
from endive.config.values import UNITS_MS
from endive.formatting import format_count
from endive.report import ReportError, phrases
from endive.report.figure import Axis, Figure
from endive.report.study_data import RunPlace, Study
from endive.report.style import PART_COLOURS
from endive.runs.row_files import rows_missing
from endive.simulation import Simulation, SimulationConfig
from endive.simulation.columns import TIME_WORDS, Progress
from endive.simulation.runner import EngineError

_KEPT = ("txn_id", "t_submit", "total_latency", "status", "operation_type", "workload_class", "tables_written", "commit_latency")
_TOLERANCE_MS = 1e-6
_FINISHED = ("committed", "aborted")
Row = Mapping[str, Any]


@dataclass
class Replay:
    """Events and rows of a replayed run by transaction, and the table group of each table.

    ``by_table`` means that commits conflict only with changes of the same tables, as in an append catalog, and not with all changes
    of the group.
    """

    start_ms: float
    end_ms: float
    groups: tuple[int, ...]
    by_table: bool
    events: dict[int, list[Row]] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    commits: list[tuple[float, int]] = field(default_factory=list)
    """Time and transaction of all commits, by time."""
    tables: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Tables that each transaction writes."""

    def can_conflict(self, one: int, other: int) -> bool:
        """Return whether a commit of one transaction can invalidate a commit of the other."""
        tables, others = self.tables[one], self.tables.get(other, ())
        if one == other or not tables or not others:
            return False
        return not set(tables).isdisjoint(others) if self.by_table else self.groups[tables[0]] == self.groups[others[0]]


def read_stored_row(run: RunPlace, txn: int) -> Row:
    """Return the stored row of a transaction. Raises ReportError if the run has no such transaction."""
    kept = run.record.get("rows_kept", "all")
    if kept != "all":
        raise ReportError(f"{run.results}: {rows_missing(kept)}")
    rows = pq.read_table(run.results, columns=list(_KEPT), filters=[("txn_id", "=", txn)]).to_pylist()
    if not rows:
        last = pc.max(pq.read_table(run.results, columns=["txn_id"]).column("txn_id")).as_py()
        raise ReportError(f"{run.results}: no transaction {txn}; the last one is {last}")
    found: Row = rows[0]
    return found


def replay_run(run: RunPlace, start_ms: float, end_ms: float) -> Replay:
    """Replay a run until shortly after the window.

    Raises:
        ReportError: If the run cannot be replayed, or the replay differs from the stored results.
    """
    duration = float(run.record["parameters"]["simulation"]["duration_ms"])
    until = min(duration, end_ms + (end_ms - start_ms))
    overrides: dict[str, Any] = {"simulation.engine": "reference", "simulation.duration_ms": until, "simulation.drain": False}
    try:
        replay = record_replay(
            build_simulation_config(load_document(run.config, overrides), seed_override=run.seed), start_ms, end_ms
        )
    except (ConfigError, EngineError) as error:
        raise ReportError(f"{run.results}: the run cannot be replayed: {error}") from None
    _check_replay(run, replay, until)
    return replay


def record_replay(config: SimulationConfig, start_ms: float, end_ms: float, progress: Progress | None = None) -> Replay:
    """Run a configuration on the reference engine and record the events of transactions in a time window."""
    replay = Replay(start_ms, end_ms, config.workload.config.groups, isinstance(config.catalog, AppendCatalog))
    Simulation(config).stream(
        lambda batch: _keep_rows(replay, batch), trace=lambda batch: _keep_events(replay, batch), progress=progress
    )
    replay.commits.sort()
    alive = replay.rows.keys() & replay.events.keys()
    replay.events = {txn: replay.events[txn] for txn in sorted(alive)}
    return replay


def _keep_rows(replay: Replay, batch: pa.RecordBatch) -> None:
    """Keep the rows of transactions that were active in the window, and the tables of all transactions."""
    for txn, tables in zip(batch.column("txn_id").to_pylist(), batch.column("tables_written").to_pylist(), strict=True):
        replay.tables[txn] = tuple(tables)
    ends = pc.add(batch.column("t_submit"), batch.column("total_latency"))
    alive = batch.filter(pc.and_(pc.greater_equal(ends, replay.start_ms), pc.less_equal(batch.column("t_submit"), replay.end_ms)))
    for row in alive.select(list(_KEPT)).to_pylist():
        replay.rows[row["txn_id"]] = row


def _keep_events(replay: Replay, batch: pa.RecordBatch) -> None:
    for event in batch.to_pylist():
        events = replay.events.setdefault(event["txn_id"], [])
        events.append(event)
        if event["event"] == "commit":
            replay.commits.append((event["time_ms"], event["txn_id"]))
        if event["event"] in ("commit", "abort") and event["time_ms"] < replay.start_ms:
            del replay.events[event["txn_id"]]


def _check_replay(run: RunPlace, replay: Replay, until_ms: float) -> None:
    """Raise ReportError if a finished transaction of the replay differs from its stored row."""
    columns = ["txn_id", "status", "total_latency", "t_submit"]
    rows = pq.read_table(run.results, columns=columns, filters=[("t_submit", "<=", replay.end_ms)])
    stored = {row["txn_id"]: row for row in rows.to_pylist()}
    for txn, row in replay.rows.items():
        if row["status"] not in _FINISHED or row["t_submit"] + row["total_latency"] > until_ms:
            continue
        known = stored.get(txn)
        if (
            known is None
            or known["status"] != row["status"]
            or abs(known["total_latency"] - row["total_latency"]) > max(_TOLERANCE_MS, 1e-9 * row["total_latency"])
        ):
            version = run.record.get("code_version", "another version")
            raise ReportError(f"{run.results}: the replay differs from the stored results of {version}; repeat the run first")


MOST_LANES = 30
_MOST_WINNERS = 4
_TIME = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|h)?\s*$")
_READ, _RUNTIME, _ATTEMPT, _CONFLICT_IO, _BACKOFF, _COMMIT = TIME_WORDS.values()
_STEPS = {"catalog_read": _READ, "runtime": _RUNTIME, "backoff": _BACKOFF, "commit": _COMMIT, "commit_failed": _COMMIT}
"""Component of the time that ends with an event. For I/O, the component depends on the preceding events."""
_COMMITTED, _CONFLICT, _ABORTED = "committed", "conflict", "aborted"
COLOURS = {**PART_COLOURS, _COMMITTED: "#000000", _CONFLICT: "#CC0000", _ABORTED: "#882255"}


def parse_time(text: str, option: str) -> float:
    """Parse a time such as 12.5s, 300ms or 2min into ms; a number without a unit is in seconds.

    Raises:
        ReportError: If the text is not a time.
    """
    found = _TIME.match(text)
    if found is None:
        raise ReportError(f"{option} {text}: expected a number with ms, s, min or h, such as 12.5s")
    return float(found["number"]) * UNITS_MS[found["unit"] or "s"]


@dataclass(frozen=True)
class Span:
    """A step of a transaction, or the end of an attempt (``end_ms == start_ms``)."""

    txn: int
    part: str
    start_ms: float
    end_ms: float
    attempt: int
    based_on_ms: float = 0.0
    """For an attempt: end of the read of the version that it is based on."""


def build_timeline(study: Study, *, at_ms: float | None = None, span_ms: float = 1000.0, txn: int | None = None) -> Figure:
    """Build the commit timeline around a time or a transaction, by default around the middle of the run.

    Raises:
        ReportError: If the study is not one run, or has no such time or transaction.
    """
    if not study.single_runs:
        raise ReportError(f"{study.path}: a timeline shows one run; pass the directory of a run, such as EXPERIMENT/SEED")
    run = study.single_runs[0]
    duration = float(run.record["parameters"]["simulation"]["duration_ms"])
    if span_ms <= 0.0:
        raise ReportError("--span: expected a time above 0")
    if txn is not None:
        start, end = _find_commit_span(read_stored_row(run, txn))
    else:
        middle = duration / 2.0 if at_ms is None else at_ms
        if middle > duration:
            raise ReportError(f"--at {middle / 1000.0:g}s: the run lasts {duration / 1000.0:g}s")
        start, end = max(0.0, middle - span_ms / 2.0), min(duration, middle + span_ms / 2.0)
    return make_timeline_figure(replay_run(run, start, end), txn=txn, source=str(study.path))


def make_timeline_figure(
    replay: Replay, *, txn: int | None = None, source: str = "", remedy: str = " Use a shorter --span."
) -> Figure:
    """Return the commit timeline of a replayed run, with the transaction ``txn`` on top.

    ``remedy`` is added to the note on omitted transactions.

    Raises:
        ReportError: If no transaction attempts to commit in the period of the timeline.
    """
    spans = [span for number, events in replay.events.items() for span in _list_spans(replay, number, events)]
    inside = [span for span in spans if span.end_ms >= replay.start_ms and span.start_ms <= replay.end_ms]
    busy = [span for span in inside if span.part not in (_READ, _RUNTIME)]
    lanes = _order_lanes(busy, txn)
    shown, left_out = lanes[:MOST_LANES], len(lanes) - MOST_LANES
    if not shown:
        when = f"between {replay.start_ms / 1000.0:g}s and {replay.end_ms / 1000.0:g}s"
        raise ReportError(f"{source}: no transaction attempts to commit {when}; choose another time with --at or a longer --span")
    place = {number: order for order, number in enumerate(shown)}
    rows = [_make_row(replay, span, spans) for span in inside if span.txn in place]
    rows.sort(key=lambda row: (place[row["txn"]], row["start_s"], row["end_s"]))
    _label_losses(rows)
    only_work = len({span.txn for span in inside} - set(lanes))
    notes = []
    if left_out > 0:
        verb = "is" if left_out == 1 else "are"
        notes.append(f"{format_count(left_out, 'more transaction')} with commit attempts in this period {verb} not shown.{remedy}")
    if only_work:
        verb = "is" if only_work == 1 else "are"
        notes.append(f"{format_count(only_work, 'transaction')} without a commit attempt in this period {verb} not shown.")
    return Figure(
        name="timeline",
        title=f"Commit timeline from {replay.start_ms / 1000.0:.3f} s to {replay.end_ms / 1000.0:.3f} s"
        + ("" if txn is None else f": transaction {txn}"),
        definition="Each row is a transaction. The label at the right lists the transactions that invalidated its commit attempts, "
        "and the total delay of the retries.",
        kind="swimlanes",
        data=pd.DataFrame(rows),
        x=Axis("start_s", "time (s)"),
        y=Axis("lane", "transaction", "category"),
        part="part",
        x_end="end_s",
        text="losses",
        colours=COLOURS,
        filters=("part",),
        notes=tuple(notes),
    )


def _find_commit_span(row: Row) -> tuple[float, float]:
    """Return start and end of the commit of a transaction, with a margin."""
    end = row["t_submit"] + row["total_latency"]
    commit = row["commit_latency"] or row["total_latency"]
    return max(0.0, end - 1.15 * commit), end + 0.05 * commit


def _list_spans(replay: Replay, txn: int, events: list[Row]) -> Iterator[Span]:
    """Yield the steps of a transaction. I/O counts as conflict I/O until the conflict is resolved, then as I/O of the attempt."""
    io, read_ms, last_ms = _READ, 0.0, float(replay.rows[txn]["t_submit"])
    working = False
    for event in events:
        name, time, attempt = event["event"], float(event["time_ms"]), int(event["attempt"])
        began = time - float(event["duration_ms"])
        last_ms = time
        if name == "io" or name in _STEPS:
            yield Span(txn, _STEPS.get(name, io), began, time, attempt)
        if name == "catalog_read":
            read_ms = time
        elif name == "runtime":
            io, working = _ATTEMPT, True
        elif name in ("commit", "commit_failed"):
            yield Span(txn, _COMMITTED if name == "commit" else _CONFLICT, time, time, attempt, read_ms)
            io = _CONFLICT_IO
        elif name == "conflict":
            io = _ATTEMPT
        elif name == "restart":
            io, working = _READ, False
        elif name == "abort":
            yield Span(txn, _ABORTED, time, time, attempt)
    if replay.rows[txn]["status"] == "in_flight" and not working and any(event["event"] == "catalog_read" for event in events):
        yield Span(txn, _RUNTIME, last_ms, replay.end_ms, 0)


def _label_losses(rows: list[dict[str, Any]]) -> None:
    """Label the first row of each lane with the transactions that invalidated its attempts, and the total delay."""
    lost: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["part"] == _CONFLICT:
            lost.setdefault(row["txn"], []).append(row)
    for row in rows:
        own = lost.pop(row["txn"], [])
        winners = [f"#{loss['invalidated_by']}" for loss in own if loss["invalidated_by"] is not None]
        more = f", ... ({len(winners)} in total)" if len(winners) > _MOST_WINNERS else ""
        names = ", ".join(winners[:_MOST_WINNERS]) + more
        delay = sum(loss["delay_ms"] or 0.0 for loss in own)
        row["losses"] = f"invalidated by {names}" + (f": +{delay:,.0f} ms" if delay else "") if names else ""


def _order_lanes(busy: list[Span], txn: int | None) -> list[int]:
    """Return transactions by the time of their first step, with the requested one on top."""
    first: dict[int, float] = {}
    for span in busy:
        first[span.txn] = min(span.start_ms, first.get(span.txn, span.start_ms))
    return sorted(first, key=lambda number: (number != txn, first[number], number))


def _make_row(replay: Replay, span: Span, spans: list[Span]) -> dict[str, Any]:
    about = replay.rows[span.txn]
    behind: list[int] = _list_winners(replay, span) if span.part == _CONFLICT else []
    delay = _find_retry_delay(span, spans) if span.part == _CONFLICT else None
    text = ""
    if behind:
        text = f"by #{behind[-1]}" if len(behind) == 1 else f"by #{behind[-1]} ({len(behind)} commits since the read)"
    if delay is not None:
        text += f", +{delay:,.0f} ms"
    return {
        "lane": f"#{span.txn} {phrases.name_operation(about['operation_type'])}",
        "txn": span.txn,
        "workload_class": about["workload_class"],
        "operation_type": about["operation_type"],
        "part": span.part,
        "attempt": span.attempt,
        "start_s": max(span.start_ms, replay.start_ms) / 1000.0,
        "end_s": min(span.end_ms, replay.end_ms) / 1000.0,
        "invalidated_by": behind[-1] if behind else None,
        "commits_behind": len(behind) if span.part == _CONFLICT else None,
        "delay_ms": delay,
        "text": text.removeprefix(", "),
    }


def _list_winners(replay: Replay, conflict: Span) -> list[int]:
    """Return the conflicting transactions that committed between the read of an attempt and its failure."""
    between = (other for time, other in replay.commits if conflict.based_on_ms < time <= conflict.end_ms)
    return [other for other in between if replay.can_conflict(conflict.txn, other)]


def _find_retry_delay(conflict: Span, spans: list[Span]) -> float | None:
    """Return the time from a failed attempt to the start of the next attempt; None without a next attempt."""
    own = (span.start_ms for span in spans if span.txn == conflict.txn and span.part == _COMMIT)
    later = min((start for start in own if start >= conflict.end_ms), default=None)
    return None if later is None else later - conflict.end_ms
