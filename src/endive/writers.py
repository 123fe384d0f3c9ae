"""Who writes a temporary file, and whether that process still lives.

The name of a temporary file carries the machine, the process and when the process started, so that what a killed process has left
can be told from what is being written. Of a writer on another machine nothing is known: its file is taken for dead when it was not
touched for a day.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

FOREIGN_SECONDS = 86_400.0
"""A file of another machine that was not touched for so long has no writer any more."""
_WRITER = re.compile(r"([0-9a-f]{8})-(\d{1,10})-(\d{1,20})")
_NAME = re.compile(rf"\..+\.{_WRITER.pattern}-[0-9a-f]{{12}}\.tmp")


def temporary_beside(path: Path) -> Path:
    """Return the name of a temporary file for ``path``, in its directory, which tells that this process writes it."""
    return path.with_name(f".{path.name}.{this_writer()}-{uuid.uuid4().hex[:12]}.tmp")


def this_writer() -> str:
    """Return a name of this process by which others can tell whether it lives."""
    pid = os.getpid()
    return f"{_machine()}-{pid}-{_started(pid) or 0}"


def is_living(writer: str) -> bool | None:
    """Tell whether the process of a name of ``this_writer`` lives; None if it is of another machine, or no such name."""
    match = _WRITER.fullmatch(writer)
    if match is None or match[1] != _machine():
        return None
    return _is_running(int(match[2]), int(match[3]))


def find_leftovers(root: Path) -> Iterator[Path]:
    """Yield the temporary files below a directory whose writers are dead. Links are not followed."""
    for folder, _, names in os.walk(root):
        for name in names:
            match = _NAME.fullmatch(name)
            path = Path(folder, name)
            if match is not None and not _is_alive(match, path):
                yield path


def remove_leftovers_of(path: Path) -> None:
    """Remove the temporary files for ``path`` whose writers are dead, where the directory tells what it has."""
    with suppress(PermissionError):
        for other in list(path.parent.iterdir()):
            match = _NAME.fullmatch(other.name)
            if match is not None and _beginning(match) == f".{path.name}" and not _is_alive(match, other):
                other.unlink(missing_ok=True)


def _beginning(match: re.Match[str]) -> str:
    """What stands before the writer in the name of a temporary file."""
    return match[0][: match.start(1) - 1]


def remove_leftovers(root: Path) -> list[Path]:
    """Remove the temporary files below a directory whose writers are dead, and return them."""
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
    """Name this machine as its processes see it: containers have process numbers of their own."""
    known = [socket.gethostname()]
    for source in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            known.append(str(Path(source).readlink()) if source.endswith("pid") else Path(source).read_text().strip())
        except OSError:
            known.append("")
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """Return when a process started, in ticks since the machine did; 0 if that cannot be told, None if there is no such process."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
        state, *fields = told.rpartition(")")[2].split()
        return None if state in "ZX" else int(fields[18])
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
