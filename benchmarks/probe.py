"""Measurements that need a fresh process: ``python -m benchmarks.probe memory light compiled 1e9``. Prints one JSON object.

Nothing but the standard library is imported before the clock is started.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.measure import Engine

_STATUS = Path("/proc/self/status")
_FORGET_PEAK = "5"
"""Written to clear_refs, makes Linux take the present size for the peak (proc(5))."""


def peak_rss_mib() -> float:
    """The most memory that this process has held.

    Linux hands ``ru_maxrss`` down from the process that started this one, so there the kernel's own mark (VmHWM) is read.
    """
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024.0
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def forget_peak() -> None:
    """Take the present size for the peak, where the system lets us."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)
    except OSError:
        print("the peak of memory cannot be reset here; loading the engine may hide some of its growth", file=sys.stderr)


def memory(case_name: str, engine_name: str, duration_ms: float) -> dict[str, Any]:
    """How much more than a process with a warm engine a run needs: its arrays, its rows and its configuration."""
    from benchmarks.cases import CASES, WARM_UP_MS
    from benchmarks.measure import timed_run

    case, engine = CASES[case_name], _engine(engine_name)
    timed_run(engine, case.config(WARM_UP_MS))
    forget_peak()
    before = peak_rss_mib()
    timed = timed_run(engine, case.config(duration_ms))
    after = peak_rss_mib()
    return {
        "peak_mib": after - before,
        "peak_rss_mib": after,
        "transactions": timed.rows,
        "cpu_s": timed.cpu_s,
        "simulated_ms": duration_ms,
    }


def run_command(file: str) -> dict[str, Any]:
    """How much memory and CPU time ``endive run`` of a file needs, with its rows written and measured.

    A child begins with the peak of the process that started it; this one has imported nothing, so its own is small.
    """
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as name:
        answer = Path(name) / "answer.json"
        with answer.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "endive", "run", file, "-o", str(Path(name) / "out"), "--json"], stdout=output
            )
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"endive run {file} ended with {process.returncode}")
        rows = json.loads(answer.read_text())["rows"]
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {"peak_rss_mib": usage.ru_maxrss / unit, "transactions": rows, "cpu_s": usage.ru_utime + usage.ru_stime}


def _engine(name: str) -> Engine:
    if name == "reference":
        from endive.simulation.reference import ReferenceEngine

        return ReferenceEngine
    from endive.simulation.compiled.engine import CompiledEngine

    return CompiledEngine


def compile_kernel(features: str) -> dict[str, Any]:
    """How long a fresh interpreter takes to compile the kernel with these features."""
    wall, cpu = time.perf_counter(), time.process_time()
    from endive.simulation.compiled.features import Features
    from endive.simulation.compiled.kernel import ENTRIES
    from endive.simulation.compiled.native.compilation import compile_object_code

    size = len(compile_object_code(ENTRIES, Features.named(features).constants))
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "bytes": size}


def imports(module: str) -> dict[str, Any]:
    """How long a fresh interpreter takes to import a module."""
    before = time.perf_counter()
    importlib.import_module(module)
    return {"module": module, "wall_s": time.perf_counter() - before}


def _measurement(arguments: list[str] | None = None) -> Callable[[], dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.probe", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_memory = commands.add_parser("memory", help="peak memory of one run")
    of_memory.add_argument("case")
    of_memory.add_argument("engine", choices=("reference", "compiled"))
    of_memory.add_argument("duration_ms", type=float)
    commands.add_parser("run", help="peak memory of endive run").add_argument("file")
    commands.add_parser("compile", help="seconds to compile a kernel").add_argument("features")
    commands.add_parser("import", help="seconds to import a module").add_argument("module")
    options = parser.parse_args(arguments)
    if options.command == "memory":
        return lambda: memory(options.case, options.engine, options.duration_ms)
    if options.command == "run":
        return lambda: run_command(options.file)
    if options.command == "import":
        return lambda: imports(options.module)
    return lambda: compile_kernel(options.features)


if __name__ == "__main__":
    print(json.dumps(_measurement()()))
