"""Questions and answers: numbers as of ``endive run`` and ``endive compare``, refusals in sentences, stale work stopped."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner

from endive.config.load import check_document
from endive.main import app
from endive.serve.messages import Summarize
from endive.serve.worker import Worker, perform
from tests.serve.conftest import Client, assert_as_run, small


def answers(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event for event in events if event["kind"] == "answer"]


def data(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_answer_comes_in_steps(client: Client) -> None:
    events = client.ask(small())
    assert events[0]["kind"] == "accepted"
    assert [len(each["seeds"]) for each in answers(events)] == [1, 3, 12]
    assert [each["final"] for each in answers(events)] == [False, False, True]
    assert {event["name"] for event in events if event["kind"] == "figure" and event["figure"]} == {"time", "curve", "timeline"}
    assert events[-1]["kind"] == "done"


def test_the_headline_has_the_success_of_the_table(tmp_path: Path) -> None:
    """A closed loop is in flight at the end of the run: success is a range, and the headline gives no single value."""
    loop = {"closed": {"clients": 1}, "operation": "fast_append", "runtime": {"distribution": "fixed", "value": 0.0}}
    tree = {**small(), "simulation": {"duration_ms": 60_000.0, "engine": "reference"}, "workload": {"a": loop}}
    answer = perform(Summarize(check_document(tree, "test"), (0,)), Worker(tmp_path, lambda: False))
    success = answer.classes[0].metrics["success_rate"]
    assert success is not None
    assert success.text.endswith("–100%")
    assert answer.sentence.startswith(f"{success.text} of transactions commit")


def test_the_page_names_the_day_of_a_limit(tmp_path: Path) -> None:
    """A commit per minute adds 1,100 bytes, so the size reaches 6 kB on the first day."""
    tree = {
        **small(),
        "simulation": {"duration_ms": 600_000.0, "engine": "reference"},
        "catalog": {"type": "service", "metadata_limit_bytes": 6_000},
        "table": {"start": "empty"},
        "transaction": {"commit_path": "iceberg"},
        "workload": {"a": {"periodic": {"interval_ms": 60_000.0}, "operation": "fast_append"}},
    }
    answer = perform(Summarize(check_document(tree, "test"), (0, 1, 2)), Worker(tmp_path, lambda: False))
    assert "metadata.json reaches the limit of 6 kB on day 1. Expire snapshots earlier." in answer.warnings


def test_one_seed_equals_endive_run(client: Client, tmp_path: Path) -> None:
    events = client.ask(small())
    file = tmp_path / "live.toml"
    file.write_text(events[0]["toml"], encoding="utf-8")
    run = data("run", str(file), "--seed", "0", "--out", str(tmp_path))
    assert_as_run(answers(events)[0], run)


def test_a_against_b_equals_endive_compare(client: Client, tmp_path: Path) -> None:
    a, b = small(), small(transaction__retry=0)
    events = client.ask(b, a=a)
    for name, tree in (("a", a), ("b", b)):
        (tmp_path / f"{name}.toml").write_text(tomli_w.dumps(tree), encoding="utf-8")
    for found in (event for event in events if event["kind"] == "comparison"):
        seeds = str(len(found["seeds"]))
        said = data(
            "compare", str(tmp_path / "a.toml"), str(tmp_path / "b.toml"), "--seeds", seeds, "--out", str(tmp_path / "runs")
        )
        assert found["sentence"] == said["answer"][0]
        expected = {(row["workload_class"], row["metric"]): row for row in said["comparisons"]}
        assert len(found["rows"]) == len(expected)
        for row in found["rows"]:
            other = expected[row["workload_class"], row["metric"]]
            assert (row["a"]["mean"], row["b"]["mean"], row["verdict"]) == (other["a"], other["b"], other["verdict"])
            if row["difference"] is not None:
                assert row["difference"]["half_width"] == other["half_width"]


def test_a_pinned_configuration_without_a_common_window_is_not_compared(client: Client) -> None:
    events = client.ask(
        small(), a=small(simulation__duration_ms=3_600_000.0, workload__compaction__periodic__interval_ms=600_000.0)
    )
    comparison = next(event for event in events if event["kind"] == "comparison")
    assert comparison["rows"] == []
    assert "A and B cannot be compared" in comparison["sentence"]
    assert "simulation.duration_ms" in comparison["sentence"]
    assert answers(events)[-1]["final"]


def test_errors_are_reported_at_their_key(client: Client) -> None:
    status, events = client.post("/api/ask", tree=small(transaction__retry=-1, storage__provder="s3"))
    assert status == 422
    problems = {each["key"]: each["message"] for each in events[0]["problems"]}
    assert "did you mean 'provider'" in problems["storage.provder"]
    assert "greater than or equal to 0" in problems["transaction.retry"]


@pytest.mark.parametrize("duration", ["4000d", 1e15])
def test_a_long_request_is_rejected_with_its_estimate(client: Client, duration: Any) -> None:
    status, events = client.post("/api/ask", tree=small(simulation__duration_ms=duration))
    assert status == 422
    assert "a run would take about" in events[0]["error"]
    assert re.search(r"about [\d.]+ (min|h|d) of CPU time for [\d,]+ transactions", events[0]["error"])
    assert events[0]["problems"][0]["key"] == "simulation.duration_ms"


def many_classes(number: int) -> dict[str, Any]:
    tree = small()
    return {**tree, "workload": {f"class{k}": tree["workload"]["ingest"] for k in range(number)}}


@pytest.mark.parametrize(
    ("tree", "key"),
    [(small(catalog__num_tables=1_000_000), "catalog.num_tables"), (many_classes(1_500), "workload")],
    ids=["tables", "classes"],
)
def test_many_tables_or_classes_are_refused_before_they_are_set_up(client: Client, tree: dict[str, Any], key: str) -> None:
    status, events = client.post("/api/ask", tree=tree)
    assert status == 422
    assert [problem["key"] for problem in events[0]["problems"]] == [key]
    assert "setting up" in events[0]["error"]


def test_a_long_run_is_first_answered_by_a_shorter_one(client: Client) -> None:
    tree = small(simulation__duration_ms="4d", workload__ingest__rate=5.0)
    with client.open("POST", "/api/ask", json.dumps({"tab": "long", "tree": tree})) as response:
        response.readline()
        first = json.loads(response.readline())
    assert first["preview"]
    assert first["window_ms"][2] < 4 * 24 * 3_600_000.0


def test_a_choice_removes_keys_without_effect(client: Client) -> None:
    tree = small(catalog__type="cas", catalog__workers=4)
    status, _ = client.post("/api/ask", tree=tree)
    assert status == 422
    events = client.ask(tree, changed="catalog.type")
    assert events[0]["left_out"] == ["catalog.workers"]
    assert "workers" not in events[0]["tree"]["catalog"]


def test_written_toml_is_read_back(client: Client) -> None:
    written = {"workload.ingest.schedule": '[{ from = "0s", rate = 1.0 }]'}
    tree = small()
    del tree["workload"]["ingest"]["rate"]
    events = client.ask(tree, written=written)
    assert events[0]["tree"]["workload"]["ingest"]["schedule"] == [{"from": "0s", "rate": 1.0}]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"tree": 3}',
        b'{"tree": {}}',
        b"\xff",
        b'{"tree": {"storage": []}}',
        b'{"tree":{"a":' * 200,
        b'{"tree": {}, "written": [1]}',
        b'{"tree": {"\\ud800": 1}}',
        b'{"tree": {"a": "\\ud800"}}',
        b'{"tree": {}, "written": {"a..b.": "1"}}',
        b'{"tree": {}, "written": {"' + b"a." * 3_000 + b'b": "1"}}',
        b'{"tree": {}, "written": {"' + b"a." * 3_000 + b'b": "[[1]]"}}',
    ],
    ids=range(14),
)
def test_invalid_requests_are_rejected(client: Client, body: bytes) -> None:
    answer = client.send("POST", "/api/ask", body)
    assert answer.status == 422
    assert answer.events[0]["error"]
    assert "failed" not in answer.events[0]["error"]


@pytest.mark.parametrize("metric", [[], {}, 3, "no_such_metric"])
def test_an_invalid_goal_is_rejected(client: Client, metric: Any) -> None:
    status, events = client.post("/api/help", tree=small(), metric=metric)
    assert status == 422
    assert "Unknown metric" in events[0]["error"]


def test_files_that_no_configuration_of_the_user_names_are_not_read(client: Client) -> None:
    status, events = client.post("/api/ask", tree=small(storage__provider="/etc/passwd.toml"))
    assert status == 422
    assert "not read" in events[0]["error"]


def test_a_new_request_cancels_the_previous_one(client: Client) -> None:
    """The first answer ends as stopped, and its workers are free for the second."""
    slow = small(simulation__duration_ms="20h", workload__ingest__rate=8.0)
    with client.open("POST", "/api/ask", json.dumps({"tab": "one", "tree": slow})) as response:
        lines = [json.loads(response.readline())]
        assert lines[0]["kind"] == "accepted"
        status, events = client.post("/api/ask", tree=small(), tab="one")
        assert (status, events[-1]["kind"]) == (200, "done")
        lines += [json.loads(line) for line in response]
    assert lines[-1]["kind"] == "stopped"


def test_an_older_request_that_arrives_late_does_not_cancel_the_newer_one(client: Client) -> None:
    slow = small(simulation__duration_ms="20h", workload__ingest__rate=8.0)
    with client.open("POST", "/api/ask", json.dumps({"tab": "late", "number": 2, "tree": slow})) as response:
        assert json.loads(response.readline())["kind"] == "accepted"
        assert client.post("/api/ask", tree=small(), tab="late", number=1)[0] == 409
        assert json.loads(response.readline())["kind"] == "answer"
        assert client.post("/api/ask", tree=small(), tab="late", number=3)[0] == 200
        assert [json.loads(line) for line in response][-1]["kind"] == "stopped"


def test_two_tabs_do_not_stop_each_other(client: Client) -> None:
    found: dict[str, list[dict[str, Any]]] = {}

    def ask(tab: str, retry: int) -> None:
        found[tab] = client.post("/api/ask", tree=small(transaction__retry=retry), tab=tab)[1]

    threads = [threading.Thread(target=ask, args=(f"tab{retry}", retry)) for retry in (1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [events[-1]["kind"] for events in found.values()] == ["done", "done"]
    success = [answers(found[tab])[-1]["classes"][1]["metrics"]["success_rate"]["mean"] for tab in ("tab1", "tab5")]
    assert success[0] < success[1]
