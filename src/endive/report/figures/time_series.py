"""Build figures over time: commits, success, time to commit, retries, transactions in flight and table state."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from endive.analysis.table_growth import DAY_MS, day_of_limit
from endive.formatting import format_bytes, format_number
from endive.report.figure import Axis, Figure, Threshold
from endive.report.figures import common
from endive.report.study_data import Study
from endive.workload.arrivals import SCHEDULE

LIMIT = "param_catalog_metadata_limit_bytes"
"""Parameter of the maximum size of metadata.json that the catalog accepts."""
_FEWEST_PARTS = 0.1
"""Minimum fraction of the time bins of a run that have a value; curves with fewer values are not drawn."""
_MOST_MARKS = 12
_UNITS = (("s", 1000.0, 600_000.0), ("min", 60_000.0, 18_000_000.0), ("h", 3_600_000.0, float("inf")))
"""Units of the time axis: name, length in ms, and the longest run that is shown in it."""
_TIMES = re.compile(r"_(schedule|trace|start_ms|end_ms)$")
COMMIT_RATE = common.Measure("commits_per_s", "Commit rate", Axis("y", "commit rate (commits/s)"), "Commits per second.")
COMMITTING = common.Measure(
    "committing",
    "Transactions in flight",
    Axis("y", "in flight (transactions)"),
    "Mean number of transactions that are committing.",
)
TIME_TO_COMMIT = common.Measure(
    "time_to_commit_p50_ms",
    "Time to commit",
    Axis("y", "time to commit, p50 (ms)"),
    "p50 of the transactions that started committing in a time interval. Unknown values are not shown.",
)


METADATA = common.Measure(
    "table_metadata_bytes",
    "Table metadata",
    Axis("y", "metadata.json (MB)"),
    "Mean size of metadata.json after the commits in a time interval.",
    unit=1e6,
)
MANIFESTS = common.Measure(
    "table_manifests",
    "Manifests",
    Axis("y", "manifests of a table"),
    "Mean number of manifests of a table after the commits in a time interval.",
)


def build_metadata_over_time(study: Study) -> Figure:
    """Build the size of metadata.json over time, with the limit of the catalog and the day on which it is reached."""
    figure = build_over_time(study, METADATA, "metadata_time")
    marks = tuple(Threshold(limit / METADATA.unit, label) for limit, label in describe_limits(study))
    return replace(figure, thresholds=(*figure.thresholds, *marks))


def describe_limits(study: Study) -> list[tuple[int, str]]:
    """Return the limits of the sizes of metadata.json, each with the first day on which an experiment reaches it."""
    totals: list[dict[Any, Any]] = study.totals().to_dict("records")
    first: dict[int, float] = {}
    for row in totals:
        limit = study.manifest.experiments[row["experiment"]].parameters.get(LIMIT)
        if isinstance(limit, int):
            first[limit] = min(first.get(limit, math.inf), day_of_limit(row, limit))
    days = study.experiments["duration_ms"].max() / DAY_MS
    return [(limit, f"limit of {format_bytes(limit)}{_name_day(day, days)}") for limit, day in sorted(first.items())]


def _name_day(day: float, simulated_days: float) -> str:
    if math.isinf(day):
        return ""
    return f", reached on day {math.ceil(day)}" + (" by linear growth" if day > simulated_days else "")


def build_over_time(study: Study, measure: common.Measure, name: str) -> Figure:
    """Build a measure by time bin of the run: of the events in the bin, or of the transactions that start committing in it."""
    rows, fields = common.split_by_load_or_class(study, study.over_time)
    if not (rows["commits_per_s"] > 0.0).any():
        raise common.NotInStudyError("no transaction committed")
    if measure in (METADATA, MANIFESTS) and (measure.column not in rows or rows[measure.column].isna().all()):
        raise common.NotInStudyError("table state is tracked only on Iceberg's commit paths")
    data = common.add_interval(rows, measure.column, most=measure.most)
    data[["y", "low", "high"]] /= measure.unit
    unit, length = next((unit, length) for unit, length, most in _UNITS if rows["to_ms"].max() <= most)
    time = f"time_{unit}"
    data = data.assign(**{time: (data["from_ms"] + data["to_ms"]) / 2.0 / length})
    data = common.select_columns(data, ["panel", "load", time, "y", "low", "high"]).dropna(subset=["y"])
    if len(data) < _FEWEST_PARTS * len(rows):
        raise common.NotInStudyError("too few transactions start committing in each interval")
    marks = tuple(replace(mark, value=mark.value / length) for mark in find_schedule(study))
    return common.make_figure(
        study,
        rows,
        data,
        name=name,
        title=f"{measure.title} over time",
        definition=f"{measure.definition} The run, including the warm-up, is divided into 60 equal intervals. Bands: 95% intervals "
        "across seeds." + (" Dashed: scheduled changes of the load." if marks else ""),
        kind="line",
        x=Axis(time, f"time ({unit})"),
        y=common.fit_scale(measure.y, data) if measure is TIME_TO_COMMIT else measure.y,  # a peak must stay visible
        band=True,
        thresholds=marks,
        **fields,
    )


def find_schedule(study: Study) -> tuple[Threshold, ...]:
    """Return the times (ms) of scheduled load changes; empty if configurations differ in them."""
    if any(_TIMES.search(column) for column in study.varying):
        return ()
    record = next(study.records(next(iter(study.manifest.experiments))), {})
    marks: dict[float, list[str]] = {}
    for name, keys in (record.get("parameters", {}).get("workload") or {}).items():
        if not isinstance(keys, dict):
            continue
        for step in keys.get(SCHEDULE.key) or ():
            if step["from_ms"] > 0.0:
                marks.setdefault(step["from_ms"], []).append(f"{name} {format_number(step['rate'], 4)}/s")
        for key, word in (("start_ms", "begins"), ("end_ms", "ends")):
            if keys.get(key):
                marks.setdefault(keys[key], []).append(f"{name} {word}")
    found = [Threshold(at, ", ".join(words), "x") for at, words in sorted(marks.items())]
    return tuple(found if len(found) <= _MOST_MARKS else (replace(mark, label="") for mark in found))
