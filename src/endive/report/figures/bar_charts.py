"""Build bar charts of sustainable load, commit time breakdown, request cost, and catalog designs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from endive.analysis.estimates import mean_estimate
from endive.formatting import format_duration, format_money, format_number, join_names
from endive.report import phrases
from endive.report.figure import HIDING, Axis, Figure
from endive.report.figures import common
from endive.report.study_data import Study
from endive.report.style import PALETTE, PART_COLOURS
from endive.runs.identity import PREFIX
from endive.simulation.columns import TIME_WORDS
from endive.storage.prices import list_prices
from endive.studies.request_cost import KINDS, Cost, basis_of, cost_of, rows_by_class

DESIGN = tuple(f"{PREFIX}{name}" for name in ("catalog_type", "transaction_manifest_list_mode", "catalog_table_metadata_inlined"))
"""Parameters of the factorial design of catalogs."""
_BOUNDS = {"above": "\u2265 ", "at_or_below": "\u2264 ", "crossed": ""}
_MOST_GROUPS = 4
"""Maximum number of loads for groups of bars; with more loads, designs are curves."""


def build_sustainable_throughput(study: Study) -> Figure:
    """Build the figure of the maximum sustainable load of each configuration."""
    if study.axis is None or study.axis.load is None:
        raise common.NotInStudyError("no arrival rate varies, so saturation is not measured")
    labels = [each.label for each in study.visible_series]
    rows = common.sort_by_label(study.saturation[study.saturation["series"].isin(labels)], "series", labels)
    if rows.empty or rows["n_loads"].max() < 2:
        raise common.NotInStudyError("every configuration has one load only")
    signs = rows["bound"].map(_BOUNDS)
    rows = rows.assign(y=rows["saturation_load"], low=rows["saturation_low"], high=rows["saturation_high"], bound_sign=signs)
    columns = ["y", "low", "high", "bound", "bound_sign", "reason", "lowest_load", "highest_load", "peak_throughput_per_s"]
    data = common.select_columns(rows, columns)
    load, unit = common.name_axis(study), study.axis.title.partition(" (")[2].rstrip(")")
    return common.make_figure(
        study,
        rows,
        data,
        name="sustainable_throughput",
        title=f"Maximum sustainable {load} by configuration",
        definition="Highest load at which at least 99% of transactions commit, throughput is at least 95% of the offered load, and "
        "transactions in flight do not accumulate, interpolated between simulated loads. Error bars: 95% intervals. \u2265: "
        "sustained at the highest simulated load; \u2264: overloaded at the lowest simulated load.",
        kind="bars",
        x=Axis("series", "configuration", "category"),
        y=common.fit_scale(Axis("y", f"maximum sustainable {load}" + (f" ({unit})" if unit else "")), data),
        text="bound_sign",
    )


def build_time_parts(study: Study) -> Figure:
    """Build the figure of the mean total latency of committed transactions, by component."""
    return _build_breakdown(
        study,
        tuple(TIME_WORDS),
        "time_parts",
        "Transaction time breakdown",
        "Mean total latency of committed transactions by component.",
        "mean time per transaction",
    )


def build_commit_parts(study: Study) -> Figure:
    """Build the figure of the mean commit time of committed transactions (without job duration), by component."""
    return _build_breakdown(
        study,
        tuple(name for name in TIME_WORDS if name != "t_runtime"),
        "commit_parts",
        "Commit time breakdown",
        "Mean commit time of committed transactions by component. Job duration is excluded.",
        "mean commit time",
    )


def _build_breakdown(study: Study, parts: tuple[str, ...], name: str, title: str, definition: str, y: str) -> Figure:
    rows = study.totals().dropna(subset=["mean_t_runtime"])
    if rows.empty:
        raise common.NotInStudyError("no transaction committed")
    rows = common.add_place(study, rows).assign(total=sum(rows[f"mean_{part}"].astype(float) for part in parts))
    shares = rows["total"].max() > HIDING * rows["total"].median() and (rows["total"] > 0.0).all()
    more = " Bars show fractions of the total time. The label at the end of a bar is the total time." if shares else ""
    return common.make_stacked_figure(
        study,
        rows,
        _make_parts(rows, parts, rows["total"] if shares else 1.0),
        name=name,
        title=title,
        definition=f"{definition} Error bars: 95% intervals of each component across seeds.{more}",
        y=Axis("y", "fraction of the time (%)", percent=True) if shares else Axis("y", f"{y} (ms)"),
        colours=PART_COLOURS,
    )


def _make_parts(rows: pd.DataFrame, parts: tuple[str, ...], unit: pd.Series[float] | float) -> pd.DataFrame:
    """Return a row for each component that takes time, in units of ``unit``; the last row of a bar has the total as text."""
    shown = [part for part in parts if (rows[f"mean_{part}"].astype(float) > 0.0).any()]
    found = []
    for part in shown:
        mean, width = rows[f"mean_{part}"].astype(float), rows[f"mean_{part}_hw"].astype(float)
        text = [format_duration(total) for total in rows["total"]] if part == shown[-1] else ""
        ends = {"y": mean / unit, "low": (mean - width).clip(lower=0.0) / unit, "high": (mean + width) / unit}
        found.append(rows.assign(part=TIME_WORDS[part], text=text, **ends))
    return common.sort_by_label(pd.concat(found), "series", list(dict.fromkeys(rows["series"])))


def build_catalog_designs(study: Study, measure: common.Measure, name: str) -> Figure:
    """Build the figure of a metric for each catalog design."""
    design = [column for column in DESIGN if column in study.varying]
    if not design:
        raise common.NotInStudyError("neither catalog type, manifest list mode nor metadata inlining varies")
    rows = study.totals()
    others = {each.label: {k: v for k, v in each.parameters.items() if k not in design} for each in study.visible_series}
    panel = rows["series"].map({label: phrases.label_configuration(rest) for label, rest in others.items()})
    along = common.has_axis(study)
    lines = along and study.axis is not None and len(study.axis.values) > _MOST_GROUPS
    data = common.select_measure(common.add_place(study, rows).assign(panel=panel), measure, ["where", "panel"])
    factors = join_names([phrases.name_parameter(column)[0] for column in design])
    return common.make_figure(
        study,
        rows,
        data.sort_values("x", kind="stable") if along else data,
        name=name,
        title=f"Catalog designs: {measure.title.lower()}",
        definition=f"{measure.definition} Designs differ in {factors}. {common.INTERVAL}",
        kind="line" if lines else "bars",
        x=common.require_axis(study) if lines else common.make_place_axis(study),
        y=common.fit_scale(measure.y if lines else replace(measure.y, scale="linear"), data),
        series_title="catalog design",
        facet="panel" if panel.nunique() > 1 else None,
    )


def build_cost(study: Study) -> Figure:
    """Build the figure of requests per 1,000 commits by kind, as cost if every kind has a price."""
    if study.runs.empty:
        raise common.NotInStudyError("there are no runs")
    by_experiment = _compute_costs(study)
    rows = study.totals()
    rows = rows[rows["experiment"].isin(list(by_experiment))]
    if rows.empty:
        raise common.NotInStudyError("no transaction committed")
    shown = set(rows["experiment"])
    priced = all(each.money is not None for name in shown for each in by_experiment[name])
    unpriced = any(each.unpriced for name in shown for each in by_experiment[name])
    currency = study.prices.currency
    at = ", at list prices" if study.prices == list_prices() else ", at the prices of --prices"
    what = f"cost of 1,000 commits ({currency})" if priced else "requests for 1,000 commits"
    return common.make_stacked_figure(
        study,
        rows,
        _make_cost_parts(common.add_place(study, rows), by_experiment, priced),
        further=_note_orphans(study, rows, by_experiment),
        name="cost",
        title="Request cost per 1,000 commits" if priced else "Requests per 1,000 commits",
        definition=f"Requests to the object store and the catalog per 1,000 commits{at if priced else ''}, including requests of "
        "aborted transactions. Error bars: 95% intervals of each component across seeds."
        + (" Some requests have no price; set prices with --prices FILE." if unpriced else ""),
        y=Axis("y", what),
        colours={word: PALETTE[place] for place, word in enumerate(KINDS.values())},
    )


def _note_orphans(study: Study, rows: pd.DataFrame, by_experiment: dict[str, list[Cost]]) -> Iterator[str]:
    """Yield a note on orphaned files, which are left by crashes and lost responses, if there are any."""
    means = [mean_estimate([each.orphaned_files for each in by_experiment[name]]).mean for name in rows["experiment"]]
    if not any(means):
        return
    most: dict[str, tuple[float, float]] = {}
    for series, x, mean in zip(rows["series"], rows["x"], means, strict=True):
        most[series] = max(most.get(series, (0.0, 0.0)), (mean, float(x)))
    at = {
        series: f" with {phrases.phrase_label(common.format_place(study, x, named=True))}" if common.has_axis(study) else ""
        for series, (_, x) in most.items()
    }
    word = phrases.choose_preposition(study.scenarios)
    counts = [
        f"{format_number(left)} {word} {phrases.phrase_label(series, study.scenarios)}{at[series]}"
        for series, (left, _) in most.items()
    ]
    yield f"Maximum number of orphaned files per 1,000 commits: {join_names(counts)}."


def _compute_costs(study: Study) -> dict[str, list[Cost]]:
    """Return the cost per 1,000 commits in each run, by experiment; runs without a commit are omitted."""
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in study.runs.to_dict("records"):
        runs.setdefault((row["experiment"], row["seed"]), []).append({str(column): value for column, value in row.items()})
    found: dict[str, list[Cost]] = {}
    for (name, _), own in runs.items():
        classes = rows_by_class(own)
        basis = basis_of(study.manifest.experiments[name].parameters, [row["workload_class"] for row in classes])
        cost = cost_of(classes, basis, study.prices)
        if cost is not None:
            found.setdefault(name, []).append(cost)
    return found


def _make_cost_parts(rows: pd.DataFrame, by_experiment: dict[str, list[Cost]], priced: bool) -> pd.DataFrame:
    """Return a row for each kind of request that occurs; the last row of a bar has the total as text."""
    values = {
        name: [each.money if priced and each.money is not None else each.requests for each in costs]
        for name, costs in by_experiment.items()
    }
    used = [kind for kind in KINDS if any(each[kind] > 0.0 for name in rows["experiment"] for each in values[name])]
    found = []
    for kind in used:
        estimates = [mean_estimate([each[kind] for each in values[name]]) for name in rows["experiment"]]
        totals = [sum(mean_estimate([each[k] for each in values[name]]).mean for k in KINDS) for name in rows["experiment"]]
        text = [(format_money(total) if priced else format_number(total)) if kind == used[-1] else "" for total in totals]
        ends = {
            "y": [each.mean for each in estimates],
            "low": [max(0.0, each.low) if math.isfinite(each.low) else math.nan for each in estimates],
            "high": [each.high if math.isfinite(each.high) else math.nan for each in estimates],
        }
        found.append(rows.assign(part=KINDS[kind], total=totals, text=text, **ends))
    return common.sort_by_label(pd.concat(found), "series", list(dict.fromkeys(rows["series"])))
