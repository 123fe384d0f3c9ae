"""Clock that advances only in ``sleep``, so that timings do not depend on the machine."""

from __future__ import annotations


class Clock:
    """Clock in seconds that advances only in ``sleep``."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time, like ``time.perf_counter``."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Advance the clock without waiting."""
        self.now_s += seconds


CLOCK = Clock()
"""Clock of catalogs that are loaded by their import path."""
