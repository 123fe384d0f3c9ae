"""What commands load: nobody waits for libraries that a command does not need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HEAVY = {
    "altair",
    "llvmlite",
    "numba",
    "numpy",
    "pandas",
    "py4j",
    "pyarrow",
    "pydantic",
    "pyspark",
    "scipy",
    "simpy",
    "vl_convert",
}
PROGRAM = """
import contextlib, os, sys
from endive.main import app

with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
    with contextlib.suppress(SystemExit):
        app(sys.argv[1:], standalone_mode=False)
print(*{name.partition(".")[0] for name in sys.modules})
"""


def loaded(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], cwd=ROOT, env=os.environ, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split()) & HEAVY


def test_help_loads_nothing_heavy() -> None:
    assert loaded("--help") == set()
    assert loaded("run", "--help") <= {"pydantic"}, "which typer loads"


def test_validate_loads_no_engine() -> None:
    assert loaded("validate", "examples/mixed.toml") <= {"numpy", "pyarrow", "pydantic"}
