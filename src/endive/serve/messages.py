"""Define the messages between the server and its workers: calls and their results.

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
"""Maximum time of a run on the reference engine that does not wait for a compiled kernel."""


class StoppedError(Exception):
    """Raised if the job was cancelled."""


class WorkError(Exception):
    """Raised if the job failed; the message is shown to the user."""


class Call(Generic[T]):
    """Job for a worker; ``T`` is the type of its result."""


@dataclass(frozen=True)
class Prepared:
    """Checked configuration, the keys without effect that were removed, and the estimated cost of one run."""

    tree: Tree
    document: Document
    left_out: tuple[str, ...]
    toml: str
    warnings: tuple[str, ...]
    assumed: tuple[str, ...]
    transactions: float
    cpu_s: float
    """Cost of one run on the compiled engine."""
    reference_s: float
    ready: bool
    """True if the engine is compiled for the configuration."""

    @property
    def needs_kernel(self) -> bool:
        """True if compiling the kernel and running it is faster than the reference engine."""
        return not self.ready and self.reference_s > _QUICK_REFERENCE_S

    @property
    def first_s(self) -> float:
        """Current cost of a run."""
        return self.cpu_s if self.ready else self.reference_s


@dataclass(frozen=True)
class Value:
    """Estimate of a metric with its 95% interval, as numbers and as text."""

    mean: float | None
    low: float | None
    high: float | None
    kind: str
    n: int
    text: str
    interval: str


@dataclass(frozen=True)
class ClassRow:
    """Metrics of one class. ``in_flight`` counts the transactions that are in flight at the end of their run."""

    name: str
    operations: tuple[str, ...]
    entered: int
    metrics: Mapping[str, Value | None]
    in_flight: int = 0


@dataclass(frozen=True)
class Answer:
    """Result of a configuration: a headline, warnings, and the metrics of each workload class."""

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
    """Comparison of B with A, as in ``endive compare``; only the headline if A and B have no common window."""

    sentence: str
    pairs: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    window: str = ""
    rows: tuple[ComparedRow, ...] = ()


@dataclass(frozen=True)
class LoadPoint:
    """Metrics at a multiple of the current load: offered load, and throughput with its interval, per second."""

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
    """Values of a metric by seed for a ranking, without seeds that have no value, and counts of transactions across all seeds."""

    values: Mapping[int, float]
    estimate: Value | None
    entered: int
    in_flight: int


@dataclass(frozen=True)
class Change:
    """Change that may improve a configuration. ``note`` describes the disadvantage of the change."""

    name: str
    words: str
    note: str
    tree: Tree
    document: Document


@dataclass(frozen=True)
class Prepare(Call[Prepared]):
    """Check a configuration and estimate the cost of a run; ``changed`` is the key that the user changed most recently."""

    tree: Tree
    changed: str | None = None


@dataclass(frozen=True)
class CheckEngine(Call[bool]):
    """Return whether the engine of a configuration is compiled, and otherwise compile it in the background."""

    document: Document


@dataclass(frozen=True)
class Simulate(Call[None]):
    """Run one seed and store its rows."""

    document: Document
    seed: int


@dataclass(frozen=True)
class Summarize(Call[Answer]):
    """Measure the runs of some seeds."""

    document: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class DrawBreakdown(Call[Chart | None]):
    """Draw the commit time breakdown over some seeds."""

    document: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class MeasureLoad(Call[LoadPoint | None]):
    """Measure a configuration at a multiple of the current load; None if the load cannot be scaled."""

    tree: Tree
    factor: float
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class DrawLoadCurve(Call[Chart | None]):
    """Draw throughput versus load."""

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
    """Return the measurement window of a configuration."""

    document: Document
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class MeasureMetric(Call[MetricValues]):
    """Measure one metric of one class in a measurement window."""

    document: Document
    seeds: tuple[int, ...]
    window: Window
    metric: str
    workload_class: str


@dataclass(frozen=True)
class ListChanges(Call[tuple[Change, ...]]):
    """List changes that may improve a configuration."""

    tree: Tree
