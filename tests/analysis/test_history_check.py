"""The history checker finds nothing wrong with runs, and something with every history that was tampered with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.analysis.history_check import check_counts, check_history, rules_of, wrong_outcomes
from endive.config.load import check_document
from endive.simulation.reference import ReferenceEngine
from tests.configurations import committer_documents, documents, failing_documents, protocol_documents, service_documents
from tests.simulation.runs import config_of

Row = dict[str, Any]


def history_of(tree: dict[str, Any]) -> tuple[list[Row], list[Row]]:
    """The rows and the trace of a run."""
    rows: list[pa.RecordBatch] = []
    events: list[pa.RecordBatch] = []
    ReferenceEngine(config_of(tree), rows.append, events.append).run()
    return [row for batch in rows for row in batch.to_pylist()], [event for batch in events for event in batch.to_pylist()]


@settings(max_examples=120)
@given(st.one_of(documents(), failing_documents(), service_documents(), committer_documents(), protocol_documents()))
def test_nothing_is_wrong_with_any_run(tree: dict[str, Any]) -> None:
    """Failures, services that retry, lock and group commits, committers, several tables: all of it."""
    rows, events = history_of(tree)
    assert check_history(rows, events, rules_of(check_document(tree, "generated"))) == []
    assert check_counts(rows, events) == []
    if "failures" not in tree and "queue_limit" not in tree["catalog"]:
        assert wrong_outcomes(row for row in rows if not row["unknown_outcomes"]) == []


TREE: dict[str, Any] = {
    "simulation": {"duration_ms": 30_000.0, "seed": 2},
    "storage": {"provider": "s3x"},
    "catalog": {"num_tables": 2},
    "transaction": {"conflict_detector": "partition_overlap", "retry": 20},
    "workload": {
        "appends": {"rate": 6.0, "operation": "fast_append", "runtime": {"distribution": "fixed", "value": 20.0}},
        "jobs": {"rate": 1.0, "operation": "validated_overwrite", "runtime": {"distribution": "fixed", "value": 100.0}},
    },
}
STRICT = rules_of(check_document(TREE, "test"))


def test_protocols_decide_themselves_which_operations_conflict() -> None:
    assert STRICT.strict
    transaction = {"commit_path": "delta-rs", "conflict_detector": "partition_overlap", "inter_arrival": {"scale": 1_000.0}}
    tree = {"simulation": {"duration_ms": 1_000.0}, "storage": {"provider": "s3"}}
    tree["transaction"] = {**transaction, "operation_types": {"fast_append": 1.0}}
    assert not rules_of(check_document(tree, "test")).strict


@pytest.mark.parametrize("protocol", ["ducklake", "delta-catalog"])
def test_requests_of_protocols_to_the_catalog_are_in_the_trace(protocol: str) -> None:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 20_000.0, "seed": 1},
        "storage": {"provider": "s3"},
        "catalog": {"type": "service"},
        "transaction": {
            "commit_path": protocol,
            "inter_arrival": {"scale": 200.0},
            "operation_types": {"fast_append": 1.0},
            "runtime": {"distribution": "fixed", "value": 500.0},
        },
    }
    rows, events = history_of(tree)
    assert sum(row["catalog_requests"] for row in rows) > len(rows)
    assert check_counts(rows, events) == []


def test_a_lost_commit_before_a_restart_is_not_judged_by_the_new_start() -> None:
    """A blind retry: the commit on version 1 took effect, the client did not learn of it, conflicted with itself and restarted."""
    steps = [
        ("catalog_read", "0:1"),
        ("attempt", ""),
        ("answer_lost", "0:1"),
        ("conflict", "real"),
        ("restart", ""),
        ("catalog_read", "0:2"),
        ("attempt", ""),
        ("commit", "0:2"),
    ]
    events = [
        {"txn_id": 7, "event": name, "kind": kind, "time_ms": float(place), "duration_ms": 0.0}
        for place, (name, kind) in enumerate(steps)
    ]
    row = {"txn_id": 7, "status": "committed", "operation_type": "validated_overwrite", "tables_written": [0], "installs": 2}
    problems = check_history([row], events, replace(STRICT, at_most_once=False))
    assert [problem for problem in problems if "must not commit after another commit" in problem] == []


@pytest.fixture(scope="module")
def history() -> tuple[list[Row], list[Row]]:
    rows, events = history_of(TREE)
    assert check_history(rows, events, STRICT) == []
    assert sum(row["status"] == "committed" and row["operation_type"] == "validated_overwrite" for row in rows) > 3
    return rows, events


def commits(events: list[Row]) -> list[int]:
    return [place for place, event in enumerate(events) if event["event"] == "commit"]


def changed(items: list[Row], place: int, **changes: Any) -> list[Row]:
    return [{**item, **changes} if i == place else item for i, item in enumerate(items)]


def test_a_commit_on_a_version_that_was_replaced_already_is_a_lost_update(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    of_table_0 = [place for place in commits(events) if events[place]["kind"].startswith("0:")]
    earlier, later = of_table_0[3], of_table_0[4]
    found = check_history(rows, changed(events, later, kind=events[earlier]["kind"]))
    assert any("an update is lost" in problem for problem in found)


def test_a_commit_that_is_applied_twice(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    found = check_history(rows, [*events, events[commits(events)[0]]])
    assert any("with 2 commits" in problem for problem in found)


def test_a_commit_that_no_one_made(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    without = [event for place, event in enumerate(events) if place != commits(events)[5]]
    assert any("with 0 commits" in problem for problem in check_history(rows, without))


def test_an_aborted_row_that_was_installed(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    txn_id = events[commits(events)[2]]["txn_id"]
    place = next(i for i, row in enumerate(rows) if row["txn_id"] == txn_id)
    tampered = changed(rows, place, status="aborted", abort_reason="max_retries_exceeded")
    assert any("is aborted, with 1 commits" in problem for problem in check_history(tampered, events))


def test_a_row_that_is_missing(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    txn_id = events[commits(events)[2]]["txn_id"]
    assert check_history([row for row in rows if row["txn_id"] != txn_id], events) == [
        f"transaction {txn_id} committed and has no row"
    ]


def test_a_read_that_does_not_see_what_was_answered(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    last = max(place for place, event in enumerate(events) if event["event"] == "catalog_read")
    table = events[last]["kind"].partition(":")[0]
    found = check_history(rows, changed(events, last, kind=f"{table}:1"))
    assert any("read version 1 after" in problem for problem in found)


def test_an_overwrite_that_should_have_been_refused(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    strict = {row["txn_id"] for row in rows if row["operation_type"] == "validated_overwrite" and row["status"] == "committed"}
    first = next(i for i, event in enumerate(events) if event["event"] == "catalog_read" and event["txn_id"] in strict)
    table, _, version = events[first]["kind"].partition(":")
    found = check_history(rows, changed(events, first, kind=f"{table}:{int(version) - 1}"), STRICT)
    assert any("must not commit after another commit" in problem for problem in found)


def test_a_commit_after_a_real_conflict(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    jobs = {row["txn_id"] for row in rows if row["operation_type"] == "validated_overwrite"}
    place = next(place for place in commits(events) if events[place]["txn_id"] in jobs)
    conflict = {**events[place], "event": "conflict", "kind": "real"}
    found = check_history(rows, [*events[:place], conflict, *events[place:]])
    assert found == [f"transaction {events[place]['txn_id']} committed after a real conflict"]


def test_a_row_that_names_other_tables(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    place = next(i for i, row in enumerate(rows) if row["status"] == "committed")
    assert any("tables other than" in problem for problem in check_history(changed(rows, place, tables_written=[9]), events))


SERVICE: dict[str, Any] = {
    "simulation": {"duration_ms": 20_000.0, "seed": 7},
    "storage": {"provider": "s3x"},
    "catalog": {"type": "service", "num_tables": 3},
    "transaction": {"commit_path": "iceberg", "runtime": {"distribution": "fixed", "value": 20.0}, "retry": 20},
    "table": {"start": "empty"},
    "failures": {"lost_answer": 0.3, "on_unknown": "retry"},
    "workload": {
        "appends": {"rate": 4.0, "operation": "fast_append", "tables_per_txn": 2},
        "sink": {"writers": 5, "every": "1s", "operation": "merge_append", "committer": {"max_batch": 5}},
        "expiry": {"rate": 1.0, "operation": "expire_snapshots"},
    },
}


def history_with(**catalog: Any) -> tuple[list[Row], list[Row], Any]:
    """A history with lost answers at a service, and what it promises."""
    tree = {**SERVICE, "catalog": {**SERVICE["catalog"], **catalog}}
    if "coalesce" in catalog:
        tree["workload"] = {**SERVICE["workload"], "appends": {"rate": 4.0, "operation": "overwrite"}}
    rows, events = history_of(tree)
    rules = rules_of(check_document(tree, "test"))
    assert check_history(rows, events, rules) == []
    return rows, events, rules


REBASES = {"server_retries": 3, "server_retry_mode": "rebase"}
SERVERS: list[dict[str, Any]] = [{}, {"server_retries": 3}, REBASES, {"coalesce": {"linger_ms": 5.0}}, {"lock": "table"}]


@pytest.mark.parametrize("catalog", SERVERS, ids=["plain", "retries", "rebases", "group_commit", "lock"])
def test_lost_answers_are_seen_as_what_they_were(catalog: dict[str, Any]) -> None:
    rows, events, rules = history_with(**catalog)
    twice = [row for row in rows if row["installs"] > 1]
    assert len(twice) > 3
    assert sum("took effect" in answer for answer in wrong_outcomes(rows)) >= len(twice)
    place = next(i for i, row in enumerate(rows) if row["installs"] == 2)
    hidden = check_history(changed(rows, place, installs=1), events, rules)
    assert hidden == [f"transaction {rows[place]['txn_id']} took effect 1 times by its row, 2 times by the trace"]
    silent = next(i for i, event in enumerate(events) if event["event"] == "answer_lost" and event["kind"])
    assert any("times by the trace" in each for each in check_history(rows, changed(events, silent, kind=""), rules))


def test_an_outcome_that_was_reported_wrongly(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    failed = next(i for i, row in enumerate(rows) if row["status"] == "aborted")
    found = check_history(changed(rows, failed, status="committed"), events, STRICT)
    assert found == [f"transaction {rows[failed]['txn_id']} is committed, with 0 commits in the trace"]


@pytest.mark.parametrize("catalog", SERVERS, ids=["plain", "retries", "rebases", "group_commit", "lock"])
def test_a_commit_that_was_applied_twice_makes_versions_that_cannot_be(catalog: dict[str, Any]) -> None:
    rows, events, rules = history_with(**catalog)
    commits_of_0 = sum("0:" in f" {event['kind']}" for event in events if event["event"] in ("commit", "answer_lost"))
    last = max(i for i, event in enumerate(events) if event["event"] == "catalog_read" and event["kind"].startswith("0:"))
    found = check_history(rows, changed(events, last, kind=f"0:{commits_of_0 + 9}"), rules)
    assert any("one was applied twice" in each for each in found)


def test_a_lost_update_at_a_service_that_applies_appends_again_is_found_among_other_operations() -> None:
    rows, events, rules = history_with(coalesce={"linger_ms": 5.0})
    overwrites = {row["txn_id"] for row in rows if row["operation_type"] == "overwrite"}
    by_table: dict[str, list[int]] = {}
    for place in commits(events):
        if events[place]["txn_id"] in overwrites:
            by_table.setdefault(events[place]["kind"].partition(":")[0], []).append(place)
    earlier, later = max(by_table.values(), key=len)[:2]
    found = check_history(rows, changed(events, later, kind=events[earlier]["kind"]), rules)
    assert any("an update is lost" in each for each in found)


def test_an_abort_for_retries_or_time_without_a_failed_attempt(history: tuple[list[Row], list[Row]]) -> None:
    rows, events = history
    place = next(i for i, event in enumerate(events) if event["event"] == "attempt")
    abort = {**events[place], "event": "abort", "kind": "commit_timeout"}
    found = check_history(rows, [*events[:place], abort, *events[place:]])
    assert f"transaction {abort['txn_id']} ran out of retries or time, but its last attempt did not fail" in found


def test_a_transaction_takes_effect_twice_only_where_clients_retry_blindly() -> None:
    rows, events, rules = history_with()
    assert not rules.at_most_once
    found = check_history(rows, events, replace(rules, at_most_once=True))
    assert len(found) == sum(row["installs"] > 1 for row in rows) > 3
    assert all("though no client retries blindly" in each for each in found)
    assert STRICT.at_most_once
