"""Requests to the live page: the application and its workers in this process, with cheap simulations only."""

from __future__ import annotations

import asyncio
import json
import pickle
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import unquote

from endive.cli.examples import examples_folder
from endive.config.errors import ConfigError
from endive.serve.guard import Guard
from endive.serve.live import Live
from endive.serve.messages import Call, ListChanges, Prepare, Prepared, StoppedError, T, WorkError
from endive.serve.page_configuration import Presets
from endive.serve.pool import CancelToken
from endive.serve.saving import Report, Reports
from endive.serve.worker import Worker, perform
from tests.fuzz_inputs.attempts import Ended, Kind
from tests.fuzz_inputs.own_files import PART, QUIET_PART, WITH_PART, runs_no_other_part
from tests.mutations import mutated_tree

_TAKEN, _REFUSED = (200, 303), (400, 401, 403, 404, 405, 408, 409, 413, 422)
"""Allowed status codes of the page; a rejection is JSON with a sentence."""
_MOST_S = 0.02
"""Maximum time of a simulated request; longer ones are only checked."""
_SIMULATED = 32
"""Fraction of requests that are simulated, as one in this number, because a simulation takes seconds."""
_FAILED = ("simulation failed", "evaluation failed", "Traceback", "Internal error")


class ServerFaultError(AssertionError):
    """Response that no request should have."""


class _HerePool:
    """Worker pool that runs cheap calls in this process and cancels others."""

    size = 1

    def __init__(self, folder: Path, *, cheap: bool) -> None:
        self._worker = Worker(folder, lambda: False)
        self._cheap = cheap

    def start(self) -> None:
        """Do nothing."""

    def submit(self, token: CancelToken, priority: int, call: Call[T]) -> asyncio.Future[T]:
        """Run a call immediately."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if not self._cheap and not isinstance(call, Prepare | ListChanges):
            result.set_exception(StoppedError())
            return result
        try:
            value = perform(pickle.loads(pickle.dumps(call)), self._worker)
        except (ConfigError, WorkError) as error:
            result.set_exception(error)
        else:
            if isinstance(value, Prepared):
                self._cheap = self._cheap and value.reference_s < _MOST_S
            result.set_result(value)
        return result


_FOLDER = "@FOLDER@"
"""Placeholder of the server's directory in requests."""


@cache
def _starts() -> Presets:
    """Create a file with a permitted component, and another component that is not permitted and creates a file."""
    folder = Path(tempfile.mkdtemp(prefix="endive-fuzz-starts-"))
    (folder / "own_part.py").write_text(QUIET_PART)
    (folder / "other_part.py").write_text(PART)
    (folder / "own.toml").write_bytes(WITH_PART)
    return Presets(folder / "own.toml", folder, examples_folder(), code=True)


_TOKEN = "the-token"


async def _answered(request: bytes, directory: Path) -> tuple[int, bytes]:
    """Send a request to a new application; return the status and the body of its response."""
    head, _, body = request.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, _, target = first.partition(b" ")
    address, _, query = target.partition(b"?")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    with tempfile.TemporaryDirectory(prefix="endive-fuzz-live-") as folder:
        live = Live(_HerePool(Path(folder), cheap=zlib.crc32(request) % _SIMULATED == 0), _starts(), directory, Path(folder), str)  # type: ignore[arg-type]
        guarded = Guard(live.app(), _TOKEN, 8000)
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method.decode("latin-1"),
            "scheme": "http",
            "path": unquote(address.decode("latin-1")),
            "raw_path": address,
            "query_string": query,
            "root_path": "",
            "headers": headers,
            "server": ("127.0.0.1", 8000),
        }
        incoming = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if incoming:
                return incoming.pop()
            await asyncio.sleep(3_600.0)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await guarded(scope, receive, send)
        await live.reports.close()
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


async def _nothing(self: Reports, report: Report) -> None:
    """Create no report, which would run separate commands."""


def _request(path: Path) -> Ended:
    directory = path.parent / "live"
    directory.mkdir(exist_ok=True)
    for left in directory.iterdir():
        left.unlink()
    with mock.patch.object(Reports, "_make", _nothing), runs_no_other_part(path.parent, allowed=True) as ran:
        status, body = asyncio.run(_answered(path.read_bytes(), directory))
    said = body.decode("utf-8", "replace")
    wrong = _wrong(status, said)
    code = 0 if status in _TAKEN else 2 if status in _REFUSED else status
    return Ended(code, said[:2_000], ran() or (None if wrong is None else ServerFaultError(f"{status}: {wrong}")))


def _wrong(status: int, said: str) -> str | None:
    """Return the violation of a response, or None."""
    failed = next((said[max(0, said.index(text) - 50) : said.index(text) + 250] for text in _FAILED if text in said), None)
    if failed is not None or status in _TAKEN:
        return failed
    try:
        data = json.loads(said)["error"]
    except (ValueError, KeyError, TypeError):
        data = None
    return None if isinstance(data, str) and len(data) > 10 else f"no sentence: {said[:200]}"


_TREE = {
    "simulation": {"duration_ms": 2_000.0},
    "storage": {"provider": "s3x"},
    "transaction": {"retry": 3},
    "workload": {
        "ingest": {"rate": 2.0, "operation": "fast_append", "runtime": {"distribution": "fixed", "value": 50.0}},
        "steps": {"schedule": [{"from_ms": 0, "rate": 1.0}, {"from_ms": "1s", "rate": 2.0}], "operation": "merge_append"},
        "jobs": {"writers": 2, "every_ms": "1s", "runtime": {"median": "20ms", "sigma": 0.3}},
    },
}
_BODIES: dict[str, dict[str, Any]] = {
    "/api/ask": {"tab": "t", "tree": _TREE, "changed": "workload.ingest.rate", "written": {"transaction.retry": "4"}},
    "/api/help": {"tab": "t", "tree": _TREE, "metric": "success_rate", "workload_class": "ingest"},
    "/api/stop": {"tab": "t"},
    "/api/study": {"tree": _TREE, "name": "mine"},
    "/api/report": {"tree": _TREE, "name": "mine.toml"},
}
_HEADERS = f"Host: 127.0.0.1:8000\nOrigin: http://localhost:8000\nX-Endive-Token: {_TOKEN}"
_NAMES = ("/api/report/mine", "/report/mine", "/api/starts/file%3A..%2Fx", "/api/starts/%00", "/%2e%2e/%2e%2e/etc/passwd")
_BARE = (
    f"GET /?token={_TOKEN}\nHost: localhost:8000",
    f"GET /\nHost: localhost:8000\nCookie: endive_8000={_TOKEN}\nSec-Fetch-Site: same-origin",
    *(
        f"GET {address}\n{_HEADERS}"
        for address in ("/live.js", "/favicon.svg", "/api/starts/recipes:flink", "/api/starts/default", "/api/form", *_NAMES)
    ),
)
_ADDRESSES = tuple(f"{text}\n\n".encode() for text in _BARE)


def _posted(address: str, body: bytes, more: str = "") -> bytes:
    return f"POST {address}\n{_HEADERS}\nContent-Length: {len(body)}{more}\n\n".encode() + body


def _kind_of_bodies(name: str, address: str, *bodies: dict[str, Any]) -> Kind:
    def attempt(path: Path) -> Ended:
        folder = str(next(iter(_starts().parts.values()))["code"]).rpartition("/")[0]
        path.write_bytes(_posted(address, path.read_bytes().replace(_FOLDER.encode(), folder.encode())))
        return _request(path)

    return Kind(f"serve: {name}", "http", tuple(json.dumps(body).encode() for body in bodies), attempt, mutate=mutated_tree)


def _with_part(code: str) -> dict[str, Any]:
    parts = {"catalog": {"code": f"{_FOLDER}/{code}", "options": {"mark": "x", "size": 1.0}}}
    return {"tab": "t", "tree": {**_TREE, "parts": parts}, "changed": "parts.catalog.options.size", "written": {}}


REQUESTS = (
    *(_kind_of_bodies(address, address, body) for address, body in _BODIES.items()),
    _kind_of_bodies("parts", "/api/ask", _with_part("own_part.py:Marked"), _with_part("other_part.py:Marked")),
    _kind_of_bodies("deep keys", "/api/ask", {"tab": "t", "tree": _TREE, "written": {"a." * 3_000 + "b": "1", "a.b.c": "[1]"}}),
    Kind("serve: requests", "http", (*_ADDRESSES, _posted("/api/stop", b'{"tab": 1}')), _request),
)
