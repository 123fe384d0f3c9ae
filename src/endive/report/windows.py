"""Windows, saturation and percentiles in words: what was cut, whether the run was long enough, and whether it carried its load."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from endive.analysis.estimates import at_least
from endive.analysis.warmup import Window
from endive.report.phrases import duration, percent

_NOTHING_MS = 1.0
"""What is shorter is not said to be cut."""
_RANGE = re.compile(r"[\d.]+ to [\d.]+ %$")


def seconds(ms: float) -> str:
    """A time in whole seconds, or three digits of shorter ones."""
    return f"{ms / 1000.0:,.0f} s" if ms >= 10_000.0 or ms == 0.0 else f"{ms / 1000.0:.3g} s"


def window_in_words(window: Window) -> str:
    """What was measured of a run: ``The first 690 s of 3,600 s are cut.``"""
    whole, end = seconds(window.duration_ms), window.duration_ms - window.end_ms
    last = f" and the last {seconds(end)}" if end > 0.0 else ""
    if window.chosen_by == "schedule":
        rest = f" but for{last.removeprefix(' and')}" if last else ""
        return f"The run of {whole} is measured whole{rest}: its load changes by plan."
    if window.start_ms < _NOTHING_MS:
        return f"Nothing of {whole} is cut{' but' + last.removeprefix(' and') if last else ''}."
    why = {
        "given": "as asked for",
        "runtimes": "until 95 % of the entry rate is reached",
        "mser5": "until the number that is committing has settled",
    }[window.chosen_by]
    if window.needed_ms is not None:
        why = "half of it" if window.start_ms >= window.end_ms / 2.0 - 1e-6 else "but what is committing has not settled"
    return f"The first {seconds(window.start_ms)}{last} of {whole} are cut ({why})."


def window_warning(window: Window) -> str | None:
    """That a run is too short, and how long it should be; None if it is not."""
    if window.needed_ms is None:
        return None
    if window.chosen_by == "runtimes":
        return (
            f"The run is too short: entries are stationary after {seconds(window.needed_ms / 2.0)} only, so the first half is cut; "
            f"it should last {seconds(window.needed_ms)}."
        )
    return f"The number of transactions that are committing has not settled; a run of {seconds(window.needed_ms)} might."


def overload_in_words(row: Mapping[str, Any]) -> str | None:
    """That a load is more than a configuration carries, from its metrics; None if that is not beyond doubt.

    ``row`` has ``saturated``, and counts or their means over seeds.
    """
    reason, entered = row.get("saturated"), row.get("transactions") or 0.0
    if reason is None or not entered:
        return None
    never = row["in_flight"] / entered
    if reason == "backlog" or never > (row["aborted"] / entered):
        share = f"{percent(never)} never finish" if never >= 0.01 else "more enter than leave"
        return f"{share}: this load is beyond what it carries. A longer run would only have more of them."
    if reason == "success":
        return f"{percent(row['aborted'] / entered)} give up: this load is beyond what it carries."
    ratio = row.get("throughput_ratio") or 0.0
    return f"{percent(ratio)} of the offered load is committed: this load is beyond what it carries."


def percentile_in_words(row: Mapping[Any, Any], metric: str) -> str:
    """A percentile as a number, a lower bound (``> 12 s``), or ``never``; ``-`` if nothing is known."""
    value, least = row.get(metric), row.get(at_least(metric))
    if value is not None and math.isfinite(value):
        return duration(value)
    if least is None or math.isnan(least):
        return "-"
    return "never" if math.isinf(least) else f"> {duration(least)}"


def success_in_words(low: float | None, high: float | None) -> str:
    """Success as one number where both ends round alike, otherwise as a range."""
    if low is None or high is None:
        return "-"
    ends = percent(low), percent(high)
    return ends[0] if ends[0] == ends[1] else f"{ends[0].removesuffix(' %')} to {ends[1]}"


def ranges_in_words(cells: Iterable[str]) -> str | None:
    """What a range of success means, if any of the cells of a table is one."""
    if not any(_RANGE.match(cell) for cell in cells):
        return None
    return "A success from one share to another is what the unfinished leave open (none of them commits, or all do), no interval."
