"""Kernels are kept in the user's cache: found again, whole, apart for each version of the code, and compiled once only."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import pytest

from endive.cache import CACHE_VARIABLE
from endive.simulation.compiled import cache, features
from endive.simulation.compiled.features import ALL, Features

FEATURES = Features(endive=True, cas=True)

# Compiles something else in the kernel's place, since the kernel takes too long, and leaves a mark each time that it does.
PROGRAM = """
import os, sys, time
from pathlib import Path
from endive.simulation.compiled import cache
from endive.simulation.compiled.features import Features

def build(features):
    marks = Path(sys.argv[1])
    marks.mkdir(exist_ok=True)
    (marks / str(os.getpid())).touch()
    time.sleep(float(sys.argv[2]))
    return b"object code"

cache._build = build
cache.compile_kernel(Features(endive=True, cas=True), wait=sys.argv[3] == "wait")
"""


def start(folder: Path, seconds: float, how: str = "wait") -> subprocess.Popen[bytes]:
    environment = {**os.environ, CACHE_VARIABLE: str(folder / "cache")}
    command = [sys.executable, "-c", PROGRAM, str(folder / "marks"), str(seconds), how]
    return subprocess.Popen(command, env=environment)


def builds(folder: Path) -> int:
    return len(list((folder / "marks").glob("*")))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path


def test_processes_that_start_at_once_compile_a_kernel_once(folder: Path) -> None:
    together = [start(folder, 0.3) for _ in range(4)]
    assert [process.wait(120) for process in together] == [0, 0, 0, 0]
    assert builds(folder) == 1
    assert cache.kernel_file(FEATURES).read_bytes() == b"object code"
    assert start(folder, 0.0).wait(120) == 0
    assert builds(folder) == 1


def test_one_that_does_not_wait_leaves_it_to_the_other(folder: Path) -> None:
    first = start(folder, 600.0)
    while not builds(folder):
        time.sleep(0.05)
    assert start(folder, 0.0, "leave").wait(120) == 0
    assert builds(folder) == 1
    assert not cache.is_cached(FEATURES)
    first.kill()
    first.wait()
    assert start(folder, 0.0, "leave").wait(120) == 0, "a process that was killed holds no lock"
    assert builds(folder) == 2
    assert cache.is_cached(FEATURES)


def test_a_kernel_is_compiled_beside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []

    def spawn(path: str, command: list[str], environment: dict[str, str], **_: object) -> int:
        started.append(command)
        return os.getpid()

    monkeypatch.setattr(cache, "_beside", {})
    monkeypatch.setattr(os, "posix_spawn", spawn)
    cache.compile_beside(ALL)
    [command] = started
    assert command[1:3] == ["-m", "endive.simulation.compiled.cache"]
    assert Features.named(command[3]) == ALL


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_that_cannot_be_written_is_done_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache").mkdir()
    (folder / "cache").chmod(stat.S_IRUSR | stat.S_IXUSR)
    monkeypatch.setattr(cache, "_build", lambda _: b"object code")
    assert cache._object_code(FEATURES, cache.kernel_file(FEATURES)) == b"object code"


def test_a_file_in_the_place_of_the_cache_is_done_without(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cache").write_text("not a directory")
    monkeypatch.setattr(cache, "_build", lambda _: b"object code")
    assert cache._object_code(FEATURES, cache.kernel_file(FEATURES)) == b"object code"


def test_the_cache_bears_the_fingerprint_of_the_code(folder: Path) -> None:
    path = cache.kernel_file(FEATURES)
    assert path.parent.parent == folder / "cache" / "kernels"
    assert path.name.startswith("endive-cas.")
    assert cache.kernel_file(ALL) != path


def test_without_a_choice_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert str(cache.cache_directory()).startswith("/somewhere/cache/endive/kernels/")


def test_every_feature_has_its_constant() -> None:
    assert ALL.constants == {name: value for name, value in vars(features).items() if name.startswith("HAS_")}
    for field in fields(Features):
        one = Features(**{field.name: True})
        assert Features.named(one.name) == one
        assert sum(one.constants.values()) == 1


def test_a_process_that_compiles_beside_may_outlive_the_one_that_started_it(folder: Path) -> None:
    """Without a word about it, and it is not started twice while it runs."""
    slow = folder / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {folder}/started-$$\nsleep 2\n")
    slow.chmod(0o755)
    program = f"""
import sys, time
from pathlib import Path
sys.executable = {str(slow)!r}
from endive.simulation.compiled.cache import compile_beside
from endive.simulation.compiled.features import Features
for _ in range(3):
    compile_beside(Features(endive=True, cas=True))
while not list(Path({str(folder)!r}).glob("started-*")):
    time.sleep(0.01)
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(folder.glob("started-*"))) == 1
