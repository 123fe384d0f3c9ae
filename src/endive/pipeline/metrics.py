"""Metrics: what the runs of a dataset come to, measured by Spark tasks.

Tasks reduce every run to a few rows; only those reach the driver, which takes estimates over seeds and reads curves. The tables
are ``by_run``, ``by_experiment``, ``saturation``, ``distributions`` and ``over_time``, each as Parquet and CSV;
``docs/explanation/statistics.md`` has the definitions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import TypeAdapter

from endive.analysis.run_metrics import group_metrics, window_columns, window_of
from endive.analysis.windows import Window
from endive.pipeline.curves import distributions_table, over_time_table
from endive.pipeline.jobs import Report, Spec, deal, number_of_tasks, run_tasks
from endive.pipeline.measure import (
    KEYS,
    PLAIN_COLUMNS,
    RUN_SCHEMA,
    SERIES_DDL,
    TASK_DDL,
    TASK_SCHEMA,
    WINDOW,
    measure_parts,
    measuring_code,
    series_of_parts,
)
from endive.pipeline.tables import LoadAxis, experiments_table, load_axis, saturation_table
from endive.pipeline.windows import MetricsOptions, find_windows
from endive.reading import UnreadableError, read_json, read_text
from endive.runs.dataset import Manifest, PipelineError, load_manifest
from endive.runs.layout import METRICS_FOLDER, METRICS_STATE, METRICS_TABLES, dataset_folder
from endive.runs.tables import read_tables, write_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_PER_TASK = 4_000_000
_ROWS_PER_PART = 50_000


@dataclass(frozen=True)
class Metrics:
    """The tables, and why there is no saturation if there is none."""

    runs: pa.Table
    experiments: pa.Table
    saturation: pa.Table
    distributions: pa.Table
    over_time: pa.Table
    axis: LoadAxis | None
    remark: str | None


def open_dataset(root: Path) -> Manifest:
    """The manifest of a dataset. Raises PipelineError if there is none."""
    manifest = load_manifest(root)
    if manifest is None or not manifest.experiments:
        raise PipelineError(f"{root}: there is no consolidated dataset here; `endive consolidate {root}` makes one", usage=True)
    return manifest


def check_options(manifest: Manifest, options: MetricsOptions) -> LoadAxis | str:
    """The load axis, or why there is none. Raises PipelineError if the options leave nothing of a run to measure."""
    for name, experiment in manifest.experiments.items():
        if (options.warmup_ms or 0.0) + options.cooldown_ms >= experiment.duration_ms:
            raise PipelineError(
                f"a warm-up of {options.warmup_ms or 0.0:g} ms and a cool-down of {options.cooldown_ms:g} ms leave nothing "
                f"of {name}, which lasts {experiment.duration_ms:g} ms",
                usage=True,
            )
    return load_axis(manifest, options.load)


def measure(
    spark: SparkSession, root: Path, options: MetricsOptions, *, tasks: int | None = None, report: Report | None = None
) -> Metrics:
    """Measure the dataset of ``root`` and write the tables."""
    manifest = open_dataset(root)
    check_options(manifest, options)
    measured = tables_of(measured_rows(spark, root, manifest, options, tasks, report), manifest, options)
    write_tables(root, {view: getattr(measured, view) for view in METRICS_TABLES}, _state(manifest, options) + "\n")
    return measured


def tables_of(rows: pa.Table, manifest: Manifest, options: MetricsOptions) -> Metrics:
    """The tables that the rows of tasks come to."""
    order = ("experiment", "seed", "workload_class", "operation_type")
    rows = (
        pa.concat_tables([rows.cast(TASK_SCHEMA), _missing(rows)]).sort_by([(name, "ascending") for name in order]).combine_chunks()
    )
    axis = load_axis(manifest, options.load)
    found = axis if isinstance(axis, LoadAxis) else None
    runs = rows.select(RUN_SCHEMA.names)
    experiments = experiments_table(runs, manifest)
    return Metrics(
        runs.select(PLAIN_COLUMNS),
        experiments,
        saturation_table(experiments, manifest, found),
        distributions_table(rows),
        over_time_table(rows),
        found,
        axis if isinstance(axis, str) else None,
    )


def up_to_date(root: Path, manifest: Manifest, options: MetricsOptions) -> bool:
    """Whether the tables are there and are of this dataset, these options and this code."""
    try:
        return read_text(root / METRICS_FOLDER / METRICS_STATE).strip() == _state(manifest, options)
    except UnreadableError:
        return False


_OPTIONS = TypeAdapter(MetricsOptions)


def last_options(root: Path) -> MetricsOptions:
    """The options that the tables were last made with; the defaults if there are none."""
    try:
        return _OPTIONS.validate_python(read_json(root / METRICS_FOLDER / METRICS_STATE)["options"])
    except (ValueError, KeyError, TypeError, IndexError):  # it is missing or damaged
        return MetricsOptions()


def _state(manifest: Manifest, options: MetricsOptions) -> str:
    return json.dumps({"code": measuring_code(), "dataset": manifest.digest(), "options": vars(options)})


def measured_rows(
    spark: SparkSession, root: Path, manifest: Manifest, options: MetricsOptions, tasks: int | None, report: Report | None
) -> pa.Table:
    """A row for each run, class and operation, and for their totals, in any order."""
    weights = [
        sum(file.rows for file in part.files.values()) + float(_ROWS_PER_PART)
        for experiment in manifest.experiments.values()
        for part in experiment.parts
    ]
    wanted = tasks or number_of_tasks(spark, sum(weights), _ROWS_PER_TASK)
    parts = part_specs(dataset_folder(root).resolve(), manifest, options)

    def series(chosen: Sequence[Spec]) -> pa.Table:
        return run_tasks(spark, deal(chosen, [1.0] * len(chosen), wanted), series_of_parts, SERIES_DDL, None)

    windows = find_windows(root, manifest, options, parts, series)
    return run_tasks(spark, deal(with_windows(parts, windows), weights, wanted), measure_parts, TASK_DDL, report)


def part_specs(dataset: Path, manifest: Manifest, options: MetricsOptions) -> list[Spec]:
    """What tasks have to know of each part, but for its window."""
    return [
        {
            "experiment": name,
            "part": part.number,
            "seeds": part.seeds,
            "files": {operation: str(part.path(dataset, name, operation)) for operation in part.files},
            "duration_ms": experiment.duration_ms,
            "cooldown_ms": options.cooldown_ms,
        }
        for name, experiment in manifest.experiments.items()
        for part in experiment.parts
    ]


def with_windows(parts: Sequence[Spec], windows: Mapping[str, Window]) -> list[Spec]:
    """The same with the window of their experiment."""
    return [{**spec, "window": asdict(windows[spec["experiment"]])} for spec in parts]


def _missing(rows: pa.Table) -> pa.Table:
    """Rows of zeros for classes and operations that other seeds of the experiment have and a run has not: they count in means."""
    present = rows.select([name for name, _ in (*KEYS, *WINDOW)]).to_pylist()
    groups: dict[str, set[tuple[str, str]]] = {}
    runs: dict[tuple[str, int], dict[str, Any]] = {}
    have: set[tuple[str, int, str, str]] = set()
    for row in present:
        key = (row["workload_class"], row["operation_type"])
        groups.setdefault(row["experiment"], set()).add(key)
        runs.setdefault((row["experiment"], row["seed"]), row)
        have.add((row["experiment"], row["seed"], *key))
    missing = []
    for (experiment, seed), row in runs.items():
        window = window_of(row)
        for workload_class, operation in sorted(groups[experiment]):
            if (experiment, seed, workload_class, operation) not in have:
                own = {"experiment": experiment, "seed": seed, "workload_class": workload_class, "operation_type": operation}
                missing.append({**own, **group_metrics([], window), **window_columns(window), "window_ms": row["window_ms"]})
    return pa.Table.from_pylist(missing, schema=TASK_SCHEMA)


def load_tables(root: Path) -> dict[str, pa.Table]:
    """The tables as they were written, by the name of their view."""
    tables = read_tables(root)
    if tables is None:
        raise PipelineError(f"{root}: its tables of metrics are damaged; `endive metrics {root}` makes them again")
    return tables


__all__ = ["Metrics", "MetricsOptions", "check_options", "last_options", "load_tables", "measure", "open_dataset", "up_to_date"]
