"""Compiled code is kept in the user's cache: found again, whole, and apart for each version of the code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from endive.simulation.compiled import jit, kernel

# Compiles a small function of its own through the same decorator: the kernel itself takes too long for a test.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import doubled
print(doubled.twice(21), sum(doubled.twice.stats.cache_hits.values()))
"""
MODULE = """
from endive.simulation.compiled.jit import entry

@entry
def twice(x):
    return 2 * x
"""


def start(folder: Path, cache: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, jit.CACHE_VARIABLE: str(cache)}
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(folder)], env=environment, stdout=subprocess.PIPE, text=True)


def answers(*processes: subprocess.Popen[str]) -> list[str]:
    found = [process.communicate(timeout=120)[0].strip() for process in processes]
    assert all(process.returncode == 0 for process in processes)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "doubled.py").write_text(MODULE)
    return tmp_path


def test_a_second_process_finds_what_the_first_has_compiled(folder: Path) -> None:
    cache = folder / "cache"
    assert answers(start(folder, cache)) == ["42 0"]
    assert answers(start(folder, cache)) == ["42 1"]
    assert list(cache.rglob("*.nbc"))
    assert not list(folder.glob("__pycache__/*.nbc"))


def test_processes_that_start_at_once_do_no_harm(folder: Path) -> None:
    cache = folder / "cache"
    together = [start(folder, cache) for _ in range(4)]
    assert all(answer.startswith("42 ") for answer in answers(*together))
    assert answers(start(folder, cache)) == ["42 1"]
    assert not list(cache.rglob("*.tmp*"))


def test_a_read_only_installation_compiles_into_the_users_cache(folder: Path) -> None:
    (folder / "doubled.py").chmod(0o444)
    cache = folder / "elsewhere"
    assert answers(start(folder, cache))[0].startswith("42")
    assert list(cache.rglob("*.nbc"))


def test_the_cache_bears_the_fingerprint_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jit.CACHE_VARIABLE, str(tmp_path))
    directory = jit.cache_directory()
    assert directory.parent == tmp_path / "kernels"
    assert not jit.is_cached()
    (directory / "x").mkdir(parents=True)
    (directory / "x" / "kernel.nbc").write_bytes(b"")
    assert jit.is_cached()


def test_without_a_choice_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(jit.CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert str(jit.cache_directory()).startswith("/somewhere/cache/endive/kernels/")


def test_what_is_called_from_outside_is_cached_and_the_rest_is_part_of_it() -> None:
    assert type(kernel.advance._cache).__name__ == "FunctionCache"  # type: ignore[attr-defined]
    assert type(kernel._finish._cache).__name__ == "NullCache"  # type: ignore[attr-defined]
