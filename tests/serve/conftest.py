"""Shared server for all tests of the live page, in this process, with two workers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from endive.cli.examples import examples_folder
from endive.serve.page_configuration import DEFAULT, Presets, as_toml, put
from endive.serve.server import LOOPBACK, Address, serving_in_background

PATIENCE_S = 120.0


@dataclass(frozen=True)
class Answer:
    """Response of a server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the JSON of each line."""
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass(frozen=True)
class Client:
    """Client that sends requests like the page."""

    address: Address
    directory: Path

    def send(
        self, method: str, path: str, body: bytes | str | Iterator[bytes] | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send a request with the token, unless the headers say otherwise."""
        with self.open(method, path, body, headers) as response:
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status, found, response.read())

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | str | Iterator[bytes] | None = None, headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request and stream its response."""
        with closing(http.client.HTTPConnection(LOOPBACK, self.address.port, timeout=PATIENCE_S)) as connection:
            connection.request(method, path, body, {"X-Endive-Token": self.address.token, **(headers or {})})
            with connection.getresponse() as response:
                yield response

    def post(self, path: str, **body: Any) -> tuple[int, list[dict[str, Any]]]:
        """Return the status and the events of a response; a response that is not a stream has one event."""
        answer = self.send("POST", path, json.dumps({"tab": "test", **body}))
        return answer.status, answer.events

    def ask(self, tree: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        """Return all events of a response."""
        status, events = self.post("/api/ask", tree=tree, **more)
        assert status == 200, events
        return events


@pytest.fixture(scope="package")
def live_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working directory of the server."""
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="package")
def client(live_directory: Path) -> Iterator[Client]:
    """Return a client of a running server."""
    starts = Presets(shorter(live_directory), live_directory, examples_folder())
    with serving_in_background(starts, live_directory, workers=2) as (address, _):
        yield Client(address, live_directory)


def shorter(directory: Path) -> Path:
    """Write the default system of the page with a run of ten minutes instead of an hour; return its path."""
    path = directory / "shorter.toml"
    path.write_text("# Ten minutes.\n" + as_toml(put(DEFAULT, "simulation.duration_ms", "10min")), encoding="utf-8")
    return path


def assert_as_run(answer: dict[str, Any], run: dict[str, Any]) -> None:
    """Check that the result of one seed has the numbers of ``endive run --json``."""
    rows = {row["workload_class"]: row for row in run["metrics"] if row["operation_type"] == "all"}
    assert answer["window"] == run["window"]
    for row in answer["classes"]:
        for metric, found in row["metrics"].items():
            expected = rows[row["name"]][metric]
            assert (None if found is None or found["kind"] != "number" else found["mean"]) == expected, (row["name"], metric)


def small(**changes: Any) -> dict[str, Any]:
    """Return a configuration with two classes that is simulated in milliseconds."""
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 120_000.0},
        "storage": {"provider": "s3"},
        "transaction": {"retry": 3},
        "workload": {
            "ingest": {"rate": 2.0, "operation": "fast_append", "runtime": {"distribution": "fixed", "value": 500.0}},
            "compaction": {"periodic": {"interval_ms": 20_000.0}, "operation": "validated_overwrite", "runtime": {"mean": 5_000.0}},
        },
    }
    for key, value in changes.items():
        node = tree
        *path, last = key.split("__")
        for part in path:
            node = node.setdefault(part, {})
        node[last] = value
    return tree
