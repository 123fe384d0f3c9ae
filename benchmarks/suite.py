"""Estimate a large suite from a sample: 1,610 configurations x 5 seeds of an hour, 274 million transactions (``endive sweep``)."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.pipeline import BASE, CORES, spark_startup_s, told_by

_SAMPLE = """
[sweep]
seeds = "0-4"

[axes]
"storage.provider" = ["s3", "s3x"]
"transaction.inter_arrival.scale" = [30, 50, 80, 130, 220, 400, 700, 1200]
"""
"""Sample whose runs have about 37,000 transactions on average; runs of the suite have 34,000."""
_TRANSACTIONS = 274_000_000


def measure_suite(shorter: float) -> list[dict[str, Any]]:
    """Estimate the time of the suite on this machine: the sample without the start of Spark, scaled by transactions."""
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        path = Path(name) / "suite.toml"
        path.write_text(BASE.format(duration_ms=3_600_000.0 / shorter, operation_types="{ fast_append = 1.0 }") + _SAMPLE)
        startup = spark_startup_s()
        started = time.perf_counter()
        result = told_by("sweep", str(path), "-o", str(Path(name) / "out"), "--master", f"local[{CORES},4]")
        wall = time.perf_counter() - started
    return [
        {
            "case": f"suite of 8,050 runs on {CORES} cores, by {result['runs']} of them",
            "rows": result["rows"],
            "wall_s": wall,
            "engine_s": result["engine_seconds"],
            "spark_startup_s": startup,
            "suite_minutes": (startup + (wall - startup) * _TRANSACTIONS / result["rows"]) / 60.0,
        }
    ]
