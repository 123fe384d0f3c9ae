"""Find the parameters that differ between the experiments of a study: the horizontal axis, and those that define configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from endive.analysis.run_metrics import ALL
from endive.report import phrases
from endive.report.figure import Scale
from endive.report.style import MOST_SERIES
from endive.runs.identity import PREFIX, SCENARIO_COLUMN, Value, column_types, flat_parameters, varying
from endive.runs.layout import label_of
from endive.runs.stored import Experiment, Inventory, StoredExperiment
from endive.studies.experiment_tables import LoadAxis, find_load_axis

_DURATION = f"{PREFIX}simulation_duration_ms"
_FIRST = ("scenario", "storage_provider", "catalog_type", "transaction_manifest_list_mode", "catalog_table_metadata_inlined")
"""Parameters at the beginning of labels."""
_NEXT = ("_operation", "_commit_path")
"""Suffixes of the parameters that come next in labels: operations and commit settings."""
Parameters = Mapping[str, Value | None]


@dataclass(frozen=True)
class StudyAxis:
    """The parameter on the horizontal axis. ``load`` is set if the parameter is a load."""

    column: str
    title: str
    scale: Scale
    values: tuple[float, ...]
    load: LoadAxis | None = None

    def place(self, parameters: Mapping[str, Value]) -> float:
        """Return the axis value of an experiment, or NaN."""
        value = parameters.get(self.column)
        if value is None:
            return float("nan")
        return float(value) if self.load is None else self.load.load(value)


@dataclass(frozen=True)
class Series:
    """Configuration of a study: experiments that differ only in the axis value.

    ``colour`` is an index into the palette; None if figures omit the configuration because there are too many.
    """

    label: str
    parameters: Parameters
    experiments: tuple[str, ...]
    colour: int | None


def varying_parameters(manifest: Inventory) -> list[str]:
    """Return the parameters that distinguish experiments, without those that other parameters determine.

    The duration is included only if two experiments differ in nothing else, as in ``studies.experiment_tables``.
    """
    found = varying(manifest.parameters)
    first = [f"{PREFIX}{name}" for name in _FIRST if f"{PREFIX}{name}" in found]
    first += [name for ending in _NEXT for name in found if name.endswith(ending)]
    others = [name for name in found if name not in first and name != _DURATION]
    return _drop_redundant(manifest, [*first, *others, *(name for name in found if name == _DURATION)])


def _drop_redundant(manifest: Inventory, names: Sequence[str]) -> list[str]:
    """Drop the parameters that other parameters determine, starting with the last one."""
    candidates = _drop_implied(manifest, names)
    kept = list(candidates)
    for name in reversed(candidates):
        without = [each for each in kept if each != name]
        if len(_list_keys(manifest, without)) == len(_list_keys(manifest, kept)):
            kept = without
    return kept


def _drop_implied(manifest: Inventory, names: Sequence[str]) -> list[str]:
    """Drop the parameters whose values follow from the preceding parameters, in one pass, because there can be thousands."""
    experiments = [each.parameters for each in manifest.experiments.values()]
    groups: list[Any] = [None] * len(experiments)
    kept, count = [], 1
    for name in names:
        numbers: dict[Any, int] = {}
        finer = [numbers.setdefault((group, each.get(name)), len(numbers)) for group, each in zip(groups, experiments, strict=True)]
        if len(numbers) > count:
            groups, count = finer, len(numbers)
            kept.append(name)
    return kept


def _list_keys(manifest: Inventory, names: Sequence[str]) -> set[tuple[Value | None, ...]]:
    return {tuple(each.parameters.get(name) for name in names) for each in manifest.experiments.values()}


def choose_axis(manifest: Inventory, wanted: str | None) -> StudyAxis | None:
    """Return the requested or varying load, otherwise the numeric parameter with the most values; None if none varies."""
    found = find_load_axis(manifest, wanted)
    if isinstance(found, LoadAxis):
        title = phrases.title_load(found.column)
        values = _list_values(manifest, found.column)
        places = tuple(sorted({found.load(value) for value in values if float(value) > 0.0}))
        return StudyAxis(found.column, title, _choose_scale(places), places, found)
    types = column_types(manifest.parameters)
    numbers = [name for name in varying_parameters(manifest) if types.get(name) in (int, float) and name != _DURATION]
    if not numbers:
        return None
    column = max(numbers, key=lambda name: len(_list_values(manifest, name)))
    places = tuple(sorted(float(value) for value in _list_values(manifest, column)))
    return StudyAxis(column, phrases.title_parameter(column), _choose_scale(places), places)


def _list_values(manifest: Inventory, column: str) -> set[Value]:
    values = (each.parameters.get(column) for each in manifest.experiments.values())
    return {value for value in values if value is not None}


def _choose_scale(places: Sequence[float]) -> Scale:
    """Return ``log`` if the values span a factor of eight or more."""
    return "log" if places and places[0] > 0.0 and places[-1] / places[0] >= 8.0 else "linear"


def make_series(
    manifest: Inventory, axis: StudyAxis | None, experiments: pa.Table, scenarios: Sequence[str] = ()
) -> tuple[Series, ...]:
    """Return the configurations in the order of their parameters; scenarios keep the order in the study file."""
    names = [name for name in varying_parameters(manifest) if axis is None or name != axis.column]
    groups: dict[tuple[Value | None, ...], list[str]] = {}
    for name, each in manifest.experiments.items():
        groups.setdefault(tuple(each.parameters.get(column) for column in names), []).append(name)
    ordered = sorted(
        groups.items(),
        key=lambda item: [_rank_value(column, value, scenarios) for column, value in zip(names, item[0], strict=True)],
    )
    labels = _label_groups(manifest, names, ordered)
    drawn = _choose_visible([members for _, members in ordered], experiments)
    return tuple(
        Series(label, dict(zip(names, key, strict=True)), tuple(members), drawn.get(place))
        for place, ((key, members), label) in enumerate(zip(ordered, labels, strict=True))
    )


def _rank_value(column: str, value: Value | None, scenarios: Sequence[str]) -> tuple[int, float, str]:
    if column == SCENARIO_COLUMN and value in scenarios:
        return (0, float(scenarios.index(str(value))), "")
    return phrases.rank_value(column, value)


def _label_groups(manifest: Inventory, names: Sequence[str], ordered: Sequence[tuple[tuple[Any, ...], list[str]]]) -> list[str]:
    if not names:
        return [manifest.experiments[members[0]].label for _, members in ordered]
    labels = [
        phrases.label_configuration(dict(zip(names, key, strict=True)), manifest.experiments[members[0]].parameters)
        for key, members in ordered
    ]
    if len(set(labels)) == len(labels):
        return labels
    hashes = [manifest.experiments[members[0]].hash for _, members in ordered]
    return [f"{label} ({digest[:6]})" for label, digest in zip(labels, hashes, strict=True)]


def _choose_visible(groups: Sequence[Sequence[str]], experiments: pa.Table) -> dict[int, int]:
    """Return the palette index of each configuration in figures. With too many configurations, figures show a sample."""
    places = list(range(len(groups)))
    if len(places) > MOST_SERIES:
        rows = experiments.select(["experiment", "workload_class", "operation_type", "throughput_per_s"]).to_pylist()
        best = {r["experiment"]: r["throughput_per_s"] or 0.0 for r in rows if r["workload_class"] == r["operation_type"] == ALL}
        peaks = [max(best.get(name, 0.0) for name in members) for members in groups]
        by_peak = sorted(places, key=lambda place: (-peaks[place], place))
        places = sorted(by_peak[round(k * (len(by_peak) - 1) / (MOST_SERIES - 1))] for k in range(MOST_SERIES))
    return {place: colour for colour, place in enumerate(places)}


def describe_experiments(stored: Sequence[StoredExperiment]) -> dict[str, str]:
    """Return the parameters that distinguish each stored experiment from others of the same label and version, by experiment.

    Experiments without provenance are omitted.
    """
    groups: dict[tuple[str, str], dict[str, Experiment]] = {}
    for each in stored:
        parameters = next((run.provenance["parameters"] for run in each.runs if run.provenance), None)
        if parameters is not None:
            label, version = label_of(each.directory), each.code_version or ""
            experiment = Experiment(label, "", version, 0.0, flat_parameters(parameters, each.directory))
            groups.setdefault((label, version), {})[each.name] = experiment
    labels: dict[str, str] = {}
    for group in groups.values():
        manifest = Inventory(group)
        names = varying_parameters(manifest)
        for name, experiment in group.items():
            own = {column: experiment.parameters.get(column) for column in names}
            labels[name] = phrases.label_configuration(own, experiment.parameters) or "the only configuration"
    return labels
