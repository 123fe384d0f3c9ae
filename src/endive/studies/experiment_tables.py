"""Create the tables of experiments and of saturation from the table of runs.

The table of runs has a row for each run, class and operation. The table of experiments has means across seeds with intervals. The
table of saturation has a row for each curve over the load.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endive.analysis.estimates import FEWEST_SEEDS, SHARES, Estimate, at_least, at_most, estimate_metric, half_widths
from endive.analysis.run_metrics import ALL, BOUNDED, BOUNDS, COMMITTING_IN_WINDOW, ENTERED_IN_WINDOW, METRICS, RATES
from endive.analysis.saturation import Backlog, LoadPoint, backlog_grows, saturation
from endive.runs.identity import Value, column_name, column_types, parameter_array, varying, varying_within_scenarios
from endive.runs.stored import Inventory, PipelineError

_GROUP = ["experiment", "workload_class", "operation_type"]
_MEANS = tuple(name for name in (*METRICS, "warmup_ms") if name not in (*SHARES, *BOUNDED))
_OVER_SEEDS = (("mean", None), ("stddev", pc.VarianceOptions(ddof=1)), ("count", None))
_NEEDED = {"transactions", "committed", "in_flight", "commits_in_window", COMMITTING_IN_WINDOW, ENTERED_IN_WINDOW}
_NEEDED |= {*BOUNDED, *BOUNDS}
_INTERVAL_OF_ARRIVALS = re.compile(r"_(inter_arrival_(scale|mean|value)|periodic_interval_ms)$")
_DURATION = "param_simulation_duration_ms"
_LOAD = re.compile(r"_(rate|inter_arrival_(scale|mean|value))$")


def make_experiments_table(runs: pa.Table, manifest: Inventory) -> pa.Table:
    """Return the metrics across seeds and the parameters of each experiment. Parameters that vary are the first columns.

    Each metric has a column for the half width of its 95% interval (``_hw``) and, if it can be missing, one for the number of seeds
    with a value (``_n``). Proportions also have columns for both ends of the interval (``_low``, ``_high``). Percentiles and
    retries have columns for their bounds across seeds.
    """
    grouped = runs.group_by(_GROUP, use_threads=False).aggregate(
        [
            ("seed", "count_distinct"),
            ("warmup_settled", "min"),
            ("warmup_by", "first"),
            *((name, "max") for name in ("duration_ms", "window_ms", "needed_ms")),
            *((name, function, options) for name in _MEANS for function, options in _OVER_SEEDS),
        ]
    )
    grouped = grouped.sort_by([(name, "ascending") for name in _GROUP])
    names = grouped.column("experiment").to_pylist()
    parameters: list[Mapping[str, Value]] = [manifest.experiments[name].parameters for name in names]
    types = column_types(manifest.parameters)
    changing = [name for name in varying(manifest.parameters) if name in types]
    columns: dict[str, Any] = {"experiment": grouped.column("experiment")}
    columns["label"] = pa.array([manifest.experiments[name].label for name in names], pa.string())
    columns["code_version"] = pa.array([manifest.experiments[name].code_version for name in names], pa.string())
    columns |= {name: parameter_array(name, types[name], parameters) for name in changing}
    columns |= {name: grouped.column(name) for name in _GROUP[1:]}
    columns["n_seeds"] = grouped.column("seed_count_distinct")
    columns["few_seeds"] = pc.less(grouped.column("seed_count_distinct"), FEWEST_SEEDS)
    columns["warmup_settled"] = grouped.column("warmup_settled_min")
    columns["warmup_by"] = grouped.column("warmup_by_first")
    columns |= {name: grouped.column(f"{name}_max") for name in ("duration_ms", "window_ms", "needed_ms")}
    judged = _estimate_groups(runs, list(zip(*(grouped.column(name).to_pylist() for name in _GROUP), strict=True)))
    for name in (*METRICS, "warmup_ms"):
        columns |= (
            _make_mean_columns(grouped, name) if name in _MEANS else {each: judged[each] for each in _name_estimate_columns(name)}
        )
    columns |= {name: judged[name] for name in ("backlog_grows", "saturated")}
    columns |= {name: parameter_array(name, types[name], parameters) for name in types if name not in changing}
    return pa.table(columns)


def _make_mean_columns(grouped: pa.Table, name: str) -> dict[str, Any]:
    """Return the columns of a mean across seeds and of the half width of its Student's t interval."""
    deviations = grouped.column(f"{name}_stddev").to_numpy(zero_copy_only=False)
    counts = grouped.column(f"{name}_count").to_numpy()
    widths = pa.array(half_widths(np.asarray(deviations, np.float64), counts), pa.float64(), from_pandas=True)
    found = {name: grouped.column(f"{name}_mean"), f"{name}_hw": widths}
    return {**found, f"{name}_n": grouped.column(f"{name}_count")} if name in RATES else found


def _name_estimate_columns(name: str) -> tuple[str, ...]:
    """Return the names of the columns of a proportion or of a metric with bounds."""
    ends = (at_least(name), at_most(name)) if name in BOUNDED else (f"{name}_low", f"{name}_high")
    return (name, f"{name}_hw", f"{name}_n", *ends)


def _estimate_groups(runs: pa.Table, groups: Sequence[tuple[str, str, str]]) -> dict[str, pa.Array]:
    """Estimate proportions, percentiles and saturation across seeds, for each experiment, class and operation."""
    names = [name for name in runs.column_names if name in _NEEDED]
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {group: [] for group in groups}
    for row in runs.select([*_GROUP, *names]).to_pylist():
        rows[row["experiment"], row["workload_class"], row["operation_type"]].append(row)
    columns: dict[str, list[Any]] = {}
    for group in groups:
        found: dict[str, Any] = {}
        for name in (*SHARES, *BOUNDED):
            found |= _make_estimate_columns(name, estimate_metric(rows[group], name))
        point = make_load_point(0.0, rows[group])
        found |= {"backlog_grows": point.grows, "saturated": point.reason}
        for name, value in found.items():
            columns.setdefault(name, []).append(value)
    kinds = {"backlog_grows": pa.bool_(), "saturated": pa.string()}
    kinds |= {name: pa.int64() for name in columns if name.endswith("_n")}
    return {name: pa.array(values, kinds.get(name, pa.float64())) for name, values in columns.items()}


def _make_estimate_columns(name: str, found: Estimate | None) -> dict[str, float | None]:
    if found is None:
        return {each: 0 if each.endswith("_n") else None for each in _name_estimate_columns(name)}
    value = found.mean if found.kind == "number" else None
    ends = (found.low, found.high) if found.kind != "number" or name in SHARES else (None, None)
    width = found.half_width if found.kind == "number" else None
    return dict(zip(_name_estimate_columns(name), (value, width, found.n, *ends), strict=True))


def make_load_point(load: float, rows: Sequence[Mapping[str, Any]]) -> LoadPoint:
    """Measure whether the runs of a configuration are saturated."""
    backlogs = [Backlog(tuple(row[COMMITTING_IN_WINDOW]), tuple(row[ENTERED_IN_WINDOW])) for row in rows if row["transactions"]]
    return LoadPoint(
        load,
        estimate_metric(rows, "success_high"),
        estimate_metric(rows, "throughput_ratio"),
        backlog_grows(backlogs),
        sum(row["transactions"] for row in rows),
    )


@dataclass(frozen=True)
class LoadAxis:
    """Parameter that sets the load. An inter-arrival time is converted to a rate."""

    column: str

    @property
    def is_interval(self) -> bool:
        """True if the parameter is an inter-arrival time."""
        return _INTERVAL_OF_ARRIVALS.search(self.column) is not None

    def load(self, value: Value) -> float:
        """Return the load for a value of the parameter."""
        return 1000.0 / float(value) if self.is_interval else float(value)


def find_load_axis(manifest: Inventory, key: str | None) -> LoadAxis | str:
    """Return the requested load axis or, by default, the only rate that varies. If there is no load axis, return the reason.

    Raises:
        PipelineError: If the requested key is not a number in any experiment.
    """
    types = column_types(manifest.parameters)
    if key is not None:
        column = column_name(key)
        if types.get(column) not in (int, float):
            numbers = [name for name in varying(manifest.parameters) if types[name] in (int, float)]
            raise PipelineError(
                f"--load {key}: no experiment has this numeric parameter; parameters that vary: {', '.join(numbers) or 'none'}",
                usage=True,
            )
        return LoadAxis(column)
    changing = varying_within_scenarios(manifest.parameters)
    candidates = [name for name in changing if _LOAD.search(name) and types[name] in (int, float)]
    if len(candidates) == 1:
        return LoadAxis(candidates[0])
    if not candidates:
        return "no arrival rate varies, so saturation is not estimated; set another load with --load KEY"
    return f"several arrival rates vary ({', '.join(candidates)}); choose the load with --load KEY"


def make_saturation_table(experiments: pa.Table, manifest: Inventory, axis: LoadAxis | None) -> pa.Table:
    """Tabulate the saturation of each curve. A curve consists of experiments that differ only in the load.

    The table is empty if no parameter sets the load.
    """
    if axis is None:
        return pa.schema([("code_version", pa.string()), *_CURVE]).empty_table()
    types = column_types(manifest.parameters)
    parameters = _list_curve_parameters(manifest, axis)
    curves: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in experiments.to_pylist():
        if row["workload_class"] == row["operation_type"] == ALL and (row[axis.column] or 0.0) > 0.0:
            curves.setdefault((row["code_version"], *(row[name] for name in parameters)), []).append(row)
    rows = [
        {"code_version": key[0], **dict(zip(parameters, key[1:], strict=True)), **_make_curve(curve, axis)}
        for key, curve in sorted(curves.items(), key=lambda item: str(item[0]))
    ]
    fields = [("code_version", pa.string()), *((name, parameter_array(name, types[name], []).type) for name in parameters)]
    return pa.Table.from_pylist(rows, schema=pa.schema([*fields, *_CURVE]))


def _list_curve_parameters(manifest: Inventory, axis: LoadAxis) -> list[str]:
    """Return the parameters that distinguish curves: all parameters that vary, except the load.

    The duration distinguishes curves only if two experiments differ in nothing else, because runs at low load often last longer to
    collect the same number of transactions.
    """
    names = [name for name in varying(manifest.parameters) if name != axis.column]
    others = [name for name in names if name != _DURATION]
    columns = (axis.column, *others)
    keys = [(each.code_version, *(each.parameters.get(name) for name in columns)) for each in manifest.experiments.values()]
    return others if len(set(keys)) == len(keys) else names


_CURVE: Sequence[tuple[str, pa.DataType]] = (
    ("load_key", pa.string()),
    ("load_unit", pa.string()),
    ("n_loads", pa.int64()),
    ("lowest_load", pa.float64()),
    ("highest_load", pa.float64()),
    ("saturation_load", pa.float64()),
    ("saturation_low", pa.float64()),
    ("saturation_high", pa.float64()),
    ("bound", pa.string()),
    ("reason", pa.string()),
    ("peak_throughput_per_s", pa.float64()),
    ("n_seeds", pa.int64()),
    ("few_seeds", pa.bool_()),
)


def _make_curve(rows: list[dict[str, Any]], axis: LoadAxis) -> dict[str, Any]:
    points = {axis.load(row[axis.column]): _read_load_point(axis.load(row[axis.column]), row) for row in rows}
    found = saturation(list(points.values()))
    seeds = min(row["n_seeds"] for row in rows)
    return {
        "load_key": axis.column,
        "load_unit": "per_s" if axis.is_interval or axis.column.endswith("_rate") else axis.column,
        "n_loads": len(points),
        "lowest_load": min(points),
        "highest_load": max(points),
        "saturation_load": found.load,
        "saturation_low": found.low,
        "saturation_high": found.high,
        "bound": found.bound,
        "reason": found.reason,
        "peak_throughput_per_s": max(row["throughput_per_s"] for row in rows),
        "n_seeds": seeds,
        "few_seeds": seeds < FEWEST_SEEDS,
    }


def _read_load_point(load: float, row: Mapping[str, Any]) -> LoadPoint:
    """Create a point of a curve from the row of an experiment."""
    success, ratio = (
        None if row[name] is None else Estimate(row[name], row[f"{name}_low"], row[f"{name}_high"], row[f"{name}_n"])
        for name in ("success_high", "throughput_ratio")
    )
    return LoadPoint(load, success, ratio, bool(row["backlog_grows"]), round(row["transactions"] * row["n_seeds"]))
