"""Receive requests on the ports of the lab, send each response when it is due, and record both."""

from __future__ import annotations

import asyncio
import hmac
import socket
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

STORE, CATALOG = "store", "catalog"
"""Servers of the lab."""
COMMIT, LOAD = "commit", "load"
"""Operations of the catalog in the recording."""
ERROR = "error"
"""Outcome of a request that caused an unexpected exception in the lab."""
_BODY_S = 60.0
"""Time limit for receiving the body of a request, in seconds."""


Connection = tuple[int, int]
"""Ports of the client and of the server. A client can use the same port for connections to both servers."""


@dataclass(frozen=True, slots=True)
class Request:
    """HTTP request with its body. Header names are in lower case. ``arrived_s`` is a time of the event loop."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    arrived_s: float
    connection: Connection
    client: str = ""
    """Name of the client with these credentials; empty for credentials that clients share."""


@dataclass(frozen=True, slots=True)
class Reply:
    """HTTP response. ``length`` is the content length in a response to HEAD."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None

    @property
    def is_success(self) -> bool:
        """True for a status below 400."""
        return self.status < 400


@dataclass(frozen=True, slots=True)
class Event:
    """Operation, object or table, and outcome of a request, for the recording.

    ``outcome`` is ``ok``, ``conflict`` (409, 412), ``rejected`` (429 or 503, from the configuration), ``failed`` (403, from the
    configuration), ``refused`` (any other client error), ``error`` (500, an internal error of the lab) or ``lost`` (the lab did not
    send the response, regardless of its status). ``change`` is the number of records and files that a commit adds and deletes.
    """

    service: str
    operation: str
    target: str
    status: int
    outcome: str
    version: int = 0
    size_bytes: int = 0
    detail: str = ""
    snapshot_id: int | None = None
    change: str = ""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Response with its event for the recording. If the response is lost, the lab closes the connection instead."""

    reply: Reply
    event: Event
    is_lost: bool = False


class Handler(Protocol):
    """Interface of the servers of the lab, which are the object store and the catalog.

    ``service`` is the name of the server in the recording, and ``most_bytes`` the maximum size of a request body.
    """

    service: str
    most_bytes: int

    async def answer(self, request: Request) -> Exchange:
        """Process a request, and return its response when the response is due."""
        ...

    def identify(self, request: Request) -> str | None:
        """Return the name of the client that sent a request, or None if its credentials are invalid."""
        ...

    def refusal(self, status: int, code: str, message: str) -> Reply:
        """Return an error response in the format of this server."""
        ...


Record = Callable[[Request, Event, float], None]
"""Function that records a request, its outcome and the time of its response."""


class LabApp:
    """ASGI application that sends each request to the server of its port.

    Args:
        handlers: Servers by port.
        close: Function that closes a connection.
        record: Function that records requests.
        memory_bytes: Maximum total size of the bodies of requests in flight.
    """

    def __init__(
        self, handlers: Mapping[int, Handler], close: Callable[[Connection], None], record: Record, memory_bytes: int
    ) -> None:
        self._handlers = handlers
        self._close = close
        self._record = record
        self._memory_bytes = memory_bytes
        self._held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request."""
        if scope["type"] != "http":
            return
        handler = self._handlers[scope["server"][1]]
        request = _parse_head(scope)
        client = handler.identify(request)
        if client is None:  # reject the request before its body is read
            await _send(handler.refusal(403, "InvalidAccessKeyId", "The access key or token is not valid in this lab."), send)
            return
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._held_bytes + size > self._memory_bytes:
                raise _BodyError(503, "SlowDown", f"Requests in flight exceed {self._memory_bytes // 2**20} MiB; raise --memory.")
            held += size
            self._held_bytes += size

        try:
            body = await _body(receive, handler.most_bytes, request.headers, hold)
            if body is not None:
                await self._answer(handler, replace(request, body=body, client=client), send)
        except _BodyError as error:
            await _send(handler.refusal(error.status, error.code, str(error)), send)
        finally:
            self._held_bytes -= held

    async def _answer(self, handler: Handler, request: Request, send: Send) -> None:
        try:
            exchange = await handler.answer(request)
        except Exception as error:  # the response and the recording report the defect of the lab
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
            reply = handler.refusal(500, "InternalError", f"Internal error of the lab: {text}")
            target = request.path.lstrip("/")[:200]
            exchange = Exchange(reply, Event(handler.service, request.method, target, 500, ERROR, detail=text[:1000]))
        self._record(request, exchange.event, asyncio.get_running_loop().time())
        if exchange.is_lost:
            self._close(request.connection)
            await asyncio.sleep(0)  # lets the server notice that the connection is closed
        else:
            await _send(exchange.reply, send)


class _BodyError(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def _parse_head(scope: Scope) -> Request:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    connection = scope["client"][1], scope["server"][1]
    return Request(scope["method"], scope["path"], query, headers, b"", asyncio.get_running_loop().time(), connection)


async def _body(receive: Receive, most_bytes: int, headers: Mapping[str, str], hold: Callable[[int], None]) -> bytes | None:
    """Read the body of a request, and call ``hold`` with the size of each part. Return None if the client disconnects."""
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 19):
        raise _BodyError(400, "InvalidRequest", "The content length is not a number.")
    if int(length) > most_bytes:
        raise _make_size_error(most_bytes)
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                part = message.get("body", b"")
                size += len(part)
                if size > most_bytes:
                    raise _make_size_error(most_bytes)
                hold(len(part))
                parts.append(part)
                if not message.get("more_body"):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise _BodyError(400, "RequestTimeout", "The body did not arrive in time.") from None


def _make_size_error(most_bytes: int) -> _BodyError:
    return _BodyError(413, "EntityTooLarge", f"The request is larger than the limit of {most_bytes // 2**20} MiB.")


async def _send(reply: Reply, send: Send) -> None:
    length = len(reply.body) if reply.length is None else reply.length
    headers = [(name.encode(), value.encode("latin-1", "replace")) for name, value in reply.headers]
    if reply.status not in (204, 304):
        headers.append((b"content-length", str(length).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


@dataclass(frozen=True, slots=True)
class Intention:
    """Request that the lab has received but not yet processed. ``is_commit`` is True for commit requests."""

    client: str
    service: str
    operation: str
    target: str
    is_commit: bool


Gate = Callable[[Intention], Awaitable[None]]
"""Function that can delay a request before the lab processes it."""


async def pass_through(intention: Intention) -> None:
    """Return without a delay."""


def match_credential(given: str, known: Mapping[str, str]) -> str | None:
    """Return the client of an access key or token, or None if it is unknown. The comparison takes constant time."""
    found = [name for key, name in known.items() if hmac.compare_digest(given.encode(), key.encode())]
    return found[0] if found else None


async def wait_until(time_s: float) -> None:
    """Sleep until a time of the event loop."""
    delay_s = time_s - asyncio.get_running_loop().time()
    if delay_s > 0.0:
        await asyncio.sleep(delay_s)


LOOPBACK = "127.0.0.1"
_POLL_S = 0.01
_SHUTDOWN_S = 1
_MOST_CONNECTIONS = 2_000
_MOST_HEAD_BYTES = 64 * 1024


@contextmanager
def listen(port: int = 0) -> Iterator[socket.socket]:
    """Open a listening socket on the loopback interface. Port 0 selects any free port.

    Raises:
        OSError: If the port is in use.
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
    """Serve requests in a thread until the block ends, and yield the event loop of the thread.

    Args:
        servers: Server of each listening socket.
        record: Function that records requests.
        memory_bytes: Maximum total size of the bodies of requests in flight.
        opened: Function that is called for each new connection.
    """
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    transports: dict[Connection, asyncio.Transport] = {}

    class LabProtocol(H11Protocol):
        """HTTP connection that the lab can close without a response."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Register the connection, or close it if too many connections are open."""
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
            """Forget the connection."""
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
