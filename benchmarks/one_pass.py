"""From a study to its answer: CPU time of all processes, disk and the largest worker, beside an earlier version of the code.

``ENDIVE_BEFORE`` names a directory with the earlier source (``git worktree add --detach DIR COMMIT``, then ``DIR/src``); without it
only this version is measured. CPU times of both are comparable, because they run one after the other on the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT
from benchmarks.pipeline import CORES, LIGHT, _memory_mib

_ROWS = 4_000_000
_SEEDS = 4


def measure_one_pass(shorter: float) -> list[dict[str, Any]]:
    """Rows for each version, with the ratio of the CPU times."""
    versions = {"this version": ROOT / "src"}
    if "ENDIVE_BEFORE" in os.environ:
        versions = {"before": Path(os.environ["ENDIVE_BEFORE"]), **versions}
    for source in versions.values():
        _measure("compile kernels", source, 10_000.0)
    rows = [_measure(name, source, _ROWS / shorter) for name, source in versions.items()]
    return [{**row, "ratio": rows[0]["cpu_s"] / row["cpu_s"]} for row in rows]


def _measure(name: str, source: Path, rows: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        study, out = Path(folder) / "light.toml", Path(folder) / "out"
        study.write_text(LIGHT.format(last_seed=_SEEDS - 1, duration_ms=rows / (_SEEDS * 30.0) * 1000.0))
        master = ("--master", f"local[{CORES},4]")
        sweep_s, sweep_mib = _watch(source, "sweep", str(study), "-o", str(out), *master)
        metrics_s, metrics_mib = _watch(source, "metrics", str(out), *master)
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return {
        "case": f"{name}: sweep and metrics of {rows:,.0f} rows",
        "sweep_cpu_s": sweep_s,
        "metrics_cpu_s": metrics_s,
        "cpu_s": sweep_s + metrics_s,
        "disk_mib": size / 2**20,
        "largest_worker_mib": max(sweep_mib, metrics_mib),
    }


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
