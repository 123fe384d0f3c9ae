"""Connections of the lab's servers."""

from __future__ import annotations

import socket

from endive.lab.exchange import CATALOG, LOOPBACK, Event, Exchange, Reply, Request, listen, serve_in_thread
from tests.lab.labs import PATIENCE_S


class LostResponses:
    """Server that loses every response."""

    service = CATALOG
    most_bytes = 0

    async def answer(self, request: Request) -> Exchange:
        return Exchange(Reply(200), Event(CATALOG, "load", "", 200, "lost"), is_lost=True)

    def identify(self, request: Request) -> str | None:
        return ""

    def refusal(self, status: int, code: str, message: str) -> Reply:
        return Reply(status)


def connect(server: socket.socket, port: int = 0) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.bind((LOOPBACK, port))
    client.connect(server.getsockname())
    client.settimeout(PATIENCE_S)
    return client


def get(client: socket.socket) -> bytes:
    client.sendall(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n")
    return client.recv(4096)


def test_one_client_port_can_connect_to_both_servers() -> None:
    with listen(0) as catalog, listen(0) as store:
        handlers = {catalog: LostResponses(), store: LostResponses()}
        with serve_in_thread(handlers, lambda request, event, time_s: None, 2**20), connect(catalog) as first:
            with connect(store, first.getsockname()[1]) as second:
                assert get(second) == b""
            assert get(first) == b""
