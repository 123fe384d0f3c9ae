"""Define the steps that a transaction or a catalog can yield.

A number is a wait in milliseconds. ``WaitFor`` waits until another transaction wakes a signal. ``FailedAnswer`` waits for an error
response, and the ``yield`` then raises ``RequestFailedError``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

REQUEST_FAILED = "request_failed"
"""Default abort reason of a failed request."""


class RequestFailedError(Exception):
    """Raised if a request fails permanently.

    ``latency_ms`` is the part of the latency that has not elapsed.
    """

    def __init__(self, reason: str, latency_ms: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.latency_ms = latency_ms


class Signal:
    """Signal on which one transaction waits until another transaction wakes it.

    A signal can be used for several successive waits. ``time_ms`` is the simulated time at the end of the last wait.
    """

    __slots__ = ("_resume", "time_ms")

    def __init__(self) -> None:
        self._resume: Callable[[float], None] | None = None
        self.time_ms = 0.0

    def wake(self, delay_ms: float = 0.0) -> None:
        """Resume the waiting transaction, now or after ``delay_ms``.

        Raises:
            RuntimeError: If no transaction waits.
        """
        if self._resume is None:
            raise RuntimeError("no transaction waits for this signal")
        resume, self._resume = self._resume, None
        resume(delay_ms)

    def attach(self, resume: Callable[[float], None]) -> None:
        """Set the function that resumes the waiting transaction.

        The engine calls this method when a transaction starts to wait.
        """
        self._resume = resume


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Step that waits until another transaction wakes the signal."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class FailedAnswer:
    """Step that waits ``latency_ms`` for an error response."""

    latency_ms: float
    reason: str = REQUEST_FAILED


Step = float | WaitFor | FailedAnswer
