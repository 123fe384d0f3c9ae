"""A configuration at a multiple of its load: rates times a factor; compactions and other periodic jobs stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from endive.analysis import saturation
from endive.config.aliases import value_at
from endive.config.durations import duration_ms
from endive.config.errors import ConfigError
from endive.config.load import check_document
from endive.config.schema import Document
from endive.serve.trees import Tree, put

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the load at which a configuration is looked at."""
_TIMES = ("scale", "mean", "median", "stddev", "value", "min", "max")
_DEFAULT_INTERVALS = "transaction.inter_arrival"


@dataclass(frozen=True)
class Scaled:
    """A configuration at another load."""

    tree: Tree
    document: Document


@dataclass(frozen=True)
class LoadPoint:
    """What was measured at a multiple of the load: offered and committed per second with the ends of its interval."""

    factor: float
    offered: float
    throughput: float
    low: float | None
    high: float | None
    success: float
    seeds: int
    point: saturation.LoadPoint
    """For the search of where it saturates."""


def scaled(tree: Tree, factor: float) -> Scaled | None:
    """Return the configuration with its load times a factor; None if it has none that can be scaled."""
    made = tree
    for key, value in load_changes(tree, factor):
        made = put(made, key, value)
    if made is tree:
        return None
    try:
        return Scaled(made, check_document(made, "configuration"))
    except ConfigError:
        return None


def load_changes(tree: Tree, factor: float) -> Iterator[tuple[str, Any]]:
    """Yield the keys that set the load of a configuration, and what they become at a multiple of it."""
    classes = tree.get("workload") or {}
    for name, cls in classes.items():
        yield from _of_class(f"workload.{name}", cls, factor)
    inherits = not classes or any(not _has_arrivals(cls) for cls in classes.values())
    if inherits and isinstance(value_at(tree, _DEFAULT_INTERVALS), dict):
        yield from _intervals(_DEFAULT_INTERVALS, value_at(tree, _DEFAULT_INTERVALS), factor)


def _has_arrivals(cls: Tree) -> bool:
    return any(name in cls for name in ("rate", "inter_arrival", "periodic", "closed", "writers", "schedule", "trace"))


def _of_class(key: str, cls: Tree, factor: float) -> Iterator[tuple[str, Any]]:
    if "rate" in cls:
        yield f"{key}.rate", cls["rate"] * factor
    if "writers" in cls:
        yield f"{key}.every_ms", duration_ms(cls["every_ms"]) / factor
    if isinstance(cls.get("inter_arrival"), dict):
        yield from _intervals(f"{key}.inter_arrival", cls["inter_arrival"], factor)
    if isinstance(cls.get("closed"), dict):
        yield f"{key}.closed.clients", max(1, round(cls["closed"]["clients"] * factor))
    if isinstance(cls.get("schedule"), list):
        yield f"{key}.schedule", [{**step, "rate": step["rate"] * factor} for step in cls["schedule"]]


def _intervals(key: str, intervals: Tree, factor: float) -> Iterator[tuple[str, Any]]:
    for name in _TIMES:
        if name in intervals:
            yield f"{key}.{name}", duration_ms(intervals[name]) / factor
