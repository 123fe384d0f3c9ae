"""Plans of sweeps: a base configuration, axes and seeds become points, each with its own experiment.

What flows in: a sweep file. What flows out: points, in the order of the file, every one checked before anything is run.

    [sweep]
    base = "base.toml"                    # or the tables of a configuration under [base]
    seeds = "0-9"                         # or a list

    [axes]
    "storage.provider" = ["s3", "s3x"]
    "workload.ingest.rate" = { from = 1, to = 100, points = 9, scale = "log" }   # or { from, to, step }

    [[zip]]                               # keys that change together
    "catalog.num_tables" = [1, 10]
    "catalog.num_groups" = [1, 10]

    [[exclude]]                           # combinations that make no sense
    "storage.provider" = "s3"
    "transaction.manifest_list_mode" = "append"

    [quick]                               # what --quick changes
    seeds = "0-2"
    set = { "simulation.duration_ms" = 60_000 }
    axes = { "workload.ingest.rate" = [1, 10] }
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from endive.config import ConfigError, Document, Problem, compute_experiment_hash
from endive.config.build import build_simulation_config
from endive.config.durations import Ms, plain_value
from endive.config.load import check_document, read_toml
from endive.workload import ClosedArrivals, OpenArrivals, PeriodicArrivals

Tree = dict[str, Any]
_QUANTILES = 100


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True)


class Range(_Part):
    """Values from one number to another: so many ``points``, evenly or in equal ratios, or every ``step``."""

    first: Ms = Field(alias="from")
    last: Ms = Field(alias="to")
    points: Annotated[int, Field(ge=1)] | None = None
    step: Annotated[Ms, Field(gt=0)] | None = None
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _check(self) -> Range:
        if (self.points is None) == (self.step is None):
            raise ValueError("a range needs either points or step")
        if self.scale == "log" and (self.points is None or self.first <= 0 or self.last <= 0):
            raise ValueError("a log range needs points, and bounds above 0")
        return self

    def values(self) -> list[float | int]:
        """The values of the range."""
        if self.step is not None:
            count = max(0, math.floor((self.last - self.first) / self.step * (1 + 1e-12)) + 1)
            found = [self.first + i * self.step for i in range(count)]
        elif self.points == 1:
            found = [self.first]
        else:
            assert self.points is not None
            shares = [i / (self.points - 1) for i in range(self.points)]
            if self.scale == "log":
                found = [self.first * (self.last / self.first) ** share for share in shares]
            else:
                found = [self.first + (self.last - self.first) * share for share in shares]
        return [_tidy(value) for value in found]


def _tidy(value: float) -> float | int:
    """A number without the dust of its arithmetic; a whole number as such."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


Axes = dict[str, list[Any] | Range]
Seeds = Annotated[str, Field(pattern=r"^\d+(-\d+)?$")] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]


class SweepSection(_Part):
    """``[sweep]``: where it starts from and how often each point is run."""

    base: str | None = None
    label: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] | None = None
    seeds: Seeds = "0-2"


class Quick(_Part):
    """``[quick]``: what ``--quick`` changes."""

    seeds: Seeds | None = None
    axes: Axes = Field(default_factory=dict)
    set: dict[str, Any] = Field(default_factory=dict)


class SweepFile(_Part):
    """A sweep file."""

    sweep: SweepSection
    base: Tree | None = None
    axes: Axes = Field(default_factory=dict)
    zip: list[Axes] = Field(default_factory=list)
    exclude: list[Tree] = Field(default_factory=list)
    quick: Quick = Field(default_factory=Quick)


@dataclass(frozen=True)
class Point:
    """One configuration of a sweep: what the axes say, and the document that comes of it."""

    values: Mapping[str, Any]
    document: Document
    experiment: str
    """Hash of the experiment."""

    @property
    def expected_transactions(self) -> float:
        """How many transactions a run is likely to have: what its cost goes by."""
        config = build_simulation_config(self.document, seed_override=0)
        total = 0.0
        for cls in config.workload.config.workload_classes:
            arrivals = cls.arrivals
            if isinstance(arrivals, PeriodicArrivals):
                total += config.duration_ms / arrivals.interval_ms
            elif isinstance(arrivals, OpenArrivals):
                total += config.duration_ms / max(_mean_ms(arrivals.inter_arrival), 1e-3)
            else:
                assert isinstance(arrivals, ClosedArrivals)
                total += arrivals.clients * config.duration_ms / max(_mean_ms(cls.runtime) + _mean_ms(arrivals.think_time), 1.0)
        return total


def _mean_ms(distribution: Any) -> float:
    """About the mean of a distribution: the mean of its quantiles."""
    return float(sum(distribution.at((i + 0.5) / _QUANTILES) for i in range(_QUANTILES)) / _QUANTILES)


@dataclass(frozen=True)
class Plan:
    """All the points of a sweep and the seeds that each is run with."""

    name: str
    points: tuple[Point, ...]
    seeds: tuple[int, ...]

    @property
    def runs(self) -> int:
        """How many runs that makes."""
        return len(self.points) * len(self.seeds)


class SweepReader:
    """A sweep file, read and counted, but not yet unfolded into points."""

    def __init__(self, path: Path, *, quick: bool = False, seeds: str | None = None) -> None:
        self.path = path
        tree = read_toml(path)
        try:
            self._file = SweepFile.model_validate(tree)
            self._seeds = parse_seeds(seeds) if seeds is not None else None
        except ValidationError as error:
            raise ConfigError(str(path), [_problem(item) for item in error.errors()]) from None
        self._quick = quick
        self._axes = {**self._file.axes, **(self._file.quick.axes if quick else {})}
        self._check()

    @property
    def name(self) -> str:
        """The label of its experiments."""
        return self._file.sweep.label or self.path.stem

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that each point is run with."""
        if self._seeds is not None:
            return self._seeds
        quick = self._file.quick.seeds if self._quick else None
        return parse_seeds(self._file.sweep.seeds if quick is None else quick)

    @property
    def combinations(self) -> int:
        """How many points there are at the most."""
        return math.prod(len(choices) for choices in self._choices())

    def plan(self) -> Plan:
        """Unfold and check all points. Raises ConfigError with all that is wrong."""
        base, directory = self._base()
        points: dict[str, Point] = {}
        problems: dict[str, Problem] = {}
        for values in self._values():
            overrides = {**(self._file.quick.set if self._quick else {}), **values}
            try:
                document = check_document(base, str(self.path), directory, overrides)
            except ConfigError as error:
                problems.update({str(problem): problem for problem in error.problems})
                continue
            experiment = compute_experiment_hash(document)
            points.setdefault(experiment, Point(values, document, experiment))
        if problems:
            raise ConfigError(str(self.path), problems.values())
        if not points:
            raise ConfigError(str(self.path), [Problem("exclude", "leaves no point")])
        return Plan(self.name, tuple(points.values()), self.seeds)

    def _check(self) -> None:
        problems = [
            Problem(f"axes.{key}", "has no values")
            for key, axis in self._axes.items()
            if not (axis if isinstance(axis, list) else axis.values())
        ]
        for number, group in enumerate(self._file.zip):
            lengths = {len(_values(key, axis)) for key, axis in group.items()}
            if len(lengths) > 1 or lengths <= {0}:
                problems.append(Problem(f"zip[{number}]", "needs lists of one length, and at least one value"))
        if (self._file.sweep.base is None) == (self._file.base is None):
            problems.append(Problem("sweep.base", "is missing: name a configuration, or give one under [base]"))
        varied = [*self._axes, *itertools.chain.from_iterable(self._file.zip)]
        twice = sorted({key for key in varied if varied.count(key) > 1})
        problems += [Problem(f"axes.{key}", "is varied twice") for key in twice]
        for number, combination in enumerate(self._file.exclude):
            unknown = sorted(set(combination) - set(varied))
            if unknown:
                problems.append(Problem(f"exclude[{number}].{unknown[0]}", "is no axis of this sweep"))
        if problems:
            raise ConfigError(str(self.path), problems)

    def _base(self) -> tuple[Tree, Path]:
        if self._file.base is not None:
            tree, directory = dict(self._file.base), self.path.resolve().parent
        else:
            assert self._file.sweep.base is not None
            base = self.path.resolve().parent / self._file.sweep.base
            tree, directory = read_toml(base), base.parent
        return {**tree, "experiment": {"label": self.name}}, directory

    def _choices(self) -> list[list[Tree]]:
        """For each axis and each group of zipped keys, what it may be."""
        single = [[{key: value} for value in _values(key, axis)] for key, axis in self._axes.items()]
        zipped = [
            [dict(zip(group, values, strict=True)) for values in zip(*itertools.starmap(_values, group.items()), strict=True)]
            for group in self._file.zip
        ]
        return [*single, *zipped]

    def _values(self) -> Iterator[Tree]:
        for combination in itertools.product(*self._choices()):
            values: Tree = {}
            for part in combination:
                values.update(part)
            if not any(_matches(values, excluded) for excluded in self._file.exclude):
                yield values


def _values(key: str, axis: list[Any] | Range) -> list[Any]:
    """The values of an axis; durations as numbers, so that figures can be drawn over them."""
    return [plain_value(key, value) for value in (axis if isinstance(axis, list) else axis.values())]


def _matches(values: Tree, excluded: Tree) -> bool:
    return all(values[key] in wanted if isinstance(wanted, list) else values[key] == wanted for key, wanted in excluded.items())


def parse_seeds(seeds: str | Sequence[int]) -> tuple[int, ...]:
    """Seeds from a list, or from text like 7 or 0-9."""
    if not isinstance(seeds, str):
        return tuple(dict.fromkeys(seeds))
    first, _, last = seeds.partition("-")
    try:
        found = tuple(range(int(first), int(last or first) + 1))
    except ValueError:
        found = ()
    if not found:
        raise ConfigError("--seeds", [Problem("", f"{seeds!r} is neither a number nor a range like 0-9")])
    return found


def _problem(item: Any) -> Problem:
    location = [part for part in item["loc"] if not (isinstance(part, str) and (part in _BRANCHES or "[" in part))]
    value = None if isinstance(item["input"], dict) else item["input"]
    return Problem(".".join(str(part) for part in location), item["msg"].removeprefix("Value error, "), value)


_BRANCHES = {"Range", "list", "str", "constrained-str"}
