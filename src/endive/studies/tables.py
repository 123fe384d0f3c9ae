"""Create the tables of metrics of a directory of experiments: by run, by experiment, saturation, distributions and over time.

``plan_measuring`` divides the experiments into measurement units. All runs of a unit share one window. ``measure_unit`` measures
one unit (in a Spark task or in this process), and ``make_tables`` creates the tables from the rows of all units.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from endive.analysis.run_curves import OVER_TIME, distributions_table, over_time_table
from endive.analysis.run_metrics import empty_metrics, window_columns, window_of
from endive.analysis.warmup import Window
from endive.output_files import check_inside, discard
from endive.runs.contents import structure_problem
from endive.runs.identity import SCENARIO_COLUMN, varying_within_scenarios
from endive.runs.layout import CONFIG, measured_file, measured_units, run_directory
from endive.runs.metric_tables import read_unit_file, write_unit
from endive.runs.stored import Experiment, Inventory, PipelineError, StoredRun
from endive.studies.experiment_tables import LoadAxis, find_load_axis, make_experiments_table, make_saturation_table
from endive.studies.measure import (
    KEYS,
    MEASURED_SCHEMA,
    PLAIN_COLUMNS,
    RUN_SCHEMA,
    WINDOW,
    ExperimentRuns,
    MetricsOptions,
    RunFile,
    UnusableRunError,
    choose_window,
    measure_experiments,
    metrics_version,
    stored_load_pattern,
)


@dataclass(frozen=True)
class Metrics:
    """Tables of metrics.

    Attributes:
        axis: Load axis, or None.
        remark: Reason why there is no load axis, so that the table of saturation is empty; None if there is one.
    """

    runs: pa.Table
    experiments: pa.Table
    saturation: pa.Table
    distributions: pa.Table
    over_time: pa.Table
    axis: LoadAxis | None
    remark: str | None


@dataclass(frozen=True)
class MeasureUnit:
    """Measurement unit: experiments that share a window (a single experiment, or all scenarios with the same axis values).

    Attributes:
        root: Directory of the experiments.
        experiments: Seeds of each experiment, by name.
        durations_ms: Duration of the runs of each experiment, by name.
        options: Options of the measurement.
        measured: Seeds of each experiment that may have stored metrics. These are reused if the window has not changed.
    """

    root: str
    experiments: Mapping[str, tuple[int, ...]]
    durations_ms: Mapping[str, float]
    options: MetricsOptions
    measured: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredUnit:
    """Metrics of the runs of a measurement unit, and the runs that could not be used."""

    rows: pa.RecordBatch
    damaged: tuple[tuple[str, int, str], ...] = ()


def check_options(inventory: Inventory, options: MetricsOptions) -> LoadAxis | str:
    """Return the load axis, or the reason why there is none.

    Raises:
        PipelineError: If warm-up and cool-down exclude a whole run.
    """
    for name, experiment in inventory.experiments.items():
        problem = options.problem_with(experiment.duration_ms)
        if problem is not None:
            raise PipelineError(f"{problem} {name}, which lasts {experiment.duration_ms:g} ms", usage=True)
    return find_load_axis(inventory, options.load)


def plan_measuring(root: Path, inventory: Inventory, options: MetricsOptions) -> list[MeasureUnit]:
    """Divide the experiments of a directory into measurement units."""
    return [
        MeasureUnit(
            str(root.resolve()),
            {name: inventory.experiments[name].seeds for name in names},
            {name: inventory.experiments[name].duration_ms for name in names},
            options,
        )
        for names in compared_experiments(inventory.experiments)
    ]


def compared_experiments(experiments: Mapping[str, Experiment]) -> list[list[str]]:
    """Group the experiments to compare with each other: scenarios of a study with the same axis values and duration.

    Every other experiment is a separate group.
    """
    scenarios = {name: each for name, each in experiments.items() if SCENARIO_COLUMN in each.parameters}
    axes = varying_within_scenarios({name: each.parameters for name, each in scenarios.items()})
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, each in experiments.items():
        if name in scenarios:
            point = (each.label, each.duration_ms, *(each.parameters.get(axis) for axis in axes))
            groups.setdefault(point, []).append(name)
        else:
            groups[(name,)] = [name]
    return list(groups.values())


def measure_unit(unit: MeasureUnit, *, is_checked: bool = False) -> MeasuredUnit:
    """Measure all runs of a measurement unit. Runs that cannot be used are omitted and reported.

    Args:
        unit: Measurement unit.
        is_checked: Whether to skip the checks of the runs, because this process has just written them.
    """
    damaged: dict[tuple[str, int], str] = {}
    for name, seeds in () if is_checked else unit.experiments.items():
        for seed in seeds:
            problem = structure_problem(StoredRun(run_directory(Path(unit.root) / name, seed)))
            if problem is not None:
                damaged[name, seed] = problem
    while True:
        runs = [each for each in (_list_runs(unit, name, damaged) for name in unit.experiments) if each.runs]
        try:
            rows = _measure_runs(unit, runs, reuse=not damaged) if runs else MEASURED_SCHEMA.empty_table()
        except UnusableRunError as error:
            damaged[error.experiment, error.seed] = str(error)
            continue
        left_out = tuple((name, seed, message) for (name, seed), message in sorted(damaged.items()))
        return MeasuredUnit(pa.RecordBatch.from_struct_array(rows.to_struct_array().combine_chunks()), left_out)


def _measure_runs(unit: MeasureUnit, runs: Sequence[ExperimentRuns], *, reuse: bool) -> pa.Table:
    """Return the metrics of runs in their common window. Stored metrics of earlier runs in the same window are reused."""
    window = choose_window(runs, unit.options)
    known = _read_measured(unit, window) if reuse else None
    if known is not None:
        runs = [
            replace(each, runs=tuple(run for run in each.runs if run.seed not in unit.measured.get(each.name, ()))) for each in runs
        ]
    new = pa.Table.from_pylist(list(measure_experiments(runs, unit.options, window)), schema=MEASURED_SCHEMA)
    return new if known is None else pa.concat_tables([known, new])


def _read_measured(unit: MeasureUnit, window: Window) -> pa.Table | None:
    """Return the stored metrics of runs that were measured earlier, or None if there are none for this window."""
    names = [name for name, seeds in unit.measured.items() if seeds]
    if not names:
        return None
    earlier = MeasureUnit(
        unit.root, {name: unit.measured[name] for name in names}, {name: unit.durations_ms[name] for name in names}, unit.options
    )
    rows = read_unit(earlier)
    if rows is None or rows.num_rows == 0:
        return None
    first = rows.slice(0, 1).to_pylist()[0]
    columns = window_columns(window)
    is_same = {name: first[name] for name in columns} == columns and len(first[OVER_TIME[0]]) == window.time_bins
    return rows if is_same else None


def keep_unit(unit: MeasureUnit, measured: MeasuredUnit, scratch: Path | None = None) -> None:
    """Store the metrics of a measurement unit, without damaged runs.

    The metrics are valid until the runs or the options change.

    ``scratch`` contains the runs that have not yet been moved to their destination.
    """
    key, folder = _unit_key(unit, scratch), measured_units(Path(unit.root))
    if key is not None and not measured.damaged:
        check_inside(folder, Path(unit.root))
        write_unit(folder, key, pa.Table.from_batches([measured.rows]))


def read_unit(unit: MeasureUnit) -> pa.Table | None:
    """Read the stored metrics of a measurement unit. Return None if none are stored, or if the runs have changed."""
    key = _unit_key(unit)
    found = None if key is None else read_unit_file(measured_units(Path(unit.root)), key)
    return found if found is not None and found.schema.equals(MEASURED_SCHEMA) else None


def discard_units(root: Path, units: Sequence[MeasureUnit]) -> None:
    """Remove all stored metrics except those of the given measurement units."""
    kept = {_unit_key(unit) for unit in units}
    for path in measured_units(root.resolve()).glob("*.parquet"):
        if path.stem.partition("-")[0] not in kept:
            discard(path)


def find_lost_units(root: Path, inventory: Inventory, options: MetricsOptions) -> list[str]:
    """Return the experiments whose metrics are lost and cannot be measured again, because not all rows were kept."""
    units = plan_measuring(root, inventory, options)
    lost = (name for unit in units if read_unit(unit) is None for name in unit.experiments)
    return [name for name in lost if any(run.rows_kept != "all" for run in inventory.experiments[name].runs)]


def _unit_key(unit: MeasureUnit, scratch: Path | None = None) -> str | None:
    """Return a hash of the options and results of a measurement unit for its file name, or None if a run has no results.

    For a run whose rows were not all kept, the hash covers the checksum of the summary. Earlier versions recorded the checksum of
    all rows.
    """
    runs: list[tuple[Any, ...]] = []
    for name, seeds in sorted(unit.experiments.items()):
        for seed in seeds:
            run = StoredRun(run_directory(Path(unit.root) / name, seed))
            try:
                status = run.results.stat()
            except OSError:
                if scratch is None:
                    return None
                status = None
            if status is not None and run.keeps("all"):
                runs.append((name, seed, run.provenance.get("results_sha256"), status.st_size, status.st_mtime_ns))
            else:
                record = run.provenance if scratch is None else StoredRun(run_directory(scratch / name, seed)).provenance
                runs.append((name, seed, record.get("all_rows_sha256", record.get("summary_sha256"))))
    basis = [metrics_version(), unit.options.warmup_ms, unit.options.cooldown_ms, sorted(unit.durations_ms.items()), runs]
    return hashlib.sha256(json.dumps(basis).encode()).hexdigest()[:32]


def _list_runs(unit: MeasureUnit, name: str, damaged: Mapping[tuple[str, int], str]) -> ExperimentRuns:
    directory = Path(unit.root) / name
    seeds = [seed for seed in unit.experiments[name] if (name, seed) not in damaged]
    files = tuple(RunFile(seed, measured_file(run_directory(directory, seed))) for seed in seeds)
    return ExperimentRuns(name, unit.durations_ms[name], stored_load_pattern(directory / CONFIG), files)


def make_tables(rows: pa.Table, inventory: Inventory, options: MetricsOptions) -> Metrics:
    """Create the tables from rows of metrics, which can be in any order."""
    rows = complete_rows(rows).sort_by([(name, "ascending") for name, _ in KEYS]).combine_chunks()
    axis = find_load_axis(inventory, options.load)
    found = axis if isinstance(axis, LoadAxis) else None
    runs = rows.select(RUN_SCHEMA.names)
    experiments = make_experiments_table(runs, inventory)
    return Metrics(
        runs.select(PLAIN_COLUMNS),
        experiments,
        make_saturation_table(experiments, inventory, found),
        distributions_table(rows),
        over_time_table(rows),
        found,
        axis if isinstance(axis, str) else None,
    )


def complete_rows(rows: pa.Table) -> pa.Table:
    """Add a row of zeros for each class and operation that only other seeds of an experiment have."""
    return pa.concat_tables([rows.cast(MEASURED_SCHEMA), _missing_rows(rows)])


def measure_locally(
    experiment: Experiment, runs: ExperimentRuns, options: MetricsOptions, window: Window | None = None
) -> tuple[Metrics, Inventory]:
    """Measure the runs of one configuration in this process. The files can be in any directory.

    Raises:
        PipelineError: If a run cannot be used, or if warm-up and cool-down exclude the whole run.
    """
    inventory = Inventory({runs.name: experiment})
    check_options(inventory, options)
    try:
        rows = list(measure_experiments([runs], options, window))
    except UnusableRunError as error:
        raise PipelineError(f"{runs.name}, seed {error.seed}: {error}", usage=True) from None
    return make_tables(pa.Table.from_pylist(rows, schema=MEASURED_SCHEMA), inventory, options), inventory


def _missing_rows(rows: pa.Table) -> pa.Table:
    """Return rows of zeros for classes and operations that only other seeds have, so that means include these seeds."""
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
                missing.append({**own, **empty_metrics(window), **window_columns(window), "window_ms": row["window_ms"]})
    return pa.Table.from_pylist(missing, schema=MEASURED_SCHEMA)
