"""Values of configuration keys: durations, bounds of numbers, distributions, selections."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from endive.storage import distributions

MOST_MS = 1e15
"""30,000 years in milliseconds: beyond that, exponentials overflow."""

UNITS_MS = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
"""Milliseconds of each unit that a duration may have."""

_SPELLINGS = {
    "ms": ("ms", "", "msec", "msecs", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("min", "m", "mins", "minute", "minutes"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "d": ("d", "day", "days"),
}
_TIMES = {"every", "start", "end", "scale", "mean", "median", "stddev", "value", "min", "max"}
_NUMBER = r"\d+(?:\.\d+)?|\.\d+"
_DURATION = re.compile(rf"({_NUMBER})({'|'.join(UNITS_MS)})")
_NEARLY = re.compile(rf"({_NUMBER})\s*([a-z]*)")
_ALLOWED = 'should be a number of milliseconds or a duration such as "250ms", "90s", "4min", "1h"'


def duration_ms(value: Any) -> Any:
    """Turn text like ``"90s"`` into milliseconds, and hand on anything else. Raises ValueError, which names the nearest form."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError(_ALLOWED + _nearest_form(value))
    return float(match[1]) * UNITS_MS[match[2]]


def is_time(key: str) -> bool:
    """Tell whether the value of a dotted key is a time, by its name."""
    last = key.rpartition(".")[2]
    return last.endswith("_ms") or last in _TIMES


def plain_value(key: str, value: Any) -> Any:
    """Return the value of a dotted key in milliseconds if the key is a time and the value a duration; others as they are."""
    if isinstance(value, str) and is_time(key) and _DURATION.fullmatch(value):
        return duration_ms(value)
    return value


def _nearest_form(text: str) -> str:
    match = _NEARLY.fullmatch(text.strip().lower().replace(",", "").replace("_", ""))
    unit = match and next((unit for unit, spellings in _SPELLINGS.items() if match[2] in spellings), None)
    return f'; did you mean "{match[1]}{unit}"?' if match and unit else ""


class _OrText:
    """Lets the JSON schema of a number accept the text of a duration too."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": f"^{_DURATION.pattern}$"}]}


DURATION = _OrText()
"""Marks the types below, for those who describe them."""
Ms = Annotated[float, BeforeValidator(duration_ms), DURATION]
NonNegativeMs = Annotated[float, Field(ge=0, le=MOST_MS), BeforeValidator(duration_ms), DURATION]
PositiveMs = Annotated[float, Field(gt=0, le=MOST_MS), BeforeValidator(duration_ms), DURATION]

NonNegative = Annotated[float, Field(ge=0, le=MOST_MS)]
Positive = Annotated[float, Field(gt=0, le=MOST_MS)]
Probability = Annotated[float, Field(ge=0, le=1)]
MAX_SEED = 2**63 - 1
MOST = 10**9
"""The largest whole number of most keys: products of two of them still fit into 64 bits, in both engines."""
MOST_FILES = 10**6
"""Files, tables, partitions of a table: more than that would be read, or held in memory, one by one."""
MOST_WRITERS = 10**5
Count = Annotated[int, Field(ge=0, le=MOST)]
AtLeastOne = Annotated[int, Field(ge=1, le=MOST)]
Files = Annotated[int, Field(ge=0, le=MOST_FILES)]
Some = Annotated[int, Field(ge=1, le=MOST_FILES)]
Writers = Annotated[int, Field(ge=1, le=MOST_WRITERS)]
Threshold = Annotated[int, Field(ge=0, le=10**15)]
"""Bytes that something is compared with, and that is multiplied by nothing."""
PerCommit = Annotated[float, Field(ge=0, le=1000)]
Weight = Annotated[float, Field(ge=0, le=1e9)]
Alpha = Annotated[float, Field(ge=0, le=20)]
"""Of a Zipf distribution: with a million items, weights stay within what a float can hold."""
Rate = Annotated[float, Field(ge=1e-9, le=1e6)]
"""Arrivals per second: one in thirty years to a million."""

_SHAPES: dict[str, tuple[set[str], set[str]]] = {
    "exponential": ({"scale", "mean"}, {"min"}),
    "lognormal": ({"mean", "median"}, {"sigma", "min"}),
    "normal": ({"mean"}, {"stddev", "min"}),
    "uniform": ({"max"}, {"min"}),
    "fixed": ({"value", "mean"}, set()),
}
"""For each distribution the keys of which exactly one is needed, and those that may be added."""


class Section(BaseModel):
    """A table of the file: unknown keys, wrong types, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @property
    def changed_keys(self) -> set[str]:
        """Keys that are given with another value than their default."""
        return {key for key in self.model_fields_set if getattr(self, key) != default_of(type(self), key)}


def default_of(section: type[BaseModel], key: str) -> Any:
    """Return the default of a key of a section."""
    return section.model_fields[key].get_default(call_default_factory=True)


class Distribution(Section):
    """A distribution of times. Which keys it takes depends on ``distribution``; ``min`` is a floor (uniform: the lower bound)."""

    usual_kind: ClassVar[str] = "lognormal"
    """Its kind where ``distribution`` names none."""
    distribution: Literal["exponential", "lognormal", "normal", "uniform", "fixed"] | None = Field(
        None, description="Its kind; runtimes are lognormal and intervals exponential unless this says otherwise."
    )
    scale: PositiveMs | None = Field(None, description="Mean of an exponential.")
    mean: PositiveMs | None = Field(None, description="Mean, before the floor.")
    median: PositiveMs | None = Field(None, description="Median of a lognormal, in place of its mean.")
    sigma: Annotated[float, Field(ge=0, le=10)] | None = Field(None, description="Sigma of a lognormal.")
    stddev: NonNegativeMs | None = Field(None, description="Standard deviation of a normal.")
    value: NonNegativeMs | None = Field(None, description="The value of fixed.")
    min: NonNegativeMs | None = Field(None, description="Floor; of uniform the lower bound.")
    max: NonNegativeMs | None = Field(None, description="Upper bound of uniform.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        kind = self.distribution or self.usual_kind
        one_of, optional = _SHAPES[kind]
        given = self.model_fields_set - {"distribution"}
        wrong = sorted(given - one_of - optional)
        if wrong:
            raise ValueError(f"{wrong[0]!r} means nothing for {kind}, which takes {', '.join(sorted(one_of | optional))}")
        if len(given & one_of) != 1:
            raise ValueError(f"{kind} needs exactly one of {', '.join(sorted(one_of))}")
        if kind == "uniform" and (self.min or 0.0) > (self.max or 0.0):
            raise ValueError("the lower bound of uniform is above the upper one")
        return self

    def to_distribution(self) -> distributions.QuantileDistribution:
        """Return the distribution that the keys describe."""
        kind, floor = self.distribution or self.usual_kind, self.min or 0.0
        if kind == "lognormal":
            if self.median is not None:
                return distributions.LognormalLatency.from_median(self.median, self.sigma or 0.0, floor)
            return distributions.LognormalLatency.from_mean(self.mean or 0.0, self.sigma or 0.0, floor)
        if kind == "exponential":
            return distributions.ExponentialLatency(self.scale or self.mean or 0.0, floor)
        if kind == "normal":
            return distributions.NormalLatency(self.mean or 0.0, self.stddev or 0.0, floor)
        if kind == "uniform":
            return distributions.UniformLatency(floor, self.max or 0.0)
        return distributions.FixedLatency((self.mean or 0.0) if self.value is None else self.value)


class Runtime(Distribution):
    """How long the work of a transaction takes: lognormal, unless ``distribution`` says otherwise."""


class Interval(Distribution):
    """Time between arrivals, or of thinking: exponential, unless ``distribution`` says otherwise."""

    usual_kind = "exponential"


class ManifestCounts(Section):
    """How many manifests a real conflict makes one merge (``on_real_conflict = "merge"``)."""

    distribution: Literal["exponential", "uniform", "fixed"] = Field("exponential", description="Uniform is from min to max.")
    mean: Positive | None = Field(None, description="Mean of exponential, value of fixed.")
    min: Files = Field(1, description="At least so many.")
    max: Files = Field(10, description="At most so many.")

    @model_validator(mode="after")
    def _check(self) -> ManifestCounts:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        if (self.distribution == "uniform") == (self.mean is not None):
            raise ValueError("mean belongs to exponential and fixed, which need it, and not to uniform")
        return self


class Selection(Section):
    """How tables or partitions are chosen."""

    distribution: Literal["uniform", "zipf"] = Field("uniform", description="zipf makes a few of them hot.")
    alpha: Alpha | None = Field(None, description="Zipf: item k has weight 1/k^alpha. Default 1.5.")
    write_fraction: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="The part of them that is written.")

    @model_validator(mode="after")
    def _check(self) -> Selection:
        if self.distribution == "uniform" and self.alpha is not None:
            raise ValueError("'alpha' means nothing for uniform")
        return self


class ZipfTables(Section):
    """A number of tables that is itself Zipf-distributed."""

    zipf: Alpha = Field(description="k tables have weight 1/k^zipf.")


class Latency(Distribution):
    """A time of service or on the way: lognormal, unless ``distribution`` says otherwise."""
