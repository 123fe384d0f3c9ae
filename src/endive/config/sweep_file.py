"""Read sweep files, which contain a base configuration, axes and seeds, and expand them into the configurations to run.

[sweep]
base = "base.toml"                    # or the tables of a configuration under [base]
seeds = "0-9"                         # or a list
# precision = "1%"                    # half width of 95% intervals, instead of seeds; 0.5pp for proportions only
# max_seeds = 100                     # maximum number of seeds of a point if precision is set
rows = "sample"                       # rows to keep: "all", "sample" or "none"; default: all up to 20 GiB, a sample above that
question = "success(compaction)"      # metric of the headline, the first figure and the order of the report

[axes]
"storage.provider" = ["s3", "s3x"]
"workload.ingest.rate" = { from = 1, to = 100, points = 9, scale = "log" }   # or { from, to, step }

[[zip]]                               # keys that change together
"catalog.num_tables" = [1, 10]
"catalog.num_groups" = [1, 10]

[[exclude]]                           # combinations to skip
"storage.provider" = "s3"
"transaction.manifest_list_mode" = "append"

[scenario.more_retries]               # named alternatives, compared with a baseline; see below
set = { "transaction.retry" = 10 }

[quick]                               # changes with --quick
seeds = "0-2"
set = { "simulation.duration_ms" = 60_000 }
axes = { "workload.ingest.rate" = [1, 10] }

Scenarios are named alternatives, one of which is the baseline of the comparison.

[sweep]
baseline = "today"                    # a scenario, or a name for the unchanged base; default: a scenario without `set`

[scenario.more_retries]               # a name can contain spaces: [scenario."more retries"]
set = { "transaction.retry" = 10 }

[scenario.fewer_writers.set]
workload.ingest.rate = 2

``experiment.scenario`` of each configuration is the name, which is not part of the identity of an experiment.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from endive.config.errors import ConfigError, Problem, Tree, closest
from endive.config.load import check_document, read_toml
from endive.config.schema import Document, ScenarioName
from endive.config.study import (
    Axes,
    Precision,
    PrecisionText,
    SeedCount,
    Seeds,
    StudySection,
    axis_values,
    base_of,
    check_study,
    parse_precision,
    parse_seeds,
    with_whole_paths,
)

DEFAULT_SEEDS = "0-2"
"""Seeds of a sweep that sets neither seeds nor a precision."""
BASELINE = "baseline"
"""Default name of the base scenario."""
SCENARIO = "scenario"
"""Dimension with the names of scenarios as values."""


class ScenarioSection(StudySection):
    """``[scenario.NAME]``: changes of the base configuration."""

    set: Tree = Field(default_factory=dict)


Scenarios = dict[ScenarioName, ScenarioSection]


@dataclass(frozen=True)
class Scenario:
    """Named alternative, with the dotted keys that it sets."""

    name: str
    set: Mapping[str, Any]


def scenarios_of(sections: Scenarios, baseline: str | None) -> tuple[Scenario, ...]:
    """Return the scenarios of a study, the baseline first and the others in the order of the file.

    The baseline is the scenario with the name ``baseline`` if it is given, otherwise a scenario that sets nothing, otherwise the
    unchanged base configuration.
    """
    if not sections:
        return ()
    found = {name: Scenario(name, flat_keys(section.set)) for name, section in sections.items()}
    first = baseline if baseline is not None else next((each.name for each in found.values() if not each.set), BASELINE)
    return (found.pop(first, Scenario(first, {})), *found.values())


def check_scenarios(sections: Scenarios, baseline: str | None, varied: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of scenarios. ``varied`` maps each key that the study varies to the table that varies it."""
    if baseline is not None and not sections:
        yield Problem("sweep.baseline", "has no effect without scenarios; add [scenario.NAME]", baseline)
    elif baseline is not None and baseline not in sections and (hint := closest(baseline, sections)):
        yield Problem("sweep.baseline", f"unknown scenario{hint}", baseline)
    for name, section in sections.items():
        for key in flat_keys(section.set):
            if key in varied:
                yield Problem(f"scenario.{name}.set.{key}", f"is also varied by {varied[key]}; remove one of the two")


def flat_keys(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a ``set`` table by dotted key, whether its keys are quoted or nested tables.

    The value of a quoted key is not flattened, even if it is a table.
    """
    return {key: value for name, below in tree.items() for key, value in ([(name, below)] if "." in name else _leaves(name, below))}


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, below in value.items():
            yield from _leaves(f"{key}.{name}", below)
    else:
        yield key, value


KeptRows = Literal["all", "sample", "none"]
"""Rows of runs to keep: all, a uniform sample of transactions, or none; metrics and summaries are always kept."""
KEPT_ROWS: tuple[KeptRows, ...] = get_args(KeptRows)
"""Values of ``KeptRows``, from most rows to fewest."""


def parse_rows(text: str | None) -> KeptRows | None:
    """Parse which rows to keep. Raises ConfigError if the text is invalid."""
    if text is None:
        return None
    if text not in KEPT_ROWS:
        raise ConfigError("--rows", [Problem("", f"must be one of {', '.join(KEPT_ROWS)}", text)])
    return next(each for each in KEPT_ROWS if each == text)


class SweepSection(StudySection):
    """``[sweep]``: base configuration, seeds and main metric of a sweep."""

    base: str | None = None
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    seeds: Seeds | None = None
    precision: PrecisionText | None = None
    max_seeds: SeedCount | None = None
    question: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    baseline: ScenarioName | None = None
    rows: KeptRows | None = None


class QuickSection(StudySection):
    """``[quick]``: changes with ``--quick``."""

    seeds: Seeds | None = None
    precision: PrecisionText | None = None
    axes: Axes = Field(default_factory=dict)
    set: Tree = Field(default_factory=dict)


class SweepFile(StudySection):
    """Sweep file."""

    sweep: SweepSection
    base: Tree | None = None
    axes: Axes = Field(default_factory=dict)
    zip: list[Axes] = Field(default_factory=list)
    exclude: list[Tree] = Field(default_factory=list)
    scenario: Scenarios = Field(default_factory=dict)
    quick: QuickSection = Field(default_factory=QuickSection)


class Sweep:
    """Sweep from a file, which is read and checked but not yet expanded.

    ``overrides`` are values by dotted key. An override of an axis replaces the values of the axis. All other overrides are applied
    before the keys of scenarios. ``content`` is the content of a sweep that is not in a file. ``path`` then names the sweep in
    messages, and paths in ``content`` are relative to its directory.
    """

    def __init__(
        self,
        path: Path,
        *,
        quick: bool = False,
        seeds: str | None = None,
        precision: str | None = None,
        max_seeds: int | None = None,
        rows: KeptRows | None = None,
        overrides: Mapping[str, Any] | None = None,
        content: Tree | None = None,
    ) -> None:
        self.path = path
        self.quick = quick
        """True for the short form of the sweep (``[quick]``)."""
        self._tree = read_toml(path) if content is None else content
        self._file = check_study(SweepFile, self._tree, str(path))
        self._quick = self._file.quick if quick else QuickSection()
        self.precision = self._choose_precision(seeds, precision, max_seeds)
        """Precision that determines the number of seeds; None if seeds are set."""
        chosen = next((each for each in (seeds, self._quick.seeds, self._file.sweep.seeds) if each is not None), DEFAULT_SEEDS)
        self.seeds = parse_seeds(chosen) if self.precision is None else tuple(range(self.precision.first_seeds))
        """Seeds of each configuration; if a precision is set, the first seeds."""
        self._overrides = dict(overrides or {})
        self._axes = {
            key: [self._overrides.pop(key)] if key in self._overrides else axis
            for key, axis in {**self._file.axes, **self._quick.axes}.items()
        }
        self._check()
        self.scenarios = scenarios_of(self._file.scenario, self._file.sweep.baseline)
        """Scenarios, the baseline first; empty if the file has no scenarios."""
        self.question = self._file.sweep.question
        """Metric of the study as in the file, or None."""
        self.rows: KeptRows | None = rows or self._file.sweep.rows
        """Rows to keep; None to decide by the size of all rows."""

    @property
    def name(self) -> str:
        """Label of the experiments."""
        return self._file.sweep.label or self.path.stem

    @property
    def combinations(self) -> int:
        """Number of combinations of axis values and scenarios, including excluded ones."""
        return math.prod(len(choices) for choices in self._choices)

    def standalone(self) -> Tree:
        """Return the content of a self-contained sweep file, with the base configuration and absolute paths."""
        base, directory = base_of(self.path, self._file.sweep.base, self._file.base)
        sweep = {key: value for key, value in self._tree["sweep"].items() if key != "base"} | {"label": self.name}
        others = {key: value for key, value in self._tree.items() if key not in ("sweep", "base")}
        tree: Tree = with_whole_paths({"sweep": sweep, **others, "base": base}, directory)
        return tree

    def documents(self) -> Iterator[tuple[Tree, Document]]:
        """Yield the axis values and the checked configuration of each combination, in the order of the file.

        Raises:
            ConfigError: If at least one configuration is invalid. The error is raised after the last configuration and lists all
                problems.
        """
        base, directory = base_of(self.path, self._file.sweep.base, self._file.base)
        problems: dict[str, Problem] = {}
        changed: dict[str | None, Mapping[str, Any]] = {each.name: each.set for each in self.scenarios}
        always = {**flat_keys(self._quick.set), **self._overrides}
        for values in self._values():
            name = values.get(SCENARIO)
            axes = {key: value for key, value in values.items() if key != SCENARIO}
            base["experiment"] = {"label": self.name} if name is None else {"label": self.name, "scenario": name}
            try:
                document = check_document(base, str(self.path), directory, {**always, **changed.get(name, {}), **axes})
            except ConfigError as error:
                problems.update({str(problem): problem for problem in error.problems})
            else:
                yield values, document
        if problems:
            raise ConfigError(str(self.path), problems.values())

    def _choose_precision(self, seeds: str | None, precision: str | None, max_seeds: int | None) -> Precision | None:
        """Return the precision in the options, ``[quick]`` or ``[sweep]``; None if seeds are set instead."""
        if seeds is not None and precision is not None:
            raise ConfigError(
                "--precision", [Problem("", "cannot be combined with --seeds, because it determines the number of seeds")]
            )
        about, source = self._file.sweep, str(self.path)
        for place, section in (("quick", self._file.quick), ("sweep", about)):
            if section.seeds is not None and section.precision is not None:
                message = "cannot be combined with seeds, because it determines the number of seeds"
                raise ConfigError(source, [Problem(f"{place}.precision", message, section.precision)])
        if about.max_seeds is not None and about.precision is None and self._file.quick.precision is None:
            raise ConfigError(source, [Problem("sweep.max_seeds", "has no effect without precision", about.max_seeds)])
        most = about.max_seeds if max_seeds is None else max_seeds
        places = (
            ("--precision", seeds, precision),
            (f"{source}: quick.precision", self._quick.seeds, self._quick.precision),
            (f"{source}: sweep.precision", about.seeds, about.precision),
        )
        for name, given, text in places:
            if text is not None:
                return parse_precision(text, name, most)
            if given is not None:
                break
        if max_seeds is not None:
            raise ConfigError("--max-seeds", [Problem("", "has no effect without --precision")])
        return None

    def _check(self) -> None:
        problems = [
            Problem(f"axes.{key}", "must have at least one value") for key, axis in self._axes.items() if not axis_values(key, axis)
        ]
        for number, group in enumerate(self._file.zip):
            lengths = {len(axis_values(key, axis)) for key, axis in group.items()}
            if len(lengths) > 1 or lengths <= {0}:
                problems.append(Problem(f"zip[{number}]", "needs lists of the same length, with at least one value"))
        if (self._file.sweep.base is None) == (self._file.base is None):
            problems.append(
                Problem("sweep.base", "is missing; set it to a configuration file, or add a configuration under [base]")
            )
        varied = [*self._axes, *itertools.chain.from_iterable(self._file.zip)]
        twice = sorted({key for key in varied if varied.count(key) > 1})
        problems += [Problem(f"axes.{key}", "is varied twice; keep one of the axes") for key in twice]
        places = {key: "[axes]" if key in self._axes else "[[zip]]" for key in varied}
        problems += check_scenarios(self._file.scenario, self._file.sweep.baseline, places)
        varied += [SCENARIO] if self._file.scenario else []
        for number, combination in enumerate(self._file.exclude):
            unknown = sorted(set(combination) - set(varied))
            if unknown:
                problems.append(Problem(f"exclude[{number}].{unknown[0]}", "is not an axis of this sweep"))
        if problems:
            raise ConfigError(str(self.path), problems)

    @cached_property
    def _choices(self) -> list[list[Tree]]:
        """Return the possible values of the scenario, of each axis, and of each group of zipped keys."""
        named = [[{SCENARIO: each.name} for each in self.scenarios]] if self.scenarios else []
        single = [[{key: value} for value in axis_values(key, axis)] for key, axis in self._axes.items()]
        zipped = [
            [dict(zip(group, values, strict=True)) for values in zip(*itertools.starmap(axis_values, group.items()), strict=True)]
            for group in self._file.zip
        ]
        return [*named, *single, *zipped]

    def _values(self) -> Iterator[Tree]:
        for combination in itertools.product(*self._choices):
            values = {key: value for part in combination for key, value in part.items()}
            if not any(_matches(values, excluded) for excluded in self._file.exclude):
                yield values


def _matches(values: Tree, excluded: Tree) -> bool:
    return all(values[key] in wanted if isinstance(wanted, list) else values[key] == wanted for key, wanted in excluded.items())
