"""The tables that the rows of runs come to: by run, by experiment, saturation, distributions and over time.

Whoever has measured the parts of a dataset, Spark's tasks or this process, makes the tables here, so that they are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.analysis.run_curves import distributions_table, over_time_table
from endive.analysis.run_metrics import group_metrics, window_columns, window_of
from endive.analysis.warmup import Window
from endive.runs.dataset import Manifest, PipelineError
from endive.runs.parts import Spec
from endive.studies.experiment_tables import LoadAxis, experiments_table, load_axis, saturation_table
from endive.studies.measure import KEYS, PLAIN_COLUMNS, RUN_SCHEMA, TASK_SCHEMA, WINDOW
from endive.studies.windows import MetricsOptions


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


def check_options(manifest: Manifest, options: MetricsOptions) -> LoadAxis | str:
    """The load axis, or why there is none. Raises PipelineError if the options leave nothing of a run to measure."""
    for name, experiment in manifest.experiments.items():
        problem = options.problem_with(experiment.duration_ms)
        if problem is not None:
            raise PipelineError(f"{problem} {name}, which lasts {experiment.duration_ms:g} ms", usage=True)
    return load_axis(manifest, options.load)


def tables_of(rows: pa.Table, manifest: Manifest, options: MetricsOptions) -> Metrics:
    """The tables that the rows of tasks come to."""
    whole = pa.concat_tables([rows.cast(TASK_SCHEMA), _missing(rows)])
    rows = whole.sort_by([(name, "ascending") for name, _ in KEYS]).combine_chunks()
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
