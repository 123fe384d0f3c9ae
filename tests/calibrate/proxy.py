"""Proxies on loopback: an HTTP proxy that delays or rejects requests, and a TCP proxy that delays messages of a client."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

Delay = Callable[[str, dict[str, str]], float]
"""Delay of a request in seconds, by its method and headers."""
Refusal = tuple[int, str]
"""Status and S3 error code of the response to rejected requests."""


@contextmanager
def proxy(
    port: int,
    delay: Delay = lambda method, headers: 0.0,
    refusal: Refusal | None = None,
    sleep: Callable[[float], object] = time.sleep,
    refused_after: int = 0,
) -> Iterator[str]:
    """Serve a proxy to a local port, which delays requests by ``sleep``; yield its URL.

    With ``refusal``, it rejects requests after the first ``refused_after``.
    """
    requests = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if refusal is not None and next(requests) >= refused_after:
                self._answer(refusal[0], {}, f"<Error><Code>{refusal[1]}</Code><Message>no</Message></Error>".encode())
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            sleep(delay(self.command, {name.lower(): value for name, value in headers.items()}))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                kept = {
                    n: v for n, v in answer.getheaders() if n.lower() not in ("transfer-encoding", "connection", "content-length")
                }
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self._answer(answer.status, kept, content, length)
            finally:
                connection.close()

        do_GET = do_PUT = do_DELETE = do_HEAD = do_POST = handle_any  # noqa: N815

        def _answer(self, status: int, headers: dict[str, str], content: bytes, length: str | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Suppress log messages."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Wire:
    """TCP proxy: its port, and the number of delayed messages."""

    port: int
    held_up: int = 0


@contextmanager
def tcp_proxy(port: int, delay_s: float, sleep: Callable[[float], object] = time.sleep) -> Iterator[Wire]:
    """Serve a proxy to a local port that delays each message of a client by ``delay_s``, for any protocol."""
    listening = socket.create_server(("127.0.0.1", 0))
    wire = Wire(listening.getsockname()[1])
    opened: list[socket.socket] = []

    def forward(source: socket.socket, sink: socket.socket, seconds: float) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if seconds:
                    wire.held_up += 1
                    sleep(seconds)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                opened.extend((client, server))
                for pair in ((client, server, delay_s), (server, client, 0.0)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield wire
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        for each in opened:
            each.close()
