"""Precision of an answer: the half width of 95% intervals that a study asks for, in place of a number of seeds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from endive.config.errors import ConfigError, Problem

PILOT_SEEDS = 8
"""Number of seeds of a pilot. With fewer, intervals that are narrow by chance end a study too early, and hold less often."""
MOST_SEEDS = 100
"""Largest number of seeds of a configuration, unless the user gives another one."""
FORM = "1% (of a mean, a time or a rate; for proportions, 1 percentage point) or 0.5pp (for proportions only)"
_PRECISION = re.compile(r"(?P<number>[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(?P<unit>%|pp)")


@dataclass(frozen=True)
class Precision:
    """Requested half width of 95% intervals, and the largest number of seeds to reach it with.

    Attributes:
        value: Half width: a share of the mean, or of 1 for metrics that are shares.
        shares_only: True if it was given in percentage points, and so applies to shares only.
        most_seeds: Largest number of seeds of a configuration.
    """

    value: float
    shares_only: bool = False
    most_seeds: int = MOST_SEEDS

    def __str__(self) -> str:
        """Return the precision as the user gives it: ``1%`` or ``0.5pp``."""
        return f"{100.0 * self.value:.6g}{'pp' if self.shares_only else '%'}"

    @property
    def pilot_seeds(self) -> int:
        """Number of seeds to start with."""
        return min(PILOT_SEEDS, self.most_seeds)

    def width_of(self, mean: float, *, is_share: bool) -> float:
        """Return the requested half width of the interval of a mean."""
        return self.value if is_share else self.value * abs(mean)


def parse_precision(text: str, source: str, most_seeds: int | None = None) -> Precision:
    """Parse a precision such as ``1%`` or ``0.5pp``.

    Args:
        text: Precision as given by the user.
        source: Source of the text, for errors.
        most_seeds: Largest number of seeds; by default 100.

    Raises:
        ConfigError: If the text is not a precision above 0 and below 100%.
    """
    found = _PRECISION.fullmatch(text.strip())
    value = float(found["number"]) / 100.0 if found is not None else 0.0
    if found is None or not 0.0 < value < 1.0:
        raise ConfigError(source, [Problem("", f"{text[:60]!r} is not a precision; expected {FORM}, above 0 and below 100")])
    return Precision(value, found["unit"] == "pp", MOST_SEEDS if most_seeds is None else most_seeds)


def choose_precision(precision: str | None, seeds: object, most_seeds: int | None, source: str) -> Precision | None:
    """Return the precision of options; None if there is none. Raises ConfigError if it comes with a number of seeds."""
    if precision is None:
        if most_seeds is not None:
            raise ConfigError(f"{source}max-seeds", [Problem("", "has no effect without --precision")])
        return None
    if seeds is not None:
        raise ConfigError(f"{source}precision", [Problem("", "excludes --seeds, because it determines the number of seeds")])
    return parse_precision(precision, f"{source}precision", most_seeds)
