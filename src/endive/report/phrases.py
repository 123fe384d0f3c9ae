"""Numbers as people say them: with their interval, their unit, and no more digits than they deserve."""

from __future__ import annotations

import math
import re
from collections.abc import Sized

from endive.config.durations import UNITS_MS


def number(value: float) -> str:
    """A number as short as it can be told."""
    return f"{value:,.0f}" if abs(value) >= 1000 and value == round(value) else f"{value:.4g}"


def given_time(ms: float) -> str:
    """A time that somebody chose, in the largest unit in which it is a short number: ``1 h``, ``90 s``, ``1.5 s``, ``250 ms``."""
    for unit, size in sorted(UNITS_MS.items(), key=lambda each: -each[1]):
        if unit != "d" and ms >= size and ms / size == round(ms / size, 1):
            return f"{number(ms / size)} {unit}"
    return duration(ms)


def quantity(value: float, unit: str) -> str:
    """A value of a parameter with its unit: ``3 min`` for a time, ``8/s`` for a rate."""
    if unit == "ms":
        return given_time(value)
    if unit == "transactions/s":
        return f"{number(value)}/s"
    return f"{number(value)} {unit}" if unit and unit != "share" else number(value)


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
    if ms < 600_000.0:
        return f"{short(ms / 1000.0)} s"
    return f"{short(ms / 60_000.0)} min" if ms < 36_000_000.0 else f"{short(ms / 3_600_000.0)} h"


def money(amount: float) -> str:
    """An amount with three digits, small ones too, and none in powers of ten: ``0.0000630``."""
    if amount <= 0.0:
        return "0"
    decimals = 2 if amount >= 10.0 else min(12, 2 - math.floor(math.log10(amount)))
    return f"{amount:,.{decimals}f}"


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


def natural(name: str) -> list[tuple[int, str]]:
    """What names are sorted by, so that numbers in them count: ``class2`` before ``class10``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def listed(names: list[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def are(names: Sized) -> str:
    """The verb for one, or for several."""
    return "is" if len(names) == 1 else "are"


def begun(text: str) -> str:
    """A text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
