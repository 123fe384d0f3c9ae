"""Measure CPU time, disk space and memory from a study to its metrics, and compare with an earlier version of the code.

``ENDIVE_BEFORE`` names a directory with the earlier source (``git worktree add --detach DIR COMMIT``, then ``DIR/src``), whose
metrics need a consolidated dataset. Without it, only this version is measured. CPU times of both are comparable, because they run
one after the other on the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.measure import ROOT
from benchmarks.pipeline import CORES, LIGHT, _memory_mib

_ROWS = (25_000_000, 100_000_000)
"""Numbers of rows of the study. The earlier version is measured with the first only."""
_SEEDS = 8
_BASIC = """
SELECT filename, workload_class, count(*), avg(CAST(status = 'committed' AS DOUBLE)), count(*) FILTER (status = 'aborted'),
    quantile_cont(commit_latency, [0.5, 0.95, 0.99]) FILTER (status = 'committed')
FROM read_parquet('{files}', filename = true) GROUP BY filename, workload_class
"""
"""Counts, success and percentiles of each run and class."""


def measure_one_pass(shorter: float) -> list[dict[str, Any]]:
    """Return rows for each size and version, with the ratio of the CPU time of the first row of the size to their own."""
    sources = {"this version": ROOT / "src"}
    if "ENDIVE_BEFORE" in os.environ:
        sources = {"before": Path(os.environ["ENDIVE_BEFORE"]), **sources}
    for source in sources.values():
        _measure("compile kernels", source, 10_000.0)
    found = []
    for size in (rows / shorter for rows in _ROWS):
        versions = []
        for what, options in (("", ()), (", no rows kept", ("--rows", "none"))):
            for name, source in sources.items():
                if name != "before" or not (options or size > _ROWS[0]):
                    versions.append(_measure(f"{name}{what}", source, size, *options))
        found += [{**row, "ratio": versions[0]["cpu_s"] / row["cpu_s"]} for row in versions]
    return found


def _measure(name: str, source: Path, rows: float, *options: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        study, out = Path(folder) / "light.toml", Path(folder) / "out"
        duration_ms = rows / (_SEEDS * 30.0) * 1000.0
        study.write_text(LIGHT.format(last_seed=_SEEDS - 1, duration_ms=duration_ms))
        master = ("--master", f"local[{CORES},4]")
        sweep_s, sweep_mib = _watch(source, "sweep", str(study), "--out", str(out), *options, *master)
        merged_s, merged_mib = _watch(source, "consolidate", str(out), *master) if source != ROOT / "src" else (0.0, 0.0)
        metrics_s, metrics_mib = _watch(source, "metrics", str(out), *master)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        duckdb_s = None if options else _duckdb_cpu_seconds(out)
        again_s, again_mib = None, 0.0
        if not options:
            again_s, again_mib = _watch(source, "metrics", str(out), "--warmup", f"{duration_ms / 10.0:.0f}", *master)
    return {
        "case": f"{name}: {rows:,.0f} rows",
        "sweep_cpu_s": sweep_s,
        "consolidate_cpu_s": merged_s,
        "metrics_cpu_s": metrics_s,
        "cpu_s": sweep_s + merged_s + metrics_s,
        "duckdb_cpu_s": duckdb_s,
        "measure_again_cpu_s": again_s,
        "disk_mib": size / 2**20,
        "largest_worker_mib": max(sweep_mib, merged_mib, metrics_mib, again_mib),
    }


def _duckdb_cpu_seconds(out: Path) -> float:
    """Return the CPU time in which DuckDB computes counts, success and percentiles of each run and class."""
    query = _BASIC.format(files=out / "*" / "*" / "results.parquet")
    started = time.process_time()
    duckdb.sql(query).fetchall()
    return time.process_time() - started


def _watch(source: Path, *arguments: str) -> tuple[float, float]:
    """Run a command; return the CPU time of all its processes, and the peak memory of its largest worker.

    Processes are observed ten times a second. The operating system's account of children misses workers whose
    parent does not wait for them.
    """
    worker = 0.0
    seconds: dict[int, float] = {}
    command = [sys.executable, "-m", "endive", *arguments, "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(source)}) as process:
        while process.poll() is None:
            seconds |= _cpu_seconds(process.pid, set(seconds))
            worker = max(worker, _memory_mib(process.pid)[2])
            time.sleep(0.1)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}")
    return sum(seconds.values()), worker


def _cpu_seconds(pid: int, known: set[int]) -> dict[int, float]:
    """Return the CPU time of a process, of its descendants and of known processes, by number."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents, found = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            found[int(folder.name)] = (int(fields[11]) + int(fields[12])) / ticks
    family = {pid, *known}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return {each: found[each] for each in family if each in found}
