"""Measure the metrics of a directory of experiments in Spark tasks, from the files of the runs.

A task reduces every run of a measurement unit to a few rows. Only these rows are sent to the driver, which computes estimates
across seeds and writes the tables ``by_run``, ``by_experiment``, ``saturation``, ``distributions`` and ``over_time`` as Parquet and
CSV. ``docs/explanation/statistics.md`` defines the metrics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import TypeAdapter

from endive.pipeline.jobs import LocalThreads, Report, count_tasks, deal, read_specs, run_tasks, spark_ddl
from endive.runs.layout import METRICS_TABLES
from endive.runs.metric_tables import read_state, read_tables, write_tables
from endive.runs.stored import Inventory, PipelineError, take_inventory
from endive.studies.measure import MEASURED_SCHEMA, MetricsOptions, metrics_version
from endive.studies.tables import (
    MeasureUnit,
    Metrics,
    check_options,
    complete_rows,
    discard_units,
    keep_unit,
    make_tables,
    measure_unit,
    plan_measuring,
    read_unit,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sessions = Callable[[], "AbstractContextManager[SparkSession | LocalThreads]"]
"""Factory for the Spark session or the threads that do the work."""
MeasureMissing = Callable[[list[MeasureUnit]], tuple[pa.Table, list[tuple[str, int, str]]]]
"""Function that measures units without stored metrics. Returns their rows and the damaged runs."""
_ROWS_PER_TASK = 4_000_000
_ROWS_PER_RUN = 50_000
"""Number of rows that are measured in the time that it takes to open a run."""
_DAMAGE = "damage"
_TASK_SCHEMA = MEASURED_SCHEMA.append(pa.field(_DAMAGE, pa.string()))
_UNIT = TypeAdapter(MeasureUnit)
_OPTIONS = TypeAdapter(MetricsOptions)


@dataclass(frozen=True)
class MeasuredStudy:
    """Metrics of a directory of experiments, the inventory of the measured runs, and the skipped runs."""

    inventory: Inventory
    metrics: Metrics


@dataclass(frozen=True)
class StudyTables:
    """Tables of metrics by view name, and the inventory of the measured runs."""

    inventory: Inventory
    tables: dict[str, pa.Table]


def measure_study(
    spark: SparkSession | LocalThreads,
    root: Path,
    options: MetricsOptions,
    *,
    tasks: int | None = None,
    report: Report | None = None,
) -> MeasuredStudy:
    """Measure the finished runs of a directory and write the tables.

    Args:
        spark: Spark session, or threads of this process.
        root: Directory of experiments.
        options: Options of the measurement.
        tasks: Number of Spark tasks; by default, determined from the number of rows.
        report: Function that is called with the number of finished tasks and the number of all tasks.

    Raises:
        PipelineError: If no run can be used, or warm-up and cool-down exclude a whole run.
    """
    taken = take_inventory(root)
    check_options(taken, options)
    return _complete_study(root, options, taken, lambda units: _measure_units(spark, units, taken, tasks, report))


def assemble_study(root: Path, options: MetricsOptions) -> MeasuredStudy | None:
    """Write the tables from metrics that the tasks of a sweep stored. Return None if some runs have not been measured yet.

    Raises:
        PipelineError: If there is no finished run, or warm-up and cool-down exclude a whole run.
    """
    taken = take_inventory(root)
    check_options(taken, options)
    units = plan_measuring(root, taken, options)
    if not units or any(read_unit(unit) is None for unit in units):
        return None
    return _complete_study(root, options, taken, lambda _: (MEASURED_SCHEMA.empty_table(), []))


def _complete_study(
    root: Path,
    options: MetricsOptions,
    taken: Inventory,
    measure: MeasureMissing,
) -> MeasuredStudy:
    """Measure the runs without stored metrics, and write the tables."""
    units = plan_measuring(root, taken, options)
    rows, damaged = _collect_rows(root, units, taken, measure)
    discard_units(root, units)
    inventory = taken.without(damaged)
    if not inventory.experiments:
        reason = "; ".join(f"{problem.where}: {problem.message}" for problem in inventory.problems[:1])
        raise PipelineError(f"{root}: none of its runs can be used ({reason}); `endive sweep` runs them again", usage=True)
    measured = make_tables(rows, inventory, options)
    write_tables(root, {view: getattr(measured, view) for view in METRICS_TABLES}, {**_basis(taken, options), "damaged": damaged})
    return MeasuredStudy(inventory, measured)


def _collect_rows(
    root: Path, units: list[MeasureUnit], taken: Inventory, measure: MeasureMissing
) -> tuple[pa.Table, list[tuple[str, int, str]]]:
    """Return the rows of all units and the damaged runs. Units without stored metrics are measured first."""
    known = [read_unit(unit) for unit in units]
    missing = [unit for unit, rows in zip(units, known, strict=True) if rows is None]
    taken.require_rows(root, (name for unit in missing for name in unit.experiments))
    new, damaged = measure(missing) if missing else (MEASURED_SCHEMA.empty_table(), [])
    return pa.concat_tables([new, *(rows for rows in known if rows is not None)]), damaged


def current_rows(root: Path, sessions: Sessions, asked: MetricsOptions | None = None) -> tuple[Inventory, pa.Table]:
    """Return the inventory of a directory and the metrics of its runs, without writing tables.

    Args:
        root: Directory of experiments.
        sessions: Factory for the Spark session; the session is created only if some runs have no stored metrics.
        asked: Options of the measurement; by default, those of the last measurement.

    Raises:
        PipelineError: If there is no finished run, or warm-up and cool-down exclude a whole run.
    """
    options, taken = asked or last_options(root), take_inventory(root)
    check_options(taken, options)

    def measure(missing: list[MeasureUnit]) -> tuple[pa.Table, list[tuple[str, int, str]]]:
        with sessions() as spark:
            return _measure_units(spark, missing, taken, None, None)

    rows, damaged = _collect_rows(root, plan_measuring(root, taken, options), taken, measure)
    return taken.without(damaged), complete_rows(rows)


def current_tables(root: Path, sessions: Sessions, asked: MetricsOptions | None = None) -> StudyTables:
    """Measure the runs that have changed since the tables of a directory were written, and return the tables.

    Args:
        root: Directory of experiments.
        sessions: Factory for the Spark session; the session is created only if it is needed.
        asked: Options of measuring; by default the options of the last measurement.

    Raises:
        PipelineError: If no run can be used.
    """
    options = asked or last_options(root)
    taken = take_inventory(root)
    state = read_state(root)
    if state is not None and _is_current(state, taken, options):
        tables = read_tables(root)
        if tables is not None:
            return StudyTables(taken.without([(name, seed, message) for name, seed, message in state["damaged"]]), tables)
    assembled = assemble_study(root, options)
    if assembled is not None:
        return StudyTables(assembled.inventory, load_tables(root))
    with sessions() as spark:
        inventory = measure_study(spark, root, options).inventory
    return StudyTables(inventory, load_tables(root))


def last_options(root: Path) -> MetricsOptions:
    """Return the options with which the existing tables were measured, or the defaults if there are no tables."""
    try:
        return _OPTIONS.validate_python((read_state(root) or {})["options"])
    except (ValueError, KeyError):
        return MetricsOptions()


def load_tables(root: Path) -> dict[str, pa.Table]:
    """Read the tables, by view name."""
    tables = read_tables(root)
    if tables is None:
        raise PipelineError(f"{root}: its tables of metrics are damaged; run `endive metrics {root}` to create them again")
    return tables


def _basis(taken: Inventory, options: MetricsOptions) -> dict[str, Any]:
    """Return a description of the inputs of the tables. If the description changes, the tables are outdated."""
    return {"version": metrics_version(), "inventory": taken.digest(), "options": asdict(options)}


def _is_current(state: dict[str, Any], taken: Inventory, options: MetricsOptions) -> bool:
    basis = _basis(taken, options)
    return {name: state.get(name) for name in basis} == basis and isinstance(state.get("damaged"), list)


def _measure_units(
    spark: SparkSession | LocalThreads, units: list[MeasureUnit], inventory: Inventory, tasks: int | None, report: Report | None
) -> tuple[pa.Table, list[tuple[str, int, str]]]:
    """Return rows for each run, class and operation, and for totals, in any order; also return the damaged runs."""
    weights = [
        sum(inventory.experiments[name].rows + float(_ROWS_PER_RUN) * len(seeds) for name, seeds in unit.experiments.items())
        for unit in units
    ]
    wanted = tasks or count_tasks(spark, sum(weights), _ROWS_PER_TASK)
    specs = [_UNIT.dump_json(unit).decode() for unit in units]
    rows = run_tasks(spark, deal(specs, weights, wanted), measure_units, spark_ddl(_TASK_SCHEMA), report).cast(_TASK_SCHEMA)
    damage = [json.loads(text) for text in rows.column(_DAMAGE).drop_null().to_pylist()]
    whole = rows.filter(rows.column(_DAMAGE).is_null()).drop_columns([_DAMAGE])
    return whole, sorted((name, seed, message) for name, seed, message in damage)


def measure_units(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Measure runs in a Spark task. Each row specifies the runs that share one window."""
    for spec in read_specs(batches):
        unit = _UNIT.validate_json(spec)
        measured = measure_unit(unit)
        keep_unit(unit, measured)
        table = pa.Table.from_batches([measured.rows]).append_column(_DAMAGE, pa.nulls(measured.rows.num_rows, pa.string()))
        yield from table.to_batches()
        if measured.damaged:
            yield pa.RecordBatch.from_pylist([{_DAMAGE: json.dumps(each)} for each in measured.damaged], schema=_TASK_SCHEMA)
