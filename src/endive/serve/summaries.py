"""Summarize runs for the page: a headline, the metrics of each class, the differences between A and B, and the charts.

The functions of ``endive run`` (one seed) and ``endive compare`` (several seeds) compute the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from endive.analysis.conditions import format_metric
from endive.analysis.estimates import FEWEST_SEEDS, Estimate, estimate_metric
from endive.analysis.metric import TABLES
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import saturation
from endive.analysis.table_growth import day_of_limit
from endive.analysis.theory import Curve, NotPredictableError
from endive.config import build_simulation_config
from endive.config.components import custom_components
from endive.config.resolve import resolve_classes
from endive.config.schema import Document
from endive.formatting import finite, format_duration, format_number, format_ratio, is_known, join_ends
from endive.report import ReportError, phrases
from endive.report.comparison import Comparison, Side, compare_all, pair_transactions
from endive.report.figure import Axis, Figure, Reference, Threshold
from endive.report.figures.line_charts import IDEAL
from endive.report.page import Page, encode_figure
from endive.report.phrases import describe_drift, describe_limit, describe_overload, describe_window, warn_utilization
from endive.report.style import PART_COLOURS
from endive.report.timeline import make_timeline_figure, record_replay
from endive.report.verdicts import (
    describe_comparison,
    describe_pairs,
    format_signed_change,
    format_value,
    name_metric,
    summarize_comparison,
)
from endive.serve.changes import scale_load
from endive.serve.messages import Answer, Chart, ClassRow, Compared, ComparedRow, LoadPoint, MetricValues, Tree, Value
from endive.simulation.columns import TIME_WORDS
from endive.studies.experiment_tables import make_load_point
from endive.studies.frontier import list_values
from endive.studies.measure import RunMetrics, RunRows

METRICS = TABLES["page"]
"""Columns of the table on the page."""
_COMPONENTS = {"provider": "object store", "catalog": "catalog", "transaction": "transaction"}
_NOTICEABLE = 0.005
"""Minimum difference in success for which the headline mentions the worst class."""


def summarize(runs: Sequence[RunMetrics], workers: int = 0, limit_bytes: int | None = None) -> Answer:
    """Summarize the runs of a configuration. ``workers`` and ``limit_bytes`` are those of the catalog."""
    classes = _classes(runs)
    window, busy = runs[0].window, warn_utilization(_rows(runs, ALL), workers)
    limit = None if limit_bytes is None else describe_limit(_first_at_limit(runs, limit_bytes), limit_bytes)
    warnings = tuple(text for text in (_overload(runs), busy, limit, describe_drift(_rows(runs, ALL))) if text)
    return Answer(
        tuple(run.seed for run in runs),
        _headline(runs),
        describe_window(window),
        (window.start_ms, window.end_ms, window.duration_ms),
        warnings[:1] if len(runs) < FEWEST_SEEDS else warnings,
        tuple(_class_row(runs, name) for name in (*classes, *((ALL,) if len(classes) > 1 else ()))),
    )


def _first_at_limit(runs: Sequence[RunMetrics], limit_bytes: int) -> Mapping[str, Any]:
    return min(_rows(runs, ALL), key=lambda row: day_of_limit(row, limit_bytes))


def _classes(runs: Sequence[RunMetrics]) -> list[str]:
    names = {name for run in runs for name, operation in run.groups if operation == ALL and name != ALL}
    return sorted(names) or [ALL]


def _rows(runs: Sequence[RunMetrics], name: str) -> list[Mapping[str, Any]]:
    return [run.select(name, ALL) for run in runs]


def _class_row(runs: Sequence[RunMetrics], name: str) -> ClassRow:
    rows = _rows(runs, name)
    operations = sorted({operation for run in runs for cls, operation in run.groups if cls == name and operation != ALL})
    return ClassRow(
        name,
        tuple(phrases.name_operation(operation) for operation in operations) if name != ALL else (),
        sum(row["transactions"] for row in rows),
        {metric: to_value(metric, estimate_metric(rows, metric)) for metric in METRICS},
        sum(row["in_flight"] for row in rows),
    )


def to_value(metric: str, found: Estimate | None) -> Value | None:
    """Return an estimate with the text to show."""
    if found is None:
        return None
    interval = ""
    if found.kind == "number" and is_known(found.low) and is_known(found.high):
        interval = join_ends(format_metric(metric, found.low), format_metric(metric, found.high))
    text = format_value(metric, found)
    return Value(finite(found.mean), finite(found.low), finite(found.high), found.kind, found.n, text, interval)


def _headline(runs: Sequence[RunMetrics]) -> str:
    """Return one or two sentences about success, time to commit and the worst class."""
    rows = _rows(runs, ALL)
    success = estimate_metric(rows, "success_rate")
    if success is None:
        return "No transaction started committing in the measurement window."
    headline = f"{format_value('success_rate', success)} of transactions commit{_times(rows)}."
    worst = _worst_class(runs, success.mean)
    return f"{headline} {worst}" if worst else headline


def _times(rows: Sequence[Mapping[str, Any]]) -> str:
    found = [(name, estimate_metric(rows, f"time_to_commit_{name}_ms")) for name in ("p50", "p95")]
    parts = [f"{name} {format_duration(each.mean)}" for name, each in found if each is not None and each.kind == "number"]
    return f"; time to commit: {', '.join(parts)}" if parts else ""


def _worst_class(runs: Sequence[RunMetrics], whole: float) -> str:
    names = _classes(runs)
    found = {name: estimate_metric(_rows(runs, name), "success_rate") for name in names}
    shares = {name: each for name, each in found.items() if each is not None}
    if len(shares) < 2:
        return ""
    name, worst = min(shares.items(), key=lambda item: item[1].mean)
    if worst.mean > whole - _NOTICEABLE:
        return ""
    share = f"Only {format_value('success_rate', worst)} of" if worst.mean > 0.0 else "No"
    return f"{share} {name} transactions commit."


def _overload(runs: Sequence[RunMetrics]) -> str | None:
    rows = _rows(runs, ALL)
    reason = make_load_point(0.0, rows).reason
    entered = [row["transactions"] for row in rows]
    means = {name: sum(row[name] or 0 for row in rows) / len(rows) for name in ("in_flight", "aborted", "throughput_ratio")}
    found = describe_overload({"saturated": reason, "transactions": sum(entered) / len(entered), **means})
    return None if found is None else found[:1].upper() + found[1:]


def list_assumptions(document: Document) -> Iterator[str]:
    """Yield the main assumptions of a configuration."""
    provider = document.storage.provider
    if document.parts.provider is None:
        if provider is None or provider.endswith(".toml"):
            yield "Latencies are drawn from a custom latency profile."
        else:
            store = phrases.name_value("storage_provider", provider)
            yield f"Latencies are drawn from measurements of {store} (profile {document.storage.profile})."
    for kind, part in custom_components(document).items():
        file, _, name = part.code.rpartition(":")
        yield f"Custom {_COMPONENTS[kind]}: {name} in {Path(file).name}, on the reference engine."
    classes = resolve_classes(document)
    clients = {cls.path.name: cls.path.client for cls in classes}
    yield f"Commit protocol: {' and '.join(clients[name] for name in sorted(clients))}."
    probabilistic = [cls for cls in classes if cls.settings.conflict_detector == "probabilistic"]
    if probabilistic and all(cls.settings.real_conflict_probability == 0.0 for cls in probabilistic):
        yield "Concurrent commits never have a real conflict: no two writers change the same rows."
    yield "Latencies do not depend on the load of the object store."


def compare_sides(a: Side, b: Side) -> Compared:
    """Compare B with A, metric by metric, as ``endive compare`` does."""
    sides = (replace(a, name="A"), replace(b, name="B"))
    found = compare_all(sides, None, ())
    pairing = found.pairings["B"]
    pairs = pair_transactions(a, b, pairing) or {}
    return Compared(
        summarize_comparison(found)[0],
        tuple(describe_pairs(pairs)),
        tuple(pairing.warnings),
        tuple(pairing.seeds or ()),
        describe_window(a.window),
        tuple(map(_compared_row, found.comparisons)),
    )


def _compared_row(each: Comparison) -> ComparedRow:
    found = each.difference
    return ComparedRow(
        each.metric,
        name_metric(each.metric),
        each.workload_class,
        to_value(each.metric, each.a),
        to_value(each.metric, each.b),
        None if found is None else {key: value for key, value in asdict(found).items() if key not in ("a", "b")},
        format_signed_change(each.metric, found),
        each.is_significant,
        each.better,
        describe_comparison(each),
    )


def measure_metric(runs: Sequence[RunMetrics], metric: str, workload_class: str) -> MetricValues:
    """Return the values of a metric by seed, and their estimate."""
    rows = _rows(runs, workload_class)
    values = list_values(tuple(runs), metric, workload_class, ALL)
    entered, in_flight = (sum(row[name] for row in rows) for name in ("transactions", "in_flight"))
    return MetricValues(values, to_value(metric, estimate_metric(rows, metric)), entered, in_flight)


_PAGE = Page("", "", (), (), (), {}, "")
_LEAST_SPAN_MS, _MOST_SPAN_MS = 200.0, 30_000.0


def _to_chart(figure: Figure) -> Chart:
    return {"title": figure.title, "definition": figure.definition, "notes": list(figure.notes), **encode_figure(figure, _PAGE)}


def draw_breakdown(runs: Sequence[RunMetrics]) -> Chart | None:
    """Draw the commit time breakdown, with one bar of percentages per class; None if no transaction committed."""
    names = sorted({name for run in runs for name, operation in run.groups if operation == ALL and name != ALL})
    parts = {column: word for column, word in TIME_WORDS.items() if column != "t_runtime"}
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
            definition="Mean commit time of committed transactions by component. Job duration is excluded.",
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
    """Draw throughput versus load, and mark the current load; None if fewer than two loads are simulated."""
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
        definition="Commits per second at multiples of the current load. Error bars: 95% intervals across seeds.",
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
        return f"The system sustains all simulated loads, up to {format_number(found.load)}/s{share}."
    if found.bound == "at_or_below":
        return f"The system is overloaded at all simulated loads, down to {format_number(found.load)}/s{share}."
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
    """Draw the commit timeline around the transaction with the most retries; None if no transaction attempts to commit.

    The transaction ends within the first fraction ``share`` of the run, which the reference engine can replay in time.
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
    retried = f"which has {'1 retry' if lost == 1 else f'{lost:,} retries'}" if lost else "which has no retries"
    about = f"Transactions that run at the same time as transaction #{txn} (seed {seed}), {retried}."
    return {**_to_chart(figure), "title": "Commit timeline", "about": about}
