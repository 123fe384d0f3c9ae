"""Performance targets, and their comparison with measured values."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_ORDERS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le, "<": operator.lt}


@dataclass(frozen=True)
class Bar:
    """Measured value and its target, or None without a target."""

    what: str
    seen: float
    unit: str
    order: str = ""
    bar: float | None = None

    @property
    def wanted(self) -> str:
        """Target as text."""
        return "-" if self.bar is None else f"{self.order} {self.bar:g}{self.unit}"

    @property
    def cleared(self) -> bool | None:
        """True if the target is met, or None without a target."""
        return None if self.bar is None else _ORDERS[self.order](self.seen, self.bar)


def bars(results: dict[str, Any]) -> Iterator[Bar]:
    """Return the targets of all parts that were measured."""
    for row in results.get("engines", ()):
        yield Bar(f"compiled / reference: {row['case']}", row["ratio"], "x", ">=", _ratio_bar(row["case"]))
    for row in results.get("growth", ()):
        if row["beside"] != row["case"]:
            yield Bar(
                f"time of a transaction: {row['case']}", row["relative"], "x", "<=", 2.0 if "partitions" in row["case"] else 1.3
            )
        elif "bar_us" in row:
            yield Bar(f"time of a transaction: {row['case']}", row["us_per_txn"], " µs", "<=", row["bar_us"])
    if "estimates" in results:
        yield Bar("estimates within a factor of 3", 100.0 * results["estimates"]["within_3"], "%", ">=", 100.0)
        yield Bar("  the largest error", results["estimates"]["largest_error"], "x", "<=", 10.0)
    for row in results.get("precision", ())[-1:]:
        yield Bar("fixed seeds / precision, CPU time of all studies", row["ratio"], "x", ">=", 2.5)
    for row in results.get("searches", ()):
        yield Bar(row["case"], row["cpu_s"], " s of CPU", "<", 60.0)
    yield from _memory(results.get("memory"))
    for row in results.get("startup", ()):
        seen, order, bar = _STARTUP_BARS.get(row["case"], ("wall_s", "", None))
        yield Bar(row["case"], row[seen], " s of CPU" if seen == "cpu_s" else " s", order, bar)
    yield from _reference(results.get("reference"))
    for row in results.get("pipeline", ()):
        yield Bar(f"wall without start-up / ideal: {row['case']}", row["ratio"], "x", "<=", 1.3)
    for row in results.get("suite", ()):
        yield Bar(row["case"], row["suite_minutes"], " min", "<=", 20.0)
    yield from _scale(results.get("scale"))
    for row in results.get("report", ()):
        yield Bar(row["case"], row["report_s"], " s", "<=", 30.0)
        yield Bar("  its size", row["mib"], " MiB", "<=", 5.0)
    for row in results.get("live", ()):
        yield Bar(f"{row['case']}: first answer", row["first_s"], " s", "<=", 1.0)
        yield Bar("  refined", row["refined_s"], " s", "<=", 5.0)
    if "snapshots" in results:
        yield Bar("catalog read: 1,000 x 1,000 partitions / 1 x 1", results["snapshots"]["ratio"], "x", "<", 2.0)


def _scale(rows: list[dict[str, Any]] | None) -> Iterator[Bar]:
    for row in (rows or [])[1:]:
        for what in ("consolidate", "metrics"):
            yield Bar(f"{what}: twice the rows, {row['case']}", row[f"{what}_relative"], "x", "<=", 2.4)
            yield Bar("  memory of the driver", row[f"{what}_driver_mib"], " MiB", "<=", 4096.0)


_STARTUP_BARS: dict[str, tuple[str, str, float | None]] = {
    "endive run examples/mixed.toml, empty cache": ("wall_s", "<=", 5.0),
    "endive run examples/mixed.toml, warm": ("wall_s", "<=", 1.2),
    "compile kernel endive-cas": ("cpu_s", "<=", 10.0),
    "compile largest kernel": ("cpu_s", "<=", 15.0),
}
"""Targets for elapsed time, or for CPU time, which depends less on other load of the machine."""


def _ratio_bar(case: str) -> float:
    return 150.0 if "partitions" in case else 100.0


def _memory(rows: list[dict[str, Any]] | None) -> Iterator[Bar]:
    if rows:
        short, long, run, longer_run = rows
        yield Bar(f"peak memory: {long['transactions']:,} transactions", long["peak_mib"], " MiB")
        yield Bar("  beside a tenth of them", long["peak_mib"] / short["peak_mib"], "x", "<=", 1.25)
        yield Bar(f"peak memory of endive run: {longer_run['transactions']:,} transactions", longer_run["peak_rss_mib"], " MiB")
        yield Bar("  beside a quarter of them", longer_run["peak_rss_mib"] / run["peak_rss_mib"], "x", "<=", 1.05)


def _reference(row: dict[str, Any] | None) -> Iterator[Bar]:
    if row:
        yield Bar("reference / plain SimPy, CPU time of an event", row["simpy"]["ratio"], "x", "<=", 3.0)
        yield Bar("reference, streaming: peak memory at 4x the duration", row["streaming"]["ratio"], "x", "<=", 1.25)
