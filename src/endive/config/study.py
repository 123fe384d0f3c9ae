"""Define study files (sweeps and frontiers): their schema, seeds and axes.

A frontier file contains a configuration and a search for the load at which a condition is first met.

[frontier]
vary = "workload.ingest.rate"         # the key that sets the load
until = "success(maintenance) < 95%"
from = 10                             # first load; default: that of the configuration
to = 500                              # highest load; default: 1,024 times the first load
tolerance = 0.05                      # relative width of the resulting interval
seeds = 5                             # seeds at each load; more are added if the result is not significant
max_seeds = 40
# precision = "5%"                    # half width of the resulting interval, instead of tolerance and seeds

[base.simulation]                     # a configuration under [base]
...

[quick]                               # changes with --quick
tolerance = 0.3
set = { "simulation.duration_ms" = 600_000 }
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from endive.config.components import code_path
from endive.config.errors import ConfigError, Problem, Tree, problems_of
from endive.config.values import MAX_SEED, Ms, duration_ms, plain_value
from endive.workload.arrivals import TRACE

MOST_VALUES = 1_000_000
"""Maximum number of values of an axis and of seeds of a study."""
_SEEDS = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


class StudySection(BaseModel):
    """Base class of the tables of study files. Unknown keys, wrong types, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True, frozen=True)


Model = TypeVar("Model", bound=BaseModel)


def check_study(model: type[Model], tree: Tree, source: str) -> Model:
    """Validate a study file. Raises ConfigError, which lists every problem."""
    if "simulation" in tree and not tree.keys() & model.model_fields.keys():
        message = "is a configuration, not a study; run it with `endive run`, or set base to its path under [sweep] of a study"
        raise ConfigError(source, [Problem("", message)])
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(source, problems_of(error, tree, model)) from None


class Range(StudySection):
    """Range of values, given by a number of ``points`` (linear or logarithmic) or by a ``step``."""

    first: Ms = Field(alias="from")
    last: Ms = Field(alias="to")
    points: Annotated[int, Field(ge=1, le=MOST_VALUES)] | None = None
    step: Annotated[Ms, Field(gt=0)] | None = None
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _check(self) -> Range:
        if self.points is None and self.step is None:
            raise ValueError("a range needs points or step")
        if self.points is not None and self.step is not None:
            raise ValueError("points and step of a range cannot be set together")
        if self.scale == "log" and (self.points is None or self.first <= 0 or self.last <= 0):
            raise ValueError("a log range needs points, and from and to above 0")
        if self.step is not None and (self.last - self.first) / self.step > MOST_VALUES:
            raise ValueError(f"a range can have at most {MOST_VALUES:,} values; use a larger step")
        return self

    def values(self) -> list[float | int]:
        """Return the values of the range."""
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
    """Round a number to 12 significant digits, and to an integer if it is whole."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


Axis = list[Any] | Range
Axes = dict[str, Axis]
Seeds = (
    Annotated[str, BeforeValidator(lambda given: str(given) if type(given) is int else given), Field(pattern=r"^[0-9]+(-[0-9]+)?$")]
    | Annotated[list[Annotated[int, Field(ge=0, le=MAX_SEED)]], Field(min_length=1, max_length=MOST_VALUES)]
)


def axis_values(key: str, axis: Axis) -> list[Any]:
    """Return the values of an axis, with durations in milliseconds."""
    return [plain_value(key, value) for value in (axis if isinstance(axis, list) else axis.values())]


def parse_seeds(seeds: str | Sequence[int]) -> tuple[int, ...]:
    """Return seeds that are given as a list, a number (``5`` means 0 to 4) or a range (``0-4``). Raises ConfigError."""
    if not isinstance(seeds, str):
        return tuple(dict.fromkeys(seeds))
    match = _SEEDS.fullmatch(seeds)
    first, last = (0, -1) if match is None else (int(match[1]), int(match[2])) if match[2] else (0, int(match[1]) - 1)
    if last < first or last > MAX_SEED:
        raise ConfigError("--seeds", [Problem("", f"{seeds!r} is neither a number of seeds such as 5 nor a range such as 0-4")])
    if last - first >= MOST_VALUES:
        raise ConfigError("--seeds", [Problem("", f"{seeds!r} is more than {MOST_VALUES:,} seeds")])
    return tuple(range(first, last + 1))


def base_of(path: Path, named: str | None, given: Mapping[str, Any] | None) -> tuple[Tree, Path]:
    """Return the base configuration of a study, and the directory to which its paths are relative."""
    from endive.config.load import read_toml

    if given is not None:
        return dict(given), path.resolve().parent
    assert named is not None
    base = path.resolve().parent / named
    return read_toml(base), base.parent


def with_whole_paths(tree: Any, directory: Path, key: str = "") -> Any:
    """Return a tree in which the paths of files (profiles, traces, code), relative to ``directory``, are absolute."""
    if isinstance(tree, Mapping):
        return {name: with_whole_paths(value, directory, name) for name, value in tree.items()}
    if isinstance(tree, list):
        return [with_whole_paths(value, directory, key) for value in tree]
    if not isinstance(tree, str) or key.rpartition(".")[2] not in _KEYS_OF_PATHS or not tree:
        return tree
    if key.rpartition(".")[2] == "code" and ":" in tree:
        path, name = code_path(tree, directory)
        return f"{path.resolve()}:{name}" if path.is_file() else tree
    return str((directory / tree).resolve()) if (directory / tree).is_file() else tree


def files_named(tree: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the files (profiles, traces, code) to which a tree refers, each with the last part of its key."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from files_named(value, str(name).rpartition(".")[2])
    elif isinstance(tree, list):
        for value in tree:
            yield from files_named(value, key)
    elif key in _KEYS_OF_PATHS and tree and (key not in _NAMES_OR_PATHS or str(tree).endswith(".toml")):
        yield key, str(tree)


_KEYS_OF_PATHS = ("provider", "commit_path", TRACE.key, "code")
_NAMES_OR_PATHS = ("provider", "commit_path")
"""Keys whose value is a built-in name or the path of a file."""

PrecisionText = Annotated[str, Field(min_length=1, max_length=40)]
"""Half width of intervals: ``1%`` or ``0.5pp``."""
Load = Annotated[float, Field(gt=0), BeforeValidator(duration_ms)]
"""Load: a number, or a duration if the key is a time."""
SeedCount = Annotated[int, Field(ge=2, le=100_000)]


class FrontierSettings(StudySection):
    """``[frontier]``: settings of a search, from a file or the command line. None means that a setting is not set."""

    vary: str | None = None
    until: str | None = None
    lowest: Load | None = Field(None, alias="from")
    highest: Load | None = Field(None, alias="to")
    tolerance: Annotated[float, Field(gt=0, lt=10)] | None = None
    seeds: SeedCount | None = None
    max_seeds: SeedCount | None = None
    precision: PrecisionText | None = None

    def over(self, other: FrontierSettings) -> FrontierSettings:
        """Return these settings; settings that are not set are taken from ``other``."""
        given = self.model_fields_set & FrontierSettings.model_fields.keys()
        return other.model_copy(update={name: getattr(self, name) for name in given})


class QuickFrontier(FrontierSettings):
    """``[quick]``: settings and configuration keys that ``--quick`` changes."""

    set: Tree = Field(default_factory=dict)


class FrontierFile(StudySection):
    """Frontier file."""

    frontier: FrontierSettings
    base: Tree
    quick: QuickFrontier = Field(default_factory=QuickFrontier)


def frontier_options(asked: Mapping[str, Any]) -> FrontierSettings:
    """Return the settings in command-line options, in which None means not set. Raises ConfigError, which names the options."""
    given = {name: value for name, value in asked.items() if value is not None}
    try:
        return FrontierSettings.model_validate(given)
    except ValidationError as error:
        problems = problems_of(error, given, FrontierSettings)
        named = [replace(problem, key=f"--{problem.key}".replace("_", "-")) for problem in problems]
        raise ConfigError("command line", named) from None


def check_frontier(tree: Tree, source: str, *, quick: bool = False) -> tuple[Tree, FrontierSettings, Tree]:
    """Return the configuration in a frontier file, the search settings, and the keys that ``quick`` sets. Raises ConfigError."""
    file = check_study(FrontierFile, tree, source)
    return (file.base, file.quick.over(file.frontier), file.quick.set) if quick else (file.base, file.frontier, {})


FIRST_SEEDS = 4
"""Initial number of seeds. It suffices only if the intervals are at most half as wide as requested."""
PILOT_SEEDS = 8
"""Number of seeds of a pilot. With fewer seeds, more studies would end early because of intervals that are narrow by chance."""
MOST_SEEDS = 100
"""Default of the maximum number of seeds of a configuration."""
FORM = "1% (of a mean, a time or a rate; for proportions, 1 percentage point) or 0.5pp (for proportions only)"
_PRECISION = re.compile(r"(?P<number>[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(?P<unit>%|pp)")


@dataclass(frozen=True)
class Precision:
    """Requested half width of 95% intervals, and the maximum number of seeds.

    Attributes:
        value: Half width, as a fraction of the mean or, for proportions, as an absolute value.
        shares_only: True if the precision is given in percentage points, so that it applies only to proportions.
        most_seeds: Maximum number of seeds of a configuration.
    """

    value: float
    shares_only: bool = False
    most_seeds: int = MOST_SEEDS

    def __str__(self) -> str:
        """Return the precision in the user's notation: ``1%`` or ``0.5pp``."""
        return f"{100.0 * self.value:.6g}{'pp' if self.shares_only else '%'}"

    @property
    def first_seeds(self) -> int:
        """Number of seeds to start with."""
        return min(FIRST_SEEDS, self.most_seeds)

    def width_of(self, mean: float, *, is_share: bool) -> float:
        """Return the requested half width of the interval for a metric with this mean."""
        return self.value if is_share else self.value * abs(mean)


def parse_precision(text: str, source: str, most_seeds: int | None = None) -> Precision:
    """Parse a precision such as ``1%`` or ``0.5pp``.

    Args:
        text: Precision as entered by the user.
        source: Source of the text, for errors.
        most_seeds: Maximum number of seeds; by default 100.

    Raises:
        ConfigError: If the text is not a precision between 0 and 100% (both excluded).
    """
    found = _PRECISION.fullmatch(text.strip())
    value = float(found["number"]) / 100.0 if found is not None else 0.0
    if found is None or not 0.0 < value < 1.0:
        raise ConfigError(source, [Problem("", f"{text[:60]!r} is not a precision; expected {FORM}, above 0 and below 100")])
    return Precision(value, found["unit"] == "pp", MOST_SEEDS if most_seeds is None else most_seeds)


def choose_precision(precision: str | None, seeds: object, most_seeds: int | None, source: str) -> Precision | None:
    """Return the precision in options, or None. Raises ConfigError if a number of seeds is also given."""
    if precision is None:
        if most_seeds is not None:
            raise ConfigError(f"{source}max-seeds", [Problem("", "has no effect without --precision")])
        return None
    if seeds is not None:
        raise ConfigError(
            f"{source}precision", [Problem("", "cannot be combined with --seeds, because it determines the number of seeds")]
        )
    return parse_precision(precision, f"{source}precision", most_seeds)
