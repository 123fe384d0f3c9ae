"""A clock that stands still but for what is waited on it, so that what is timed does not depend on the machine."""

from __future__ import annotations


class Clock:
    """Seconds that pass only in ``sleep``."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """The time, as ``time.perf_counter`` tells it."""
        return self.now_s

    def sleep(self, seconds: float) -> None:
        """Let time pass, at once."""
        self.now_s += seconds


CLOCK = Clock()
"""The one that a catalog loaded by its import path waits on."""
