"""The tables of a directory of experiments as they should be now: consolidated and measured first where that is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from endive.output_files import discard
from endive.pipeline.consolidate import Damage, Sessions, consolidate, standing
from endive.pipeline.jobs import Report
from endive.pipeline.metrics import last_options, load_tables, measure, up_to_date
from endive.runs.dataset import Manifest, PipelineError, load_manifest
from endive.runs.layout import dataset_folder
from endive.runs.parts import NOT_WRITTEN, is_whole_part
from endive.runs.tables import read_tables
from endive.studies.tables import Metrics
from endive.studies.windows import MetricsOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class FreshTables:
    """What a directory of experiments comes to, and the damaged runs and experiments that were left out."""

    manifest: Manifest
    tables: dict[str, pa.Table]
    problems: tuple[Damage, ...]


def fresh_tables(root: Path, sessions: Sessions, asked: MetricsOptions | None = None) -> FreshTables:
    """Return the tables of metrics, measured with these options, or with those of the last time.

    A session is made only if it is needed. Raises PipelineError if no run can be used.
    """
    manifest, options = load_manifest(root), asked or last_options(root)
    tables: dict[str, pa.Table] | None = None
    problems: tuple[Damage, ...] = ()
    if manifest is not None and any(_used(manifest)):
        found = standing(root, manifest)
        if not found.parts_to_write and up_to_date(root, manifest, options):
            tables, problems = read_tables(root), found.problems
    if manifest is None or tables is None:
        with sessions() as spark:
            problems = consolidate(root, lambda: nullcontext(spark)).problems
            manifest = load_manifest(root)
            if manifest is None or not any(_used(manifest)):
                unwritten = next((each for each in problems if each.message.startswith(NOT_WRITTEN)), None)
                if unwritten is not None:
                    raise PipelineError(f"{dataset_folder(root)}: {unwritten.message}; free disk space or use another directory")
                why = "; ".join(f"{problem.where}: {problem.message}" for problem in problems[:1])
                raise PipelineError(f"{root}: none of its runs can be used ({why}); `endive sweep` runs them anew", usage=True)
            measure_whole(spark, root, options)
        tables = load_tables(root)
    return FreshTables(manifest, tables, problems)


def measure_whole(spark: SparkSession, root: Path, options: MetricsOptions, *, report: Report | None = None) -> Metrics:
    """Measure the dataset of ``root`` and write the tables; parts of the dataset that turn out to be damaged are made again.

    Raises PipelineError if it cannot be measured for another reason.
    """
    try:
        return measure(spark, root, options, report=report)
    except PipelineError as error:
        manifest = load_manifest(root)
        if error.usage or manifest is None:
            raise
        damaged = [path for path, file in manifest.files(dataset_folder(root)) if not is_whole_part(path, file.rows)]
        if not damaged:
            raise
        for path in damaged:
            discard(path)
        consolidate(root, lambda: nullcontext(spark))
        return measure(spark, root, options, report=report)


def _used(manifest: Manifest) -> Iterator[bool]:
    """For each experiment, whether the dataset holds any run of it."""
    return (bool(experiment.parts) for experiment in manifest.experiments.values())
