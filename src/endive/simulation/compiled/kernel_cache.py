"""Load compiled kernels from the cache directory of the user, and compile missing kernels.

A kernel is a file of object code, whose name identifies the source code, the processor and the features for which it was compiled.
LLVM loads the file without Numba. Files are written atomically, under a temporary name first. A lock prevents two processes from
compiling the same kernel. If a process is killed, the operating system releases its lock.

Only this module, ``compilation``, ``numba_target`` and ``memory`` use private interfaces of Numba, because a kernel then compiles
in about 5 s instead of 15 s, and a compiled kernel loads in about 1 ms, without importing Numba. The interfaces were tested with
the releases in ``TESTED``:

* ``numba.core.codegen``: ``JITCodeLibrary`` (``_final_module``, ``_linking_libraries``, ``_finalized``, ``add_llvm_module``,
  ``finalize``), ``JITCPUCodegen`` (``_library_class``, ``_create_empty_module``)
* ``numba.core.cpu.CPUContext`` (``init``, ``_internal_codegen``, ``get_executable``)
* ``numba.core.registry``: ``CPUDispatcher`` (``targetdescr``, ``overloads``, ``add_overload``, ``get_call_template``),
  ``CPUTarget`` (``_toplevel_target_context``, ``_target_name``)
* ``numba.core.target_extension``: ``CPU``, ``target_registry``, ``dispatcher_registry``, ``jit_registry``
* ``numba.core.externals.c_math_functions``, ``numba.core.compiler_lock.global_compiler_lock``, ``numba.core.utils``
* ``numba.np.arrayobj``: ``make_array``, ``populate_array`` (in ``memory``)
* the compiler options ``_nrt``, ``no_cpython_wrapper`` and ``no_cfunc_wrapper``
* the calling convention of compiled functions: address of the result, address of the error, arguments; the status is returned

With another release, or if a kernel cannot be linked, ``numba.njit`` compiles the kernels in each process that needs them, after
one warning. ``llvmlite.binding`` and ``numba.extending`` are public.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import logging
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from importlib.metadata import version
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Protocol

from llvmlite import binding as llvm

from endive.cache_directory import cache_root
from endive.output_files import whole_file
from endive.simulation.compiled import run_state
from endive.simulation.compiled.features import Features

TESTED = {"numba": ((0, 68), (0, 69)), "llvmlite": ((0, 50), (0, 51))}
"""Tested releases of each package: the first tested one and the first untested one, as in ``pyproject.toml``."""
_SOURCES = ("arithmetic", "randomness.py", "simulation/compiled")
"""Source files that determine the kernels."""
_NICENESS = 10


def find_untested_release() -> str:
    """Return a sentence that names the installed releases outside ``TESTED``.

    The text is empty if all installed releases are tested.
    """
    for package, (first, end) in TESTED.items():
        installed = version(package)
        if not first <= tuple(int(number) for number in re.findall(r"\d+", installed)[:2]) < end:
            bounds = ",".join(f"{sign}{'.'.join(map(str, bound))}" for sign, bound in ((">=", first), ("<", end)))
            return f"{package} {installed} is outside the tested releases; install '{package}{bounds}' to cache compiled kernels"
    return ""


UNTESTED_RELEASE = find_untested_release()
"""Reason why ``numba.njit`` compiles the kernels; empty if the private interfaces can be used."""

log = logging.getLogger(__name__)


class KernelError(Exception):
    """Raised if a kernel cannot be linked.

    Either the file is not object code for this processor, or the code refers to a missing symbol.
    """


class Kernel(Protocol):
    """Compiled kernel with two functions. Each of them takes the record of a run as an array of length 1."""

    def begin(self, run: Any) -> None:
        """Schedule the first arrival of each source."""

    def advance(self, run: Any, max_events: int) -> int:
        """Process events until the kernel must return to its caller, and return the reason as a code of ``run_state``."""


class NativeKernel:
    """Kernel that LLVM loads from object code."""

    def __init__(self, object_code: bytes) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._linker = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
        library = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
        try:
            self._library = library.export_symbol("begin").export_symbol("advance").link(self._linker, "kernel")
        except RuntimeError as error:
            raise KernelError(f"the kernel cannot be linked: {error}") from None
        self._begin = self._entry("begin")
        self._advance = self._entry("advance", ctypes.c_int64)

    def _entry(self, name: str, *takes: Any) -> Any:
        """Return a function of the kernel.

        The function takes the addresses of its result, of an error and of the run, and then its other arguments.
        """
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *takes)
        return prototype(self._library[name])

    def begin(self, run: Any) -> None:
        """Schedule the first arrival of each source."""
        self._call(self._begin, run)

    def advance(self, run: Any, max_events: int) -> int:
        """Process events until the kernel must return to its caller, and return the reason as a code of ``run_state``."""
        return self._call(self._advance, run, max_events)

    @staticmethod
    def _call(entry: Any, run: Any, *arguments: int) -> int:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        status = entry(ctypes.addressof(result), ctypes.addressof(error), run.ctypes.data, *arguments)
        if status > 0 or status == -1:
            raise RuntimeError(f"the kernel ended with status {status}")
        return result.value


class PlainKernel:
    """Kernel that ``numba.njit`` compiles in this process."""

    def __init__(self, begin: Any, advance: Any) -> None:
        self._begin = begin
        self._advance = advance

    def begin(self, run: Any) -> None:
        """Schedule the first arrival of each source."""
        self._begin(run[0])

    def advance(self, run: Any, max_events: int) -> int:
        """Process events until the kernel must return to its caller, and return the reason as a code of ``run_state``."""
        return int(self._advance(run[0], max_events))


def cache_directory() -> Path:
    """Return the directory for the kernels of this version of the source code."""
    return cache_root() / "kernels" / _hash_code()


@cache
def _hash_code() -> str:
    """Return a hash of the source code of kernels and of the values that the code imports through ``run_state``.

    The sources are read as resources, so a package in a zip file has the same hash.
    """
    package = resources.files("endive")
    sources = [pair for name in _SOURCES for pair in _read_sources(package.joinpath(*name.split("/")), name)]
    values = [(name, str(value)) for name, value in vars(run_state).items() if name.isupper()]
    return hashlib.sha256(repr((sorted(sources), sorted(values))).encode()).hexdigest()[:12]


def _read_sources(node: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each Python file at or below a path."""
    if node.is_dir():
        for child in node.iterdir():
            yield from _read_sources(child, f"{path}/{child.name}")
    elif path.endswith(".py"):
        yield path, node.read_bytes()


def kernel_file(features: Features) -> Path:
    """Return the path of the kernel file for these features and this processor."""
    return cache_directory() / f"{features.name}.{_hash_machine()}.o"


def is_cached(features: Features) -> bool:
    """Return whether the cache contains the kernel with these features."""
    return not UNTESTED_RELEASE and kernel_file(features).exists()


@cache
def _hash_machine() -> str:
    """Return a hash of the processor, the C library and the releases of the compilers."""
    processor = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(), platform.libc_ver())
    known = (sys.platform, *processor, version("llvmlite"), version("numba"), version("numpy"))
    return hashlib.sha256(repr(known).encode()).hexdigest()[:12]


_loaded: dict[Path, Kernel] = {}


def load_kernel(features: Features) -> Kernel:
    """Return the kernel with these features, and compile it if the cache does not contain it.

    If the kernel cannot be compiled to object code, ``numba.njit`` compiles it for this process, after a warning.
    """
    path = kernel_file(features)
    if path not in _loaded:
        _loaded[path] = _load(features, path)
    return _loaded[path]


def _load(features: Features, path: Path) -> Kernel:
    if UNTESTED_RELEASE:
        return _compile_plainly(features, UNTESTED_RELEASE)
    try:
        return NativeKernel(path.read_bytes())
    except OSError:
        pass
    except KernelError:
        path.unlink(missing_ok=True)
    try:
        return NativeKernel(_object_code(features, path))
    except KernelError as error:
        return _compile_plainly(features, str(error))


def _object_code(features: Features, path: Path) -> bytes:
    """Return the object code of a kernel.

    If there is a cache directory, the kernel is stored in it.
    """
    try:
        compile_kernel(features)
        return path.read_bytes()
    except OSError as error:
        log.warning("The kernel cannot be stored in the cache, so it is compiled for this process only: %s", error)
        return _build(features)


def compile_kernel(features: Features, *, wait: bool = True) -> None:
    """Compile a kernel into the cache, unless the cache contains it.

    If another process compiles the kernel, the function waits for that process, or returns if ``wait`` is False.

    Raises:
        KernelError: If the kernel cannot be linked. It is then not stored.
    """
    path = kernel_file(features)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _lock(path.with_suffix(".lock"), wait) as locked:
        if locked and not path.exists():
            object_code = _build(features)
            NativeKernel(object_code)
            with whole_file(path) as temporary:
                temporary.write_bytes(object_code)


def _build(features: Features) -> bytes:
    from endive.simulation.compiled.compilation import compile_object_code
    from endive.simulation.compiled.kernel import ENTRIES

    return compile_object_code(ENTRIES, features.constants)


def _compile_plainly(features: Features, reason: str) -> PlainKernel:
    """Return a kernel that ``numba.njit`` compiles, and warn once per process."""
    from endive.simulation.compiled.compilation import compile_plainly
    from endive.simulation.compiled.kernel import ENTRIES

    _warn_once(reason)
    return PlainKernel(**compile_plainly(ENTRIES, features.constants))


@cache
def _warn_once(reason: str) -> None:
    log.warning("Each process compiles its kernels again, which takes about 15 s per kernel: %s.", reason)


@contextmanager
def _lock(path: Path, wait: bool) -> Iterator[bool]:
    """Acquire a lock, and yield True if this process holds it.

    If ``wait`` is False and another process holds the lock, yield False.
    """
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


_background: dict[Path, int] = {}
"""Background processes that this process has started, by kernel. There is at most one for each kernel."""


def compile_in_background(features: Features) -> bool:
    """Compile a kernel in a background process of low priority, which can outlive this process.

    Returns:
        Whether the cache will contain the kernel.
    """
    if UNTESTED_RELEASE:
        return False
    path = kernel_file(features)
    if path in _background and _is_running(_background[path]):
        return True
    command = [sys.executable, "-m", "endive.simulation.compiled.kernel_cache", features.name]
    nothing = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    # not Popen, which warns if this process ends before its child
    _background[path] = os.posix_spawn(sys.executable, command, environment, file_actions=nothing)
    return True


def _is_running(process: int) -> bool:
    """Return whether a child process is still running. If it has ended, collect its exit status."""
    try:
        return os.waitpid(process, os.WNOHANG) == (0, 0)
    except ChildProcessError:  # already reaped
        return False


if __name__ == "__main__":
    with suppress(OSError):
        os.setsid()  # Ctrl-C must reach only the parent process
    os.nice(_NICENESS)
    compile_kernel(Features.named(sys.argv[1]), wait=False)
