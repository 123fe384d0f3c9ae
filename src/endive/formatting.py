"""Format numbers, durations, percentages and lists for output. All packages format values with these functions."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_DURATIONS = (("d", 86_400_000.0), ("h", 3_600_000.0), ("min", 60_000.0), ("s", 1_000.0))
_BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
_MOST_DECIMALS = 4
"""Maximum number of decimals of a percentage close to 0 or 100."""
_NUMBER = re.compile(r"^[(~>≥≤<]*[-+±\N{MINUS SIGN}]?\d[\d.,]*(e[-+]?\d+)?$")
_SIGNS = frozenset({"±", ">", "<", "≥", "≤"})
_RATES = ("/s", "commits/s", "transactions/s", "appends/s", "offered/s")
_COUNTED = ("bytes", "commits", "seeds", "runs", "writers", "clients", "retries")
_UNITS = frozenset(("ms", "s", "min", "h", "d", "pp", "kB", "MB", "GB", "MiB", "GiB", *_RATES, *_COUNTED))


def is_known(value: float | None) -> bool:
    """Return whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def format_number(value: float, digits: int = 3) -> str:
    """Return a number with ``digits`` significant digits, but all of its integer digits: ``1,234``, ``12.3``, ``0.000012``."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10.0 ** (digits - 1):
        return f"{value:,.0f}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_estimate(value: float, half_width: float | None) -> str:
    """Return a mean with the half width of its interval, both rounded to the first digit of the half width: ``13.6 ± 0.1``."""
    if half_width is None or not math.isfinite(half_width) or half_width <= abs(value) * 1e-6:
        return format_number(value)
    place = math.floor(math.log10(half_width))
    if round(half_width / 10.0**place) < 2:
        place -= 1
    place = min(place, 0) if half_width < 100.0 else place
    decimals = max(0, -place)
    return f"{round(value, -place):,.{decimals}f} ± {round(half_width, -place):,.{decimals}f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Return an interval: ``1.7–2.4``, or ``at least 1.7`` without a known upper end. If both ends are equal, return ""."""
    if is_known(low) and is_known(high):
        return join_ends(format_number(low or 0.0), format_number(high or 0.0), alike="")
    if is_known(low):
        return f"at least {format_number(low or 0.0)}"
    return f"at most {format_number(high or 0.0)}" if is_known(high) else ""


def join_ends(low: str, high: str, alike: str | None = None) -> str:
    """Return an interval of two formatted values: ``13–15 ms``, ``866 ms to 1.2 s``. If they are equal, return ``alike`` or the
    value.
    """
    if low == high:
        return low if alike is None else alike
    for unit in ("%", "/s"):
        if low.endswith(unit) and high.endswith(unit):
            return f"{low.removesuffix(unit)}–{high}"
    first, _, unit = low.rpartition(" ")
    if first and high.endswith(f" {unit}"):
        return f"{first}–{high}"
    return f"{low} to {high}" if first or " " in high else f"{low}–{high}"


def format_percent(share: float) -> str:
    """Return a proportion as a percentage: ``61.3%``, ``97.4%``, ``99.97%``. Only exactly 1 is formatted as 100%, and only exactly
    0 as 0%.
    """
    percent = 100.0 * share
    rest = min(abs(percent), abs(100.0 - percent))
    decimals = 1 if rest == 0.0 else max(1, 1 - math.floor(math.log10(rest)))
    if decimals > _MOST_DECIMALS:
        return ">99.999%" if share > 0.5 else "<0.001%"
    return f"{percent:.{decimals}f}".rstrip("0").rstrip(".") + "%"


def format_percent_range(low: float | None, high: float | None) -> str:
    """Return a range of proportions as percentages: ``61.3–64.2%``, ``97%`` for equal ends, or ``-`` for unknown ends."""
    return "-" if low is None or high is None else join_ends(format_percent(low), format_percent(high))


def format_duration(ms: float) -> str:
    """Return a duration in a suitable unit: ``640 ms``, ``4.8 s``, ``12 min``, ``1 h``."""
    for unit, size in _DURATIONS:
        if abs(ms) >= 2.0 * size or (ms and ms % size == 0.0):
            return f"{format_number(ms / size)} {unit}"
        if unit == "s" and abs(ms) >= size:
            return f"{format_number(ms / size)} s"
    return f"{format_number(ms)} ms"


def format_minimum_duration(ms: float) -> str:
    """Return a duration rounded up, for a length that a run needs: 3.333 h are ``3.34 h``."""
    unit = next((size for _, size in _DURATIONS if ms >= 2.0 * size), 1.0)
    step = unit * 10.0 ** min(0, math.floor(math.log10(ms / unit)) - 2)
    return format_duration(math.ceil(ms / step - 1e-9) * step)


def format_rate(per_s: float) -> str:
    """Return a rate per second such as ``1.99/s``, or per hour such as ``12.1/h`` if it is low."""
    return f"{format_number(per_s * 3600.0)}/h" if 0.0 < per_s < 0.01 else f"{format_number(per_s)}/s"


def format_quantity(value: float, unit: str) -> str:
    """Return a configured value with its unit: ``3 min`` for a time in ms, ``8/s`` for a rate."""
    if unit == "ms":
        return format_duration(value)
    if unit == "transactions/s":
        return f"{format_number(value, 4)}/s"
    return f"{format_number(value, 4)} {unit}" if unit and unit != "share" else format_number(value, 4)


def format_bytes(size: float) -> str:
    """Return a size such as ``1.5 GB`` or ``640 kB``."""
    for unit, factor in _BYTES:
        if size >= factor:
            return f"{format_number(size / factor)} {unit}"
    return f"{size:.0f} bytes"


def format_money(amount: float) -> str:
    """Return an amount with three significant digits and no exponent: ``0.0000630``."""
    if amount <= 0.0:
        return "0"
    decimals = 2 if amount >= 10.0 else min(12, 2 - math.floor(math.log10(amount)))
    return f"{amount:,.{decimals}f}"


def format_ratio(factor: float) -> str:
    """Return a factor such as ``2.7×``."""
    return f"{format_number(factor, 2)}×"


def format_count(n: int, noun: str) -> str:
    """Return ``3 seeds`` or ``1 seed``."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def join_names(names: Sequence[str]) -> str:
    """Return ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def capitalize(text: str) -> str:
    """Return a text with its first letter in upper case, unless it starts with an identifier."""
    return text if "_" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a natural sort key: ``class2`` comes before ``class10``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def split_pieces(text: str) -> list[str]:
    """Return the pieces of a line that a line break must not split: words, ``key = value``, and numbers with signs and units."""
    pieces: list[str] = []
    for word in text.split():
        if pieces and _belongs(pieces[-1].rsplit(" ", 1)[-1], word):
            pieces[-1] = f"{pieces[-1]} {word}"
        else:
            pieces.append(word)
    return pieces


def _belongs(before: str, word: str) -> bool:
    """Return whether a word must stay on the same line as the previous word."""
    if "=" in (before, word):
        return True
    if _NUMBER.match(before):
        return word.rstrip(".,;:)") in _UNITS or word == "±"
    return before in _SIGNS and bool(_NUMBER.match(word.rstrip(".,;:)")))


def bind_units(text: str) -> str:
    """Return the text with non-breaking spaces between numbers, signs and units."""
    return " ".join(piece.replace(" ", "\N{NO-BREAK SPACE}") for piece in split_pieces(text))


def finite(value: float | None) -> float | None:
    """Return a number that JSON can represent; None if it is missing or not finite."""
    return value if value is not None and math.isfinite(value) else None
