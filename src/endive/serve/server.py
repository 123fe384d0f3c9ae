"""A server on the loopback interface: its socket, its address with the token, and its end."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import uvicorn

from endive.serve.app import Live
from endive.serve.guard import Guard, new_token
from endive.serve.pool import Pool
from endive.serve.presets import Presets

LOOPBACK = "127.0.0.1"
_LATE_S = 3
_LOOK_S = 0.02


@dataclass(frozen=True)
class Address:
    """Where a server listens, and the token that opens it."""

    port: int
    token: str

    @property
    def plain(self) -> str:
        """Without the token."""
        return f"http://{LOOPBACK}:{self.port}/"

    @property
    def whole(self) -> str:
        """What a browser is to open."""
        return f"{self.plain}?token={self.token}"


@contextmanager
def serving(
    presets: Presets, directory: Path, *, port: int = 0, workers: int | None = None, token: str | None = None
) -> Iterator[tuple[uvicorn.Server, Address]]:
    """Make a server that listens on a port of the loopback interface, any free one by default; ``run`` it in the block.

    Raises OSError if the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen()  # who is told the address may come before the server runs, and waits
    with tempfile.TemporaryDirectory(prefix="endive-live-") as folder, listener:
        address = Address(listener.getsockname()[1], token or new_token())
        threading.Thread(target=drawing_libraries, daemon=True).start()
        live = Live(Pool(Path(folder), workers, code=bool(presets.parts)), presets, directory, Path(folder), drawing_libraries)
        guarded = Guard(live.app(), address.token, address.port)
        config = uvicorn.Config(
            guarded,
            log_level="critical",  # what goes wrong in a request is logged where it is caught
            access_log=False,
            lifespan="on",
            server_header=False,
            timeout_graceful_shutdown=_LATE_S,
            h11_max_incomplete_event_size=64 * 1024,
        )
        server = _Server(config, listener, live)
        yield server, address


@contextmanager
def serving_in_background(
    presets: Presets, directory: Path, *, port: int = 0, workers: int | None = None, token: str | None = None
) -> Iterator[tuple[Address, Callable[[], None]]]:
    """Run a server in a thread, for scripts and tests; gives its address, and what ends it before the block does."""
    with serving(presets, directory, port=port, workers=workers, token=token) as (server, address):
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(_LOOK_S)

        def end() -> None:
            server.should_exit = True
            thread.join()

        try:
            yield address, end
        finally:
            end()


class _Server(uvicorn.Server):
    """A server on a socket that is bound already; answers that are on their way end with it."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, live: Live) -> None:
        super().__init__(config)
        self._listener = listener
        self._live = live

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        super().run(sockets=[self._listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End, without waiting for answers."""
        self._live.cancel_all()
        await super().shutdown(sockets)


@cache
def drawing_libraries() -> str:
    """Vega and what goes with it; takes a second to put together."""
    from endive.report.page import libraries

    return libraries()
