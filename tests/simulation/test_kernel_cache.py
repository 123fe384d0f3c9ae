"""The cache of kernels: files are whole, apart for each version of the code, compiled once, and linked before they are called."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from endive.cache_directory import CACHE_VARIABLE
from endive.simulation.compiled import features
from endive.simulation.compiled import kernel_cache as cache
from endive.simulation.compiled.features import ALL, Features
from endive.transaction.paths import COMMIT_PATHS

FEATURES = Features.named("endive-cas")

# Compiles something else in the kernel's place, since the kernel takes too long, and leaves a mark each time that it does.
PROGRAM = """
import os, sys, time
from pathlib import Path
from endive.simulation.compiled.features import Features
from endive.simulation.compiled import kernel_cache as cache

def build(features):
    marks = Path(sys.argv[1])
    marks.mkdir(exist_ok=True)
    (marks / str(os.getpid())).touch()
    time.sleep(float(sys.argv[2]))
    return b"object code"

cache._build = build
cache.NativeKernel = lambda object_code: None
cache.compile_kernel(Features.named("endive-cas"), wait=sys.argv[3] == "wait")
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


def test_kernels_of_other_features_are_other_files(folder: Path) -> None:
    path = cache.kernel_file(FEATURES)
    assert path.parent.parent == folder / "cache" / "kernels"
    assert path.name.startswith("endive-cas.")
    assert cache.kernel_file(ALL) != path


def test_without_a_choice_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CACHE_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/cache")
    assert str(cache.cache_directory()).startswith("/somewhere/cache/endive/kernels/")


def test_every_feature_has_its_constant_and_every_commit_path_is_one() -> None:
    assert ALL.constants == {name: value for name, value in vars(features).items() if name.startswith("HAS_")}
    assert COMMIT_PATHS.keys() < ALL.names
    assert Features.named(ALL.name) == ALL
    assert Features.select(cas=True, log=False) == Features.named("cas")
    assert [name for name, value in Features.named("cas").constants.items() if value] == ["HAS_CAS"]


def test_a_process_that_compiles_in_the_background_may_outlive_its_parent(folder: Path) -> None:
    """The parent prints no warning, and starts no second process while the first one runs."""
    slow = folder / "slow"
    slow.write_text(f"#!/bin/sh\ntouch {folder}/started-$$\nsleep 2\n")
    slow.chmod(0o755)
    program = f"""
import sys, time
from pathlib import Path
sys.executable = {str(slow)!r}
from endive.simulation.compiled.kernel_cache import compile_in_background
from endive.simulation.compiled.features import Features
for _ in range(3):
    compile_in_background(Features.named("endive-cas"))
while not list(Path({str(folder)!r}).glob("started-*")):
    time.sleep(0.01)
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(folder.glob("started-*"))) == 1


# Puts object code into the cache that refers to a symbol which does not exist, and runs a configuration that needs the kernel.
UNRESOLVED = """
from llvmlite import binding as llvm
from endive.simulation.compiled import kernel_cache as cache
from tests.simulation.test_kernel_cache import FEATURES
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
module = llvm.parse_assembly('''
declare i32 @no_such_helper(i8*)
define i32 @begin(i8* %result, i8* %error, i8* %run) {
  %status = call i32 @no_such_helper(i8* %run)
  ret i32 %status
}
define i32 @advance(i8* %result, i8* %error, i8* %run, i64 %events) {
  %status = call i32 @no_such_helper(i8* %run)
  ret i32 %status
}
''')
machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(reloc="pic", codemodel="small")
path = cache.kernel_file(FEATURES)
path.parent.mkdir(parents=True)
path.write_bytes(machine.emit_object(module))
"""

# Runs a configuration and prints how many rows both engines have, and whether they are equal.
RUN = """
import logging
logging.basicConfig()
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from tests.simulation.runs import table_of
from tests.simulation.test_runner import config_with
one, _ = table_of(CompiledEngine, config_with())
two, _ = table_of(ReferenceEngine, config_with())
print(one.num_rows, one.equals(two))
"""


def run_program(program: str, folder: Path) -> tuple[int, str, str]:
    environment = {**os.environ, CACHE_VARIABLE: str(folder / "cache")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_kernel_that_refers_to_a_missing_symbol_is_compiled_again(folder: Path) -> None:
    """Calling it would end the process."""
    code, output, errors = run_program(UNRESOLVED + RUN, folder)
    assert (code, output.split()[1:], errors) == (0, ["True"], "")
    assert b"no_such_helper" not in cache.kernel_file(FEATURES).read_bytes()


@pytest.mark.slow
def test_a_release_that_was_not_tested_falls_back_to_plain_numba(folder: Path) -> None:
    program = """
import importlib.metadata
installed = importlib.metadata.version
importlib.metadata.version = lambda name: "0.70.0" if name == "numba" else installed(name)
"""
    code, output, errors = run_program(program + RUN, folder)
    assert (code, output.split()[1:]) == (0, ["True"])
    assert errors.count("WARNING") == 1
    assert "numba 0.70.0 is outside the tested releases; install 'numba>=0.68,<0.69'" in errors
    assert not list((folder / "cache").rglob("*.o"))


@pytest.mark.parametrize(
    ("releases", "is_tested"),
    [
        ({"numba": "0.68.1", "llvmlite": "0.50.0"}, True),
        ({"numba": "0.68.9", "llvmlite": "0.50.1rc1"}, True),
        ({"numba": "0.67.0", "llvmlite": "0.50.0"}, False),
        ({"numba": "0.68.1", "llvmlite": "1.0rc1"}, False),
    ],
)
def test_releases_are_compared_by_their_first_two_numbers(
    releases: dict[str, str], is_tested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "version", releases.__getitem__)
    assert (cache.find_untested_release() == "") == is_tested


def test_the_dependencies_have_the_bounds_of_the_tested_releases() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"]
    for package, (first, end) in cache.TESTED.items():
        low, high = (".".join(map(str, bound)) for bound in (first, end))
        assert f"{package}>={low},<{high}" in project
