"""Build the charts of the page as ``Figure`` values, which the renderer of reports converts to Vega-Lite."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from endive.analysis.estimates import estimate_metric
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import saturation
from endive.analysis.theory import Curve, NotPredictableError
from endive.config import build_simulation_config
from endive.config.schema import Document
from endive.formatting import format_duration, format_number, format_ratio
from endive.report import ReportError
from endive.report.figure import Axis, Figure, Reference, Threshold
from endive.report.page import Page, encode_figure
from endive.report.style import PART_COLOURS
from endive.report.timeline import make_timeline_figure, record_replay
from endive.serve.changes import scale_load
from endive.serve.messages import Chart, LoadPoint, Tree
from endive.simulation.columns import TIME_WORDS
from endive.studies.experiment_tables import make_load_point
from endive.studies.measure import RunMetrics, RunRows

_PAGE = Page("", "", (), (), (), {}, "")
_LEAST_SPAN_MS, _MOST_SPAN_MS = 200.0, 30_000.0
IDEAL = "ideal: every transaction commits"


def _to_chart(figure: Figure) -> Chart:
    return {"title": figure.title, "definition": figure.definition, "notes": list(figure.notes), **encode_figure(figure, _PAGE)}


def draw_breakdown(runs: Sequence[RunMetrics]) -> Chart | None:
    """Draw the commit time breakdown, with one bar of percentages per class; None if no transaction committed."""
    names = sorted({name for run in runs for name, operation in run.groups if operation == ALL and name != ALL})
    parts = {column: word for column, word in TIME_WORDS.items() if word != "runtime"}
    rows = []
    for name in names or [ALL]:
        of_class = [run.select(name, ALL) for run in runs]
        means = {word: estimate_metric(of_class, f"mean_{column}") for column, word in parts.items()}
        values = {word: each.mean for word, each in means.items() if each is not None}
        total = sum(values.values())
        if total <= 0.0:
            continue
        for word, value in values.items():
            rows.append({"class": name, "part": word, "y": value / total, "mean_ms": value, "text": ""})
        rows[-1]["text"] = f"{format_duration(total)} per commit"
    if not rows:
        return None
    return _to_chart(
        Figure(
            name="time",
            title="Commit time breakdown",
            definition="Mean commit time of committed transactions (job duration excluded), by component.",
            kind="stacked",
            data=pd.DataFrame(rows),
            x=Axis("class", "", "category"),
            y=Axis("y", "fraction of commit time", percent=True),
            part="part",
            text="text",
            colours={word: PART_COLOURS[word] for word in parts.values()},
        )
    )


def measure_load(factor: float, runs: Sequence[RunMetrics]) -> LoadPoint | None:
    """Measure runs at a multiple of the load; None if no transaction started committing."""
    rows = [run.select(ALL, ALL) for run in runs]
    offered, throughput = (estimate_metric(rows, name) for name in ("offered_per_s", "throughput_per_s"))
    success = estimate_metric(rows, "success_rate")
    if offered is None or throughput is None or success is None or offered.mean <= 0.0:
        return None
    has_interval = len(runs) > 1
    return LoadPoint(
        factor,
        offered.mean,
        throughput.mean,
        max(0.0, throughput.low) if has_interval else None,
        throughput.high if has_interval else None,
        success.mean,
        len(runs),
        make_load_point(offered.mean, rows),
    )


def draw_load_curve(tree: Tree, points: Sequence[LoadPoint]) -> Chart | None:
    """Draw throughput versus load, with the current load marked; None if there are fewer than two points."""
    if len(points) < 2:
        return None
    ordered = sorted(points, key=lambda point: point.offered)
    frame = pd.DataFrame(map(vars, ordered)).rename(columns={"throughput": "y", "factor": "multiple of the current load"})
    data = frame[["offered", "y", "low", "high", "success", "multiple of the current load", "seeds"]].assign(series="simulated")
    ends = [ordered[0].offered, ordered[-1].offered]
    current = next((point for point in ordered if point.factor == 1.0), None)
    theory = _theory(tree, ordered)
    figure = Figure(
        name="curve",
        title="Throughput versus offered load",
        definition="Throughput versus offered load, at multiples of the current load.",
        kind="line",
        data=data.astype({"low": float, "high": float}),
        x=Axis("offered", "offered load (transactions/s)", "log"),
        y=Axis("y", "throughput (commits/s)", "log"),
        series="series",
        low="low",
        high="high",
        references=(Reference(IDEAL, pd.DataFrame({"x": ends, "y": ends})), *theory),
        thresholds=()
        if current is None
        else (Threshold(current.offered, f"current load, {format_number(current.offered)}/s", "x"),),
        notes=(_describe_limit(ordered, current),),
    )
    return _to_chart(figure)


def _format_multiple(ratio: float) -> str:
    """Return a multiple of a load as text: ``75% of``, ``8.3×``."""
    return f"{format_number(100.0 * ratio)}% of" if ratio < 2.0 else format_ratio(ratio)


def _describe_limit(points: Sequence[LoadPoint], current: LoadPoint | None) -> str:
    """Return the maximum sustainable load in a sentence."""
    found = saturation([point.point for point in points])
    share = "" if current is None else f", {_format_multiple(found.load / current.offered)} the current load"
    if found.bound == "above":
        return f"All simulated loads are sustained, up to {format_number(found.load)}/s{share}."
    if found.bound == "at_or_below":
        return f"No simulated load is sustained, down to {format_number(found.load)}/s{share}."
    interval = "" if found.low is None or found.high is None else f" ({format_number(found.low)}\u2013{format_number(found.high)})"
    return f"Maximum sustainable load: about {format_number(found.load)}/s{interval}{share}."


def _theory(tree: Tree, points: Sequence[LoadPoint]) -> tuple[Reference, ...]:
    """Return the curve that theory predicts, or None."""
    predicted, curve = [], Curve()
    for point in points:
        found = scale_load(tree, point.factor)
        if found is None:
            return ()
        try:
            predicted.append(curve.point(found.document))
        except NotPredictableError:
            return ()
    return (Reference("theory", pd.DataFrame(sorted(predicted), columns=["x", "y"])),)


def draw_timeline(
    document: Document, seed: int, rows: RunRows, share: float, check_stopped: Callable[[float], None]
) -> Chart | None:
    """Draw the commits around the transaction with the most retries that ends in the first fraction ``share`` of the run.

    Returns None if no transaction commits there.
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
    repeated = document.model_copy(update={"simulation": document.simulation.model_copy(update=shorter)})
    try:
        observed = record_replay(build_simulation_config(repeated, seed_override=seed), start, end, check_stopped)
        figure = make_timeline_figure(observed, txn=txn, source="this run", remedy="")
    except ReportError:
        return None
    lost = int(retries[place])
    text = f"It has {'1 retry' if lost == 1 else f'{lost:,} retries'}." if lost else "No transaction shown has retries."
    about = f"Transactions around transaction #{txn} (seed {seed}). {text}"
    return {**_to_chart(figure), "title": "Commit timeline", "about": about}
