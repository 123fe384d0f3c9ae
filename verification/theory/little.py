"""Check Little's law: the mean number of committing transactions is their arrival rate times their mean commit time.

The left side is a mean over time, computed from the starts and ends of all transactions; the right side is a mean over
transactions. They agree in any steady system, except for transactions at the borders of the window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from verification.theory.documents import rows_of
from verification.theory.rows import TheoryRow

CASES: dict[str, dict[str, Any]] = {
    "S3, 2 appends/s": {"storage": {"provider": "s3"}, "workload": {"writers": {"rate": 2.0, "operation": "fast_append"}}},
    "S3, 4 appends/s": {"storage": {"provider": "s3"}, "workload": {"writers": {"rate": 4.0, "operation": "fast_append"}}},
    "S3 Express, Iceberg's path": {
        "storage": {"provider": "s3x"},
        "transaction": {"commit_path": "iceberg"},
        "workload": {"writers": {"rate": 4.0, "operation": "merge_append"}},
    },
    "S3 Express, log catalog": {
        "storage": {"provider": "s3x"},
        "catalog": {"type": "append", "num_tables": 4},
        "workload": {"writers": {"rate": 1.0, "operation": "fast_append"}},
    },
}
_DURATION_MS, _CUT_MS = 3_600_000.0, 600_000.0
_BAR = 0.05


def compare(quick: bool) -> Iterator[TheoryRow]:
    """Compare each case over the window after the first ten minutes."""
    duration = _DURATION_MS / 4.0 if quick else _DURATION_MS
    for name, case in CASES.items():
        transaction = {"retry": 10, "runtime": {"mean": 10_000.0, "sigma": 0.5}} | case.get("transaction", {})
        rows = rows_of({**case, "simulation": {"duration_ms": duration, "drain": True}, "transaction": transaction})
        end = (rows["t_submit"] + rows["total_latency"]).to_numpy()
        begin = rows["t_commit_start"].to_numpy()
        inside = (begin >= _CUT_MS) & (begin < duration)
        seconds = (duration - _CUT_MS) / 1000.0
        present = np.clip(np.minimum(end, duration) - np.maximum(begin, _CUT_MS), 0.0, None)
        number = float(present[begin >= 0.0].sum()) / 1000.0 / seconds
        entries, time_s = inside.sum() / seconds, (end - begin)[inside].mean() / 1000.0
        yield TheoryRow("little", name, "committing", float(entries * time_s), number, _BAR)
