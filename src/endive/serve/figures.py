"""The charts of the page, as ``Figure`` values that the report's renderer turns into Vega-Lite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from endive.analysis.over_seeds import estimate_metric
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import saturation
from endive.analysis.tables import load_point as load_point_of
from endive.analysis.theory import Curve, NotPredictableError
from endive.config import build_simulation_config
from endive.config.schema import Document
from endive.report.errors import ReportError
from endive.report.figure import Axis, Figure, Reference, Threshold
from endive.report.page import Page, drawn
from endive.report.phrases import duration, short
from endive.report.replay import watch
from endive.report.style import PART_COLOURS
from endive.report.timeline import timeline_of
from endive.report.words import TIME_PARTS
from endive.serve.load import LoadPoint, scaled
from endive.serve.trees import Tree
from endive.studies.measure import RunRows
from endive.studies.replications import RunMetrics

_PAGE = Page("", "", (), (), (), {}, "")
_LEAST_SPAN_MS, _MOST_SPAN_MS = 200.0, 30_000.0
EVERYTHING_COMMITS = "everything commits"


def _as_json(figure: Figure) -> dict[str, Any]:
    return {"title": figure.title, "definition": figure.definition, "notes": list(figure.notes), **drawn(figure, _PAGE)}


def drawn_time(runs: Sequence[RunMetrics]) -> dict[str, Any] | None:
    """Draw where the time of a commit goes, a bar for each class, as shares; None if nothing was committed."""
    names = sorted({name for run in runs for name, operation in run.groups if operation == ALL and name != ALL})
    parts = {column: word for column, word in TIME_PARTS.items() if word != "runtime"}
    rows = []
    for name in names or [ALL]:
        of_class = [run.of(name, ALL) for run in runs]
        means = {word: estimate_metric(of_class, f"mean_{column}") for column, word in parts.items()}
        values = {word: each.mean for word, each in means.items() if each is not None}
        total = sum(values.values())
        if total <= 0.0:
            continue
        for word, value in values.items():
            rows.append({"class": name, "part": word, "y": value / total, "mean_ms": value, "text": ""})
        rows[-1]["text"] = f"{duration(total)} a commit"
    if not rows:
        return None
    return _as_json(
        Figure(
            name="time",
            title="Where the time goes",
            definition="Mean time of committed transactions beside their own work, by what it was spent on.",
            kind="stacked",
            data=pd.DataFrame(rows),
            x=Axis("class", "", "category"),
            y=Axis("y", "share of the time", percent=True),
            part="part",
            text="text",
            colours={word: PART_COLOURS[word] for word in parts.values()},
        )
    )


def point_of(factor: float, runs: Sequence[RunMetrics]) -> LoadPoint | None:
    """What runs at a multiple of the load come to; None if nothing entered."""
    rows = [run.of(ALL, ALL) for run in runs]
    offered, throughput = (estimate_metric(rows, name) for name in ("offered_per_s", "throughput_per_s"))
    success = estimate_metric(rows, "success_rate")
    if offered is None or throughput is None or success is None or offered.mean <= 0.0:
        return None
    told = len(runs) > 1
    return LoadPoint(
        factor,
        offered.mean,
        throughput.mean,
        max(0.0, throughput.low) if told else None,
        throughput.high if told else None,
        success.mean,
        len(runs),
        load_point_of(offered.mean, rows),
    )


def drawn_curve(tree: Tree, points: Sequence[LoadPoint]) -> dict[str, Any] | None:
    """Draw throughput against load, with today's load marked; None if there are fewer than two points."""
    if len(points) < 2:
        return None
    ordered = sorted(points, key=lambda point: point.offered)
    frame = pd.DataFrame(map(vars, ordered)).rename(columns={"throughput": "y", "factor": "times today"})
    data = frame[["offered", "y", "low", "high", "success", "times today", "seeds"]].assign(series="simulated")
    ends = [ordered[0].offered, ordered[-1].offered]
    today = next((point for point in ordered if point.factor == 1.0), None)
    theory = _theory(tree, ordered)
    figure = Figure(
        name="curve",
        title="Throughput against load",
        definition="Commits per second against transactions that begin to commit per second, at multiples of today's load.",
        kind="line",
        data=data.astype({"low": float, "high": float}),
        x=Axis("offered", "offered load (transactions/s)", "log"),
        y=Axis("y", "throughput (commits/s)", "log"),
        series="series",
        low="low",
        high="high",
        references=(Reference(EVERYTHING_COMMITS, pd.DataFrame({"x": ends, "y": ends})), *theory),
        thresholds=() if today is None else (Threshold(today.offered, f"today, {short(today.offered)}/s", "x"),),
        notes=(_carries(ordered, today),),
    )
    return _as_json(figure)


def _carries(points: Sequence[LoadPoint], today: LoadPoint | None) -> str:
    """Say up to which load it carries."""
    found = saturation([point.point for point in points])
    times = "" if today is None else f", {short(found.load / today.offered)} times today's load"
    if found.bound == "above":
        return f"It carries every load that was tried, up to {short(found.load)}/s{times}."
    if found.bound == "at_or_below":
        return f"It does not carry {short(found.load)}/s, the lowest load that was tried."
    low = "" if found.low is None or found.high is None else f" (between {short(found.low)} and {short(found.high)})"
    return f"It carries up to about {short(found.load)}/s{low}{times}."


def _theory(tree: Tree, points: Sequence[LoadPoint]) -> tuple[Reference, ...]:
    """The curve that theory predicts, where it has anything to say."""
    predicted, curve = [], Curve()
    for point in points:
        found = scaled(tree, point.factor)
        if found is None:
            return ()
        try:
            predicted.append(curve.point(found.document))
        except NotPredictableError:
            return ()
    return (Reference("theory", pd.DataFrame(sorted(predicted), columns=["x", "y"])),)


def drawn_timeline(
    document: Document, seed: int, rows: RunRows, share: float, look_up: Callable[[float], None]
) -> dict[str, Any] | None:
    """Draw the commits around the transaction that lost most often among those that end in the first ``share`` of the run.

    None if nobody is committing there.
    """
    retries, submitted, total = (rows.column(name) for name in ("n_retries", "t_submit", "total_latency"))
    commit = rows.column("commit_latency")
    duration_ms = document.simulation.duration_ms
    ends = submitted + total
    early = np.flatnonzero((ends <= share * duration_ms) & (commit > 0.0))
    if not len(early):
        return None
    place = early[np.argmax(retries[early])]
    txn = int(rows.column("txn_id")[place])
    life = min(max(float(commit[place]) * 1.2, _LEAST_SPAN_MS), _MOST_SPAN_MS)
    end = float(ends[place]) + 0.05 * life
    start = max(0.0, end - life)
    shorter = {"duration_ms": min(duration_ms, end + life), "engine": "reference", "drain": False}
    watched = document.model_copy(update={"simulation": document.simulation.model_copy(update=shorter)})
    try:
        seen = watch(build_simulation_config(watched, seed_override=seed), start, end, look_up)
        figure = timeline_of(seen, txn=txn, source="this run")
    except ReportError:
        return None
    lost = int(retries[place])
    words = f"lost {lost} time{'s' if lost != 1 else ''} before it was done" if lost else "lost to nobody, as all others here"
    return {**_as_json(figure), "title": "Who beats whom", "about": f"Around transaction #{txn}, which {words} (seed {seed})."}
