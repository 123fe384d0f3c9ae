"""Steps that a transaction or a catalog may yield: milliseconds, or one of two special values.

A number is a wait in milliseconds. ``WaitFor`` waits until another transaction wakes its signal. ``FailedAnswer`` waits and then
raises ``RequestFailedError`` where it was yielded: the response is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

REQUEST_FAILED = "request_failed"
"""Abort reason after a failed request without a reason."""


class RequestFailedError(Exception):
    """A request that failed. ``latency_ms`` is the part of its latency that has not passed yet."""

    def __init__(self, reason: str, latency_ms: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.latency_ms = latency_ms


class Signal:
    """A condition that one transaction waits for and another one signals.

    It serves any number of waits, one after the other. ``time_ms`` is the engine's clock at the end of the last wait.
    """

    __slots__ = ("_resume", "time_ms")

    def __init__(self) -> None:
        self._resume: Callable[[float], None] | None = None
        self.time_ms = 0.0

    def wake(self, delay_ms: float = 0.0) -> None:
        """Let the waiting transaction continue, now or after ``delay_ms``. Raises RuntimeError if no transaction waits."""
        if self._resume is None:
            raise RuntimeError("no transaction waits for this signal")
        resume, self._resume = self._resume, None
        resume(delay_ms)

    def attach(self, resume: Callable[[float], None]) -> None:
        """Store the function that continues the waiting transaction; an engine calls this when the signal is waited for."""
        self._resume = resume


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait until another transaction wakes the signal."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class FailedAnswer:
    """Wait ``latency_ms`` for a failed response."""

    latency_ms: float
    reason: str = REQUEST_FAILED


Step = float | WaitFor | FailedAnswer
