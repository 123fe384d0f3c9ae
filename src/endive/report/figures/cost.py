"""What a thousand commits cost: in money where all requests have a price, otherwise in requests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from endive.analysis.estimates import mean_estimate
from endive.analysis.request_cost import KINDS, Cost, basis_of, cost_of, rows_by_class
from endive.formatting import format_money, format_number, join_names
from endive.report.figure import Axis, Figure
from endive.report.figures import common
from endive.report.study import Study
from endive.report.style import PALETTE
from endive.storage.prices import list_prices


def cost(study: Study) -> Figure:
    """Requests of a thousand commits by kind, priced if all of them can be."""
    if study.runs.empty:
        raise common.NotInStudyError("there are no runs to count requests of")
    by_experiment = _costs(study)
    rows = study.totals()
    rows = rows[rows["experiment"].isin(list(by_experiment))]
    if rows.empty:
        raise common.NotInStudyError("nothing was committed")
    shown = set(rows["experiment"])
    priced = all(each.money is not None for name in shown for each in by_experiment[name])
    currency = study.prices.currency
    at = ", at list price" if study.prices == list_prices() else ", at the prices given"
    what = f"cost of 1,000 commits ({currency})" if priced else "requests for 1,000 commits"
    return common.of_parts(
        study,
        rows,
        _parts(common.with_place(study, rows), by_experiment, priced),
        further=_left_behind(study, rows, by_experiment),
        name="cost",
        title="What requests cost" if priced else "Requests of commits",
        definition=f"Requests to the store and the catalog for a thousand commits{at if priced else ''}; what did "
        "not commit is paid too. The lines on the boxes are 95% intervals of the part over seeds."
        + ("" if priced else " Something here has no price; --prices FILE gives it one."),
        y=Axis("y", what),
        colours={word: PALETTE[place] for place, word in enumerate(KINDS.values())},
    )


def _left_behind(study: Study, rows: pd.DataFrame, by_experiment: dict[str, list[Cost]]) -> Iterator[str]:
    """How many files nobody deletes, where crashes or answers that were lost leave some: of the configurations with most."""
    means = [mean_estimate([each.orphaned_files for each in by_experiment[name]]).mean for name in rows["experiment"]]
    if not any(means):
        return
    most: dict[str, tuple[float, float]] = {}
    for series, x, mean in zip(rows["series"], rows["x"], means, strict=True):
        most[series] = max(most.get(series, (0.0, 0.0)), (mean, float(x)))
    at = {
        series: f" at {common.place_label(study, x, named=True)}" if common.has_axis(study) else ""
        for series, (_, x) in most.items()
    }
    told = [f"{format_number(left)} with {series}{at[series]}" for series, (left, _) in most.items()]
    yield f"Files that are left behind for a thousand commits, at most: {join_names(told)}."


def _costs(study: Study) -> dict[str, list[Cost]]:
    """What a thousand commits take in each run, by experiment; experiments in which a run has no commit are left out."""
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


def _parts(rows: pd.DataFrame, by_experiment: dict[str, list[Cost]], priced: bool) -> pd.DataFrame:
    """A row for each kind of request that there is; the last one of a bar says what all of them come to."""
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
    return common.in_order(pd.concat(found), "series", list(dict.fromkeys(rows["series"])))
