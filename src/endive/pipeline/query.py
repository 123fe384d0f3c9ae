"""Run SQL queries on the rows and the tables of metrics of a directory of experiments.

The views are ``transactions`` (the rows of all runs, with their parameters) and the tables of metrics: ``runs``, ``experiments``,
``saturation``, ``distributions`` and ``over_time``.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from endive.pipeline.jobs import collect_arrow, run_with_progress, spark_ddl, summarize_error
from endive.runs.identity import column_types, parameter_array
from endive.runs.layout import METRICS_TABLES, RESULTS, metrics_table, run_directory
from endive.runs.stored import Inventory, PipelineError
from endive.simulation.columns import RESULT_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NAMES_ROWS = re.compile(r"(from|join|,)\s+transactions\b", re.IGNORECASE)


def transactions(spark: SparkSession, root: Path, inventory: Inventory) -> DataFrame:
    """Return the rows of all runs with experiment, seed and parameters. A parameter that an experiment does not set is null.

    Raises:
        PipelineError: If not all rows of a run were kept.
    """
    inventory.require_rows(root)
    from pyspark.sql import functions as F  # noqa: N812

    files = [
        str(run_directory(root.resolve() / name, seed) / RESULTS)
        for name, experiment in inventory.experiments.items()
        for seed in experiment.seeds
    ]
    place = rf"/([^/]+)/([0-9]+)/{RESULTS}$".replace(".parquet", r"\.parquet")
    path = F.col("_metadata.file_path")
    rows = spark.read.schema(spark_ddl(RESULT_SCHEMA)).parquet(*files)
    rows = rows.select(
        "*", F.regexp_extract(path, place, 1).alias("experiment"), F.regexp_extract(path, place, 2).cast("long").alias("seed")
    )
    return rows.join(F.broadcast(spark.createDataFrame(parameters_table(inventory))), "experiment", "left")


def parameters_table(inventory: Inventory) -> pa.Table:
    """Return the parameters of each experiment, one row per experiment."""
    trees = list(inventory.parameters.values())
    types = column_types(inventory.parameters)
    columns = {name: parameter_array(name, kind, trees) for name, kind in types.items()}
    return pa.table({"experiment": pa.array(list(inventory.experiments), pa.string()), **columns})


def open_views(spark: SparkSession, root: Path, inventory: Inventory, sql: str) -> None:
    """Create the views to which a query refers."""
    is_whole = all(run.rows_kept == "all" for each in inventory.experiments.values() for run in each.runs)
    if is_whole or _NAMES_ROWS.search(sql):
        transactions(spark, root, inventory).createOrReplaceTempView("transactions")
    for view, name in METRICS_TABLES.items():
        spark.read.parquet(str(metrics_table(root, name, "parquet").resolve())).createOrReplaceTempView(view)


def query(spark: SparkSession, root: Path, inventory: Inventory, sql: str, limit: int) -> tuple[pa.Table, bool]:
    """Return at most ``limit`` rows of a query, and whether there are more.

    Raises:
        PipelineError: If Spark rejects the query.
    """
    from pyspark.logger import PySparkLogger

    open_views(spark, root, inventory, sql)
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)  # prints traces of query errors
    try:
        frame = spark.sql(sql).limit(limit + 1)
    except Exception as error:
        raise PipelineError(f"--sql: {summarize_error(error)}", usage=True) from error
    rows = run_with_progress(spark, lambda: collect_arrow(frame), 0, None)
    return rows.slice(0, limit), rows.num_rows > limit
