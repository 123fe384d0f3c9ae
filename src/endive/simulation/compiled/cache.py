"""Kernels on disk: found by the code, the processor and the features that they were compiled for; compiled where they are missing.

A kernel is a file of object code in the user's cache directory. It is loaded by LLVM alone, without Numba. Files appear whole: a
kernel is written under another name first. A lock makes sure that no two processes compile the same kernel; the operating system
takes it back from a process that is killed.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from llvmlite import binding as llvm

from endive.cache import cache_root
from endive.files import whole_file
from endive.simulation.compiled.features import Features
from endive.utils import fingerprint

_CODE = ("arithmetic", "randomness.py", "table", "simulation/compiled")
_NICENESS = 10

log = logging.getLogger(__name__)


def cache_directory() -> Path:
    """Where the kernels of this version of the code are kept."""
    return cache_root() / "kernels" / fingerprint(*_CODE)


def kernel_file(features: Features) -> Path:
    """Where the kernel with these features lies once it is compiled for this processor."""
    return cache_directory() / f"{features.name}.{_machine()}.o"


def is_cached(features: Features) -> bool:
    """Whether the kernel was compiled before."""
    return kernel_file(features).exists()


@cache
def _machine() -> str:
    """A word for the processor, the C library and the versions of the compilers."""
    processor = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), platform.libc_ver())
    known = (sys.platform, *processor, version("llvmlite"), version("numba"), version("numpy"))
    return hashlib.sha256(repr(known).encode()).hexdigest()[:12]


class Kernel:
    """A kernel in memory: its two entries, which work on the record of a run."""

    def __init__(self, object_code: bytes) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        # in one block of memory: code reaches its constants by offsets of 32 bits, and LLVM ends the process where they are too far
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        self._engine.finalize_object()
        self._begin = self._entry("begin")
        self._advance = self._entry("advance", ctypes.c_int64)

    def _entry(self, name: str, *takes: Any) -> Any:
        """A function of the kernel: it is given room for its outcome and for an error, the run, and what else it takes."""
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *takes)
        return kind(self._engine.get_function_address(name))

    def begin(self, run: Any) -> None:
        """Put the first arrival of each source into the queue of a run (an array of its one record)."""
        self._call(self._begin, run)

    def advance(self, run: Any, max_events: int) -> int:
        """Take events until something has to be done outside; says what, by a code of ``layout``."""
        return self._call(self._advance, run, max_events)

    @staticmethod
    def _call(entry: Any, run: Any, *arguments: int) -> int:
        outcome, error = ctypes.c_int64(), ctypes.c_void_p()
        status = entry(ctypes.addressof(outcome), ctypes.addressof(error), run.ctypes.data, *arguments)
        if status > 0 or status == -1:
            raise RuntimeError(f"the kernel ended with status {status}")
        return outcome.value


_loaded: dict[Path, Kernel] = {}


def load_kernel(features: Features) -> Kernel:
    """The kernel with these features; compiled, if it has not been before."""
    path = kernel_file(features)
    if path not in _loaded:
        _loaded[path] = Kernel(_object_code(features, path))
    return _loaded[path]


def _object_code(features: Features, path: Path) -> bytes:
    try:
        if not path.exists():
            compile_kernel(features)
        return path.read_bytes()
    except OSError as error:
        log.warning("the kernel is compiled for this process alone: %s", error)
        return _build(features)


def compile_kernel(features: Features, *, wait: bool = True) -> None:
    """Compile a kernel into the cache, unless it is there; if another process is at it, wait for it (or leave it to that one)."""
    path = kernel_file(features)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.with_suffix(".lock"), wait) as mine:
        if mine and not path.exists():
            with whole_file(path) as written:
                written.write_bytes(_build(features))


def _build(features: Features) -> bytes:
    from endive.simulation.compiled.entries import object_code

    return object_code(features)


@contextmanager
def _locked(path: Path, wait: bool) -> Iterator[bool]:
    """Hold a lock; says whether it is held, which it is not if another process has it and there was no time to wait."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


_beside: dict[Path, int] = {}
"""Processes that this one has started to compile kernels: one for each kernel, however many runs ask for it."""


def compile_beside(features: Features) -> None:
    """Compile a kernel in a process of its own that is quiet, yields to others, and outlives this one."""
    path = kernel_file(features)
    if path in _beside and _is_running(_beside[path]):
        return
    command = [sys.executable, "-m", "endive.simulation.compiled.cache", features.name]
    nothing = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    # not a Popen, which would be missed when this process ends before it
    _beside[path] = os.posix_spawn(sys.executable, command, environment, file_actions=nothing)


def _is_running(process: int) -> bool:
    """Tell whether a process that this one has started is still there; one that has ended is let go."""
    try:
        return os.waitpid(process, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # it was let go before
        return False


if __name__ == "__main__":
    with suppress(OSError):
        os.setsid()  # Ctrl-C is for the one who started it
    os.nice(_NICENESS)
    compile_kernel(Features.named(sys.argv[1]), wait=False)
