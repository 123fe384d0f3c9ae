"""Find the client processes of connections to the lab in Linux's socket table; elsewhere, each connection counts as a client."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Queue

from endive.lab.exchange import Connection

_PROCESSES = Path("/proc")
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class ClientNames:
    """Names of the clients of connections: ``pid:N`` if the process is known, otherwise ``port:N``.

    A new process is looked up in a thread, because that takes a few milliseconds.
    """

    def __init__(self) -> None:
        self._names: dict[Connection, str] = {}
        self._asked: Queue[tuple[Connection, str] | None] = Queue()
        self._processes: dict[int, None] = {}
        self._thread = threading.Thread(target=self._find_processes, daemon=True, name="endive-lab-clients")
        self._thread.start()

    def connection_opened(self, connection: Connection) -> None:
        """Find the process of a new connection: immediately (less than 1 ms) if it has other connections, or in the thread."""
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
        """Return the name of the client of a connection, after the lookups in progress."""
        self._asked.join()
        return self._names.get(connection, _port_name(connection))

    def close(self) -> None:
        """End the lookups."""
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
    """Return the process that has a socket."""
    wanted = f"socket:[{inode}]"
    return next((process for process in processes if wanted in _open_files(process)), None)


def _open_files(process: int) -> Iterator[str]:
    with suppress(OSError):  # of another user, or gone
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink())


def _socket_inode(connection: Connection) -> str | None:
    """Return the inode of the client's socket."""
    ends = [f":{port:04X}" for port in connection]
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]) and fields[9] != "0":
                    return fields[9]
    return None
