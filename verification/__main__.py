"""Compare the simulator with real Iceberg clients and with theory: ``python -m verification``.

Each mode belongs to a file of ``verification/results``: counts, writers, handles, postgres, rest and victims to ``iceberg.json``;
imported to ``imported.json``; renewal, loops, idle, little and effort to ``theory.json``; coverage, precision, crossings,
alternatives and levers to ``statistics.json``.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

from endive.pipeline.java import NoJavaError
from endive.version import get_git_sha
from verification.iceberg import golden, imported, java_cases, python_cases, rest_server, victims, writers
from verification.iceberg.clients import PYICEBERG_POOL, WORKER_THREADS
from verification.iceberg.gateway import NoIcebergError, iceberg_gateway
from verification.iceberg.postgres import NoPostgresError, postgres_server, probe_database
from verification.iceberg.rows import Row, counts_row, rest_row, victim_row, writers_row
from verification.statistics import alternatives, coverage, levers
from verification.tables import print_coverage, print_imported, print_levers, print_rows, print_theory
from verification.theory import effort, idle, little, loops, renewal
from verification.theory.rows import TheoryRow

_ROOT = Path(__file__).parent
_RESULTS = _ROOT / "results"
_QUICK_RESULTS = _ROOT.parent / "build" / "verification"
"""Directory of the results of smoke tests, which git ignores."""
_QUICK = 8
_WIDTH = 150
"""Width of tables that are written to a file."""
_WARM_UP = writers.WritersCase("java", "fast_append", 4, access_ms=5.0, duration_ms=3_000.0)


def _counts(_: bool) -> Iterator[Row]:
    cases = {golden.case_name(case): case for case in python_cases.CASES}
    for name, counts in golden.measure_python(cases.values()).items():
        yield counts_row(cases[name], counts)
    with iceberg_gateway() as gateway:
        java = {golden.case_name(case): case for case in java_cases.CASES}
        for name, counts in golden.measure_java(gateway, java.values()).items():
            yield counts_row(java[name], counts)


def _writers(quick: bool) -> Iterator[Row]:
    with iceberg_gateway(WORKER_THREADS) as gateway:
        backends = writers.Backends(gateway)
        writers.measure(backends, _WARM_UP)
        for case, result in writers.measure_all(backends, _shortened(writers.CASES, quick)):
            yield writers_row(case, result)


def _handles(quick: bool) -> Iterator[Row]:
    with iceberg_gateway(WORKER_THREADS) as gateway:
        backends = writers.Backends(gateway)
        writers.measure(backends, _WARM_UP)
        for case, result in writers.measure_all(backends, _shortened(writers.HANDLE_CASES, quick)):
            yield writers_row(case, result, "handles")


def _postgres(quick: bool) -> Iterator[Row]:
    with postgres_server(install=True) as uri:
        database = probe_database(uri)
        for case, result in writers.measure_all(writers.Backends(postgres_uri=uri), _shortened(writers.POSTGRES_CASES, quick)):
            row = writers_row(case, result, "postgres", database)
            yield replace(row, predicted=row.predicted | {"database": asdict(database)})


def _rest(quick: bool) -> Iterator[Row]:
    with postgres_server(install=True) as uri:
        for workers in sorted({case.workers for case in rest_server.CASES}):
            with rest_server.rest_server(uri, workers) as server:
                alone: dict[tuple[str, bool], rest_server.Calibration] = {}
                for case in rest_server.CASES:
                    if case.workers == workers:
                        case = replace(case, seconds=max(1, case.seconds // _QUICK)) if quick else case
                        result = server.measure(case)
                        handle = case.client, case.keeps_handle
                        if handle not in alone:  # the first case of a handle has one writer
                            alone[handle] = rest_server.calibrate(case, result)
                        yield rest_row(case, result, alone[handle])


def _imported(quick: bool) -> Iterator[imported.ImportedRow]:
    with iceberg_gateway(WORKER_THREADS) as gateway:
        with TemporaryDirectory() as folder:
            imported.make(gateway, imported.WARM_UP, Path(folder))
        for case in imported.CASES:
            yield from imported.measure(gateway, imported.shortened(case, 2) if quick else case)


def _shortened(cases: Sequence[writers.WritersCase], quick: bool) -> list[writers.WritersCase]:
    return [replace(case, duration_ms=case.duration_ms / _QUICK) if quick else case for case in cases]


def _victims(quick: bool) -> Iterator[Row]:
    with iceberg_gateway(WORKER_THREADS) as gateway:
        writers.measure(writers.Backends(gateway), _WARM_UP)
        for case in victims.CASES:
            case = replace(case, repetitions=case.repetitions // _QUICK) if quick else case
            yield victim_row(case, victims.measure(gateway, case))


CLIENT_MODES: dict[str, Callable[[bool], Iterator[Row | imported.ImportedRow]]] = {
    "counts": _counts,
    "writers": _writers,
    "handles": _handles,
    "postgres": _postgres,
    "rest": _rest,
    "victims": _victims,
    "imported": _imported,
}
OWN_MODES: dict[str, Callable[[bool], Iterator[TheoryRow | coverage.CoverageRow | levers.LeverRow]]] = {
    "renewal": renewal.compare,
    "loops": loops.compare,
    "idle": idle.compare,
    "little": little.compare,
    "effort": effort.compare,
    "coverage": coverage.compare,
    "precision": coverage.compare_precise,
    "crossings": coverage.compare_crossings,
    "alternatives": alternatives.compare,
    "levers": levers.compare,
}
"""Modes that only need the simulator."""
STATISTICS = ("coverage", "precision", "crossings", "alternatives", "levers")
MODES = (*OWN_MODES, *CLIENT_MODES)


def main() -> int:
    """Run the selected modes; return 1 if a prediction is outside its tolerance without an explanation."""
    options = _options()
    os.environ.setdefault(PYICEBERG_POOL, str(WORKER_THREADS))
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    talk = Console(stderr=True)
    off = 0
    for mode in options.only or MODES:
        talk.print(f"running {mode} ...", style="dim")
        try:
            off += _run(mode, options)
        except NoPostgresError as missing:
            talk.print(f"{mode} is left out: {missing}", style="yellow")
        except (NoIcebergError, NoJavaError) as missing:
            talk.print(f"cannot run the real Iceberg: {missing}", style="red")
            return 2
    return 1 if off else 0


def _run(mode: str, options: argparse.Namespace) -> int:
    """Run a mode; return the number of rows outside their tolerance without an explanation."""
    if mode in CLIENT_MODES:
        return _run_clients(mode, options)
    circumstances = _circumstances(options.quick)
    rows: list[Any] = list(OWN_MODES[mode](options.quick))
    documents = [row.document() for row in rows]
    _write(_path(options, "statistics" if mode in STATISTICS else "theory"), mode, circumstances, documents)
    if options.json:
        print(json.dumps(documents))
    elif mode == "levers":
        print_levers(_console(), rows)
    elif mode in STATISTICS:
        print_coverage(_console(), rows)
    else:
        print_theory(_console(), mode, rows)
    return sum(not row.within for row in rows)


def _run_clients(mode: str, options: argparse.Namespace) -> int:
    """Run a mode with real clients, write its rows, and return the number of unexplained differences."""
    circumstances = _circumstances(options.quick)
    rows: list[Any] = list(CLIENT_MODES[mode](options.quick))
    documents = [imported.document(row) if mode == "imported" else asdict(row) for row in rows]
    _write(_path(options, "imported" if mode == "imported" else "iceberg"), mode, circumstances, documents)
    if options.json:
        print(json.dumps(documents))
    elif mode == "imported":
        print_imported(_console(), rows)
    else:
        print_rows(_console(), mode, rows)
    return sum(row.unexplained() for row in rows)


def _path(options: argparse.Namespace, name: str) -> Path:
    chosen: Path | None = options.output
    return chosen or (_QUICK_RESULTS if options.quick else _RESULTS) / f"{name}.json"


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDTH)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m verification", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of all durations: a smoke test, not a verification")
    parser.add_argument("--only", nargs="+", choices=MODES, metavar="MODE", help=f"some of {', '.join(MODES)}")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    parser.add_argument("--json", action="store_true", help="the rows of each mode as a line of JSON on stdout")
    return parser.parse_args()


def _circumstances(quick: bool) -> dict[str, Any]:
    """Return the environment of the measurements: machine and versions."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": get_git_sha(),
        "quick": quick,
        "cores": os.cpu_count(),
        "load_average_before": os.getloadavg(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("endive", "pyiceberg", "snowpark-connect-deps-iceberg")},
    }


def _write(path: Path, mode: str, circumstances: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Replace the results of a mode, and keep the results of other modes."""
    before = json.loads(path.read_text()) if path.exists() else {"circumstances": {}, "rows": []}
    kept = [row for row in before["rows"] if row["mode"] != mode]
    every = [*kept, *rows]
    every.sort(key=lambda row: MODES.index(row["mode"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"circumstances": before["circumstances"] | {mode: circumstances}, "rows": every}
    lines = ",\n".join(f"    {json.dumps(row)}" for row in document["rows"])
    head = json.dumps(document["circumstances"], indent=2).replace("\n", "\n  ")
    path.write_text(f'{{\n  "circumstances": {head},\n  "rows": [\n{lines}\n  ]\n}}\n')


if __name__ == "__main__":
    sys.exit(main())
