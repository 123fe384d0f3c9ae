"""PostgreSQL proxy on the loopback interface that delays every message of a client and records its statements."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

_LOOPBACK = "127.0.0.1"
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Statement:
    """Message of a client to the database: client, time of arrival on the event loop's clock, and text."""

    client: str
    time_s: float
    text: str


@dataclass
class StatementProxy:
    """Addresses of the proxy by client, and the statements so far."""

    loop: asyncio.AbstractEventLoop
    ports: dict[str, int] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)

    def time_s(self) -> float:
        """Return the current time of the event loop, which timestamps statements."""
        return self.loop.time()


@contextmanager
def delaying_proxy(port: int, latency_ms: float, clients: Sequence[str]) -> Iterator[StatementProxy]:
    """Serve a port for each client; messages reach the database after ``latency_ms``, responses are not delayed."""
    loop = asyncio.new_event_loop()
    proxy = StatementProxy(loop)
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        servers = []
        for client in clients:

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str = client) -> None:
                await _relay(proxy, client, reader, writer, port, latency_ms / 1e3)

            server = await asyncio.start_server(connected, _LOOPBACK, 0)
            proxy.ports[client] = server.sockets[0].getsockname()[1]
            servers.append(server)
        ready.set()
        await stop.wait()
        for server in servers:
            server.close()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True, name="statement-proxy")
    thread.start()
    ready.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


async def _relay(
    proxy: StatementProxy, client: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int, delay_s: float
) -> None:
    answers, requests = await asyncio.open_connection(_LOOPBACK, port)
    back = asyncio.create_task(_copy(answers, writer))
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            proxy.statements.append(Statement(client, loop.time(), chunk.decode("latin-1")))
            await asyncio.sleep(delay_s)
            requests.write(chunk)
            await requests.drain()
    requests.close()
    await back


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()
