"""Atomic writes of files.

A file is written to a temporary file in the same directory, which is renamed when it is complete. The name of a temporary file
identifies its writer (machine, process and start of the process), so that files of killed processes can be removed while files in
progress are kept. A file of another machine counts as abandoned when it was not touched for a day.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

FOREIGN_SECONDS = 86_400.0
"""Age from which a temporary file of another machine counts as abandoned."""
_WRITER = re.compile(r"([0-9a-f]{8})-(\d{1,10})-(\d{1,20})")
_NAME = re.compile(rf"\..+\.{_WRITER.pattern}-[0-9a-f]{{12}}\.tmp")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``, which replaces it when the block ends well and is removed otherwise.

    Temporary files that killed processes left for ``path`` are removed first.

    Raises OSError, which names ``path``, if it cannot be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers_of(path)
    temporary = temporary_beside(path)
    try:
        yield temporary
        with errors_naming(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):  # the first error says what is wrong
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    with whole_file(path) as temporary, errors_naming(path):
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Report write errors with the name of the requested file instead of the temporary file or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


@contextmanager
def name_directory(path: Path) -> Iterator[None]:
    """Report write errors without a file name, such as those of pyarrow on a full disk, with the name of the directory."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def check_writable(folder: Path) -> None:
    """Check that files can be written in a directory, which need not exist yet. Raises OSError, which names it.

    Nothing is left behind.
    """
    place = next(each for each in (folder, *folder.parents) if each.exists())
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    temporary = temporary_beside(place / "writable")
    with errors_naming(folder):
        temporary.touch()
        temporary.unlink()


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """Hold a lock (a flag of ``fcntl.flock``) on a file, which is created if necessary; the lock is released when the process ends.

    Links are not followed, so that no other files are created or changed. Raises OSError, which names ``path``, and
    BlockingIOError if another process has the lock and ``kind`` does not wait.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OSError(error.errno, "must not be a link" if error.errno == errno.ELOOP else error.strerror, str(path)) from None
    try:
        fcntl.flock(file, kind)
        yield
    finally:
        os.close(file)


def discard(path: Path) -> None:
    """Remove a file, a directory or a link (not its target), if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_inside(path: Path, root: Path) -> None:
    """Raise PermissionError if writing ``path`` would write outside of ``root``, by its name or by a link on the way."""
    try:
        found = path.resolve()
    except RuntimeError:  # a loop of links
        raise PermissionError(errno.EPERM, "is a link to itself", str(path)) from None
    if not found.is_relative_to(root.resolve()):
        raise PermissionError(errno.EPERM, f"leads out of {root}, to {found}", str(path))


def temporary_beside(path: Path) -> Path:
    """Return the name of a temporary file for ``path``, in its directory, that names this process as its writer."""
    return path.with_name(f".{path.name}.{this_writer()}-{uuid.uuid4().hex[:12]}.tmp")


def this_writer() -> str:
    """Return a name of this process that other processes can use to check whether it is running."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_started(pid) or 0}"


def is_living(writer: str) -> bool | None:
    """Return whether the process with a name of ``this_writer`` is running; None for another machine or an invalid name."""
    match = _WRITER.fullmatch(writer)
    if match is None or match[1] != _machine():
        return None
    return _is_running(int(match[2]), int(match[3]))


def find_leftovers(root: Path) -> Iterator[Path]:
    """Yield the temporary files of dead processes below a directory. Links are not followed."""
    for folder, _, names in os.walk(root):
        for name in names:
            match = _NAME.fullmatch(name)
            path = Path(folder, name)
            if match is not None and not _is_alive(match, path):
                yield path


def remove_leftovers_of(path: Path) -> None:
    """Remove the temporary files for ``path`` of dead processes, where the directory can be listed."""
    with suppress(PermissionError):
        for other in list(path.parent.iterdir()):
            match = _NAME.fullmatch(other.name)
            if match is not None and other.name[: match.start(1) - 1] == f".{path.name}" and not _is_alive(match, other):
                other.unlink(missing_ok=True)


def remove_leftovers(root: Path) -> list[Path]:
    """Remove the temporary files of dead processes below a directory, and return them."""
    removed = list(find_leftovers(root))
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def _is_alive(match: re.Match[str], path: Path) -> bool:
    if match[1] != _machine():
        try:
            return time.time() - path.stat().st_mtime < FOREIGN_SECONDS
        except OSError:
            return True  # it is gone: its writer has finished
    return _is_running(int(match[2]), int(match[3]))


def _is_running(pid: int, started: int) -> bool:
    found = _started(pid)
    return found is not None and (found == started or 0 in (found, started))


@cache
def _machine() -> str:
    """Return a name of this machine as its processes see it: each container numbers its processes itself."""
    known = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            known.append(str(Path(source).readlink()) if source.endswith("pid") else Path(source).read_text().strip())
        except OSError:
            known.append("")
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; 0 if it is unknown, None if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text()
        state, *numbers = fields.rpartition(")")[2].split()
        return None if state in "ZX" else int(numbers[18])
    except FileNotFoundError:
        return None if Path("/proc/self/stat").exists() else _exists(pid)
    except (OSError, ValueError, IndexError):
        return _exists(pid)


def _exists(pid: int) -> int | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except (OSError, OverflowError):
        return 0
    return 0
