"""The server's side of the page: requests in, JSON and streams of events out.

Every refusal is JSON with a sentence (``error``); what is wrong with keys is a list of them (``problems``). A tab has a name of its
own, which it sends along; what it asks stops what it asked before.
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
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from endive import __version__
from endive.config.errors import ConfigError, Problem
from endive.reading import UnreadableError, parse_json, parse_toml
from endive.serve.asking import Event, Question, answer, prepare
from endive.serve.form import form
from endive.serve.guard import TOO_LARGE, TooLargeError, refusal
from endive.serve.helping import help_most
from endive.serve.pool import Owner, Pool, StoppedError, WorkError
from endive.serve.ranking import GOALS, Goal
from endive.serve.saving import Reports, SaveError, save_study, sweep_arguments
from endive.serve.starts import Starts
from endive.serve.trees import Tree, put

log = logging.getLogger(__name__)
_ASSETS = {"live.css": "text/css", "favicon.svg": "image/svg+xml"} | dict.fromkeys(
    ("state.js", "form.js", "charts.js", "answer.js", "live.js"), "text/javascript"
)
_MOST_TABS = 64
_KEPT_EXPERIMENTS = 400
_KEPT_S = 120.0
_LOOK_S = 0.25


class Live:
    """The state of a server: its workers, what it may start from, and what each tab asked last."""

    def __init__(self, pool: Pool, starts: Starts, directory: Path, folder: Path, libraries: Callable[[], str]) -> None:
        self.pool, self.starts, self.folder = pool, starts, folder
        self.directory = directory
        self.reports = Reports(directory)
        self._libraries = libraries
        self._asked: dict[tuple[str, str], Owner] = {}

    def app(self) -> Starlette:
        """The application."""
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
            SaveError: _refused(422),
            WorkError: _refused(422),
            TooLargeError: _refused(413, TOO_LARGE),
            StoppedError: _refused(409, "This was asked anew in the meantime."),
            Exception: _any_error,
        }
        app = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        app.router.redirect_slashes = False  # an address that is nearly one is none
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
        starts = [start.described() for start in self.starts.all]
        goals = [{"value": metric, "label": label} for metric, label in GOALS.items()]
        about = {"version": __version__, "directory": str(self.directory), "workers": self.pool.size}
        return JSONResponse({**form(), "starts": starts, "goals": goals, "about": about, "parts": self.starts.parts})

    async def _start(self, request: Request) -> Response:
        start = self.starts.find(request.path_params["name"])
        if start is None:
            raise HTTPException(404, "There is no such configuration to start from.")
        return JSONResponse({"tree": start.tree()})

    async def _ask(self, request: Request) -> Response:
        body = await _body(request)
        tree, changed = self._tree(body, "tree"), body.get("changed")
        owner = self._owner(body, "ask")
        b = await prepare(self.pool, owner, tree, changed if isinstance(changed, str) else None)
        a = await prepare(self.pool, owner, self._tree(body, "a")) if body.get("a") is not None else None
        told = {name: getattr(b, name) for name in ("tree", "left_out", "toml", "warnings", "assumed")}
        accepted = {"kind": "accepted", **told, "seconds": b.cpu_s, "compiling": not b.ready}
        return self._stream(request, accepted, answer(self.pool, owner, Question(b, a)), owner)

    async def _help(self, request: Request) -> Response:
        body = await _body(request)
        owner = self._owner(body, "help")
        present = await prepare(self.pool, owner, self._tree(body, "tree"))
        goal = None
        if body.get("metric") is not None:
            if body["metric"] not in list(GOALS):
                raise SaveError(f"There is no such goal; there are {', '.join(GOALS)}.")
            goal = Goal(body["metric"], str(body.get("workload_class", "all")))
        return self._stream(request, {"kind": "accepted"}, help_most(self.pool, owner, present, goal), owner)

    async def _stop(self, request: Request) -> Response:
        body = await _body(request)
        for what in ("ask", "help"):
            self._owner(body, what).stop()
        return JSONResponse({"stopped": True})

    async def _study(self, request: Request) -> Response:
        body = await _body(request)
        found = await prepare(self.pool, Owner(), self._tree(body, "tree"))
        path = save_study(self.directory, str(body.get("name", "")), found.tree)
        sweep = " ".join(["endive", *sweep_arguments(path.name, found.tree)])
        return JSONResponse({"file": path.name, "commands": [sweep, "endive report experiments"]})

    async def _report(self, request: Request) -> Response:
        body = await _body(request)
        found = await prepare(self.pool, Owner(), self._tree(body, "tree"))
        return JSONResponse(self.reports.begin(str(body.get("name", "")), found.tree).described())

    async def _report_state(self, request: Request) -> Response:
        report = self.reports.by_name.get(request.path_params["name"])
        if report is None:
            raise HTTPException(404, "There is no such report.")
        return JSONResponse(report.described())

    async def _report_page(self, request: Request) -> Response:
        report = self.reports.by_name.get(request.path_params["name"])
        if report is None or report.state != "done":
            raise HTTPException(404, "There is no such report yet.")
        text = report.file.read_text(encoding="utf-8")
        return Response(text, media_type="text/html", headers={"content-security-policy": "frame-ancestors 'none'"})

    def _tree(self, body: dict[str, Any], name: str) -> Tree:
        """The configuration of a request, with what was written as TOML read. Raises ConfigError."""
        tree = body.get(name)
        if not isinstance(tree, dict):
            raise ConfigError("configuration", [Problem("", f"{name} should be a configuration, a table of tables")])
        written = body.get("written") or {}
        if not isinstance(written, dict):
            raise ConfigError("configuration", [Problem("", "written should be a table of keys and what was written for them")])
        for key, text in written.items() if name == "tree" else ():
            tree = put(tree, key, _value(key, text))
        foreign = self.starts.foreign_file(tree)
        if foreign is not None:
            known = "files are named in a configuration that endive serve is started with, and not here"
            raise ConfigError("configuration", [Problem("storage.provider", f"{foreign[:200]!r} is not read: {known}")])
        code = self.starts.foreign_code(tree)
        if code is not None:
            known = "a part is run as it is in the file of `endive serve FILE --allow-code`; only numbers of its options can change"
            raise ConfigError("configuration", [Problem(code[:200], f"is not run: {known}")])
        return tree

    def _owner(self, body: dict[str, Any], what: str) -> Owner:
        """A new owner for what a tab asks, in place of the last, which is stopped."""
        key = (str(body.get("tab", ""))[:64], what)
        before = self._asked.pop(key, None)
        if before is not None:
            before.stop()
        while len(self._asked) >= _MOST_TABS:
            self._asked.pop(next(iter(self._asked))).stop()
        self._asked[key] = Owner()
        return self._asked[key]

    def _stream(self, request: Request, first: Event, events: AsyncIterator[Event], owner: Owner) -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            watching = asyncio.create_task(_stop_if_gone(request, owner))
            try:
                yield _line(first)
                async for event in events:
                    yield _line(event)
            except StoppedError:
                yield _line({"kind": "stopped"})
            except (WorkError, ConfigError) as error:
                told = error.problems[0] if isinstance(error, ConfigError) else error
                yield _line({"kind": "failed", "error": str(told)})
            finally:
                watching.cancel()
                owner.stop()
                self._clean()

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    def stop_all(self) -> None:
        """Stop whatever anybody waits for, as the server ends."""
        for owner in self._asked.values():
            owner.stop()

    def _clean(self) -> None:
        """Remove the oldest runs, where there are many."""
        found = sorted(((path.stat().st_mtime, path) for path in self.folder.iterdir() if path.is_dir()), reverse=True)
        for changed, path in found[_KEPT_EXPERIMENTS:]:
            if time.time() - changed > _KEPT_S:
                shutil.rmtree(path, ignore_errors=True)


def _asset(name: str) -> str:
    return (files("endive.serve") / "assets" / name).read_text(encoding="utf-8")


async def _body(request: Request) -> dict[str, Any]:
    """The body of a request. Raises ConfigError if it is no JSON object."""
    text = (await request.body()).decode("utf-8", "replace")
    try:
        found = parse_json(text)
    except UnreadableError as error:
        raise ConfigError("request", [Problem("", f"the request cannot be read: {error}")]) from None
    if not isinstance(found, dict):
        raise ConfigError("request", [Problem("", "a request is a JSON object")])
    return found


def _value(key: str, text: Any) -> Any:
    """A value that was written as TOML; text that is none stands for itself. Raises ConfigError if it is not text."""
    if not isinstance(text, str):
        raise ConfigError("configuration", [Problem(key, "should be text")])
    try:
        return parse_toml(f"value = {text}")["value"]
    except (UnreadableError, KeyError):
        return text.strip()


async def _stop_if_gone(request: Request, owner: Owner) -> None:
    """Stop the work once the page that asked for it is closed."""
    while not await request.is_disconnected():
        await asyncio.sleep(_LOOK_S)
    owner.stop()


def _line(event: Event) -> str:
    return json.dumps(event, allow_nan=False, separators=(",", ":")) + "\n"


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: "There is nothing here.", 405: "This cannot be asked in this way."}
    plain = error.detail if error.detail not in ("Not Found", "Method Not Allowed") else known[error.status_code]
    return refusal(error.status_code, plain)


async def _config_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ConfigError)
    problems = [{"key": problem.key, "message": str(problem).removeprefix(f"{problem.key}: ")} for problem in error.problems]
    told = "; ".join(str(problem) for problem in error.problems[:3])
    return JSONResponse({"error": told, "problems": problems}, status_code=422)


def _refused(status: int, sentence: str | None = None) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answer an error by a sentence, which is its message unless there is another."""

    async def refused(request: Request, error: Exception) -> Response:
        return refusal(status, sentence or str(error))

    return refused


async def _any_error(request: Request, error: Exception) -> Response:
    log.error("a request failed", exc_info=error)
    return refusal(500, f"Something went wrong in the server: {type(error).__name__}. The terminal says more.")
