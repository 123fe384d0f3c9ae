"""A study: everything that figures and reports are made of, loaded from a directory of experiments, an experiment, or a run.

It is made of the tables of metrics alone: the rows of transactions are for the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from endive.analysis.conditions import Subject, parse_question
from endive.analysis.run_metrics import ALL
from endive.config import ConfigError
from endive.formatting import natural_order
from endive.pipeline.metrics import Sessions, current_tables
from endive.report.configurations import Series, StudyAxis, choose_axis, make_series, varying_parameters
from endive.report.errors import ReportError
from endive.report.places import Place, PlaceKind, RunPlace, find_place
from endive.report.style import colours
from endive.runs.inventory import Damage, Inventory, PipelineError
from endive.runs.layout import FIGURES_FOLDER, METRICS_TABLES, run_directory
from endive.runs.parameters import Value
from endive.runs.stored import StoredRun
from endive.runs.study_records import StudyRecord, study_of
from endive.storage.prices import Prices, list_prices
from endive.studies.experiment_tables import saturation_table
from endive.studies.measure import MetricsOptions
from endive.studies.tables import measure_locally

Record = Mapping[str, Any]
"""What a run says of itself: its provenance."""


@dataclass(frozen=True)
class Study:
    """What was measured. Tables are those of ``metrics/``, with the columns ``series`` and ``x`` added.

    ``x`` is the value of ``axis``, as a rate where the parameter is a time between arrivals.
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
    """The runs, where the study is of one configuration."""
    question: Subject | None = None
    """What the study is about, where its file says so: the headline, the first figure, and the order of the report."""
    scenarios: tuple[str, ...] = ()
    """The named alternatives of the study, the baseline first."""
    prices: Prices = field(default_factory=list_prices)
    """What requests cost."""
    record: StudyRecord | None = None
    """What the directory knows of the study: its file and how it was called; None where it was no sweep."""
    problems: tuple[Damage, ...] = ()
    """Runs and experiments that are damaged and were left out."""

    @property
    def varying(self) -> tuple[str, ...]:
        """The parameters that tell experiments apart, the axis among them."""
        return tuple(varying_parameters(self.manifest))

    @property
    def drawn(self) -> tuple[Series, ...]:
        """The configurations that figures show: all, unless they are too many to be told apart."""
        return tuple(each for each in self.series if each.colour is not None)

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each configuration that is drawn."""
        return colours([each.label for each in self.drawn])

    @property
    def has_load(self) -> bool:
        """Whether the axis is a load."""
        return self.axis is not None and self.axis.load is not None

    @property
    def code_version(self) -> str:
        """The code that made the results."""
        return next(iter(self.manifest.experiments.values())).code_version

    @property
    def classes(self) -> tuple[str, ...]:
        """The workload classes."""
        return tuple(sorted(set(self.experiments["workload_class"]) - {ALL}, key=natural_order))

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations."""
        return tuple(sorted(set(self.experiments["operation_type"]) - {ALL}))

    @property
    def figures_folder(self) -> Path:
        """Where figures go unless told otherwise."""
        return (self.path.parent if self.kind == "run" else self.path) / FIGURES_FOLDER

    def records(self, experiment: str) -> Iterator[Record]:
        """Yield what the runs of an experiment say of themselves; those that say nothing are passed over."""
        if self.single_runs:
            yield from (run.record for run in self.single_runs)
            return
        for seed in self.manifest.experiments[experiment].seeds:
            told = StoredRun(run_directory(self.path / experiment, seed)).provenance
            if told:
                yield told

    def totals(self, workload_class: str = ALL, operation: str = ALL) -> pd.DataFrame:
        """The rows of experiments for a class and an operation, those of drawn configurations only."""
        return self.rows(self.experiments, workload_class, operation)

    def rows(self, table: pd.DataFrame, workload_class: str = ALL, operation: str = ALL) -> pd.DataFrame:
        """The rows of a table by experiment for a class and an operation, in the order of series and x."""
        chosen = table[(table["workload_class"] == workload_class) & (table["operation_type"] == operation)]
        order = {each.label: place for place, each in enumerate(self.drawn)}
        chosen = chosen[chosen["series"].isin(list(order))]
        return chosen.sort_values(["series", "x"], key=lambda c: c.map(order) if c.name == "series" else c, kind="stable")

    def provenance(self) -> dict[str, Any]:
        """What the results were made by and of."""
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
    """The study at a path; what is not measured yet is measured, by Spark if it is a directory of experiments.

    ``warmup_ms`` and ``cooldown_ms`` are by default those with which a directory of experiments was measured last.

    ``load`` names the parameter that is drawn from left to right; by default it is the rate that varies. ``code_version`` chooses,
    by a part of its name, among results of several versions. Raises ReportError if there is nothing to show.
    """
    place = find_place(Path(path))
    problems = tuple(Damage(*each) for each in place.damaged)
    try:
        if place.kind == "sweep":
            asked = None if warmup_ms is cooldown_ms is None else MetricsOptions(warmup_ms, cooldown_ms or 0.0)
            found = current_tables(place.path, sessions or _on_this_machine, asked)
            manifest, tables, problems = found.inventory, found.tables, found.inventory.problems
        else:
            manifest, tables = _of_runs(place, MetricsOptions(warmup_ms, cooldown_ms or 0.0))
        manifest, tables = _of_one_version(place.path, manifest, tables, code_version)
        axis = choose_axis(manifest, load)
    except PipelineError as error:
        raise ReportError(str(error)) if error.usage else error from None
    record = study_of(place.path if place.kind == "sweep" else place.path.resolve().parent, manifest.experiments)
    scenarios = () if record is None else tuple(record.scenarios)
    series = make_series(manifest, axis, tables["experiments"], scenarios)
    if axis is not None and axis.load is not None:
        tables["saturation"] = saturation_table(tables["experiments"], manifest, axis.load)
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
        question=_question(record, frames["experiments"]),
        scenarios=scenarios,
        prices=prices or list_prices(),
        record=record if place.kind == "sweep" else None,
        problems=problems,
    )


def _question(record: StudyRecord | None, experiments: pd.DataFrame) -> Subject | None:
    """What the study is about; nothing if its results do not have that, or it is not said."""
    if record is None or record.question is None:
        return None
    try:
        return parse_question(record.question, set(experiments["workload_class"]), record.label)
    except ConfigError:
        return None


def _on_this_machine() -> Any:
    """Spark on all cores."""
    from endive.pipeline.session import SparkOptions, spark_session

    return spark_session(SparkOptions())


def _of_runs(place: Place, options: MetricsOptions) -> tuple[Inventory, dict[str, pa.Table]]:
    """The tables of the runs of one configuration."""
    label = place.runs[0].label
    name = place.path.resolve().name if place.kind == "experiment" else label
    measured, manifest = measure_locally(place.experiment(label), place.experiment_runs(name), options)
    return manifest, {name: getattr(measured, name) for name in METRICS_TABLES}


def _of_one_version(
    path: Path, manifest: Inventory, tables: Mapping[str, pa.Table], wanted: str | None
) -> tuple[Inventory, dict[str, pa.Table]]:
    """What one version of the code has made. Raises ReportError if there are several and none was chosen."""
    versions: dict[str, list[str]] = {}
    for name, experiment in manifest.experiments.items():
        if experiment.runs:
            versions.setdefault(experiment.code_version, []).append(name)
    chosen = [version for version in versions if wanted is None or wanted in version]
    told = ", ".join(f"{version} ({len(names)} experiments)" for version, names in sorted(versions.items()))
    if not chosen:
        raise ReportError(f"{path}: no results are of version {wanted!r}; there are {told}")
    if len(chosen) > 1:
        raise ReportError(
            f"{path}: results of several versions of the code do not belong in one figure: {told}; "
            "--code-version VERSION chooses one, and `endive experiments remove --old` removes what is not of this version"
        )
    names = versions[chosen[0]]
    kept = Inventory({name: manifest.experiments[name] for name in names})
    return kept, {name: _only(table, set(names), chosen[0]) for name, table in tables.items()}


def _only(table: pa.Table, names: set[str], version: str) -> pa.Table:
    if "experiment" in table.column_names:
        return table.filter(pa.array([name in names for name in table.column("experiment").to_pylist()], pa.bool_()))
    return table.filter(pa.array([each == version for each in table.column("code_version").to_pylist()], pa.bool_()))


def _annotate(frames: dict[str, pd.DataFrame], manifest: Inventory, axis: StudyAxis | None, series: Iterable[Series]) -> None:
    """Add to each table which configuration a row is of, and where it stands on the axis."""
    labels = {name: each.label for each in series for name in each.experiments}
    places: dict[str, float] = {}
    if axis is not None:
        places = {name: axis.place(each.parameters) for name, each in manifest.experiments.items()}
    for name in ("runs", "experiments", "distributions", "over_time"):
        frame = frames[name]
        frame["series"] = frame["experiment"].map(labels)
        frame["x"] = frame["experiment"].map(places).astype(float)
    curves = frames["saturation"]
    curves["series"] = [_label_of(row, series) for row in curves.to_dict("records")]


def _label_of(row: Mapping[Any, Any], series: Iterable[Series]) -> str | None:
    """The configuration that a curve is of: the one whose parameters it has."""
    for each in series:
        if all(_same(row.get(column), value) for column, value in each.parameters.items() if column in row):
            return each.label
    return None


def _same(left: Any, right: Value | None) -> bool:
    return left == right or (right is None and bool(pd.isna(left)))


__all__ = ["ALL", "Record", "Series", "Study", "StudyAxis", "load_study"]
