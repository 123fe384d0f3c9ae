"""``endive metrics`` and ``consolidate``: metrics of all runs of a study, and all runs as one dataset or as Iceberg tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import JsonFlag, app, command, progress, refuse, tell_damage
from endive.cli.options import (
    ROOT,
    CooldownOption,
    LoadOption,
    MasterOption,
    PricesOption,
    RemoteOption,
    RootArgument,
    ShipOption,
    WarmupOption,
    prices_of,
)
from endive.cli.output import Output
from endive.cli.run import cost_as_data
from endive.formatting import format_count
from endive.runs.layout import METRICS_FOLDER, METRICS_TABLES, dataset_folder, metrics_table

if TYPE_CHECKING:
    from endive.pipeline.consolidate import Consolidation
    from endive.pipeline.iceberg_tables import IcebergExport
    from endive.runs.stored import Damage, Inventory
    from endive.storage.prices import Prices
    from endive.studies.request_cost import Cost
    from endive.studies.tables import Metrics

_MOST_IN_LABELS = 50
_SHOWN = 50
_SUMMARY = {
    "n_seeds": "seeds",
    "offered_per_s": "offered/s",
    "throughput_per_s": "commits/s",
    "success": "success",
    "time_to_commit_p50_ms": "p50 time to commit",
    "time_to_commit_p99_ms": "p99",
    "retries_per_txn": "retries/txn",
    "window": "warm-up",
    "saturated": "saturated",
}


@app.command()
def metrics(
    root: RootArgument = ROOT,
    warmup: WarmupOption = None,
    cooldown: CooldownOption = 0.0,
    load: LoadOption = None,
    sql: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Query the tables transactions, runs, experiments and saturation.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of rows that --sql prints.", min=1)] = 1000,
    prices: PricesOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    json: JsonFlag = False,
) -> None:
    """Measure all finished runs of DIR, and write tables to DIR/metrics: metrics by run, metrics by experiment, and saturation."""
    with command(json) as output:
        from endive.pipeline.metrics import assemble_study, current_tables, measure_study
        from endive.pipeline.session import SparkOptions, spark_session
        from endive.studies.measure import MetricsOptions

        options, table = MetricsOptions(warmup, cooldown, load), prices_of(prices)
        spark_options = SparkOptions(master, remote, ship_code)
        if sql is None:
            measured = assemble_study(root, options)
            if measured is None:
                with spark_session(spark_options) as spark, progress(output, "measuring") as report:
                    measured = measure_study(spark, root, options, report=report)
            inventory = measured.inventory
            _report(output, root, measured.metrics, inventory, table, inventory.problems)
        else:
            with spark_session(spark_options) as spark:
                inventory = current_tables(root, lambda: nullcontext(spark), options).inventory
                _query(output, spark, root, inventory, sql, limit)
        tell_damage(output, inventory.problems)


def _report(output: Output, root: Path, measured: Metrics, manifest: Inventory, prices: Prices, problems: Sequence[Damage]) -> None:
    from endive.report.configurations import varying_parameters
    from endive.report.phrases import explain_ranges

    every = measured.experiments.to_pylist()
    totals = [row for row in every if row["workload_class"] == row["operation_type"] == "all"]
    costs = _costs(every, manifest, prices)
    curves = measured.saturation.to_pylist()
    output.result(
        {
            "directory": str(root / METRICS_FOLDER),
            "runs": measured.runs.group_by(["experiment", "seed"]).aggregate([]).num_rows,
            "experiments": [{**_plain(row), "cost": cost_as_data(costs[row["experiment"]])} for row in totals],
            "saturation": [_plain(row) for row in curves],
            "remark": measured.remark,
            "problems": [asdict(problem) for problem in problems],
        }
    )
    changing = varying_parameters(manifest)
    ordered = _in_order(totals, changing)
    priced = any(cost is not None and cost.money is not None for cost in costs.values())
    left = any(cost is not None and cost.orphaned_files > 0.0 for cost in costs.values())
    money = [f"{prices.currency} per 1,000 commits"] if priced else []
    files = ["orphaned files per 1,000 commits"] if left else []
    header = ["configuration", *_SUMMARY.values(), "requests per 1,000 commits", *money, *files, "experiment"]
    shown = ordered[:_SHOWN]
    rows = [_summary(row, changing, _cost_cells(costs[row["experiment"]], priced, left)) for row in shown]
    output.table("", header, rows)
    output.text(explain_ranges(cell for row in rows for cell in row))
    if len(totals) > _SHOWN:
        every = metrics_table(root, METRICS_TABLES["experiments"], "csv")
        output.text(f"... and {len(totals) - _SHOWN} more of {len(totals)} in {every}")
    if curves:
        _show_curves(output, curves, changing)
    output.note(measured.remark)
    _warn(output, totals)
    output.text("", f"{', '.join(METRICS_TABLES.values())}, as Parquet and CSV, in {root / METRICS_FOLDER}")


def _show_curves(output: Output, curves: Sequence[dict[str, Any]], changing: Sequence[str]) -> None:
    """Print the load at which each curve saturates, with the parameters that differ between curves."""
    from endive.report.phrases import title_load

    names = [name for name in curves[0] if name.startswith("param_")]
    names = names if len(names) <= _MOST_IN_LABELS else [name for name in names if name in changing]
    shown = {
        "saturation_load": "saturation load",
        "saturation_low": "95% CI lower",
        "saturation_high": "95% CI upper",
        "bound": "bound",
        "reason": "reason",
        "peak_throughput_per_s": "peak commits/s",
    }
    rows = [[_label(row, names), *(_cell(row[name]) for name in shown)] for row in _in_order(curves, names)]
    output.table(f"\nSaturation over {title_load(curves[0]['load_key'])}", ["configuration", *shown.values()], rows)


def _costs(rows: Sequence[dict[str, Any]], manifest: Inventory, prices: Prices) -> dict[str, Cost | None]:
    """Return the cost per 1,000 commits of each experiment, from means across seeds."""
    from endive.studies.request_cost import basis_of, cost_of, rows_by_class

    by_experiment: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_experiment.setdefault(row["experiment"], []).append(row)
    found = {}
    for name, own in by_experiment.items():
        classes = rows_by_class(own)
        basis = basis_of(manifest.experiments[name].parameters, [row["workload_class"] for row in classes])
        found[name] = cost_of(classes, basis, prices)
    return found


def _cost_cells(cost: Cost | None, priced: bool, left: bool) -> list[str]:
    """Return the cells of a row: requests, cost (if any request has a price) and orphaned files (if there are any)."""
    from endive.formatting import format_money, format_number

    if cost is None:
        return ["-"] * (1 + priced + left)
    total = cost.total_money
    paid = ["-" if total is None else format_money(total)] if priced else []
    return [format_number(cost.total_requests), *paid, *([format_number(cost.orphaned_files)] if left else [])]


def _summary(row: dict[str, Any], changing: Sequence[str], cost: Sequence[str]) -> list[str]:
    """Return the row of an experiment in the table of metrics."""
    from endive.formatting import format_duration, format_percent_range
    from endive.report.phrases import format_bounded

    cells = {
        "success": format_percent_range(row["success_low"], row["success_high"]),
        **{name: format_bounded(row, name) for name in _SUMMARY if name.startswith("time_to_commit")},
        **({} if row["retries_per_txn"] is not None else {"retries_per_txn": format_bounded(row, "retries_per_txn")}),
        "window": f"{format_duration(row['warmup_ms'])} of {format_duration(row['duration_ms'])}",
    }
    own = (cells[name] if name in cells else _cell(row[name]) for name in _SUMMARY)
    return [_label(row, changing), *own, *cost, row["experiment"]]


def _label(row: dict[str, Any], columns: Sequence[str]) -> str:
    """Return the label of a configuration, made of the values of its parameters."""
    from endive.report.phrases import label_configuration

    return label_configuration({column: row[column] for column in columns}, row) or "all"


def _in_order(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows sorted by their parameters: numbers by size, names in the order of figures."""
    from endive.report.phrases import rank_value

    return sorted(rows, key=lambda row: [rank_value(column, row[column]) for column in columns])


def _warn(output: Output, totals: Sequence[dict[str, Any]]) -> None:
    from endive.formatting import format_minimum_duration

    few = sum(row["few_seeds"] for row in totals)
    if few:
        output.note(f"{format_count(few, 'experiment')} with fewer than 3 seeds, whose intervals are not reliable")
    over = sum(row["saturated"] is not None for row in totals)
    if over:
        output.note(f"{format_count(over, 'overloaded experiment')} (see the column saturated)")
    short = [row for row in totals if row["needed_ms"] is not None and row["saturated"] is None]
    if short:
        needed = format_minimum_duration(max(row["needed_ms"] for row in short))
        output.note(
            f"{format_count(len(short), 'experiment')} with runs that are too short to reach a steady state; set "
            f"simulation.duration_ms to {needed}"
        )


def _query(output: Output, spark: Any, root: Path, manifest: Inventory, sql: str, limit: int) -> None:
    from endive.pipeline.query import query

    rows, more = query(spark, root, manifest, sql, limit)
    output.result([_plain(row) for row in rows.to_pylist()])
    output.table("", rows.column_names, [[_cell(value) for value in row.values()] for row in rows.to_pylist()])
    if more:
        output.note(f"there are more rows than {limit}; raise --limit")


def _plain(value: Any) -> Any:
    """Return a value for JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "never" if value == math.inf else None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000.0 else f"{value:,.0f}"
    return str(value)


@app.command()
def consolidate(
    root: RootArgument = ROOT,
    to: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--to", metavar="iceberg CATALOG.NAMESPACE.TABLE", help="Write Iceberg tables through PyIceberg instead of a dataset."
        ),
    ] = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    ship_code: ShipOption = False,
    json: JsonFlag = False,
) -> None:
    """Update DIR/consolidated, a dataset of all finished runs, partitioned by experiment and operation.

    With --to iceberg, write the tables TABLE_transactions, TABLE_metrics and TABLE_runs instead. A second call adds only new runs.
    """
    with command(json) as output:
        if to is not None:
            _export_tables(output, root, *to, master, remote, ship_code)
            return
        from endive.pipeline import consolidate as pipeline
        from endive.pipeline.session import SparkOptions, spark_session

        with progress(output, "consolidating") as report:
            done = pipeline.consolidate(root, lambda: spark_session(SparkOptions(master, remote, ship_code)), report=report)
        _report_consolidation(output, root, done)
        tell_damage(output, done.problems)


def _export_tables(
    output: Output, root: Path, kind: str, table: str, master: str | None, remote: str | None, ship_code: bool
) -> None:
    from endive.pipeline import iceberg_tables
    from endive.pipeline import session as sessions

    known = iceberg_tables.TABLE_FORMAT.lower()
    if kind != known:
        refuse("--to", f"unknown format {kind!r}; the format is {known}")
    target = iceberg_tables.parse_target(table)
    options = sessions.SparkOptions(master, remote, ship_code)
    with progress(output, "writing") as report, iceberg_tables.open_catalog(target) as catalog:
        done = iceberg_tables.export_study(root, target, catalog, lambda: sessions.spark_session(options), report=report)
    _report_export(output, done)
    tell_damage(output, done.problems)


def _report_export(output: Output, done: IcebergExport) -> None:
    output.result(asdict(done))
    if done.unfinished_runs:
        output.note(f"{format_count(done.unfinished_runs, 'unfinished run')} omitted")
    runs = done.runs_added + done.runs_present
    output.text(f"{done.rows:,} rows of {format_count(runs, 'run')}, {done.runs_added:,} of them new, in {', '.join(done.tables)}")


def _report_consolidation(output: Output, root: Path, done: Consolidation) -> None:
    output.result({"dataset": str(dataset_folder(root)), **asdict(done)})
    if done.unfinished_runs:
        output.note(f"{format_count(done.unfinished_runs, 'unfinished run')} omitted")
    output.text(
        f"{done.rows:,} rows of {format_count(done.runs, 'run')} of {format_count(done.experiments, 'experiment')} in "
        f"{format_count(done.files, 'file')}, in {dataset_folder(root)}",
        f"{done.parts_written:,} parts written, {done.parts_reused:,} unchanged, {done.files_removed:,} files removed; "
        f"{len(done.problems):,} problems",
    )
