"""Take measurements that need a new process: ``python -m benchmarks.probe memory light compiled 1e9``. Prints one JSON object.

Only the standard library is imported before the clock is started.
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
"""Value for clear_refs that resets the peak memory to the current size on Linux (proc(5))."""


def peak_rss_mib() -> float:
    """Return the peak memory of this process.

    On Linux a process inherits ``ru_maxrss`` from its parent, so the kernel's VmHWM is read instead.
    """
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024.0
    import resource

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def forget_peak() -> None:
    """Reset the peak memory to the current size, if the system supports it."""
    gc.collect()
    try:
        Path("/proc/self/clear_refs").write_text(_FORGET_PEAK)
    except OSError:
        print("the peak of memory cannot be reset here; loading the engine may hide some of its growth", file=sys.stderr)


def memory(case_name: str, engine_name: str, duration_ms: float) -> dict[str, Any]:
    """Measure the additional memory of a run over a process with a loaded engine: arrays, rows and configuration."""
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
    """Measure memory and CPU time of ``endive run`` of a file, including writing and measuring its rows.

    A child process inherits the peak memory of its parent; this process has imported nothing, so its peak is small.
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
    """Measure the time in which a new interpreter compiles the kernel with these features."""
    wall, cpu = time.perf_counter(), time.process_time()
    from endive.simulation.compiled.compilation import compile_object_code
    from endive.simulation.compiled.features import Features
    from endive.simulation.compiled.kernel import ENTRIES

    size = len(compile_object_code(ENTRIES, Features.named(features).constants))
    return {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu, "bytes": size}


def imports(module: str) -> dict[str, Any]:
    """Measure the time in which a new interpreter imports a module."""
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
