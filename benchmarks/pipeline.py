"""The data pipeline: what Spark adds to a sweep, and how consolidation and metrics grow with the rows."""

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
duration_ms = {duration_ms}

[base.storage]
provider = "s3"

[base.transaction]
retry = 10
runtime = {{ mean = 180_000, sigma = 1.5 }}
inter_arrival = {{ scale = 100.0 }}
operation_types = {{ fast_append = 0.7, merge_append = 0.2, validated_overwrite = 0.1 }}

[axes]
"transaction.retry" = {retries}
"""
_HOURS_OF_HALF_A_SECOND = 2.0
_CORES = 2


def measure_pipeline(shorter: float) -> list[dict[str, Any]]:
    """The overhead of a sweep of 200 runs of about half a second each."""
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        return [_overhead(Path(folder), shorter)]


def _overhead(folder: Path, shorter: float) -> dict[str, Any]:
    path = folder / "bench.toml"
    duration_ms = _HOURS_OF_HALF_A_SECOND * 3_600_000.0 / shorter
    retries = list(range(6, 16))
    path.write_text(SWEEP.format(last_seed=19, duration_ms=duration_ms, retries=retries))
    startup = _spark_startup_s()
    started = time.perf_counter()
    result = _endive("sweep", str(path), "--out", str(folder / "out"), "--master", f"local[{_CORES},4]")
    wall = time.perf_counter() - started
    ideal = result["engine_seconds"] / _CORES
    return {
        "case": f"sweep of {result['runs']} runs of {result['engine_seconds'] / result['runs']:.2f} s on {_CORES} cores",
        "runs": result["runs"],
        "rows": result["rows"],
        "wall_s": wall,
        "engine_s": result["engine_seconds"],
        "spark_startup_s": startup,
        "ratio": (wall - startup) / ideal,
    }


def _spark_startup_s() -> float:
    """Seconds until a session has run a first job in Python."""
    program = (
        "from endive.pipeline.session import SparkOptions, spark_session\n"
        f"with spark_session(SparkOptions('local[{_CORES},4]')) as spark:\n"
        "    spark.range(2).mapInArrow(lambda batches: batches, 'id long').collect()\n"
    )
    started = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
    return time.perf_counter() - started


def _endive(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "endive", *arguments, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told
