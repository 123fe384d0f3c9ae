"""Run the server of the live page on the loopback interface, in a temporary directory."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from endive.serve.guard import Guard, new_token
from endive.serve.live import Live
from endive.serve.page_configuration import Presets
from endive.serve.pool import Pool

LOOPBACK = "127.0.0.1"
_SHUTDOWN_S = 3
_POLL_S = 0.02
_HEAD_S = 10.0
"""Time limit for the head of a request."""
_MOST_CONNECTIONS = 256
_PREFIX = "endive-live-"


@dataclass(frozen=True)
class Address:
    """Port of a server, and the token that requests need."""

    port: int
    token: str

    @property
    def plain(self) -> str:
        """URL without the token."""
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def whole(self) -> str:
        """URL to open in a browser."""
        return f"{self.plain}?token={self.token}"


@contextmanager
def serving(
    presets: Presets, directory: Path, *, port: int = 0, workers: int | None = None, token: str | None = None
) -> Iterator[tuple[uvicorn.Server, Address]]:
    """Create a server on a port of the loopback interface, by default a free port. Call ``run`` of the server in the block.

    Raises:
        OSError: If the port is taken.
    """
    # with IPPROTO_TCP, asyncio disables Nagle's algorithm
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen()  # a browser may connect before the server runs, and waits
    with _temporary_directory() as folder, listener:
        address = Address(listener.getsockname()[1], token or new_token())
        threading.Thread(target=drawing_libraries, daemon=True).start()
        live = Live(Pool(folder, workers, code=bool(presets.parts)), presets, directory, folder, drawing_libraries)
        guarded = Guard(live.app(), address.token, address.port)
        config = uvicorn.Config(
            guarded,
            http=_Connection,
            ws="none",
            log_level="critical",  # errors of requests are logged where they are handled
            access_log=False,
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            h11_max_incomplete_event_size=64 * 1024,
        )
        server = _Server(config, listener, live)
        yield server, address


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    """Make a temporary directory for runs, and remove the directories of servers that were killed.

    A running server holds a lock on a file in its directory.
    """
    for stale in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/lock"):
        with suppress(OSError), stale.open("rb") as lock:  # locked, of another user, or gone
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale.parent, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name, (Path(name) / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(name)


@contextmanager
def serving_in_background(
    presets: Presets, directory: Path, *, port: int = 0, workers: int | None = None, token: str | None = None
) -> Iterator[tuple[Address, Callable[[], None]]]:
    """Run a server in a thread, for scripts and tests. Yield the address of the server, and a function that stops it early."""
    with serving(presets, directory, port=port, workers=workers, token=token) as (server, address):
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(_POLL_S)

        def end() -> None:
            server.should_exit = True
            thread.join()

        try:
            yield address, end
        finally:
            end()


class _Connection(H11Protocol):
    """Connection that is closed if the head of a request does not arrive in time, or if there are too many connections."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept the connection, or close it if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
        else:
            self._deadline = self.loop.call_later(_HEAD_S, self._close_if_idle)

    def data_received(self, data: bytes) -> None:
        """Handle data; the head of a further request has a time limit as well."""
        super().data_received(data)
        if self._deadline is None:
            self._deadline = self.loop.call_later(_HEAD_S, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _close_if_idle(self) -> None:
        """Close the connection unless a request is being handled."""
        self._deadline = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


class _Server(uvicorn.Server):
    """Uvicorn server on a bound socket. At shutdown, the server cancels all evaluations."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, live: Live) -> None:
        super().__init__(config)
        self._listener = listener
        self._live = live

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the server is asked to exit."""
        super().run(sockets=[self._listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down without waiting for responses."""
        self._live.cancel_all()
        await super().shutdown(sockets)


@cache
def drawing_libraries() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which takes about 1 s to build."""
    from endive.report.page import bundle_libraries

    return bundle_libraries()
