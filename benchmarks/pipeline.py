"""Measure the data pipeline: the overhead of Spark in a sweep, and consolidation and metrics by number of rows."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BASE = """
[base.simulation]
duration_ms = {duration_ms}

[base.storage]
provider = "s3"
profile = "2025-06"

[base.transaction]
retry = 10
runtime = {{ mean = 180_000, sigma = 1.5 }}
inter_arrival = {{ scale = 100.0 }}
operation_types = {operation_types}
"""
"""Common configuration of measured sweeps: long transactions on one table in an object store."""
_SWEEP = """
[sweep]
seeds = "0-19"

[axes]
"transaction.retry" = {retries}
"""
_OPERATIONS = "{ fast_append = 0.7, merge_append = 0.2, validated_overwrite = 0.1 }"
_HOURS_OF_HALF_A_SECOND = 2.0
CORES = 2


def measure_pipeline(shorter: float) -> list[dict[str, Any]]:
    """Measure the overhead of a sweep of 200 runs of about 0.5 s each."""
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        return [_overhead(Path(folder), shorter)]


LIGHT = """
[sweep]
seeds = "0-{last_seed}"

[base.simulation]
duration_ms = {duration_ms}

[base.storage]
provider = "instant"

[base.transaction]
runtime = {{ mean = 200, sigma = 0.5 }}

[base.workload.ingest]
rate = 20.0
operation = "fast_append"

[axes]
"workload.ingest.rate" = [10, 20]
"""
_ROWS = 50_000_000
_SEEDS = 10


def measure_scale(shorter: float) -> list[dict[str, Any]]:
    """Measure consolidation and metrics of 25 and 50 million rows of a sweep."""
    rows = [_scaled(_ROWS / shorter / 2.0), _scaled(_ROWS / shorter)]
    for row in rows:
        for what in ("consolidate", "metrics"):
            row[f"{what}_relative"] = row[f"{what}_s"] / rows[0][f"{what}_s"]
    return rows


def _scaled(rows: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        folder = Path(name)
        path, root = folder / "light.toml", folder / "out"
        duration_ms = rows / (_SEEDS * (10.0 + 20.0)) * 1000.0
        path.write_text(LIGHT.format(last_seed=_SEEDS - 1, duration_ms=duration_ms))
        made = run_json("sweep", str(path), "-o", str(root), "--master", f"local[{CORES},4]")
        found: dict[str, Any] = {"case": f"{made['rows']:,} rows", "rows": made["rows"], "sweep_s": made["wall_seconds"]}
        for what in ("consolidate", "metrics"):
            seconds, driver_mib, largest_mib = _watched(what, str(root), "--master", f"local[{CORES},4]")
            found |= {f"{what}_s": seconds, f"{what}_driver_mib": driver_mib, f"{what}_largest_worker_mib": largest_mib}
        return found


def _watched(*arguments: str) -> tuple[float, float, float]:
    """Run a command; return seconds and the peak memory of its driver (Python and JVM) and of its largest worker."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "endive", *arguments, "--json"]
    driver = worker = 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            python, java, others = _memory_mib(process.pid)
            driver, worker = max(driver, python + java), max(worker, others)
            time.sleep(0.2)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - started, driver, worker


def _memory_mib(pid: int) -> tuple[float, float, float]:
    """Return the resident memory of a driver and its JVM, and of the largest of their other descendants."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    resident: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
            except OSError:
                continue
            each = int(folder.name)
            parents[each], names[each] = int(fields["PPid"]), fields["Name"].strip()
            resident[each] = int(fields.get("VmRSS", "0 kB").split()[0]) / 1024.0
    family = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in family} - family
        if not more:
            break
        family |= more
    java = sum(resident[each] for each in family if each in names and names[each] == "java")
    workers = [resident[each] for each in family - {pid} if each in names and names[each] != "java"]
    return resident.get(pid, 0.0), java, max(workers, default=0.0)


def _overhead(folder: Path, shorter: float) -> dict[str, Any]:
    path = folder / "bench.toml"
    duration_ms = _HOURS_OF_HALF_A_SECOND * 3_600_000.0 / shorter
    retries = list(range(6, 16))
    path.write_text(BASE.format(duration_ms=duration_ms, operation_types=_OPERATIONS) + _SWEEP.format(retries=retries))
    startup = spark_startup_s()
    started = time.perf_counter()
    result = run_json("sweep", str(path), "-o", str(folder / "out"), "--master", f"local[{CORES},4]")
    wall = time.perf_counter() - started
    ideal = result["engine_seconds"] / CORES
    return {
        "case": f"sweep of {result['runs']} runs of {result['engine_seconds'] / result['runs']:.2f} s on {CORES} cores",
        "runs": result["runs"],
        "rows": result["rows"],
        "wall_s": wall,
        "engine_s": result["engine_seconds"],
        "spark_startup_s": startup,
        "ratio": (wall - startup) / ideal,
    }


def spark_startup_s() -> float:
    """Return the seconds until a session has run a first job in Python."""
    program = (
        "from endive.pipeline.session import SparkOptions, spark_session\n"
        f"with spark_session(SparkOptions('local[{CORES},4]')) as spark:\n"
        "    spark.range(2).mapInArrow(lambda batches: batches, 'id long').collect()\n"
    )
    started = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
    return time.perf_counter() - started


def run_json(*arguments: str) -> dict[str, Any]:
    """Run an Endive command with ``--json`` and return its output."""
    command = [sys.executable, "-m", "endive", *arguments, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
