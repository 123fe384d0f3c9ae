"""Numbers as people say them: with their interval, their unit, and no more digits than they deserve."""

from __future__ import annotations

import math

from endive.report.words import number


def known(value: float | None) -> bool:
    """Whether there is a number."""
    return value is not None and math.isfinite(value)


def short(value: float) -> str:
    """Three significant digits, and all those before the point."""
    return f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.3g}"


def measured(value: float, half_width: float | None) -> str:
    """A mean with the half width of its interval, if it has one: both end at the digit where the interval begins."""
    if half_width is None or not math.isfinite(half_width):
        return short(value)
    if half_width <= 0.0 or half_width < abs(value) * 1e-6:
        return short(value)
    place = math.floor(math.log10(half_width))
    if round(half_width / 10.0**place) < 2:
        place -= 1  # 0.14 tells more than 0.1
    decimals = max(0, -place)
    return f"{round(value, -place):,.{decimals}f} ± {round(half_width, -place):,.{decimals}f}"


def percent(share: float) -> str:
    """A share. What is not quite all is not said to be 100 %, nor what is not quite nothing to be 0 %."""
    for decimals in (0, 1, 2, 3):
        told = f"{100.0 * share:.{decimals}f}"
        if (float(told) < 100.0 or share >= 1.0) and (float(told) > 0.0 or share <= 0.0) and (decimals or not 0.9 < share < 1.0):
            return f"{told} %"
    return "more than 99.999 %" if share > 0.5 else "less than 0.001 %"


def duration(ms: float) -> str:
    """A time in the unit that suits it."""
    if ms < 1000.0:
        return f"{short(ms)} ms"
    return f"{short(ms / 1000.0)} s" if ms < 600_000.0 else f"{short(ms / 60_000.0)} min"


def times(factor: float) -> str:
    """How many times as much."""
    return f"{factor:.2g} times" if factor < 10.0 else f"{factor:,.0f} times"


def between(low: float | None, high: float | None) -> str:
    """An interval in brackets, with a space before it; open where an end is not known."""
    if known(low) and known(high):
        ends = [short(low or 0.0), short(high or 0.0)]
        return "" if ends[0] == ends[1] else f" ({ends[0]} to {ends[1]})"
    if known(low):
        return f" (at least {short(low or 0.0)})"
    return f" (at most {short(high or 0.0)})" if known(high) else ""


def count(n: int, what: str) -> str:
    """``3 seeds``, ``1 seed``."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def listed(names: list[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


__all__ = ["between", "count", "duration", "known", "listed", "measured", "number", "percent", "short", "times"]
