"""SQL over the dataset and the tables of metrics.

Runs a query over a directory with a dataset and returns its rows, up to a limit. The views are ``transactions`` (the dataset),
``runs``, ``experiments`` and ``saturation`` (the tables of metrics).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from endive.pipeline.ddl import ddl
from endive.pipeline.jobs import arrow_of, reason, run_with_progress
from endive.runs.dataset import ROW_SCHEMA, Manifest, PipelineError
from endive.runs.layout import METRICS_TABLES, dataset_folder, metrics_table
from endive.runs.parameters import ARROW_TYPES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transactions(spark: SparkSession, root: Path, manifest: Manifest) -> DataFrame:
    """The dataset as a frame, with the columns of all experiments; experiments that lack a parameter have null there."""
    parameters = [(f"`{name}`", ARROW_TYPES[kind]) for name, kind in _agreed(manifest).items()]
    schema = pa.schema([*ROW_SCHEMA, *parameters, ("experiment", pa.string()), ("operation_type", pa.string())])
    return spark.read.schema(ddl(schema)).parquet(str(dataset_folder(root).resolve()))


def _agreed(manifest: Manifest) -> dict[str, type]:
    """Parameters whose files all have one type; others cannot be read as one column."""
    kinds: dict[str, set[type]] = {}
    for parameters in manifest.parameters.values():
        for name, value in parameters.items():
            kinds.setdefault(name, set()).add(type(value))
    return {name: kind for name, (kind, *others) in kinds.items() if not others}


def open_views(spark: SparkSession, root: Path, manifest: Manifest) -> None:
    """Make the views that queries name."""
    transactions(spark, root, manifest).createOrReplaceTempView("transactions")
    for view, name in METRICS_TABLES.items():
        spark.read.parquet(str(metrics_table(root, name, "parquet").resolve())).createOrReplaceTempView(view)


def query(spark: SparkSession, root: Path, manifest: Manifest, sql: str, limit: int) -> tuple[pa.Table, bool]:
    """Return the rows of a query, at most ``limit``, and whether there are more. Raises PipelineError if Spark rejects it."""
    from pyspark.logger import PySparkLogger

    open_views(spark, root, manifest)
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # it prints the stack trace of a wrong query
    try:
        frame = spark.sql(sql).limit(limit + 1)
    except Exception as error:
        raise PipelineError(f"--sql: {reason(error)}", usage=True) from error
    rows = run_with_progress(spark, lambda: arrow_of(frame), 0, None)
    return rows.slice(0, limit), rows.num_rows > limit
