"""Compare closed loops with fixed latencies with values derived by hand.

A single writer never conflicts: a transaction takes a catalog read, the job and one attempt. Two writers without think time
synchronize: each loses its first attempt to the other's commit and wins the second, so a transaction takes an additional catalog
read and attempt.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from verification.theory.documents import ATTEMPT_MS, CATALOG_READ_MS, fixed_store, rows_of
from verification.theory.rows import TheoryRow

WORKS_MS = (100.0, 1_000.0)
_DURATION_MS = 600_000.0


def _tree(clients: int, work_ms: float) -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": _DURATION_MS},
        "storage": fixed_store(),
        "transaction": {"retry": 10, "runtime": {"distribution": "fixed", "value": work_ms}},
        "workload": {"writers": {"closed": {"clients": clients}, "operation": "fast_append"}},
    }


def compare(_: bool) -> Iterator[TheoryRow]:
    """Compare one and two writers: commits per second and attempts per commit."""
    for clients in (1, 2):
        for work_ms in WORKS_MS:
            rows = rows_of(_tree(clients, work_ms))
            committed = rows[(rows["status"] == "committed") & (rows["t_commit"] >= _DURATION_MS / 10.0)]
            cycle_ms = work_ms + clients * (CATALOG_READ_MS + ATTEMPT_MS)
            simulated = len(committed) / (0.9 * _DURATION_MS / 1000.0)
            case = f"{clients} closed writer{'s' if clients > 1 else ''}, work {work_ms:g} ms"
            yield TheoryRow("loops", case, "commits/s", clients * 1000.0 / cycle_ms, simulated, 0.002)
            yield TheoryRow("loops", case, "attempts/commit", float(clients), float(1.0 + committed["n_retries"].mean()), 0.002)
