"""Artificial studies, figures and pages, for tests of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd

from endive.analysis.estimates import Estimate
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import LoadPoint, saturation
from endive.report.configurations import Series, StudyAxis
from endive.report.figure import Axis, Figure, Threshold
from endive.report.page import Page
from endive.report.study_data import Study
from endive.runs.stored import Experiment, Inventory, RecordedRun
from endive.simulation.columns import TIME_WORDS
from endive.studies.experiment_tables import LoadAxis

RATE = "param_workload_ingest_rate"


Point = dict[str, Any]


def synthetic_study(
    points: Sequence[Point], *, by_load: bool = True, column: str = RATE, title: str = "ingest rate (transactions/s)"
) -> Study:
    """Return a study with these rows by experiment. Missing values are those of a run without problems."""
    rows = [_row(place, point, by_load) for place, point in enumerate(points)]
    table = pd.DataFrame(rows)
    labels = list(dict.fromkeys(table["series"]))
    places = tuple(sorted({float(x) for x in table["x"] if pd.notna(x)}))
    axis = StudyAxis(column, title, "linear", places, LoadAxis(column) if by_load else None) if places else None
    series = tuple(
        Series(label, {}, tuple(table[table["series"] == label]["experiment"].unique()), colour)
        for colour, label in enumerate(labels)
    )
    runs = tuple(RecordedRun(seed, 10, "") for seed in range(3))
    manifest = Inventory({name: Experiment("study", "abc", "0.1+x", 1000.0, {}, runs) for name in table["experiment"].unique()})
    empty = pd.DataFrame()
    return Study(Path("experiments"), "sweep", "study", manifest, empty, table, _curves(table, by_load), empty, empty, axis, series)


def _row(place: int, point: Point, by_load: bool) -> Point:
    offered = point.get("offered_per_s", point.get("x", 2.0) if by_load else 2.0)
    defaults: Point = {
        "experiment": f"study-{place}",
        "series": "S3",
        "x": float("nan"),
        "workload_class": ALL,
        "operation_type": ALL,
        "n_seeds": 3,
        "few_seeds": False,
        "warmup_settled": True,
        "warmup_by": "runtimes",
        "warmup_ms": 100_000.0,
        "window_ms": 500_000.0,
        "duration_ms": 600_000.0,
        "needed_ms": None,
        "transactions": 1000.0,
        "in_flight": 0.0,
        "offered_per_s": offered,
        "offered_per_s_hw": 0.01,
        "throughput_per_s": offered,
        "throughput_per_s_hw": 0.02,
        "success_rate": 1.0,
        "success_rate_hw": 0.0,
        "throughput_ratio_hw": 0.0,
        "time_to_commit_p50_ms": 100.0,
        "time_to_commit_p50_at_least_ms": None,
        "time_to_commit_p99_ms": 400.0,
        "time_to_commit_p99_at_least_ms": None,
        "retries_per_txn": 0.5,
        "manifest_list_reads_per_txn": 1.0,
        "manifest_file_reads_per_txn": 1.0,
        **{f"mean_{name}": 10.0 for name in TIME_WORDS},
    }
    row = {**defaults, **point}
    row.setdefault("throughput_ratio", row["throughput_per_s"] / row["offered_per_s"])
    success, unfinished = row["success_rate"], row["in_flight"] / row["transactions"]
    for name, value in (("success_high", success), ("success_low", None if success is None else success - unfinished)):
        width = row["success_rate_hw"]
        row.setdefault(name, value)
        row |= {f"{name}_low": None if value is None else value - width, f"{name}_high": None if value is None else value + width}
        row[f"{name}_n"] = row["n_seeds"]
    ends = (None, None) if success is None else (success - row["success_rate_hw"], success + row["success_rate_hw"])
    row |= dict(zip(("success_rate_low", "success_rate_high"), ends, strict=True))
    row.setdefault("aborted", 0.0 if success is None else row["transactions"] * (1.0 - success))
    row.setdefault("saturated", _point(row).reason)
    return row


def _point(row: Point) -> LoadPoint:
    ratio, width, n = row["throughput_ratio"], row["throughput_ratio_hw"], row["n_seeds"]
    success = None
    if row["success_high"] is not None:
        success = Estimate(row["success_high"], row["success_high_low"], row["success_high_high"], n)
    throughput = Estimate(ratio, ratio - width, ratio + width, n)
    return LoadPoint(row.get("x", 0.0), success, throughput, entered=round(row["transactions"]))


def _curves(table: pd.DataFrame, by_load: bool) -> pd.DataFrame:
    if not by_load or table["x"].isna().all():
        return pd.DataFrame()
    totals = table[(table["workload_class"] == ALL) & (table["operation_type"] == ALL)]
    curves = []
    for label, rows in totals.groupby("series", sort=False):
        points = [_point(row) for row in cast("list[Point]", rows.to_dict("records"))]
        found = saturation(points)
        curves.append(
            {
                "series": label,
                "n_loads": len(rows),
                "peak_throughput_per_s": rows["throughput_per_s"].max(),
                "lowest_load": rows["x"].min(),
                "highest_load": rows["x"].max(),
                "saturation_load": found.load,
                "saturation_low": found.low,
                "saturation_high": found.high,
                "bound": found.bound,
                "reason": found.reason,
            }
        )
    return pd.DataFrame(curves)


def kinds() -> list[Figure]:
    """Return a figure of each kind with all of its elements."""
    loads = (1.0, 2.0, 4.0, 8.0)
    curve = pd.DataFrame(
        {"series": name, "load": load, "x": load * speed, "y": 10.0 * load, "operation_type": operation, "panel": panel}
        for name, speed in (("S3", 0.5), ("S3 Express", 1.0))
        for operation in (ALL, "fast_append")
        for panel in ("p50", "p99")
        for load in loads
    )
    curve = curve.assign(low=curve.y * 0.9, high=curve.y * 1.1, x_low=curve.x - 0.1, x_high=curve.x + 0.1)
    x, y = Axis("x", "throughput (commits/s)"), Axis("y", "time to commit (ms)", "log")
    lines = Figure(
        "lines", "Lines", "Curves.", "line", curve, x, y, series="series", series_title="configuration", facet="panel",
        low="low", high="high", x_low="x_low", x_high="x_high", order="load", thresholds=(Threshold(20.0, "a limit"),),
        filters=("series", "operation_type", "panel"), notes=("A note.",),
    )  # fmt: skip
    one = curve[(curve["operation_type"] == ALL) & (curve["panel"] == "p50")].reset_index(drop=True)
    parts = pd.concat(
        one.assign(part=part, y=mean, low=mean - 1, high=mean + 1) for part, mean in (("runtime", 20.0), ("catalog commits", 5.0))
    )
    parts = parts[parts["load"] == 1.0].reset_index(drop=True)
    bars = one[one["load"] == 1.0].assign(sign=["", "≥"])
    cells = pd.DataFrame(
        {"x": a, "y": b, "value": a * b, "hatch": h} for a, b, h in ((1, 1, ""), (1, 2, "/"), (2, 1, "x"), (2, 2, "/"))
    )
    spans = pd.DataFrame({"lane": f"transaction {n}", "start": n * 5.0, "end": n * 5.0 + 4.0, "phase": "runtime"} for n in range(3))
    names, ms = Axis("series", "configuration", "category"), replace(y, scale="linear")
    return [
        lines,
        replace(lines, name="band", facet=None, data=one, band=True, x_low=None, x_high=None, order=None, filters=("series",)),
        Figure("bars", "Bars", "Bars.", "bars", bars, names, ms, series="series", low="low", high="high", text="sign"),
        Figure("parts", "Parts", "Parts.", "stacked", parts, names, ms, part="part", low="low", high="high"),
        Figure(
            "cells", "Cells", "Cells.", "heatmap", cells, Axis("x", "rate (1/s)"), Axis("y", "tables"),
            value=Axis("value", "success (%)", percent=True), hatch="hatch",
        ),
        Figure(
            "spans", "Spans", "Spans.", "swimlanes", spans, Axis("start", "time (ms)"), Axis("lane", "transaction", "category"),
            series="phase", x_end="end", text="phase",
        ),
    ]  # fmt: skip


def page_with(figures: Sequence[Figure], colours: Mapping[str, str] | None = None, **more: Any) -> Page:
    """Return a page with some figures."""
    said: dict[str, Any] = {"answer": ["It is so."], "warnings": ["Or not."], "configuration": "[simulation]\n", **more}
    return Page(
        title="study", about="2 runs", figures=figures, colours=colours or {"S3": "#0072B2", "S3 Express": "#D55E00"}, **said
    )
