"""Define types of configuration values: durations, bounded numbers, distributions, selections."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from endive.storage import distributions

MOST_MS = 1e15
"""Maximum duration in milliseconds, about 30,000 years. Exponentials of larger values overflow."""

UNITS_MS = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
"""Milliseconds per unit of a duration."""

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
_ALLOWED = 'must be a number of milliseconds or a duration such as "250ms", "90s", "4min", "1h"'


def duration_ms(value: Any) -> Any:
    """Convert text such as ``"90s"`` to milliseconds, and return any other value unchanged.

    Raises:
        ValueError: If the text is not a duration; the message suggests the nearest valid form.
    """
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value)
    if match is None:
        raise ValueError(_ALLOWED + _nearest_form(value))
    return float(match[1]) * UNITS_MS[match[2]]


def is_time(key: str) -> bool:
    """Return whether the value of a dotted key is a time, judged by the name of the key."""
    last = key.rpartition(".")[2]
    return last.endswith("_ms") or last in _TIMES


def plain_value(key: str, value: Any) -> Any:
    """Return the value of a dotted key. If the key is a time and its value a duration, convert it to milliseconds."""
    if isinstance(value, str) and is_time(key) and _DURATION.fullmatch(value):
        return duration_ms(value)
    return value


def _nearest_form(text: str) -> str:
    match = _NEARLY.fullmatch(text.strip().lower().replace(",", "").replace("_", ""))
    unit = match and next((unit for unit, spellings in _SPELLINGS.items() if match[2] in spellings), None)
    return f'; did you mean "{match[1]}{unit}"?' if match and unit else ""


class _OrText:
    """Annotation that allows durations as text in the JSON schema of a number."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "string", "pattern": f"^{_DURATION.pattern}$"}]}


DURATION = _OrText()
"""Annotation of duration types, by which the documentation generator recognizes them."""
Ms = Annotated[float, BeforeValidator(duration_ms), DURATION]
NonNegativeMs = Annotated[float, Field(ge=0, le=MOST_MS), BeforeValidator(duration_ms), DURATION]
PositiveMs = Annotated[float, Field(gt=0, le=MOST_MS), BeforeValidator(duration_ms), DURATION]

NonNegative = Annotated[float, Field(ge=0, le=MOST_MS)]
Positive = Annotated[float, Field(gt=0, le=MOST_MS)]
Probability = Annotated[float, Field(ge=0, le=1)]
MAX_SEED = 2**63 - 1
MOST = 10**9
"""Maximum value of most integer keys. The product of two such values fits into 64 bits."""
MOST_FILES = 10**6
"""Maximum number of files, tables, or partitions of a table, each of which takes memory."""
MOST_WRITERS = 10**5
Count = Annotated[int, Field(ge=0, le=MOST)]
AtLeastOne = Annotated[int, Field(ge=1, le=MOST)]
Files = Annotated[int, Field(ge=0, le=MOST_FILES)]
Some = Annotated[int, Field(ge=1, le=MOST_FILES)]
Writers = Annotated[int, Field(ge=1, le=MOST_WRITERS)]
Threshold = Annotated[int, Field(ge=0, le=10**15)]
"""Threshold in bytes. It can exceed ``MOST``, because it is only compared."""
PerCommit = Annotated[float, Field(ge=0, le=1000)]
Weight = Annotated[float, Field(ge=0, le=1e9)]
Alpha = Annotated[float, Field(ge=0, le=20)]
"""Exponent of a Zipf distribution. With this limit, the weights of a million items are within the range of a float."""
Rate = Annotated[float, Field(ge=1e-9, le=1e6)]
"""Arrivals per second, from one in 30 years to a million per second."""

_SHAPES: dict[str, tuple[set[str], set[str]]] = {
    "exponential": ({"scale", "mean"}, {"min"}),
    "lognormal": ({"mean", "median"}, {"sigma", "min"}),
    "normal": ({"mean"}, {"stddev", "min"}),
    "uniform": ({"max"}, {"min"}),
    "fixed": ({"value", "mean"}, set()),
}
"""Keys of each distribution: the keys of which exactly one is required, and the optional keys."""


class Section(BaseModel):
    """Base class of the tables of configuration files. Unknown keys, wrong types, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @property
    def changed_keys(self) -> set[str]:
        """Keys that are set to a value other than their default."""
        return {key for key in self.model_fields_set if getattr(self, key) != default_of(type(self), key)}


def default_of(section: type[BaseModel], key: str) -> Any:
    """Return the default of a key of a section."""
    return section.model_fields[key].get_default(call_default_factory=True)


class Distribution(Section):
    """Distribution of times. ``distribution`` determines the allowed keys. ``min`` is a floor (for uniform distributions, the lower
    bound).
    """

    usual_kind: ClassVar[str] = "lognormal"
    """Kind of distribution if ``distribution`` is not set."""
    distribution: Literal["exponential", "lognormal", "normal", "uniform", "fixed"] | None = Field(
        None, description="Kind of distribution. Default: lognormal for runtimes and latencies, exponential for intervals."
    )
    scale: PositiveMs | None = Field(None, description="exponential: mean of the distribution (alias of `mean`).")
    mean: PositiveMs | None = Field(None, description="Mean, before the minimum is applied.")
    median: PositiveMs | None = Field(None, description="lognormal: median; replaces mean.")
    sigma: Annotated[float, Field(ge=0, le=10)] | None = Field(
        None, description="lognormal: standard deviation of the logarithm of the value."
    )
    stddev: NonNegativeMs | None = Field(None, description="normal: standard deviation.")
    value: NonNegativeMs | None = Field(None, description="fixed: the value.")
    min: NonNegativeMs | None = Field(None, description="Minimum of all samples; uniform: lower bound.")
    max: NonNegativeMs | None = Field(None, description="uniform: upper bound.")

    @model_validator(mode="after")
    def _check(self) -> Self:
        kind = self.distribution or self.usual_kind
        one_of, optional = _SHAPES[kind]
        given = self.model_fields_set - {"distribution"}
        wrong = sorted(given - one_of - optional)
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not a parameter of {kind}; allowed: {', '.join(sorted(one_of | optional))}")
        if len(given & one_of) != 1:
            raise ValueError(f"{kind} needs exactly one of {', '.join(sorted(one_of))}")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:.12g} is above max {self.max:.12g}")
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
    """Job duration before the commit. Default: lognormal."""


class Interval(Distribution):
    """Interval between arrivals, or think time. Default: exponential."""

    usual_kind = "exponential"


class ManifestCounts(Section):
    """Number of manifests merged because of a real conflict (``on_real_conflict = "merge"``)."""

    distribution: Literal["exponential", "uniform", "fixed"] = Field(
        "exponential", description="Distribution of the number. uniform: from min to max."
    )
    mean: Positive | None = Field(None, description="exponential: mean; fixed: the value.")
    min: Files = Field(1, description="Smallest number.")
    max: Files = Field(10, description="Largest number.")

    @model_validator(mode="after")
    def _check(self) -> ManifestCounts:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        if (self.distribution == "uniform") == (self.mean is not None):
            raise ValueError("mean is required with exponential and fixed, and not allowed with uniform")
        return self


class Selection(Section):
    """Selection of tables or partitions."""

    distribution: Literal["uniform", "zipf"] = Field(
        "uniform", description="Distribution of accesses. zipf concentrates them on a few items."
    )
    alpha: Alpha | None = Field(None, description="zipf: exponent; the item of rank k has weight 1/k^alpha. Default: 1.5.")
    write_fraction: Annotated[float, Field(gt=0, le=1)] = Field(1.0, description="Fraction of the selected items that are written.")

    @model_validator(mode="after")
    def _check(self) -> Selection:
        if self.distribution == "uniform" and self.alpha is not None:
            raise ValueError("'alpha' is not a parameter of uniform; set distribution = 'zipf'")
        return self


class ZipfTables(Section):
    """Zipf distribution of the number of tables."""

    zipf: Alpha = Field(description="Exponent; a number of k tables has weight 1/k^zipf.")


class Latency(Distribution):
    """Service time or network latency. Default: lognormal."""
