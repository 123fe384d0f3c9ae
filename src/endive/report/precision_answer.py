"""Describe the result of a requested precision: the number of seeds, and the intervals that are still too wide."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from endive.analysis.replication_rule import Reached, Width
from endive.config.study import Precision
from endive.formatting import format_count, format_number


def describe_precision(precision: Precision, reached: Collection[Reached], noun: str = "point") -> str:
    """Return sentences about the number of seeds and the metrics that did not reach the precision."""
    counts = sorted(each.seeds for each in reached)
    several = f" at {format_count(len(counts), noun)}" if len(counts) > 1 else ""
    seeds = format_count(counts[-1], "seed") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} seeds"
    wide = [each for each in reached if each.wide]
    if not wide:
        return f"Precision {precision} reached with {seeds}{several}."
    stopped = f" at {len(wide)} of {format_count(len(counts), noun)}" if len(counts) > 1 else ""
    return f"Precision {precision} not reached{stopped}, with {seeds}{several}. {_explain(precision, wide)}"


def _explain(precision: Precision, wide: Collection[Reached]) -> str:
    """Return a sentence about the interval that is farthest from the precision, with a remedy."""
    widths = [width for each in wide for width in each.wide]
    improvable = [width for width in widths if width.is_improvable]
    if improvable:
        widest = max(improvable, key=_ratio)
        return (
            f"The interval of {widest.name} is ±{_format_reached(precision, widest)} with the maximum number of seeds. "
            "Raise --max-seeds or simulation.duration_ms."
        )
    longer = "Raise simulation.duration_ms."
    flying = [width for width in widths if width.half_width is not None]
    if flying:
        return f"{flying[0].name} depends on transactions in flight at the end of the run; more seeds do not help. {longer}"
    return f"{widths[0].name} is a bound or has no value in some runs; more seeds do not help. {longer}"


def _ratio(width: Width) -> float:
    return float("inf") if width.half_width is None or width.wanted <= 0.0 else width.half_width / width.wanted


def _format_reached(precision: Precision, width: Width) -> str:
    if width.wanted <= 0.0:
        return format_number(width.half_width or 0.0)
    return f"{format_number(100.0 * precision.value * _ratio(width))}{'pp' if precision.shares_only else '%'}"


def precision_as_data(precision: Precision, reached: Collection[Reached]) -> dict[str, Any]:
    """Return data for JSON: whether the precision was reached, and the number of seeds."""
    counts = [each.seeds for each in reached]
    return {
        "precision": str(precision),
        "reached": not any(each.wide for each in reached),
        "not_reached": sum(bool(each.wide) for each in reached),
        "fewest_seeds": min(counts),
        "most_seeds": max(counts),
    }
