"""Messages between the server and its workers: calls, each with the type of its result, and the results.

This module imports little, because the server does not load the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from endive.analysis.saturation import LoadPoint as SaturationPoint
from endive.analysis.warmup import Window
from endive.config.schema import Document

Tree = dict[str, Any]
"""A configuration as nested tables, as in TOML and JSON."""
Chart = dict[str, Any]
"""A Vega-Lite specification with its title, definition and notes, as JSON."""
T = TypeVar("T")
_QUICK_REFERENCE_S = 1.0
"""Time of the reference engine below which a run does not wait for a kernel."""


class StoppedError(Exception):
    """The job was cancelled."""


class WorkError(Exception):
    """A job failed; the message is written for users."""


class Call(Generic[T]):
    """A job for a worker; ``T`` is the type of its result."""


@dataclass(frozen=True)
class Prepared:
    """A checked configuration, the keys removed from it, and the cost of one run."""

    tree: Tree
    document: Document
    left_out: tuple[str, ...]
    toml: str
    warnings: tuple[str, ...]
    assumed: tuple[str, ...]
    transactions: float
    cpu_s: float
    """Cost of one run on its engine, once that is compiled."""
    reference_s: float
    ready: bool
    """True if its engine is compiled."""

    @property
    def needs_kernel(self) -> bool:
        """True if it is better to wait for a kernel than to use the reference engine."""
        return not self.ready and self.reference_s > _QUICK_REFERENCE_S

    @property
    def first_s(self) -> float:
        """Current cost of a run."""
        return self.cpu_s if self.ready else self.reference_s


@dataclass(frozen=True)
class Value:
    """An estimate with its 95% interval, and both as text."""

    mean: float | None
    low: float | None
    high: float | None
    kind: str
    n: int
    text: str
    interval: str


@dataclass(frozen=True)
class ClassRow:
    """The metrics of one class."""

    name: str
    operations: tuple[str, ...]
    entered: int
    metrics: Mapping[str, Value | None]


@dataclass(frozen=True)
class Answer:
    """The result of some seeds: a sentence, and a row for each class."""

    seeds: tuple[int, ...]
    sentence: str
    window: str
    window_ms: tuple[float, float, float]
    warnings: tuple[str, ...]
    classes: tuple[ClassRow, ...]


@dataclass(frozen=True)
class ComparedRow:
    """One metric of one class in A and in B."""

    metric: str
    name: str
    workload_class: str
    a: Value | None
    b: Value | None
    difference: Mapping[str, Any] | None
    change: str
    significant: bool
    better: bool | None
    verdict: str


@dataclass(frozen=True)
class Compared:
    """A against B, as ``endive compare`` reports it; only the sentence if the two have no common window."""

    sentence: str
    pairs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    window: str = ""
    rows: tuple[ComparedRow, ...] = ()


@dataclass(frozen=True)
class LoadPoint:
    """Metrics at a multiple of the current load: offered load and throughput per second, with the interval of the latter."""

    factor: float
    offered: float
    throughput: float
    low: float | None
    high: float | None
    success: float
    seeds: int
    point: SaturationPoint


@dataclass(frozen=True)
class MetricValues:
    """One metric by seed, for a ranking; a seed without a value is missing."""

    values: Mapping[int, float]
    estimate: Value | None
    entered: int


@dataclass(frozen=True)
class Change:
    """A change of a configuration that may improve it. ``note`` describes its cost."""

    name: str
    words: str
    note: str
    tree: Tree
    document: Document


@dataclass(frozen=True)
class Prepare(Call[Prepared]):
    """Check a configuration and estimate the cost of a run; ``changed`` is the key that the user changed last."""

    tree: Tree
    changed: str | None = None


@dataclass(frozen=True)
class CheckEngine(Call[bool]):
    """Return whether the engine of a configuration is ready; otherwise start to compile it in the background."""

    document: Document


@dataclass(frozen=True)
class Simulate(Call[None]):
    """Run one seed and keep its rows."""

    document: Document
    seed: int


@dataclass(frozen=True)
class Summarize(Call[Answer]):
    """Measure some seeds."""

    document: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class DrawBreakdown(Call[Chart | None]):
    """Draw the commit time breakdown of some seeds."""

    document: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class MeasureLoad(Call[LoadPoint | None]):
    """Measure a configuration at a multiple of its load; None if its load cannot be scaled."""

    tree: Tree
    factor: float
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class DrawLoadCurve(Call[Chart | None]):
    """Draw throughput against load."""

    tree: Tree
    points: tuple[LoadPoint, ...]


@dataclass(frozen=True)
class DrawTimeline(Call[Chart | None]):
    """Draw the commit timeline around the transaction with the most retries."""

    document: Document
    seed: int
    reference_s: float


@dataclass(frozen=True)
class Compare(Call[Compared]):
    """Compare two configurations seed by seed."""

    a: Document
    b: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class FindWindow(Call[Window]):
    """Return the window of a configuration."""

    document: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class MeasureMetric(Call[MetricValues]):
    """Measure one metric of one class in a window."""

    document: Document
    seeds: tuple[int, ...]
    window: Window
    metric: str
    workload_class: str


@dataclass(frozen=True)
class ListChanges(Call[tuple[Change, ...]]):
    """List changes of a configuration that may improve it."""

    tree: Tree
