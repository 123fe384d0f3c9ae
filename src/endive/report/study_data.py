"""Load a study: find the runs at a path, measure new runs, and add the series and the axis to the tables.

A path is a directory of experiments, one experiment, or one run. Runs without a label are in one directory and are identified by
their provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from endive.analysis.conditions import Subject, parse_question
from endive.analysis.run_metrics import ALL
from endive.config import ConfigError
from endive.formatting import format_count, natural_order
from endive.pipeline.metrics import Sessions, current_tables
from endive.report import ReportError
from endive.report.configurations import Series, StudyAxis, choose_axis, make_series, varying_parameters
from endive.report.style import assign_colours
from endive.runs.contents import results_problem
from endive.runs.identity import Value
from endive.runs.layout import (
    CONFIG,
    FIGURES_FOLDER,
    METRICS_TABLES,
    PROVENANCE,
    RESULTS,
    RunFiles,
    is_experiment,
    is_seed,
    label_of,
    run_directory,
)
from endive.runs.plan import StudyRecord, study_of
from endive.runs.records import RecordError, read_provenance
from endive.runs.stored import Damage, Experiment, Inventory, PipelineError, StoredRun, experiment_from_records, find_experiments
from endive.storage.prices import Prices, list_prices
from endive.studies.experiment_tables import make_saturation_table
from endive.studies.measure import ExperimentRuns, MetricsOptions, RunFile, stored_load_pattern
from endive.studies.tables import measure_locally

PlaceKind = Literal["sweep", "experiment", "run"]
_RUN_THIS = "run `endive run CONFIG` or `endive sweep SWEEP` first"


@dataclass(frozen=True)
class RunPlace:
    """Files, provenance record and label of one run."""

    seed: int
    results: Path
    provenance: Path
    config: Path
    record: dict[str, Any]
    label: str


@dataclass(frozen=True)
class Place:
    """Kind of results at a path, and the runs of an experiment or of a single run. The pipeline lists the runs of a sweep.

    ``damaged`` contains the name and the problem of each omitted run.
    """

    kind: PlaceKind
    path: Path
    name: str
    runs: tuple[RunPlace, ...] = ()
    damaged: tuple[tuple[str, str], ...] = ()

    def experiment(self, label: str) -> Experiment:
        """Describe the configuration of the runs."""
        records = [run.record for run in self.runs]
        return experiment_from_records(label, str(records[0].get("experiment_hash", "")), records, self.runs[0].config.parent)

    def experiment_runs(self, name: str) -> ExperimentRuns:
        """Return the files of the runs for measuring."""
        duration = float(self.runs[0].record["parameters"]["simulation"]["duration_ms"])
        files = tuple(RunFile(run.seed, run.results) for run in self.runs)
        return ExperimentRuns(name, duration, stored_load_pattern(self.runs[0].config), files)


def find_place(path: Path) -> Place:
    """Find the runs at a path. Raises ReportError if the path has no finished run."""
    if not path.exists():
        raise ReportError(f"{path}: no such file or directory")
    if path.is_file():
        return _find_run(path)
    if is_experiment(path):
        return _find_experiment(path)
    if (path / RESULTS).is_file():
        return _find_run(path / RESULTS)
    stored = list(find_experiments(path))
    if not stored:
        raise ReportError(f"{path}: no finished run; {_RUN_THIS}")
    if not any(run.results.is_file() for each in stored for run in each.runs):
        raise ReportError(
            f"{path}: no finished run in {format_count(len(stored), 'experiment')}; run `endive sweep` to complete them"
        )
    return Place("sweep", path, path.resolve().name)


def _find_run(path: Path) -> Place:
    if path.suffix != ".parquet":
        raise ReportError(f"{path}: expected a .parquet file of results, or its directory")
    run = _read_labelled_run(path) if (path.parent / PROVENANCE).is_file() else _read_unlabelled_run(path)
    return Place("run", path, f"{run.label}, seed {run.seed}", (run,))


def _find_experiment(path: Path) -> Place:
    seeds = [entry for entry in path.iterdir() if is_seed(entry.name) and (entry / RESULTS).is_file()]
    if not seeds:
        raise ReportError(f"{path}: no finished run; run `endive run {path / CONFIG} --seed 0` first")
    runs: list[RunPlace] = []
    damaged: list[tuple[str, str]] = []
    for entry in sorted(seeds, key=lambda entry: int(entry.name)):
        # measuring reports the problem of a single run
        problem = results_problem(StoredRun(entry)) if len(seeds) > 1 else None
        if problem is None:
            runs.append(_read_labelled_run(entry / RESULTS))
        else:
            damaged.append((f"{path.resolve().name} seed {entry.name}", problem))
    if not runs:
        raise ReportError(
            f"{path}: none of its runs can be used ({damaged[0][0]}: {damaged[0][1]}); `endive sweep` runs them again"
        )
    return Place("experiment", path, path.resolve().name, tuple(runs), tuple(damaged))


def _read_labelled_run(results: Path) -> RunPlace:
    files = RunFiles.in_directory(results.resolve().parent)
    return _read_run(results, results.with_name(PROVENANCE), files.config, label_of(files.config.parent))


def _read_unlabelled_run(results: Path) -> RunPlace:
    files = RunFiles.beside(results)
    return _read_run(results, files.provenance, files.config, results.stem)


def _read_run(results: Path, provenance: Path, config: Path, label: str) -> RunPlace:
    try:
        record = read_provenance(provenance)
    except RecordError as error:
        raise ReportError(f"{results}: the results have no usable provenance: {error}") from None
    return RunPlace(int(record["seed"]), results, provenance, config, record, label)


Record = Mapping[str, Any]
"""Provenance of a run."""


@dataclass(frozen=True)
class Study:
    """Measured results of a study: the tables of ``metrics/``, with the columns ``series`` and ``x`` added.

    ``x`` is the value of ``axis``; interarrival times become rates.
    """

    path: Path
    kind: PlaceKind
    name: str
    manifest: Inventory
    runs: pd.DataFrame
    experiments: pd.DataFrame
    saturation: pd.DataFrame
    distributions: pd.DataFrame
    over_time: pd.DataFrame
    axis: StudyAxis | None
    series: tuple[Series, ...]
    single_runs: tuple[RunPlace, ...] = ()
    """Runs, if the study has one configuration."""
    question: Subject | None = None
    """Metric that the study file asks about, for the headline and the first figure; None without a question."""
    scenarios: tuple[str, ...] = ()
    """Named alternatives of the study, the baseline first."""
    prices: Prices = field(default_factory=list_prices)
    """Prices of requests."""
    record: StudyRecord | None = None
    """Sweep file and arguments of the study; None if the runs are not from a sweep."""
    problems: tuple[Damage, ...] = ()
    """Damaged runs and experiments, which are omitted."""

    @property
    def varying(self) -> tuple[str, ...]:
        """Parameters that distinguish experiments, including the axis."""
        return tuple(varying_parameters(self.manifest))

    @property
    def visible_series(self) -> tuple[Series, ...]:
        """Configurations that figures show: all, unless there are too many to distinguish."""
        return tuple(each for each in self.series if each.colour is not None)

    @property
    def colours(self) -> dict[str, str]:
        """Colour of each visible configuration."""
        return assign_colours([each.label for each in self.visible_series])

    @property
    def has_load(self) -> bool:
        """True if the axis is a load."""
        return self.axis is not None and self.axis.load is not None

    @property
    def code_version(self) -> str:
        """Code version of the results."""
        return next(iter(self.manifest.experiments.values())).code_version

    @property
    def classes(self) -> tuple[str, ...]:
        """Workload classes."""
        return tuple(sorted(set(self.experiments["workload_class"]) - {ALL}, key=natural_order))

    @property
    def operations(self) -> tuple[str, ...]:
        """Operations."""
        return tuple(sorted(set(self.experiments["operation_type"]) - {ALL}))

    @property
    def figures_folder(self) -> Path:
        """Default directory of figures."""
        return (self.path.parent if self.kind == "run" else self.path) / FIGURES_FOLDER

    def records(self, experiment: str) -> Iterator[Record]:
        """Yield the provenance of the runs of an experiment; runs without provenance are skipped."""
        if self.single_runs:
            yield from (run.record for run in self.single_runs)
            return
        for seed in self.manifest.experiments[experiment].seeds:
            record = StoredRun(run_directory(self.path / experiment, seed)).provenance
            if record:
                yield record

    def totals(self, workload_class: str = ALL, operation: str = ALL) -> pd.DataFrame:
        """Return the rows of experiments for a class and an operation, without configurations that are not visible."""
        return self.rows(self.experiments, workload_class, operation)

    def rows(self, table: pd.DataFrame, workload_class: str = ALL, operation: str = ALL) -> pd.DataFrame:
        """Return the rows of a table by experiment for a class and an operation, in the order of series and x."""
        chosen = table[(table["workload_class"] == workload_class) & (table["operation_type"] == operation)]
        order = {each.label: place for place, each in enumerate(self.visible_series)}
        chosen = chosen[chosen["series"].isin(list(order))]
        return chosen.sort_values(["series", "x"], key=lambda c: c.map(order) if c.name == "series" else c, kind="stable")

    def provenance(self) -> dict[str, Any]:
        """Return the numbers of experiments, runs and transactions, and the seeds."""
        seeds = sorted({seed for each in self.manifest.experiments.values() for seed in each.seeds})
        return {
            "experiments": len(self.manifest.experiments),
            "runs": len(self.runs[["experiment", "seed"]].drop_duplicates()),
            "seeds": seeds,
            "transactions": sum(each.rows for each in self.manifest.experiments.values()),
        }


def load_study(
    path: Path | str,
    *,
    load: str | None = None,
    warmup_ms: float | None = None,
    cooldown_ms: float | None = None,
    code_version: str | None = None,
    sessions: Sessions | None = None,
    prices: Prices | None = None,
) -> Study:
    """Load the study at a path, and measure runs that have no metrics yet (on Spark for a directory of experiments).

    Args:
        path: A directory of experiments, an experiment or a run.
        load: Parameter on the horizontal axis; by default the arrival rate that varies.
        warmup_ms: Warm-up; by default the warm-up of the last measurement of the directory.
        cooldown_ms: Cool-down; by default the cool-down of the last measurement of the directory.
        code_version: Part of the name of a code version, which selects one of several.
        sessions: Provider of the Spark session; by default a local one.
        prices: Prices of requests; by default list prices.

    Raises:
        ReportError: If there are no results to show.
    """
    place = find_place(Path(path))
    problems = tuple(Damage(*each) for each in place.damaged)
    try:
        if place.kind == "sweep":
            asked = None if warmup_ms is cooldown_ms is None else MetricsOptions(warmup_ms, cooldown_ms or 0.0)
            found = current_tables(place.path, sessions or _start_local_spark, asked)
            manifest, tables, problems = found.inventory, found.tables, found.inventory.problems
        else:
            manifest, tables = _measure_runs(place, MetricsOptions(warmup_ms, cooldown_ms or 0.0))
        manifest, tables = _select_version(place.path, manifest, tables, code_version)
        axis = choose_axis(manifest, load)
    except PipelineError as error:
        raise ReportError(str(error)) if error.usage else error from None
    record = study_of(place.path if place.kind == "sweep" else place.path.resolve().parent, manifest.experiments)
    scenarios = () if record is None else tuple(record.scenarios)
    series = make_series(manifest, axis, tables["experiments"], scenarios)
    if axis is not None and axis.load is not None:
        tables["saturation"] = make_saturation_table(tables["experiments"], manifest, axis.load)
    frames = {name: table.to_pandas() for name, table in tables.items()}
    _annotate(frames, manifest, axis, series)
    return Study(
        place.path,
        place.kind,
        place.name,
        manifest,
        **frames,
        axis=axis,
        series=series,
        single_runs=place.runs,
        question=_parse_study_question(record, frames["experiments"]),
        scenarios=scenarios,
        prices=prices or list_prices(),
        record=record if place.kind == "sweep" else None,
        problems=problems,
    )


def _parse_study_question(record: StudyRecord | None, experiments: pd.DataFrame) -> Subject | None:
    """Return the question of the study, or None if it has no question or no results for it."""
    if record is None or record.question is None:
        return None
    try:
        return parse_question(record.question, set(experiments["workload_class"]), record.label)
    except ConfigError:
        return None


def _start_local_spark() -> Any:
    """Start Spark on all cores of this machine."""
    from endive.pipeline.session import SparkOptions, spark_session

    return spark_session(SparkOptions())


def _measure_runs(place: Place, options: MetricsOptions) -> tuple[Inventory, dict[str, pa.Table]]:
    """Measure the runs of one configuration."""
    label = place.runs[0].label
    name = place.path.resolve().name if place.kind == "experiment" else label
    measured, manifest = measure_locally(place.experiment(label), place.experiment_runs(name), options)
    return manifest, {name: getattr(measured, name) for name in METRICS_TABLES}


def _select_version(
    path: Path, manifest: Inventory, tables: Mapping[str, pa.Table], wanted: str | None
) -> tuple[Inventory, dict[str, pa.Table]]:
    """Return the results of one code version. Raises ReportError if no version or more than one version matches."""
    versions: dict[str, list[str]] = {}
    for name, experiment in manifest.experiments.items():
        if experiment.runs:
            versions.setdefault(experiment.code_version, []).append(name)
    chosen = [version for version in versions if wanted is None or wanted in version]
    listed = ", ".join(f"{version} ({format_count(len(names), 'experiment')})" for version, names in sorted(versions.items()))
    if not chosen:
        raise ReportError(f"{path}: no results of version {wanted!r}; versions are {listed}")
    if len(chosen) > 1:
        raise ReportError(
            f"{path}: results of several code versions cannot be combined: {listed}. "
            "Choose one with --code-version VERSION, or remove results of other versions with `endive experiments remove --old`."
        )
    names = versions[chosen[0]]
    kept = Inventory({name: manifest.experiments[name] for name in names})
    return kept, {name: _filter_table(table, set(names), chosen[0]) for name, table in tables.items()}


def _filter_table(table: pa.Table, names: set[str], version: str) -> pa.Table:
    if "experiment" in table.column_names:
        return table.filter(pa.array([name in names for name in table.column("experiment").to_pylist()], pa.bool_()))
    return table.filter(pa.array([each == version for each in table.column("code_version").to_pylist()], pa.bool_()))


def _annotate(frames: dict[str, pd.DataFrame], manifest: Inventory, axis: StudyAxis | None, series: Iterable[Series]) -> None:
    """Add the configuration and the axis value to each table."""
    labels = {name: each.label for each in series for name in each.experiments}
    places: dict[str, float] = {}
    if axis is not None:
        places = {name: axis.place(each.parameters) for name, each in manifest.experiments.items()}
    for name in ("runs", "experiments", "distributions", "over_time"):
        frame = frames[name]
        frame["series"] = frame["experiment"].map(labels)
        frame["x"] = frame["experiment"].map(places).astype(float)
    curves = frames["saturation"]
    curves["series"] = [_find_label(row, series) for row in curves.to_dict("records")]


def _find_label(row: Mapping[Any, Any], series: Iterable[Series]) -> str | None:
    """Return the label of the configuration that a curve belongs to."""
    for each in series:
        if all(_is_same(row.get(column), value) for column, value in each.parameters.items() if column in row):
            return each.label
    return None


def _is_same(left: Any, right: Value | None) -> bool:
    return left == right or (right is None and bool(pd.isna(left)))
