"""Measure a large study from end to end: 1,610 configurations with 5 seeds of an hour, from the sweep to the report."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pipeline import BASE, CORES, run_json

_SUITE = """
[sweep]
seeds = "0-4"

[axes]
"storage.provider" = ["s3", "s3x", "azure", "azurex", "instant"]
"catalog.num_tables" = [1, 10]
"transaction.retry" = [2, 4, 6, 8, 10, 15, 20]
"transaction.inter_arrival.scale" = {intervals}
"""
_RATES = 23
_HIGHEST_RATE = 18.0
"""With rates up to this value, a run has 34,000 transactions on average."""


def measure_suite(shorter: float) -> list[dict[str, Any]]:
    """Measure the elapsed time of the sweep and of the report. ``shorter`` reduces the number of rates."""
    count = max(2, round(_RATES / shorter))
    intervals = [round(1_000.0 * count / (_HIGHEST_RATE * (i + 1)), 3) for i in range(count)]
    base = BASE.format(duration_ms=3_600_000.0, operation_types="{ fast_append = 1.0 }")
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        path, out = Path(name) / "suite.toml", Path(name) / "out"
        path.write_text(base + _SUITE.format(intervals=intervals))
        master = ("--master", f"local[{CORES},4]")
        started = time.perf_counter()
        result = run_json("sweep", str(path), "-o", str(out), *master)
        swept = time.perf_counter()
        run_json("report", str(out), *master)
        ended = time.perf_counter()
    return [
        {
            "case": f"suite of {result['runs']:,} runs on {CORES} cores",
            "rows": result["rows"],
            "engine_s": result["engine_seconds"],
            "sweep_minutes": (swept - started) / 60.0,
            "report_minutes": (ended - swept) / 60.0,
            "suite_minutes": (ended - started) / 60.0,
        }
    ]
