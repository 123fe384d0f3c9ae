"""The server itself: connections that misbehave, and directories of servers that were killed."""

from __future__ import annotations

import fcntl
import logging
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from endive.cli.examples import examples_folder
from endive.serve import guard, server
from endive.serve.page_configuration import Presets
from endive.serve.server import LOOPBACK, serving
from tests.serve.conftest import PATIENCE_S, Client, shorter, small


@contextmanager
def connected(client: Client) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, client.address.port), timeout=PATIENCE_S) as connection:
        yield connection


def head(client: Client, *lines: str) -> bytes:
    host = f"Host: {LOOPBACK}:{client.address.port}"
    return "\r\n".join([*lines, host, f"X-Endive-Token: {client.address.token}", "", ""]).encode()


def is_served(client: Client) -> bool:
    return client.send("GET", "/live.css").status == 200


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    found = b""
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_a_client_that_leaves_in_mid_body_is_no_error(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for _ in range(3):
            with connected(client) as connection:
                connection.sendall(head(client, "POST /api/ask HTTP/1.1", "Content-Length: 1000") + b'{"tree": ')
        assert is_served(client)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-"])
def test_a_connection_without_a_whole_head_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(server, "_HEAD_S", 0.2)
    with connected(client) as connection:
        connection.sendall(sent)
        assert read_all(connection) == b""
    assert is_served(client)


def test_a_second_head_that_does_not_end_is_closed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HEAD_S", 0.2)
    with connected(client) as connection:
        connection.sendall(head(client, "GET /live.css HTTP/1.1"))
        assert connection.recv(65_536)
        connection.sendall(b"GET /live.css HTT")
        read_all(connection)
    assert is_served(client)


def test_a_body_that_does_not_end_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_BODY_S", 0.2)
    with connected(client) as connection:
        connection.sendall(head(client, "POST /api/ask HTTP/1.1", "Content-Length: 1000", "Connection: close") + b"{")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_a_long_answer_is_not_taken_for_a_slow_request(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HEAD_S", 0.1)
    monkeypatch.setattr(guard, "_BODY_S", 0.1)
    assert client.ask(small())[-1]["kind"] == "done"


def test_connections_are_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    opened = [socket.create_connection((LOOPBACK, client.address.port), timeout=PATIENCE_S) for _ in range(8)]
    try:
        assert [read_all(connection) for connection in opened[-3:]] == [b""] * 3
    finally:
        for connection in opened:
            connection.close()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            if is_served(client):
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the server does not accept connections again")


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /api/ask HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        b"POST /api/ask HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"POST /api/ask HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
        b"GET /api/ask HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAA\r\n",
        b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n",
        b"GET /api/starts/file%3A..%2F..%2Fx HTTP/1.1\r\n",
        b"GET " + b"/a" * 40_000 + b" HTTP/1.1\r\n",
        b"GET / HTTX/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ],
    ids=["lengths", "length and chunks", "bad chunk", "websocket", "dots", "preset", "long", "version", "tls"],
)
def test_requests_that_contradict_themselves_are_refused(client: Client, request_: bytes) -> None:
    with connected(client) as connection:
        rest = head(client) if request_.endswith(b"\r\n") else b"\r\n\r\n"
        connection.sendall(request_ + rest.removeprefix(b"\r\n") + b"zz\r\n{}")
        connection.shutdown(socket.SHUT_WR)
        found = read_all(connection)
    assert not found or int(found.split()[1]) in (400, 404, 405, 413, 422), found[:200]
    assert is_served(client)


NAMES = {
    "deep": "a." * 3_000 + "b",
    "dots": "../" * 40 + "etc/passwd",
    "encoded dots": "%2e%2e%2f" * 40,
    "encoded twice": "%252e%252e%252fetc",
    "zero byte": "a%00b",
    "newline": "a%0d%0aX-Injected%3A%201",
    "not UTF-8": "%ff%fe%c0%af",
    "bad escape": "%zz%",
    "long": "n" * 20_000,
    "script": "%3Cscript%3Ealert(1)%3C/script%3E",
    "semicolon": ";a=b?c=d#e",
    "empty": "",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("path", ["/api/starts/", "/api/report/", "/report/", "/api/", "/"])
def test_unknown_names_are_rejected(client: Client, path: str, name: str) -> None:
    if path + NAMES[name] == "/":
        return  # the page itself
    with connected(client) as connection:
        connection.sendall(head(client, f"GET {path}{NAMES[name]} HTTP/1.1", "Connection: close"))
        found = read_all(connection)
    assert int(found.split()[1]) in (400, 404, 405), found[:200]
    assert b"X-Injected" not in found.partition(b"\r\n\r\n")[0]
    assert is_served(client)


BODY = b'{"tab": "t", "tree": {}}'
CHUNKED = {
    "one chunk": (b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY), 422),
    "a chunk for each byte": (b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n", 422),
    "extensions and trailers": (b"%x;a=b\r\n%b\r\n0\r\nX-More: 1\r\n\r\n" % (len(BODY), BODY), 422),
    "a negative size": (b"-5\r\n" + BODY, 400),
    "a size that is no number": (b"zz\r\n" + BODY, 400),
    "a huge size": (b"f" * 30 + b"\r\n" + BODY, 400),
    "a size too small": (b"3\r\n" + BODY + b"\r\n0\r\n\r\n", 400),
    "too much in small chunks": (b"1000\r\n" + b"x" * 4096 + b"\r\n", 413),
}


@pytest.mark.parametrize("name", CHUNKED)
def test_chunked_bodies_are_read_or_refused(client: Client, name: str) -> None:
    chunks, status = CHUNKED[name]
    lines = head(client, "POST /api/ask HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close")
    with connected(client) as connection:
        connection.sendall(lines + chunks * (80 if status == 413 else 1))
        found = read_all(connection)
    assert not found or int(found.split()[1]) == status, found[:200]
    assert found or status in (400, 413)  # the connection may be closed with the rest unread
    assert is_served(client)


CONTRADICTIONS = {
    "equal lengths twice": ("Content-Length: 2", "Content-Length: 2"),
    "lengths in one line": ("Content-Length: 2, 3",),
    "negative": ("Content-Length: -1",),
    "with a plus": ("Content-Length: +2",),
    "hexadecimal": ("Content-Length: 0x2",),
    "huge": (f"Content-Length: {10**30}",),
    "chunked twice": ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    "unknown coding": ("Transfer-Encoding: gzip",),
    "chunked and length": ("Transfer-Encoding: chunked", "Content-Length: 2"),
    "hidden by a space": ("Transfer-Encoding : chunked", "Content-Length: 2"),
    "folded": ("Content-Length:", " 2"),
    "no host but another": ("Host: example.org",),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_second_request_does_not_hide_in_a_body(client: Client, name: str) -> None:
    """A server that reads less of a body than its sender meant would respond to what follows it, too."""
    hidden = b"{}GET /live.css HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(client) as connection:
        connection.sendall(head(client, "POST /api/stop HTTP/1.1", *CONTRADICTIONS[name]) + hidden)
        connection.shutdown(socket.SHUT_WR)
        found = read_all(connection)
    assert b"text/css" not in found, found[:300]
    assert not found or int(found.split()[1]) in (200, 400, 403, 413, 422, 501), found[:200]
    assert is_served(client)


@pytest.mark.parametrize("path", ["/", "/api/ask", "/api/form", "/report/x"])
@pytest.mark.parametrize("version", ["13", "0", "x"])
def test_a_websocket_is_not_opened(client: Client, path: str, version: str) -> None:
    upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")
    with connected(client) as connection:
        connection.sendall(head(client, f"GET {path} HTTP/1.1", *upgrade, f"Sec-WebSocket-Version: {version}"))
        connection.shutdown(socket.SHUT_WR)
        found = read_all(connection)
    assert int(found.split()[1]) in (200, 400, 404, 405), found[:200]
    assert b"sec-websocket-accept" not in found.lower()
    assert is_served(client)


@pytest.mark.parametrize(
    "key", ["a." * 3_000 + "b", "a." * 60_000 + "b", "." * 3_000, "", "workload..rate", "a\\u0000.b", "\\ud800.x"]
)
@pytest.mark.parametrize("path", ["/api/ask", "/api/help", "/api/study", "/api/report"])
def test_deep_and_odd_keys_are_refused(client: Client, path: str, key: str) -> None:
    body = '{"tab": "deep", "tree": {}, "written": {"' + key + '": "1"}, "name": "x"}'
    answer = client.send("POST", path, body)
    assert answer.status == 422, answer.body[:300]
    assert answer.events[0]["error"]
    assert is_served(client)


def test_the_directory_of_a_server_that_was_killed_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("endive-live-dead", "endive-live-running", "endive-live-other"):
        (tmp_path / name / "rows").mkdir(parents=True)
    (tmp_path / "endive-live-dead" / "lock").touch()
    configuration = shorter(tmp_path)
    with (tmp_path / "endive-live-running" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with serving(Presets(configuration, tmp_path, examples_folder()), tmp_path, workers=1):
            left = {path.name for path in tmp_path.glob("endive-live-*")}
            with serving(Presets(configuration, tmp_path, examples_folder()), tmp_path, workers=1):
                assert left < {path.name for path in tmp_path.glob("endive-live-*")}
    assert left >= {"endive-live-running", "endive-live-other"}
    assert len(left) == 3
    assert {path.name for path in tmp_path.glob("endive-live-*")} == {"endive-live-running", "endive-live-other"}
