"""The tables of a directory of experiments as they should be now: consolidated and measured first where that is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa

from endive.pipeline.consolidate import Sessions, consolidate, new_runs
from endive.pipeline.metrics import last_options, load_tables, measure, up_to_date
from endive.runs.dataset import Manifest, PipelineError, load_manifest
from endive.runs.tables import read_tables
from endive.studies.windows import MetricsOptions


def fresh_tables(root: Path, sessions: Sessions, asked: MetricsOptions | None = None) -> tuple[Manifest, dict[str, pa.Table]]:
    """The manifest and the tables of metrics, measured with these options, or with those of the last time.

    A session is made only if it is needed.

    Raises PipelineError if no run can be used.
    """
    manifest, options = load_manifest(root), asked or last_options(root)
    if manifest is not None and any(_used(manifest)) and not new_runs(root, manifest) and up_to_date(root, manifest, options):
        tables = read_tables(root)
    else:
        tables = None
    if manifest is None or tables is None:
        with sessions() as spark:
            done = consolidate(root, lambda: nullcontext(spark))
            manifest = load_manifest(root)
            if manifest is None or not any(_used(manifest)):
                why = "; ".join(f"{problem.where}: {problem.message}" for problem in done.problems[:1])
                raise PipelineError(f"{root}: none of its runs can be used ({why}); `endive sweep` runs them anew", usage=True)
            measure(spark, root, options)
        tables = load_tables(root)
    return manifest, tables


def _used(manifest: Manifest) -> Iterator[bool]:
    """For each experiment, whether the dataset holds any run of it."""
    return (bool(experiment.parts) for experiment in manifest.experiments.values())
