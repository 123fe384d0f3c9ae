"""What a transaction or a catalog may yield: milliseconds, or one of two small values that an engine understands.

A number lets that much time pass. ``WaitFor`` waits until somebody else wakes the signal that it names. ``FailedAnswer`` lets time
pass and then raises ``RequestFailedError`` where it was yielded: the answer came, and it was a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

REQUEST_FAILED = "request_failed"
"""Why a transaction is aborted whose request was answered with a failure, unless the failure says more."""


class RequestFailedError(Exception):
    """A request that was answered with a failure. ``latency_ms`` is how long the answer took, as far as nobody has waited yet."""

    def __init__(self, reason: str, latency_ms: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.latency_ms = latency_ms


class Signal:
    """Something that one transaction waits for and another one wakes.

    It serves any number of waits, one after the other. ``time_ms`` is the engine's clock when the last wait was over.
    """

    __slots__ = ("_resume", "time_ms")

    def __init__(self) -> None:
        self._resume: Callable[[float], None] | None = None
        self.time_ms = 0.0

    def wake(self, delay_ms: float = 0.0) -> None:
        """Let the one who waits go on, now or after ``delay_ms``. Raises RuntimeError if nobody waits."""
        if self._resume is None:
            raise RuntimeError("nobody waits for this signal")
        resume, self._resume = self._resume, None
        resume(delay_ms)

    def attach(self, resume: Callable[[float], None]) -> None:
        """Remember how to go on: called by an engine when the signal is waited for."""
        self._resume = resume


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Wait until the signal is woken by another party."""

    signal: Signal


@dataclass(frozen=True, slots=True)
class FailedAnswer:
    """Wait ``latency_ms`` for an answer that turns out to be a failure."""

    latency_ms: float
    reason: str = REQUEST_FAILED


Step = float | WaitFor | FailedAnswer
