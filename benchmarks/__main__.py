"""Run benchmarks, print tables, and write ``benchmarks/results/*.json``: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks.bars import bars
from benchmarks.engines import measure_engines
from benchmarks.estimates import measure_estimates
from benchmarks.growth import measure_growth, measure_memory
from benchmarks.live import measure_live
from benchmarks.measure import ROOT
from benchmarks.one_pass import measure_one_pass
from benchmarks.pipeline import measure_pipeline, measure_scale
from benchmarks.precision import measure_precision
from benchmarks.reference import measure_reference
from benchmarks.report import measure_report
from benchmarks.searches import measure_searches
from benchmarks.snapshots import measure_snapshots
from benchmarks.startup import measure_startup
from benchmarks.suite import measure_suite
from benchmarks.tables import print_bars, print_part
from endive.version import get_git_sha

PARTS: dict[str, Callable[[float], Any]] = {
    "engines": lambda shorter: list(measure_engines(shorter)),
    "growth": measure_growth,
    "estimates": measure_estimates,
    "one_pass": measure_one_pass,
    "precision": measure_precision,
    "searches": measure_searches,
    "memory": measure_memory,
    "startup": lambda _: measure_startup(),
    "reference": measure_reference,
    "snapshots": measure_snapshots,
    "pipeline": measure_pipeline,
    "suite": measure_suite,
    "scale": measure_scale,
    "report": measure_report,
    "live": measure_live,
}
_RESULTS = ROOT / "benchmarks" / "results"
_QUICK_RESULTS = ROOT / "build" / "benchmarks"
"""Directory of the results of smoke tests, which git ignores."""
_QUICK = 10.0
_WIDTH = 150
"""Width of tables that are written to a file."""


def _code() -> str:
    """Return a hash of the package's source files on disk."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


_CODE_AT_START = _code()


def main() -> None:
    """Run the selected benchmarks; exit with 0 for any result."""
    options = _options()
    shorter = _QUICK if options.quick else 1.0
    directory: Path = options.output or (_QUICK_RESULTS if options.quick else _RESULTS)
    directory.mkdir(parents=True, exist_ok=True)
    talk = Console(stderr=True)
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    results: dict[str, Any] = {}
    for name in options.only or PARTS:
        talk.print(f"measuring {name} ...", style="dim")
        circumstances = _circumstances(options.quick)
        results[name] = PARTS[name](shorter)
        _write(directory / f"{name}.json", results[name])
        _record(directory / "environment.json", name, circumstances)
        print_part(console, name, results[name])
    print_bars(console, bars(results))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of all durations: a smoke test, not a measurement")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--output", type=Path, help="directory for the JSON files")
    return parser.parse_args()


def _circumstances(quick: bool) -> dict[str, Any]:
    """Return the environment of the measurements: machine, versions and source code.

    This process keeps the code that it loaded at its start, while probes load it again, so that a source change during a run mixes
    two versions. The hash ``code`` is computed before and after each part to detect this.
    """
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": get_git_sha(),
        "code_at_start": _CODE_AT_START,
        "code": _code(),
        "quick": quick,
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("endive", "numba", "numpy", "pyarrow", "simpy")},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor()


def _record(path: Path, part: str, circumstances: dict[str, Any]) -> None:
    """Write the environment in which a part was measured, and keep the entries of other parts."""
    parts = json.loads(path.read_text()) if path.exists() else {}
    after = {"load_average_after": os.getloadavg(), "code_after": _code()}
    if {circumstances["code"], after["code_after"]} != {_CODE_AT_START}:
        print(f"the source changed while {part} was measured: its figures are of two versions", file=sys.stderr)
    _write(path, {**parts, part: {**circumstances, **after}})


def _write(path: Path, result: Any) -> None:
    path.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
