"""Serve the HTTP interface of the page: JSON responses and streams of events.

Errors are JSON with a message (``error``) and, for an invalid configuration, a list of ``problems`` by key. Each request names the
tab that sent it; a new evaluation of a tab cancels the previous one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from endive import __version__
from endive.config.errors import ConfigError, Problem
from endive.input_files import UnreadableError, parse_json, parse_toml
from endive.serve.evaluation import GOALS, Event, Goal, Question, evaluate, prepare, rank_changes
from endive.serve.guard import TOO_LARGE, TooLargeError, TooSlowError, reject
from endive.serve.messages import StoppedError, Tree, WorkError
from endive.serve.page_configuration import Presets, form, put
from endive.serve.pool import CancelToken, Pool
from endive.serve.saving import Reports, SaveError, save_study, sweep_arguments

log = logging.getLogger(__name__)
_ASSETS = {"live.css": "text/css", "favicon.svg": "image/svg+xml"} | dict.fromkeys(
    ("state.js", "form.js", "picture.js", "charts.js", "answer.js", "live.js"), "text/javascript"
)
_MOST_TABS = 64
_KEPT_EXPERIMENTS = 400
_KEPT_S = 120.0
_POLL_S = 0.25


class Live:
    """State of a server: workers, presets, and the latest evaluation of each tab."""

    def __init__(self, pool: Pool, presets: Presets, directory: Path, folder: Path, libraries: Callable[[], str]) -> None:
        self.pool, self.presets, self.folder = pool, presets, folder
        self.directory = directory
        self.reports = Reports(directory)
        self._libraries = libraries
        self._tokens: dict[tuple[str, str], tuple[int, CancelToken]] = {}

    def app(self) -> Starlette:
        """Return the ASGI application."""
        routes = [
            Route("/", self._page),
            Route("/vega.js", self._vega),
            Route("/{name:str}.{ending:str}", self._asset),
            Route("/api/form", self._form),
            Route("/api/starts/{name:str}", self._start),
            Route("/api/ask", self._ask, methods=["POST"]),
            Route("/api/help", self._help, methods=["POST"]),
            Route("/api/stop", self._stop, methods=["POST"]),
            Route("/api/study", self._study, methods=["POST"]),
            Route("/api/report", self._report, methods=["POST"]),
            Route("/api/report/{name:str}", self._report_state),
            Route("/report/{name:str}", self._report_page),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: _http_error,
            ConfigError: _config_error,
            SaveError: _rejection(422),
            WorkError: _rejection(422),
            TooLargeError: _rejection(413, TOO_LARGE),
            TooSlowError: _rejection(408, "The body of the request did not arrive in time."),
            ClientDisconnect: _rejection(400, "The browser closed the connection."),
            StoppedError: _rejection(409, "A newer request of this tab replaced this one."),
            Exception: _any_error,
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False
        return app

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self.pool.start()
        try:
            yield
        finally:
            await self.reports.close()
            await self.pool.close()

    async def _page(self, request: Request) -> Response:
        return Response(_asset("live.html").replace("{{ version }}", __version__), media_type="text/html")

    async def _asset(self, request: Request) -> Response:
        name = f"{request.path_params['name']}.{request.path_params['ending']}"
        if name not in _ASSETS:
            raise HTTPException(404)
        return Response(_asset(name), media_type=_ASSETS[name])

    async def _vega(self, request: Request) -> Response:
        return Response(self._libraries(), media_type="text/javascript", headers={"cache-control": "private, max-age=86400"})

    async def _form(self, request: Request) -> Response:
        starts = [preset.to_json() for preset in self.presets.all]
        goals = [{"value": metric, "label": label} for metric, label in GOALS.items()]
        about = {"version": __version__, "directory": str(self.directory), "workers": self.pool.size}
        return JSONResponse({**form(), "starts": starts, "goals": goals, "about": about, "parts": self.presets.parts})

    async def _start(self, request: Request) -> Response:
        preset = self.presets.find(request.path_params["name"])
        if preset is None:
            raise HTTPException(404, "Unknown preset.")
        return JSONResponse({"tree": preset.tree()})

    async def _ask(self, request: Request) -> Response:
        body = await _body(request)
        tree, changed = self._tree(body, "tree"), body.get("changed")
        token = self._token(body, "ask")
        b = await prepare(self.pool, token, tree, changed if isinstance(changed, str) else None)
        a = await prepare(self.pool, token, self._tree(body, "a")) if body.get("a") is not None else None
        shown = {name: getattr(b, name) for name in ("tree", "left_out", "toml", "warnings", "assumed")}
        accepted = {"kind": "accepted", **shown, "seconds": b.cpu_s, "compiling": not b.ready}
        return self._stream(request, accepted, evaluate(self.pool, token, Question(b, a)), token)

    async def _help(self, request: Request) -> Response:
        body = await _body(request)
        token = self._token(body, "help")
        present = await prepare(self.pool, token, self._tree(body, "tree"))
        goal = None
        if body.get("metric") is not None:
            if body["metric"] not in list(GOALS):
                raise SaveError(f"Unknown metric. Allowed metrics are {', '.join(GOALS)}.")
            goal = Goal(body["metric"], str(body.get("workload_class", "all")))
        return self._stream(request, {"kind": "accepted"}, rank_changes(self.pool, token, present, goal), token)

    async def _stop(self, request: Request) -> Response:
        body = await _body(request)
        for what in ("ask", "help"):
            self._token(body, what).cancel()
        return JSONResponse({"stopped": True})

    async def _study(self, request: Request) -> Response:
        body = await _body(request)
        found = await prepare(self.pool, CancelToken(), self._tree(body, "tree"))
        path = save_study(self.directory, str(body.get("name", "")), found.tree)
        sweep = " ".join(["endive", *sweep_arguments(path.name, found.tree)])
        return JSONResponse({"file": path.name, "commands": [sweep, "endive report experiments"]})

    async def _report(self, request: Request) -> Response:
        body = await _body(request)
        found = await prepare(self.pool, CancelToken(), self._tree(body, "tree"))
        return JSONResponse(self.reports.begin(str(body.get("name", "")), found.tree).to_json())

    async def _report_state(self, request: Request) -> Response:
        report = self.reports.by_name.get(request.path_params["name"])
        if report is None:
            raise HTTPException(404, "Unknown report.")
        return JSONResponse(report.to_json())

    async def _report_page(self, request: Request) -> Response:
        report = self.reports.by_name.get(request.path_params["name"])
        if report is None or report.state != "done":
            raise HTTPException(404, "The report is not finished.")
        text = report.file.read_text(encoding="utf-8")
        return Response(text, media_type="text/html", headers={"content-security-policy": "frame-ancestors 'none'"})

    def _tree(self, body: dict[str, Any], name: str) -> Tree:
        """Return the configuration of a request, including the values that were entered as TOML. Raises ConfigError."""
        tree = body.get(name)
        if not isinstance(tree, dict):
            raise ConfigError("configuration", [Problem("", f"{name} must be a configuration (a table of tables)")])
        written = body.get("written") or {}
        if not isinstance(written, dict):
            raise ConfigError("configuration", [Problem("", "written must be a table of keys and their values as TOML")])
        for key, text in written.items() if name == "tree" else ():
            tree = put(tree, key, _value(key, text))
        foreign = self.presets.foreign_file(tree)
        if foreign is not None:
            allowed = "the page reads only files that configurations in the working directory of `endive serve` refer to"
            raise ConfigError("configuration", [Problem("storage.provider", f"{foreign[:200]!r} is not read: {allowed}")])
        code = self.presets.foreign_code(tree)
        if code is not None:
            allowed = (
                "the page runs only the components of the FILE of `endive serve FILE --allow-code`, and changes only their numeric "
                "options"
            )
            raise ConfigError("configuration", [Problem(code[:200], f"is not run: {allowed}")])
        return tree

    def _token(self, body: dict[str, Any], what: str) -> CancelToken:
        """Return a new token for an evaluation of a tab, and cancel the previous evaluation of that tab.

        A tab numbers its requests, because a browser sends them over several connections and they can arrive out of order.

        Raises:
            StoppedError: If a request of the tab with a higher number has already arrived.
        """
        key = (str(body.get("tab", ""))[:64], what)
        last, before = self._tokens.get(key, (0, None))
        given = body.get("number")
        number = given if isinstance(given, int) else last
        if number < last:
            raise StoppedError
        if before is not None:
            before.cancel()
            del self._tokens[key]
        while len(self._tokens) >= _MOST_TABS:
            self._tokens.pop(next(iter(self._tokens)))[1].cancel()
        self._tokens[key] = number, CancelToken()
        return self._tokens[key][1]

    def _stream(self, request: Request, first: Event, events: AsyncIterator[Event], token: CancelToken) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            watching = asyncio.create_task(_cancel_if_gone(request, token))
            try:
                yield _line(first)
                async for event in events:
                    yield _line(event)
            except StoppedError:
                yield _line({"kind": "stopped"})
            except (WorkError, ConfigError) as error:
                reason = error.problems[0] if isinstance(error, ConfigError) else error
                yield _line({"kind": "failed", "error": str(reason)})
            finally:
                watching.cancel()
                token.cancel()
                self._clean()

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    def cancel_all(self) -> None:
        """Cancel all pending evaluations when the server shuts down."""
        for _, token in self._tokens.values():
            token.cancel()

    def _clean(self) -> None:
        """Remove the oldest runs if there are too many."""
        found = sorted(((path.stat().st_mtime, path) for path in self.folder.iterdir() if path.is_dir()), reverse=True)
        for changed, path in found[_KEPT_EXPERIMENTS:]:
            if time.time() - changed > _KEPT_S:
                shutil.rmtree(path, ignore_errors=True)


def _asset(name: str) -> str:
    return (files("endive.serve") / "assets" / name).read_text(encoding="utf-8")


async def _body(request: Request) -> dict[str, Any]:
    """Return the body of a request. Raises ConfigError if it is not a JSON object."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        found = parse_json(text)
    except UnreadableError as error:
        raise ConfigError("request", [Problem("", f"the request {error}")]) from None
    if not isinstance(found, dict):
        raise ConfigError("request", [Problem("", "a request must be a JSON object")])
    return found


def _value(key: str, text: Any) -> Any:
    """Parse a TOML value; other text is returned unchanged. Raises ConfigError if the value is not text."""
    if not isinstance(text, str):
        raise ConfigError("configuration", [Problem(key, "must be text")])
    try:
        return parse_toml(f"value = {text}")["value"]
    except (UnreadableError, KeyError):
        return text.strip()


async def _cancel_if_gone(request: Request, token: CancelToken) -> None:
    """Cancel the evaluation when the page is closed."""
    while not await request.is_disconnected():
        await asyncio.sleep(_POLL_S)
    token.cancel()


def _line(event: Event) -> str:
    return json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "The address does not exist on this server.", 405: "The address does not allow this HTTP method."}
    plain = error.detail if error.detail not in ("Not Found", "Method Not Allowed") else known[error.status_code]
    return reject(error.status_code, plain)


async def _config_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ConfigError)
    problems = [{"key": problem.key, "message": problem.text} for problem in error.problems]
    summary = "; ".join(str(problem) for problem in error.problems[:3])
    return JSONResponse({"error": summary, "problems": problems}, status_code=422)


def _rejection(status: int, sentence: str | None = None) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Return a handler that responds with a message, by default that of the error."""

    async def rejected(request: Request, error: Exception) -> Response:
        return reject(status, sentence or str(error))

    return rejected


async def _any_error(request: Request, error: Exception) -> Response:
    log.error("a request failed", exc_info=error)
    return reject(500, f"Internal error: {type(error).__name__}. The terminal of `endive serve` shows the details.")
