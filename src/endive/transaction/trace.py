"""The event log of a run: what each transaction did, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that a transaction has just finished, at ``time_ms``, after ``duration_ms``.

    ``event`` is one of submit, catalog_read, runtime, io, attempt, commit, commit_failed, answer_lost, conflict, backoff, restart,
    abort; on the path ``pyiceberg`` also check and check_failed (an attempt that ends before its swap) and io_together.
    ``kind`` says more: the access to files (manifest_list_reads, ...), the kind of conflict (none, false, real), the reason of
    an abort; of a catalog_read the versions that were read, of a commit those that it was based on (``0:3 2:7``: table 0 at 3), and
    of a lost answer the same, if the commit took effect.
    """

    time_ms: float
    txn_id: int
    event: str
    kind: str = ""
    count: int = 1
    duration_ms: float = 0.0
    attempt: int = 0


Tracer = Callable[[TraceEvent], None]
