"""Measure time and size of a report of a finished sweep. Its runs are small, because a report only reads metrics."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SWEEP = """
[sweep]
seeds = "0-{last_seed}"

[base.simulation]
duration_ms = 60_000

[base.storage]
provider = "s3x"
profile = "2025-06"

[base.workload.ingest]
rate = 4.0
operation_types = {{ fast_append = 0.8, merge_append = 0.2 }}
runtime = {{ mean = 500, sigma = 0.5 }}

[base.workload.upkeep]
operation = "validated_overwrite"
periodic = {{ interval_ms = 5_000 }}
runtime = {{ distribution = "fixed", value = 1_000 }}

[axes]
"storage.provider" = ["s3", "s3x", "azure", "azurex", "gcp"]
"catalog.num_tables" = [1, 2, 4, 8]
"transaction.retry" = [2, 4, 6, 8, 10]
"workload.ingest.rate" = {{ from = 1, to = 16, points = {loads}, scale = "log" }}
"""
_POINTS_PER_LOAD = 100
_POINTS = 1000
_CORES = 2
_SEEDS = 3


def measure_report(shorter: float) -> list[dict[str, Any]]:
    """Measure the report of a sweep of 1,000 points with three seeds each; metrics exist already."""
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        folder = Path(name)
        sweep, root = folder / "points.toml", folder / "out"
        sweep.write_text(SWEEP.format(last_seed=_SEEDS - 1, loads=max(2, round(_POINTS / _POINTS_PER_LOAD / shorter))))
        master = ("--master", f"local[{_CORES},4]")
        made = _endive("sweep", str(sweep), "-o", str(root), *master)
        started = time.perf_counter()
        _endive("report", str(root), *master)
        first = time.perf_counter() - started
        started = time.perf_counter()
        answer = _endive("report", str(root))
        again = time.perf_counter() - started
        return [
            {
                "case": f"report of {made['runs'] // _SEEDS:,} points, {made['runs']:,} runs",
                "rows": made["rows"],
                "figures": len(answer["figures"]),
                "with_measuring_s": first,
                "report_s": again,
                "mib": Path(answer["report"]).stat().st_size / 2**20,
            }
        ]


def _endive(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "endive", *arguments, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
