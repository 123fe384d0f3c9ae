"""Run a command in a lab, as a child process that has the addresses of the lab in its environment and ends with the lab."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from endive.lab import LabError

_GRACE_S = 5.0
_POLL_S = 0.02
_SIGNAL_BASE = 128
"""Exit code of a shell for a child that was terminated by signal 0; the signal number is added."""


@contextmanager
def child_process(
    command: Sequence[str], environment: Mapping[str, str], stdout: int | IO[Any] | None = None, stderr: int | IO[Any] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and end it when the block ends.

    Raises:
        LabError: If the command cannot be started.
    """
    try:
        child = subprocess.Popen(list(command), env={**os.environ, **environment}, stdout=stdout, stderr=stderr)
    except (OSError, ValueError) as error:
        raise LabError(f"{command[0]} cannot be started: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield child
    finally:
        end_child(child)


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Terminate a child and its descendants; kill them if they do not end in time. Nothing is done if the child has ended."""
    if child.poll() is not None:
        return
    below = _descendants(child.pid)
    child.terminate()
    _send(signal.SIGTERM, below)
    end_s = time.monotonic() + _GRACE_S
    while (child.poll() is None or _running(below)) and time.monotonic() < end_s:
        time.sleep(_POLL_S)
    if child.poll() is None:
        child.kill()
    _send(signal.SIGKILL, below)
    child.wait()


@dataclass(frozen=True)
class _Process:
    """Process by its number and the time of its start, because numbers are reused."""

    number: int
    started: str


def _send(number: signal.Signals, processes: Iterable[_Process]) -> None:
    """Send a signal to those of the processes that still run."""
    for each in _running(processes):
        with suppress(OSError):
            os.kill(each.number, number)


def _running(processes: Iterable[_Process]) -> list[_Process]:
    """Return those of the processes that still run."""
    running = {process for process, _ in _processes()}
    return [each for each in processes if each in running]


def _descendants(number: int) -> list[_Process]:
    """Return the processes below a process, on Linux; the command may be a shell that runs the job."""
    parents = list(_processes())
    found: list[_Process] = []
    numbers = {number}
    while below := [each for each, parent in parents if parent in numbers and each not in found]:
        found += below
        numbers = {each.number for each in below}
    return found


def _processes() -> Iterator[tuple[_Process, int]]:
    """Return the processes of the machine with their parents, without those that have ended and are not waited for."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                yield _Process(int(path.parent.name), fields[19]), int(fields[1])


def exit_code(child: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a finished child process in the convention of shells."""
    code = child.wait()
    return code if code >= 0 else _SIGNAL_BASE - code
