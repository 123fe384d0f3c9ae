"""The processes behind connections to the lab, by Linux's table of sockets; elsewhere a client is a connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class ClientNames:
    """Names the client of each connection: ``pid:N`` where the process is known, otherwise ``port:N``.

    Processes are looked up in a thread, because a lookup takes a few milliseconds and a connection may end soon.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._asked: SimpleQueue[tuple[int, int] | None] = SimpleQueue()
        self._processes: dict[int, None] = {}
        self._thread = threading.Thread(target=self._find_processes, daemon=True, name="endive-lab-clients")
        self._thread.start()

    def connection_opened(self, client_port: int, server_port: int) -> None:
        """Look up the process of a new connection."""
        self._names[client_port] = f"port:{client_port}"
        self._asked.put((client_port, server_port))

    def name(self, client_port: int) -> str:
        """Return the name of the client of a connection."""
        return self._names.get(client_port, f"port:{client_port}")

    def set_name(self, client_port: int, name: str) -> None:
        """Set the name of a client that is known otherwise."""
        self._names[client_port] = name

    def close(self) -> None:
        """End the lookups."""
        self._asked.put(None)
        self._thread.join()

    def _find_processes(self) -> None:
        while (asked := self._asked.get()) is not None:
            client_port, server_port = asked
            inode = _socket_inode(client_port, server_port)
            process = None if inode is None else self._owner(inode)
            if process is not None and self._names.get(client_port, "").startswith("port:"):
                self._names[client_port] = f"pid:{process}"

    def _owner(self, inode: str) -> int | None:
        """Return the process that has a socket; those with connections to the lab are asked first."""
        wanted = f"socket:[{inode}]"
        others = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        for process in (*self._processes, *sorted(set(others).difference(self._processes), reverse=True)):
            if wanted in _open_files(process):
                self._processes[process] = None
                return process
        return None


def _open_files(process: int) -> Iterator[str]:
    with suppress(OSError):  # of another user, or gone
        for path in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink())


def _socket_inode(client_port: int, server_port: int) -> str | None:
    """Return the inode of the client's socket, which is the one whose local port is the client's."""
    ends = f":{client_port:04X}", f":{server_port:04X}"
    for table in _TABLES:
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]) and fields[9] != "0":
                    return fields[9]
    return None
