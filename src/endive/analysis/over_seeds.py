"""Any metric of a configuration, from the metrics of its runs: the one place where seeds are put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from endive.analysis.estimates import CONFIDENCE, Estimate, mean_estimate, share_estimate, success_estimate

Row = Mapping[str, Any]
"""The metrics of one run, class and operation, by name."""


def at_least(percentile: str) -> str:
    """The metric that bounds a percentile from below: ``x_p99_ms`` has ``x_p99_at_least_ms``."""
    return f"{percentile.removesuffix('_ms')}_at_least_ms"


def at_most(percentile: str) -> str:
    """The metric that bounds a percentile from above."""
    return f"{percentile.removesuffix('_ms')}_at_most_ms"


def estimate_metric(rows: Sequence[Row], metric: str, confidence: float = CONFIDENCE) -> Estimate | None:
    """A metric over the runs of a configuration; None if it exists in none of them."""
    present = [row for row in rows if row.get("transactions")]
    if metric in _ESTIMATES:
        return _ESTIMATES[metric](present, confidence) if present else None
    if any(at_least(metric) in row for row in rows):
        return _percentile(rows, metric, confidence)
    values = [float(row[metric]) for row in rows if row.get(metric) is not None]
    return mean_estimate(values, confidence) if values else None


def _success(rows: Sequence[Row], confidence: float) -> Estimate:
    committed, unfinished, entered = ([row[name] for row in rows] for name in ("committed", "in_flight", "transactions"))
    return success_estimate(committed, unfinished, entered, confidence)


def _share(*counted: str) -> Callable[[Sequence[Row], float], Estimate]:
    """The share of all transactions that these counts come to."""

    def estimate(rows: Sequence[Row], confidence: float) -> Estimate:
        counts = [sum(row[name] for name in counted) for row in rows]
        return share_estimate(counts, [row["transactions"] for row in rows], confidence)

    return estimate


_ESTIMATES = {
    "success_rate": _success,
    "success_low": _share("committed"),
    "success_high": _share("committed", "in_flight"),
    "throughput_ratio": _share("commits_in_window"),
}
SHARES = tuple(_ESTIMATES)
"""Metrics that are counts of transactions over counts of transactions."""


def _percentile(rows: Sequence[Row], metric: str, confidence: float) -> Estimate | None:
    """Student's t where every run has a number; otherwise what the runs' bounds leave."""
    known = [row for row in rows if row.get(metric) is not None or row.get(at_least(metric)) is not None]
    if not known:
        return None
    values = [row[metric] for row in known if row.get(metric) is not None]
    if len(values) == len(known):
        return mean_estimate([float(value) for value in values], confidence)
    lows = [_either(row, at_least(metric), metric) for row in known]
    highs = [_either(row, at_most(metric), metric) for row in known]
    if all(low == math.inf for low in lows):
        return Estimate(math.inf, math.inf, math.inf, len(known), "never")
    return Estimate(min(lows), min(lows), max(highs), len(known), "bound")


def _either(row: Row, name: str, other: str) -> float:
    value = row.get(name)
    return float(row[other] if value is None else value)
