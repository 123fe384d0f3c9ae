"""What may fail between a client, the catalog and the store, and what the client does about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CLIENT_CRASH = "client_crash"
COMMIT_STATE_UNKNOWN = "commit_state_unknown"
OnUnknown = Literal["check", "retry", "idempotency_key"]


@dataclass(frozen=True, slots=True)
class Failures:
    """Probabilities of failures, and how a client deals with an answer that it never got.

    ``request_error``: a request to the store or to the catalog fails and is sent again by the SDK, after a wait of its own.
    ``lost_answer``: a commit took effect, or did not, and its client does not learn which. ``client_crash``: a client dies when all
    its files are written and before its commit is sent, at each attempt.

    ``on_unknown``: ``check`` as Iceberg does: read the catalog and look whether the commit is there; the answer of a check may be
    lost, too, and then it is repeated ``status_checks`` times, after waits from ``min_wait_ms`` on that double up to
    ``max_wait_ms``; if none is answered, the operation ends with ``commit_state_unknown`` and its files are kept. ``retry``: take
    it for a lost attempt. ``idempotency_key``: send the same commit again; the service knows it by its key.
    """

    request_error: float = 0.0
    lost_answer: float = 0.0
    client_crash: float = 0.0
    on_unknown: OnUnknown = "check"
    status_checks: int = 3
    min_wait_ms: float = 1_000.0
    max_wait_ms: float = 60_000.0

    def __post_init__(self) -> None:
        for name in ("request_error", "lost_answer", "client_crash"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name)}, but is a probability, from 0 to 1")
