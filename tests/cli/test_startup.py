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


def test_run_loads_what_it_needs_once_its_kernel_is_compiled(tmp_path: Path) -> None:
    command = ("run", "examples/mixed.toml", "--out", str(tmp_path), "--engine", "compiled")
    loaded(*command)
    assert loaded(*command) == {"llvmlite", "numpy", "pyarrow", "pydantic"}


def test_data_frames_are_made_after_a_start_without_pandas() -> None:
    program = """
import sys
import pyarrow as pa
from endive.cli.run import start_pyarrow_without_pandas

start_pyarrow_without_pandas()
assert pa.array(["a"]).to_pylist() == ["a"] and "pandas" not in sys.modules
frame = pa.table({"x": [1.0, None]}).to_pandas()
assert pa.Table.from_pandas(frame).column("x").null_count == 1
import pandas as pd
assert pa.array(pd.Series([1.0, None])).null_count == 1
assert pa.array(pd.Series([pd.NA, "x"])).null_count == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
