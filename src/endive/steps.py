"""Steps that a transaction or a catalog may yield: a number of milliseconds, or one of two special values.

A number is a wait in milliseconds. ``WaitFor`` waits until another transaction wakes its signal. ``FailedAnswer`` waits for a
failed response and then raises ``RequestFailedError`` at the ``yield``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

REQUEST_FAILED = "request_failed"
"""Abort reason of a failed request that gives no reason."""


class RequestFailedError(Exception):
    """Permanent failure of a request. ``latency_ms`` is the remaining part of its latency."""

    def __init__(self, reason: str, latency_ms: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.latency_ms = latency_ms


class Signal:
    """Condition that one transaction waits for and another one signals.

    A signal can be used for several waits, one after the other. ``time_ms`` is the engine's clock at the end of the last wait.
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
        """Store the function that continues the waiting transaction. The engine calls this when a transaction starts to wait."""
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
