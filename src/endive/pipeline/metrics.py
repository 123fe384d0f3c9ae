"""Metrics: what the runs of a dataset come to, measured by Spark tasks.

Tasks reduce every run to a few rows; only those reach the driver, which takes estimates over seeds and reads curves. The tables
are ``by_run``, ``by_experiment``, ``saturation``, ``distributions`` and ``over_time``, each as Parquet and CSV;
``docs/explanation/statistics.md`` has the definitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pydantic import TypeAdapter

from endive.pipeline.ddl import ddl
from endive.pipeline.jobs import Report, deal, number_of_tasks, run_tasks, specs_of
from endive.runs.dataset import Manifest, PipelineError, load_manifest
from endive.runs.layout import METRICS_TABLES, dataset_folder
from endive.runs.parts import Spec
from endive.runs.tables import read_state, read_tables, write_tables
from endive.studies.measure import SERIES_SCHEMA, TASK_SCHEMA, measured_batch, measuring_code, series_batch
from endive.studies.tables import Metrics, check_options, part_specs, tables_of, with_windows
from endive.studies.windows import MetricsOptions, find_windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS_PER_TASK = 4_000_000
_ROWS_PER_PART = 50_000


def open_dataset(root: Path) -> Manifest:
    """The manifest of a dataset. Raises PipelineError if there is none."""
    manifest = load_manifest(root)
    if manifest is None or not manifest.experiments:
        raise PipelineError(f"{root}: there is no consolidated dataset here; `endive consolidate {root}` makes one", usage=True)
    return manifest


def measure(
    spark: SparkSession, root: Path, options: MetricsOptions, *, tasks: int | None = None, report: Report | None = None
) -> Metrics:
    """Measure the dataset of ``root`` and write the tables."""
    manifest = open_dataset(root)
    check_options(manifest, options)
    measured = tables_of(measured_rows(spark, root, manifest, options, tasks, report), manifest, options)
    write_tables(root, {view: getattr(measured, view) for view in METRICS_TABLES}, _state(manifest, options))
    return measured


def up_to_date(root: Path, manifest: Manifest, options: MetricsOptions) -> bool:
    """Whether the tables are there and are of this dataset, these options and this code."""
    return read_state(root) == _state(manifest, options)


_OPTIONS = TypeAdapter(MetricsOptions)


def last_options(root: Path) -> MetricsOptions:
    """The options that the tables were last made with; the defaults if there are none."""
    try:
        return _OPTIONS.validate_python((read_state(root) or {})["options"])
    except (ValueError, KeyError):  # it is missing or damaged
        return MetricsOptions()


def _state(manifest: Manifest, options: MetricsOptions) -> dict[str, Any]:
    return {"code": measuring_code(), "dataset": manifest.digest(), "options": vars(options)}


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
        return run_tasks(spark, deal(chosen, [1.0] * len(chosen), wanted), series_of_parts, ddl(SERIES_SCHEMA), None)

    windows = find_windows(root, manifest, options, parts, series)
    return run_tasks(spark, deal(with_windows(parts, windows), weights, wanted), measure_parts, ddl(TASK_SCHEMA), report)


def measure_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Measure the runs in the parts that the rows describe; runs on executors."""
    return map(measured_batch, specs_of(batches))


def series_of_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell how many transactions were committing over time in the parts that the rows describe; runs on executors."""
    return map(series_batch, specs_of(batches))


def load_tables(root: Path) -> dict[str, pa.Table]:
    """The tables as they were written, by the name of their view."""
    tables = read_tables(root)
    if tables is None:
        raise PipelineError(f"{root}: its tables of metrics are damaged; `endive metrics {root}` makes them again")
    return tables
