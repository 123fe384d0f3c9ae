"""Run the command of a lab, and find the client process of each connection.

On Linux, the socket table determines the process of a connection. On other systems, each connection counts as a client.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import IO, Any

from endive.lab import LabError
from endive.lab.exchange import Connection

_GRACE_S = 5.0
_POLL_S = 0.02
_SIGNAL_BASE = 128
"""Number that shells add to the number of the signal that ended a process to obtain its exit code."""


@contextmanager
def child_process(
    command: Sequence[str], environment: Mapping[str, str], stdout: int | IO[Any] | None = None, stderr: int | IO[Any] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and terminate it at the end of the block.

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
    """Terminate a running process and its descendants, and kill those that do not end within 5 s."""
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
    """Process, identified by id and start time, because the system reuses process ids."""

    number: int
    started: str


def _send(number: signal.Signals, processes: Iterable[_Process]) -> None:
    """Send a signal to the processes that are still running."""
    for each in _running(processes):
        with suppress(OSError):
            os.kill(each.number, number)


def _running(processes: Iterable[_Process]) -> list[_Process]:
    """Return the processes that are still running."""
    running = {process for process, _ in _processes()}
    return [each for each in processes if each in running]


def _descendants(number: int) -> list[_Process]:
    """Return the descendants of a process (on Linux), such as the processes of a shell script."""
    parents = list(_processes())
    found: list[_Process] = []
    numbers = {number}
    while below := [each for each, parent in parents if parent in numbers and each not in found]:
        found += below
        numbers = {each.number for each in below}
    return found


def _processes() -> Iterator[tuple[_Process, int]]:
    """Return the running processes of the system, each with the id of its parent."""
    for path in _PROCESSES.glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                yield _Process(int(path.parent.name), fields[19]), int(fields[1])


def exit_code(child: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a finished process as a shell does: 128 plus the number of the signal that ended it."""
    code = child.wait()
    return code if code >= 0 else _SIGNAL_BASE - code


_PROCESSES = Path("/proc")
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class ClientNames:
    """Names of the clients of connections: ``pid:N`` for a known process, otherwise ``port:N``.

    A separate thread searches for new processes, because a search takes several milliseconds.
    """

    def __init__(self) -> None:
        self._names: dict[Connection, str] = {}
        self._asked: Queue[tuple[Connection, str] | None] = Queue()
        self._processes: dict[int, None] = {}
        self._thread = threading.Thread(target=self._find_processes, daemon=True, name="endive-lab-clients")
        self._thread.start()

    def connection_opened(self, connection: Connection) -> None:
        """Find the client process of a new connection among the known processes or, if it is not one of them, in the thread."""
        self._names[connection] = _port_name(connection)
        inode = _socket_inode(connection)
        if inode is None:
            return
        process = _owner(inode, list(self._processes))
        if process is not None:
            self._names[connection] = f"pid:{process}"
        else:
            self._asked.put((connection, inode))

    def name(self, connection: Connection) -> str:
        """Return the name of the client of a connection, after all searches have finished."""
        self._asked.join()
        return self._names.get(connection, _port_name(connection))

    def close(self) -> None:
        """Stop the thread."""
        self._asked.put(None)
        self._thread.join()

    def _find_processes(self) -> None:
        while (asked := self._asked.get()) is not None:
            connection, inode = asked
            others = sorted((int(path.name) for path in _PROCESSES.iterdir() if path.name.isdigit()), reverse=True)
            process = _owner(inode, others)
            if process is not None:
                self._processes[process] = None
                self._names[connection] = f"pid:{process}"
            self._asked.task_done()
        self._asked.task_done()


def _port_name(connection: Connection) -> str:
    return f"port:{connection[0]}"


def _owner(inode: str, processes: Iterable[int]) -> int | None:
    """Return the process that has opened a socket, or None if it is not one of the given processes."""
    wanted = f"socket:[{inode}]"
    return next((process for process in processes if wanted in _open_files(process)), None)


def _open_files(process: int) -> Iterator[str]:
    with suppress(OSError):  # the process belongs to another user, or has ended
        for path in (_PROCESSES / str(process) / "fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink())


def _socket_inode(connection: Connection) -> str | None:
    """Return the inode of the client's socket of a connection, or None if the socket is not in the socket table."""
    ends = [f":{port:04X}" for port in connection]
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]) and fields[9] != "0":
                    return fields[9]
    return None
