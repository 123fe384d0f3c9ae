"""Measure and store counts of real clients, as expected values for tests of the simulator.

``python -m verification.iceberg.golden`` measures them again.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from verification.iceberg import java_cases, python_cases
from verification.iceberg.counts import Counts
from verification.iceberg.gateway import iceberg_gateway
from verification.iceberg.java_cases import JavaCase
from verification.iceberg.python_cases import PythonCase

_FOLDER = Path(__file__).parent
JAVA = _FOLDER / "golden_java.json"
PYTHON = _FOLDER / "golden_pyiceberg.json"
AT_ONCE = 4
"""Number of concurrent cases. Iceberg Java polls its worker threads every 10 ms, so cases mostly sleep."""

Case = JavaCase | PythonCase
C = TypeVar("C", JavaCase, PythonCase)


def case_document(case: Case) -> dict[str, Any]:
    """Return the fields of a case that differ from the defaults."""
    defaults = type(case)(case.operation)
    usual = asdict(defaults)
    return {key: value for key, value in asdict(case).items() if key == "operation" or value != usual[key]}


def case_name(case: Case) -> str:
    """Return a case as one line."""
    document = case_document(case)
    client = "java" if isinstance(case, JavaCase) else "pyiceberg"
    return " ".join([client, document.pop("operation"), *(f"{key}={_short(value)}" for key, value in document.items())])


def _short(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return ",".join(f"{key}={member}" for key, member in value.items())
    return str(value)


def measure_java(gateway: Any, cases: Iterable[JavaCase]) -> dict[str, Counts]:
    """Measure Iceberg Java; return counts by case name."""
    return _measured(cases, lambda case: java_cases.measure(gateway, case))


def measure_python(cases: Iterable[PythonCase]) -> dict[str, Counts]:
    """Measure PyIceberg; return counts by case name."""

    def measured(case: PythonCase) -> Counts:
        with tempfile.TemporaryDirectory() as folder:
            return python_cases.measure(Path(folder), case)

    return _measured(cases, measured)


def _measured(cases: Iterable[C], measure: Callable[[C], Counts]) -> dict[str, Counts]:
    cases = list(cases)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(map(case_name, cases), pool.map(measure, cases), strict=True))


def load(path: Path) -> dict[str, Any]:
    """Return stored counts by case name."""
    golden: dict[str, Any] = json.loads(path.read_text())
    return golden


def save(path: Path, measured: Mapping[str, Counts]) -> None:
    """Write counts, one case per line."""
    lines = [f"{json.dumps(name)}: {json.dumps(counts.document())}" for name, counts in measured.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    logging.getLogger("pyiceberg").setLevel(logging.ERROR)
    save(PYTHON, measure_python(python_cases.CASES))
    with iceberg_gateway() as running:
        save(JAVA, measure_java(running, java_cases.CASES))
