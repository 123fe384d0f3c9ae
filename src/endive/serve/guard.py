"""Reject requests that the live page did not send.

The server listens on the loopback interface, but any page in a browser can send requests to that interface. A request therefore
needs the token that ``endive serve`` prints (in the address of the first request, then in a cookie) and a ``Host`` that names this
machine, because a foreign name can resolve to 127.0.0.1. An ``Origin`` must be the origin of the page. Bodies are limited in size
and time.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 256 * 1024
_BODY_S = 10.0
"""Time limit for the body of a request."""
TOO_LARGE = f"The request is larger than the limit of {MOST_BYTES // 1024} KiB."
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Content security policy: only files of this server, no evaluated code, no frames."""
_HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_LENGTH = re.compile("[0-9]{1,18}")
_NAMES = ("127.0.0.1", "localhost", "[::1]")


def new_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(32)


def reject(status: int, sentence: str) -> JSONResponse:
    """Return an error as JSON with a message."""
    return JSONResponse({"error": sentence}, status_code=status)


class Guard:
    """ASGI middleware that passes requests with the token to ``app``; ``port`` is the port of the server."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = frozenset(f"{name}:{port}" for name in _NAMES)
        self._cookie = f"endive_{port}"  # cookies are shared by all ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a request, or reject it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        answer = self._refuse(headers) or self._enter(scope) or self._unknown(headers) or refuse_length(headers)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        await self._app(scope, _limited(receive), _with_headers(send))

    def _refuse(self, headers: Headers) -> Response | None:
        """Reject a request that is not from a page of this server."""
        host = headers.get("host", "")
        if host not in self._hosts:
            return reject(403, f"The host {host[:100]!r} is not this machine. Open the address that `endive serve` printed.")
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return reject(403, "Requests from other pages are rejected. Open the address that `endive serve` printed.")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return reject(403, "Requests from other sites are rejected. Open the address that `endive serve` printed.")
        return None

    def _enter(self, scope: Scope) -> Response | None:
        """Exchange the token in the URL for a cookie, and redirect to the URL without the token."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if scope["path"] != "/" or scope["method"] != "GET" or not given or not self._is_token(given[0]):
            return None
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return response

    def _unknown(self, headers: Headers) -> Response | None:
        given = headers.get("x-endive-token") or _cookie(headers, self._cookie)
        if given is not None and self._is_token(given):
            return None
        return reject(401, "The token is missing or belongs to another server. Open the address that `endive serve` printed.")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _cookie(headers: Headers, name: str) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def refuse_length(headers: Headers) -> Response | None:
    """Return an error if the length of a request is not a number or too large, otherwise None."""
    length = headers.get("content-length", "0")
    if not _LENGTH.fullmatch(length) or int(length) > MOST_BYTES:
        return reject(413, TOO_LARGE)
    return None


class TooLargeError(Exception):
    """Raised if a body without a content length exceeds the limit."""


class TooSlowError(Exception):
    """Raised if a body does not arrive in time."""


def _limited(receive: Receive) -> Receive:
    """Limit the size of a request body and the time for receiving it."""
    size, arriving = 0, True
    deadline = asyncio.get_running_loop().time() + _BODY_S

    async def limited() -> Message:
        nonlocal size, arriving
        if not arriving:
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError:
            raise TooSlowError from None
        size += len(message.get("body", b""))
        arriving = bool(message.get("more_body"))
        if size > MOST_BYTES:
            raise TooLargeError
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers
