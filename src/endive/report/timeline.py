"""The contention of one run as a picture: a lane for each transaction, what it did, who beat it, and what that cost it.

Draws a ``Figure`` of swim lanes from a study of one run and a moment, or a transaction. A refused commit was beaten by what
committed in its table group since the read that it was based on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from endive.config.durations import UNITS_MS
from endive.report import phrases
from endive.report.errors import ReportError
from endive.report.figure import Axis, Figure
from endive.report.replay import Replay, Row, replay, stored_row
from endive.report.study import Study
from endive.report.style import PART_COLOURS

MOST_LANES = 30
_MOST_WINNERS = 4
_TIME = re.compile(r"^\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|min|h)?\s*$")
_READ, _RUNTIME, _ATTEMPT, _CONFLICT, _BACKOFF, _COMMIT = phrases.TIME_PARTS.values()
_STEPS = {"catalog_read": _READ, "runtime": _RUNTIME, "backoff": _BACKOFF, "commit": _COMMIT, "commit_failed": _COMMIT}
"""What an event ends, where that takes time; what I/O belongs to depends on what came before."""
_COMMITTED, _REFUSED, _ABORTED = "committed", "refused", "aborted"
COLOURS = {**PART_COLOURS, _COMMITTED: "#000000", _REFUSED: "#CC0000", _ABORTED: "#882255"}


def milliseconds(text: str, option: str) -> float:
    """A time such as 12.5s, 300ms or 2min; a bare number is in seconds. Raises ReportError if it is none."""
    found = _TIME.match(text)
    if found is None:
        raise ReportError(f"{option} {text}: a time is a number with ms, s, min or h, such as 12.5s")
    return float(found["number"]) * UNITS_MS[found["unit"] or "s"]


@dataclass(frozen=True)
class Span:
    """Something that a transaction did, or a moment (``end_ms == start_ms``) at which an attempt ended."""

    txn: int
    part: str
    start_ms: float
    end_ms: float
    attempt: int
    based_on_ms: float = 0.0
    """For an attempt: when the read ended that it is based on."""


def timeline(study: Study, *, at_ms: float | None = None, span_ms: float = 1000.0, txn: int | None = None) -> Figure:
    """The figure for a moment or a transaction; without either, for the middle of the run. Raises ReportError."""
    if not study.single_runs:
        raise ReportError(f"{study.path}: a timeline is of one run; give the results of a run, such as EXPERIMENT/SEED")
    run = study.single_runs[0]
    duration = float(run.record["parameters"]["simulation"]["duration_ms"])
    if span_ms <= 0.0:
        raise ReportError("--span: the time around a moment is more than nothing")
    if txn is not None:
        start, end = _life(stored_row(run, txn))
    else:
        middle = duration / 2.0 if at_ms is None else at_ms
        if middle > duration:
            raise ReportError(f"--at {middle / 1000.0:g}s: the run lasts {duration / 1000.0:g}s")
        start, end = max(0.0, middle - span_ms / 2.0), min(duration, middle + span_ms / 2.0)
    return timeline_of(replay(run, start, end), txn=txn, source=str(study.path))


def timeline_of(seen: Replay, *, txn: int | None = None, source: str = "") -> Figure:
    """The figure of what was seen of a run, the transaction ``txn`` on top. Raises ReportError if nobody was committing."""
    spans = [span for number, events in seen.events.items() for span in _spans(seen, number, events)]
    inside = [span for span in spans if span.end_ms >= seen.start_ms and span.start_ms <= seen.end_ms]
    busy = [span for span in inside if span.part not in (_READ, _RUNTIME)]
    lanes = _lanes(busy, txn)
    shown, left_out = lanes[:MOST_LANES], len(lanes) - MOST_LANES
    if not shown:
        when = f"between {seen.start_ms / 1000.0:g}s and {seen.end_ms / 1000.0:g}s"
        raise ReportError(f"{source}: no transaction is committing {when}")
    place = {number: order for order, number in enumerate(shown)}
    rows = [_row(seen, span, spans) for span in inside if span.txn in place]
    rows.sort(key=lambda row: (place[row["txn"]], row["start_s"], row["end_s"]))
    _tell_losses(rows)
    only_work = len({span.txn for span in inside} - set(lanes))
    notes = []
    if left_out > 0:
        notes.append(f"{left_out} more transactions were committing in this time; a shorter --span shows fewer.")
    if only_work:
        notes.append(f"{only_work} transactions that did nothing but read and work in this time are not shown.")
    return Figure(
        name="timeline",
        title=f"Contention between {seen.start_ms / 1000.0:.3f} s and {seen.end_ms / 1000.0:.3f} s"
        + ("" if txn is None else f": transaction {txn}"),
        definition="A lane for each transaction. A refused commit names the transaction that committed last in its table group; if "
        "more than one did since the read that the attempt was based on, how many; and what the loser then paid: the time from the "
        "refusal to its next attempt.",
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


def _life(row: Row) -> tuple[float, float]:
    """The commit of a transaction with a little time around it."""
    end = row["t_submit"] + row["total_latency"]
    commit = row["commit_latency"] or row["total_latency"]
    return max(0.0, end - 1.15 * commit), end + 0.05 * commit


def _spans(seen: Replay, txn: int, events: list[Row]) -> Iterator[Span]:
    """The steps of a transaction. I/O belongs to the conflict until the conflict is settled, and to the attempt after."""
    io, read_ms, last_ms = _READ, 0.0, float(seen.rows[txn]["t_submit"])
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
            yield Span(txn, _COMMITTED if name == "commit" else _REFUSED, time, time, attempt, read_ms)
            io = _CONFLICT
        elif name == "conflict":
            io = _ATTEMPT
        elif name == "restart":
            io, working = _READ, False
        elif name == "abort":
            yield Span(txn, _ABORTED, time, time, attempt)
    if seen.rows[txn]["status"] == "in_flight" and not working and any(event["event"] == "catalog_read" for event in events):
        yield Span(txn, _RUNTIME, last_ms, seen.end_ms, 0)


def _tell_losses(rows: list[dict[str, Any]]) -> None:
    """Add to the first row of each lane who beat the transaction, and what that cost it in all; to the others nothing."""
    lost: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        if row["part"] == _REFUSED:
            lost.setdefault(row["txn"], []).append(row)
    for row in rows:
        own = lost.pop(row["txn"], [])
        winners = [f"#{loss['beaten_by']}" for loss in own if loss["beaten_by"] is not None]
        more = f" and {len(winners) - _MOST_WINNERS} more" if len(winners) > _MOST_WINNERS else ""
        told = ", ".join(winners[:_MOST_WINNERS]) + more
        paid = sum(loss["paid_ms"] or 0.0 for loss in own)
        row["losses"] = f"lost to {told}" + (f": +{paid:,.0f} ms" if paid else "") if told else ""


def _lanes(busy: list[Span], txn: int | None) -> list[int]:
    """Transactions in order of what they first did, the one that was asked for on top."""
    first: dict[int, float] = {}
    for span in busy:
        first[span.txn] = min(span.start_ms, first.get(span.txn, span.start_ms))
    return sorted(first, key=lambda number: (number != txn, first[number], number))


def _row(seen: Replay, span: Span, spans: list[Span]) -> dict[str, Any]:
    about = seen.rows[span.txn]
    behind: list[int] = _since_read(seen, span) if span.part == _REFUSED else []
    paid = _paid(span, spans) if span.part == _REFUSED else None
    text = ""
    if behind:
        text = f"by #{behind[-1]}" if len(behind) == 1 else f"by #{behind[-1]} ({len(behind)} behind)"
    if paid is not None:
        text += f", +{paid:,.0f} ms"
    return {
        "lane": f"#{span.txn} {phrases.name_operation(about['operation_type'])}",
        "txn": span.txn,
        "workload_class": about["workload_class"],
        "operation_type": about["operation_type"],
        "part": span.part,
        "attempt": span.attempt,
        "start_s": max(span.start_ms, seen.start_ms) / 1000.0,
        "end_s": min(span.end_ms, seen.end_ms) / 1000.0,
        "beaten_by": behind[-1] if behind else None,
        "commits_behind": len(behind) if span.part == _REFUSED else None,
        "paid_ms": paid,
        "text": text.removeprefix(", "),
    }


def _since_read(seen: Replay, refused: Span) -> list[int]:
    """The transactions that committed between the read that an attempt was based on and its refusal, and could refuse it."""
    between = (other for time, other in seen.commits if refused.based_on_ms < time <= refused.end_ms)
    return [other for other in between if seen.compete(refused.txn, other)]


def _paid(refused: Span, spans: list[Span]) -> float | None:
    """The time from a refusal to the start of the next attempt; None if there was none."""
    own = (span.start_ms for span in spans if span.txn == refused.txn and span.part == _COMMIT)
    later = min((start for start in own if start >= refused.end_ms), default=None)
    return None if later is None else later - refused.end_ms
