"""Run the servers of the lab on two ports of the loopback interface, in one thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from endive.lab.exchange import Connection, Handler, LabApp, Record

LOOPBACK = "127.0.0.1"
_POLL_S = 0.01
_SHUTDOWN_S = 1
_MOST_CONNECTIONS = 2_000
_MOST_HEAD_BYTES = 64 * 1024


@contextmanager
def listen(port: int = 0) -> Iterator[socket.socket]:
    """Open a listening socket on the loopback interface, by default on a free port.

    Raises:
        OSError: If the port is taken.
    """
    # IPPROTO_TCP: asyncio then disables Nagle's algorithm, which delays responses by up to 40 ms
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen(1024)
        yield listener


@contextmanager
def serve_in_thread(
    servers: Mapping[socket.socket, Handler],
    record: Record,
    memory_bytes: int,
    opened: Callable[[Connection], None] = lambda connection: None,
) -> Iterator[asyncio.AbstractEventLoop]:
    """Serve until the block ends, and yield the event loop of the servers.

    Args:
        servers: Server for each listening socket.
        record: Function that records requests.
        memory_bytes: Maximum size of the bodies of all requests in flight.
        opened: Function that is called with each new connection.

    """
    transports: dict[Connection, asyncio.Transport] = {}

    class LabProtocol(H11Protocol):
        """Connection that the lab can close without a response."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Register the connection, or close it if there are too many."""
            super().connection_made(transport)
            if len(transports) >= _MOST_CONNECTIONS:
                transport.abort()
                return
            assert self.client is not None
            assert self.server is not None
            assert self.server[1] is not None
            self.connection = self.client[1], self.server[1]
            transports[self.connection] = transport
            opened(self.connection)

        def connection_lost(self, exc: Exception | None) -> None:
            """Remove the connection."""
            transports.pop(getattr(self, "connection", (0, 0)), None)
            super().connection_lost(exc)

    def close(connection: Connection) -> None:
        transport = transports.get(connection)
        if transport is not None:
            transport.abort()

    handlers = {listener.getsockname()[1]: handler for listener, handler in servers.items()}
    config = uvicorn.Config(
        LabApp(handlers, close, record, memory_bytes),
        http=LabProtocol,
        ws="none",
        log_level="critical",
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=_SHUTDOWN_S,
        h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
    )
    server = uvicorn.Server(config)
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        await server.serve(sockets=list(servers))

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True, name="endive-lab")
    thread.start()
    with ExitStack() as stack:
        stack.callback(thread.join)
        stack.callback(setattr, server, "should_exit", True)
        while not server.started and thread.is_alive():
            time.sleep(_POLL_S)
        yield loops[0]
