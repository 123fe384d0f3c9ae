"""Who may ask: a token, this host, this origin, and no more bytes than a configuration has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from starlette.datastructures import Headers

from endive.serve.guard import refuse_length
from tests.serve.conftest import Client


def sentence(
    client: Client, method: str, path: str, body: bytes = b"", *, headers: Mapping[str, str] | None = None
) -> tuple[int, str]:
    answer = client.send(method, path, body, headers)
    return answer.status, answer.events[0]["error"]


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_without_the_token_nothing_is_answered(client: Client, token: str) -> None:
    status, data = sentence(client, "GET", "/api/form", headers={"X-Endive-Token": token})
    assert status == 401
    assert "token" in data


def test_the_token_of_the_address_becomes_a_cookie(client: Client) -> None:
    response = client.send("GET", f"/?token={client.address.token}", headers={"X-Endive-Token": ""})
    cookie = response.headers["set-cookie"]
    assert (response.status, response.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = client.send("GET", "/", headers={"X-Endive-Token": "", "Cookie": cookie.partition(";")[0]})
    assert page.status == 200
    assert b"Endive" in page.body


def test_a_wrong_token_in_the_address_is_refused(client: Client) -> None:
    assert sentence(client, "GET", "/?token=wrong", headers={"X-Endive-Token": ""})[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1:1", ""])
def test_a_foreign_host_is_refused(client: Client, host: str) -> None:
    status, data = sentence(client, "GET", "/api/form", headers={"Host": host})
    assert status == 403
    assert "not this machine" in data


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_foreign_origin_is_refused(client: Client, headers: dict[str, str]) -> None:
    status, data = sentence(client, "POST", "/api/ask", b"{}", headers=headers)
    assert status == 403
    assert "rejected" in data


def test_the_origin_of_the_page_is_let_through(client: Client) -> None:
    assert client.send("GET", "/api/form", headers={"Origin": f"http://localhost:{client.address.port}"}).status == 200


@pytest.mark.parametrize("said", [True, False])
def test_ten_megabytes_are_refused(client: Client, said: bool) -> None:
    body = b'{"tree": "' + b"x" * 10_000_000 + b'"}'
    try:
        if said:
            status, data = sentence(client, "POST", "/api/ask", body)
        else:
            parts = (body[k : k + 65_536] for k in range(0, 4 * 1024 * 1024, 65_536))
            answer = client.send("POST", "/api/ask", parts, {"Transfer-Encoding": "chunked"})
            status, data = answer.status, answer.events[0]["error"]
    except (BrokenPipeError, ConnectionResetError):
        return  # refused before all of it was sent
    assert status == 413
    assert "256 KiB" in data


@pytest.mark.parametrize("length", ["²", "-1", "", "9" * 5_000, "1e3"])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    answer = refuse_length(Headers({"content-length": length}))
    assert answer is not None
    assert answer.status_code == 413


def test_every_response_has_a_content_security_policy(client: Client) -> None:
    response = client.send("GET", "/")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing"),
        ("GET", "/api/form/"),
        ("POST", "/api/ask/"),
        ("GET", "/../pyproject.toml"),
        ("GET", "/api/ask"),
        ("GET", "/live.py"),
        ("GET", "/report/none"),
        ("GET", "/api/report/none"),
        ("GET", "/api/starts/none"),
    ],
)
def test_unknown_paths_are_reported(client: Client, method: str, path: str) -> None:
    status, data = sentence(client, method, path)
    assert status in (404, 405)
    assert data.endswith(".")
