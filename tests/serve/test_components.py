"""Parts of one's own on the live page: those of the file that was given and allowed are run, and no other code ever is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from endive.cli.examples import examples_folder
from endive.config.components import allow_code
from endive.config.errors import ConfigError
from endive.serve.changes import list_changes
from endive.serve.page_configuration import Presets, as_toml, put
from endive.serve.saving import Reports
from endive.serve.server import serving_in_background
from tests.cli import invoke, strict
from tests.config.test_components import of_guide
from tests.serve.conftest import Client, assert_as_run, small

CODE = "queue_catalog.py"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    allow_code(False)
    yield
    allow_code(False)


def own(directory: Path) -> Path:
    """A configuration with a catalog of one's own, and its code beside it."""
    (directory / CODE).write_text(of_guide("A catalog"), encoding="utf-8")
    tree = {**small(), "parts": {"catalog": {"code": f"{CODE}:QueueCatalog", "options": {"service_ms": 50.0}}}}
    path = directory / "own.toml"
    path.write_text(as_toml(tree), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Presets]]:
    """A server that was started with ``--allow-code``."""
    directory = tmp_path_factory.mktemp("own")
    starts = Presets(own(directory), directory, examples_folder(), code=True)
    with serving_in_background(starts, directory, workers=2) as (address, _):
        yield Client(address, directory), starts


def test_numbers_are_those_of_run(started: tuple[Client, Presets], tmp_path: Path) -> None:
    client, starts = started
    events = client.ask(starts.all[0].tree())
    assert [event["name"] for event in events if event["kind"] == "figure" and event["figure"] is None] == []
    assert "Custom catalog: QueueCatalog in queue_catalog.py, on the reference engine." in events[0]["assumed"]
    (tmp_path / "live.toml").write_text(events[0]["toml"], encoding="utf-8")
    run = strict(invoke("run", str(tmp_path / "live.toml"), "--seed", "0", "--allow-code", "--json", "--out", str(tmp_path)).stdout)
    assert run["provenance"]["engine"] == "reference"
    assert_as_run(next(event for event in events if event["kind"] == "answer"), run)


def test_numbers_of_its_options_can_be_changed_and_compared(started: tuple[Client, Presets]) -> None:
    client, starts = started
    tree = starts.all[0].tree()
    slower = put(tree, "parts.catalog.options.service_ms", 400)
    events = client.ask(slower, a=tree)
    compared = [event for event in events if event["kind"] == "comparison"][-1]["rows"]
    median = next(row for row in compared if (row["workload_class"], row["metric"]) == ("all", "time_to_commit_p50_ms"))
    assert median["b"]["mean"] - median["a"]["mean"] > 350.0


def test_changes_leave_a_custom_catalog_alone(started: tuple[Client, Presets]) -> None:
    changes = list(list_changes(started[1].all[0].tree()))
    assert len(changes) >= 5
    assert all("parts" in change.tree for change in changes)
    assert not {"catalog", "pointers"} & {change.name for change in changes}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"catalog": {"code": "{folder}/other.py:QueueCatalog", "options": {"service_ms": 50.0}}}, "parts.catalog.code"),
        ({"catalog": {"code": "{own}:Other"}}, "parts.catalog.code"),
        ({"catalog": {"code": "{own}:QueueCatalog", "options": {"service_ms": "1"}}}, "parts.catalog.options.service_ms"),
        ({"catalog": {"code": "{own}:QueueCatalog", "options": {"file": 1}}}, "parts.catalog.options.file"),
        ({"catalog": {"code": "{own}:QueueCatalog", "source": "{bomb}"}}, "parts.catalog.source"),
        ({"provider": {"code": "{own}:QueueCatalog"}}, "parts.provider"),
        ({"catalog": ["{own}:QueueCatalog"]}, "parts.catalog"),
        ([], "parts"),
        (None, "parts"),
    ],
)
@pytest.mark.parametrize("address", ["/api/ask", "/api/help", "/api/study", "/api/report"])
def test_other_code_is_refused_at_its_key(started: tuple[Client, Presets], address: str, change: Any, key: str) -> None:
    client, starts = started
    ran = client.directory / "ran"
    bomb = f"open({str(ran)!r}, 'w')\n"
    (client.directory / "other.py").write_text(bomb + of_guide("A catalog"), encoding="utf-8")
    text = json.dumps(change).replace("{folder}", str(client.directory)).replace("{own}", str(client.directory / CODE))
    sent = json.loads(text.replace("{bomb}", json.dumps(bomb)[1:-1]))
    status, data = client.post(address, tree={**starts.all[0].tree(), "parts": sent}, name="other")
    assert (status, [problem["key"] for problem in data[0]["problems"]]) == (422, [key])
    assert "is not run: the page runs only the components of" in data[0]["error"]
    assert not ran.exists()
    assert not (client.directory / "other.toml").exists()


def test_a_server_without_permission_runs_no_components(started: tuple[Client, Presets], client: Client) -> None:
    for written in ({}, {"parts.catalog.code": f"{client.directory}/x.py:X"}):
        tree = started[1].all[0].tree() if not written else small()
        status, data = client.post("/api/ask", tree=tree, written=written)
        assert (status, "is not run" in data[0]["error"]) == (422, True)


def test_a_file_with_code_is_taken_only_with_the_flag_and_only_the_one_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text(as_toml(small()), encoding="utf-8")
    path = own(tmp_path)
    with pytest.raises(ConfigError, match="Use --allow-code to allow it"):
        Presets(path, tmp_path, examples_folder())
    beside = Presets(tmp_path / "given.toml", tmp_path, examples_folder(), code=True)
    assert beside.find("file:own.toml") is None
    assert beside.parts == {}
    done = invoke("serve", str(path), "--no-open")
    assert (done.exit_code, done.stderr.splitlines()[0]) == (
        2,
        f"error: {path}: `parts` loads custom code, which runs with your permissions. Use --allow-code to allow it.",
    )
    done = invoke("serve", "--no-open", "--allow-code")
    assert (done.exit_code, "needs a FILE with custom code ([parts])" in done.stderr) == (2, True)


def test_a_study_and_its_report_keep_the_part_and_are_allowed_to_run_it(started: tuple[Client, Presets]) -> None:
    client, starts = started
    tree = starts.all[0].tree()
    status, data = client.post("/api/study", tree=tree, name="kept")
    assert (status, data[0]["commands"][0]) == (200, "endive sweep kept.toml --allow-code")
    planned = invoke("sweep", str(client.directory / "kept.toml"), "--dry-run", "--allow-code", "--json")
    assert planned.exit_code == 0, planned.stderr
    commands: list[list[str]] = []

    async def noted(self: Reports, report: Any, arguments: list[str]) -> int:
        commands.append(list(arguments))
        return 0

    async def make() -> None:
        reports = Reports(client.directory)
        reports.begin("kept", tree)
        await asyncio.gather(*reports._tasks)

    with mock.patch.object(Reports, "_run", noted):
        asyncio.run(make())
    assert commands[0][:3] == ["sweep", str(client.directory / "kept.toml"), "--allow-code"]
