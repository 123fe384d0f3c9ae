"""Write files atomically.

Content is written to a temporary file in the same directory, which is renamed when it is complete. The name of a temporary file
identifies its writer (machine, process and start of the process). Files of killed processes can therefore be removed without
removing files in progress. A temporary file from another machine counts as abandoned if it was not modified for a day.
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
"""Age in seconds at which a temporary file from another machine counts as abandoned."""
_WRITER = re.compile(r"([0-9a-f]{8})-(\d{1,10})-(\d{1,20})")
_NAME = re.compile(rf"\..+\.{_WRITER.pattern}-[0-9a-f]{{12}}\.tmp")


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``. The temporary file replaces ``path`` if the block succeeds, or is removed.

    Temporary files for ``path`` that killed processes left behind are removed first.

    Raises OSError, which names ``path``, if the file cannot be written.
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
        with suppress(OSError):  # the first error is the relevant one
            temporary.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a small file atomically."""
    with whole_file(path) as temporary, errors_naming(path):
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Add the name of the requested file to write errors, which name the temporary file or no file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


@contextmanager
def name_directory(path: Path) -> Iterator[None]:
    """Add the name of the directory to write errors that name no file, such as those of pyarrow on a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def check_writable(folder: Path) -> None:
    """Check that files can be written to a directory, which need not exist. Raises OSError, which names the directory.

    The check leaves no files or directories behind.
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

    Links are not followed, so that no other file is created or changed. Raises OSError, which names ``path``. Raises
    BlockingIOError if another process has the lock and ``kind`` is non-blocking.
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
    """Remove a file, a directory or a link (not its target), if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_inside(path: Path, root: Path) -> None:
    """Raise PermissionError if ``path`` is outside of ``root``, after links are resolved."""
    try:
        found = path.resolve()
    except RuntimeError:  # a loop of links
        raise PermissionError(errno.EPERM, "is a link to itself", str(path)) from None
    if not found.is_relative_to(root.resolve()):
        raise PermissionError(errno.EPERM, f"leads out of {root}, to {found}", str(path))


def temporary_beside(path: Path) -> Path:
    """Return the path of a temporary file for ``path``, in the same directory, with a name that identifies this process."""
    return path.with_name(f".{path.name}.{this_writer()}-{uuid.uuid4().hex[:12]}.tmp")


def this_writer() -> str:
    """Return a name of this process, by which other processes can check whether it is running."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_started(pid) or 0}"


def is_living(writer: str) -> bool | None:
    """Return whether the process with this name (see ``this_writer``) is running; None if it is on another machine or invalid."""
    match = _WRITER.fullmatch(writer)
    if match is None or match[1] != _machine():
        return None
    return _is_running(int(match[2]), int(match[3]))


def find_leftovers(root: Path) -> Iterator[Path]:
    """Yield the temporary files that dead processes left below a directory. Links are not followed."""
    for folder, _, names in os.walk(root):
        for name in names:
            match = _NAME.fullmatch(name)
            path = Path(folder, name)
            if match is not None and not _is_alive(match, path):
                yield path


def remove_leftovers_of(path: Path) -> None:
    """Remove the temporary files for ``path`` that dead processes left, if the directory can be listed."""
    with suppress(PermissionError):
        for other in list(path.parent.iterdir()):
            match = _NAME.fullmatch(other.name)
            if match is not None and other.name[: match.start(1) - 1] == f".{path.name}" and not _is_alive(match, other):
                other.unlink(missing_ok=True)


def remove_leftovers(root: Path) -> list[Path]:
    """Remove the temporary files that dead processes left below a directory, and return their paths."""
    removed = list(find_leftovers(root))
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def _is_alive(match: re.Match[str], path: Path) -> bool:
    if match[1] != _machine():
        try:
            return time.time() - path.stat().st_mtime < FOREIGN_SECONDS
        except OSError:
            return True  # the file no longer exists, so its writer has finished
    return _is_running(int(match[2]), int(match[3]))


def _is_running(pid: int, started: int) -> bool:
    found = _started(pid)
    return found is not None and (found == started or 0 in (found, started))


@cache
def _machine() -> str:
    """Return a name of this machine or container. Each container has its own process ids."""
    known = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            known.append(str(Path(source).readlink()) if source.endswith("pid") else Path(source).read_text().strip())
        except OSError:
            known.append("")
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; 0 if unknown, None if there is no such process."""
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
