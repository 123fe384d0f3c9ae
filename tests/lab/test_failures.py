"""Latencies and failures of a configuration, as real clients meet them. Failures lose or double nothing unnoticed."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
import pytest
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError
from pyiceberg.exceptions import CommitFailedException, RESTError, ServerError, ServiceUnavailableError
from requests.exceptions import ConnectionError as LostError

from endive.catalog import ServiceSettings
from endive.config.load import check_document
from endive.lab.behavior import Behavior, Draws, LabFailures, object_kind
from endive.lab.objects import ObjectStore
from endive.lab.open_lab import BUCKET, LabSettings, behavior_of, open_lab
from endive.storage import FixedLatency
from tests.cli import invoke
from tests.lab.labs import ROWS, make_table, obstore_store, rest_catalog, s3_client

NO_TIME = FixedLatency(0.0)
INSTANT = {"provider": "instant"}
SERVICE = ServiceSettings(network=NO_TIME, load=NO_TIME, commit=NO_TIME, check=NO_TIME)


def lab_with(failures: LabFailures | None = None, **changes: Any) -> LabSettings:
    return LabSettings(Behavior(failures=failures or LabFailures(), **changes))


def document_with(**sections: Mapping[str, Any]) -> Behavior:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 1000, "seed": 1},
        "storage": {"provider": "s3"},
        "catalog": {"type": "service"},
        "workload": {"w": {"rate": 1.0}},
    }
    for name, content in sections.items():
        tree[name] = dict(content)
    return behavior_of(check_document(tree, "test"))


class TestLatencies:
    def test_come_from_the_profile(self) -> None:
        draws = Draws(document_with())
        reads = sorted(draws.read("a/1.parquet", 1000).success_ms for _ in range(2000))
        assert 24.0 < reads[1000] < 30.0  # 27 ms in the profile of 2026-01
        swaps = sorted(draws.conditional_write("_delta_log/1.json", 1000).success_ms for _ in range(2000))
        assert 60.0 < swaps[1000] < 68.0  # 64 ms

    def test_a_service_has_network_and_service_times(self) -> None:
        given = {"type": "service", "network": {"median": 7.0, "sigma": 0.0}, "commit": {"median": 40.0, "sigma": 0.0}}
        draws = Draws(document_with(catalog=given))
        assert draws.network_ms() == pytest.approx(7.0)
        assert draws.commit_ms() == pytest.approx((40.0, 2.0))

    def test_a_catalog_file_is_swapped(self) -> None:
        behavior = document_with(catalog={"type": "cas"})
        assert behavior.catalog is not None
        assert behavior.catalog.name == "s3"
        assert Draws(behavior).network_ms() == 0.0

    def test_an_access_takes_as_long_as_was_drawn(self) -> None:
        behavior = document_with(storage={"T_MANIFEST_LIST": {"read": {"mean": 60.0}, "write": {"mean": 80.0}}})
        with open_lab(LabSettings(replace(behavior, service=SERVICE))) as lab:
            store = obstore_store(lab)
            obstore.put(store, "snap-1.avro", b"x")
            obstore.get(store, "snap-1.avro").bytes()
            put, get = lab.recording.requests()
        assert put.end_ms - put.time_ms >= 79.9
        assert get.end_ms - get.time_ms >= 59.9

    @pytest.mark.parametrize(
        ("key", "kind"),
        [
            ("t/metadata/00001-x.metadata.json", "table_metadata"),
            ("t/metadata/snap-1-1-x.avro", "manifest_list"),
            ("t/metadata/x-m0.avro", "manifest_file"),
            ("t/data/x.parquet", "data"),
        ],
    )
    def test_depend_on_the_kind_of_object(self, key: str, kind: str) -> None:
        assert object_kind(key) == kind


class TestRejectedRequests:
    def test_have_no_effect_and_are_sent_again(self) -> None:
        with open_lab(lab_with(LabFailures(request_error=0.5))) as lab:
            store = obstore_store(lab, retries=20)
            for number in range(3):
                obstore.put(store, f"{number}", b"x")
            events = [each.event for each in lab.recording.requests()]
        assert len(lab.store.list(BUCKET).objects) == 3
        assert [each.outcome for each in events].count("ok") == 3
        assert {each.status for each in events if each.outcome == "rejected"} == {503}

    def test_a_commit_does_not_take_effect(self) -> None:
        with open_lab(lab_with(LabFailures(request_error=1.0))) as lab, pytest.raises(ServiceUnavailableError):
            rest_catalog(lab)
        assert [each.event.outcome for each in lab.recording.requests()] == ["rejected"]

    def test_more_writes_than_an_object_allows(self) -> None:
        behavior = document_with(storage={"provider": "gcp"})
        assert behavior.object_writes_per_s == 1.0
        with open_lab(LabSettings(replace(behavior, service=SERVICE))) as lab:
            s3 = s3_client(lab)
            s3.put_object(Bucket=BUCKET, Key="ref", Body=b"1")
            with pytest.raises(ClientError, match="SlowDown"):
                s3.put_object(Bucket=BUCKET, Key="ref", Body=b"2")
            s3.put_object(Bucket=BUCKET, Key="other", Body=b"1")


class TestLostResponses:
    def test_the_recording_contains_the_effect_of_each_request(self) -> None:
        """A client that gets no response does not know; the recording does, for each commit."""
        with open_lab(lab_with(LabFailures(lost_answer=0.4), seed=3)) as lab:
            catalog = rest_catalog(lab)
            catalog.create_namespace("db")
            while not catalog.table_exists("db.events"):
                with suppress(LostError):
                    catalog.create_table("db.events", ROWS.schema)
            outcomes = []
            for _ in range(8):
                table = catalog.load_table("db.events")
                try:
                    table.append(ROWS)
                    outcomes.append("ok")
                except LostError:
                    outcomes.append("lost")
            table = catalog.load_table("db.events")
            rows = table.scan().to_arrow().num_rows
            commits = [each.event for each in lab.recording.requests() if each.is_commit and each.event.operation == "commit"]
        assert {"ok", "lost"} == set(outcomes)
        assert [each.outcome for each in commits] == outcomes
        installed = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        assert installed == {each.snapshot_id for each in commits if each.status == 200}
        assert rows == 3 * len(installed)

    def test_a_repeated_create_is_reported_from_a_conflict(self) -> None:
        """obstore sends a conditional write again after a lost response and finds its own object."""
        with open_lab(lab_with(LabFailures(lost_answer=0.5), seed=2)) as lab:
            store = obstore_store(lab, retries=30)
            reported = {}
            for number in range(10):
                try:
                    obstore.put(store, f"log/{number}", b"x", mode="create")
                    reported[number] = "ok"
                except AlreadyExistsError:
                    reported[number] = "exists"
            events = [each.event for each in lab.recording.requests()]
        assert "exists" in reported.values()  # nothing else has written there
        for number, outcome in reported.items():
            own = [each for each in events if each.target == f"{BUCKET}/log/{number}"]
            assert own[0].status == 200
            assert (own[0].outcome == "lost") == (outcome == "exists")


class TestSlowResponses:
    def test_a_write_takes_effect_long_before_its_response(self) -> None:
        given = document_with(failures={"slow_response": 1.0, "slow_response_ms": 1_500.0}, storage=INSTANT)
        with open_lab(LabSettings(given)) as lab, ThreadPoolExecutor(1) as pool:
            writing = pool.submit(obstore.put, obstore_store(lab), "a", b"x")
            while lab.store.find(BUCKET, "a") is None and not writing.done():
                time.sleep(0.001)
            was_waiting = not writing.done()
            writing.result()
            requests = lab.recording.requests()
        assert was_waiting
        assert [each.event.outcome for each in requests] == ["ok"]
        assert requests[0].end_ms - requests[0].time_ms >= 1_500.0

    def test_their_share_is_that_of_the_configuration(self) -> None:
        draws = Draws(document_with(failures={"slow_response": 0.2, "slow_response_ms": "30s"}))
        assert 360 < sum(draws.read("a", 1).success_ms >= 30_000.0 for _ in range(2_000)) < 440

    def test_a_response_of_the_catalog_is_slow(self) -> None:
        with open_lab(lab_with(LabFailures(slow_response=1.0, slow_response_ms=200.0), service=SERVICE)) as lab:
            rest_catalog(lab)
            requests = lab.recording.requests()
        assert all(each.end_ms - each.time_ms >= 200.0 for each in requests)


class TestQueue:
    def test_a_full_queue_rejects_requests(self) -> None:
        service = replace(SERVICE, load=FixedLatency(1_000.0), workers=1, queue_limit=1)
        with open_lab(lab_with(service=service)) as lab:
            catalogs = [rest_catalog(lab) for _ in range(4)]

            def ask(catalog: Any) -> int:
                try:
                    catalog.list_namespaces()
                except RESTError:
                    return 429
                return 200

            with ThreadPoolExecutor(4) as pool:
                answers = sorted(pool.map(ask, catalogs))
            events = [each.event for each in lab.recording.requests() if each.event.status == 429]
        assert answers == [200, 200, 429, 429]
        assert [each.outcome for each in events] == ["rejected"] * 2

    def test_commits_race_unless_the_table_is_locked(self) -> None:
        outcomes = {}
        for lock in ("none", "table"):
            service = replace(SERVICE, commit=FixedLatency(120.0), lock=lock)
            with open_lab(lab_with(service=service)) as lab:
                table = make_table(rest_catalog(lab), **{"commit.retry.num-retries": "0"})
                handles = [rest_catalog(lab).load_table(table.name()) for _ in range(2)]
                with ThreadPoolExecutor(2) as pool:
                    list(pool.map(_append, handles))
                commits = [each for each in lab.recording.requests() if each.is_commit]
                outcomes[lock] = sorted(each.event.outcome for each in commits)
        assert outcomes == {"none": ["conflict", "ok"], "table": ["conflict", "ok"]}


def _append(table: Any) -> None:
    with suppress(CommitFailedException):
        table.append(ROWS)


class TestInternalErrors:
    """An unexpected exception in a server is named in the response, in the recording and in the report of the session."""

    def test_of_the_object_store(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with open_lab(LabSettings()) as lab:
            monkeypatch.setattr(lab.store, "list", broken)
            with pytest.raises(ClientError, match="KeyError: 'page'") as raised:
                s3_client(lab).list_objects_v2(Bucket=BUCKET)
            assert raised.value.response["Error"]["Code"] == "InternalError"
            (request,) = lab.recording.requests()
        assert (request.event.service, request.event.status, request.event.outcome) == ("store", 500, "error")
        assert "KeyError: 'page' (test_failures.py, line " in request.event.detail

    def test_of_the_catalog(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with open_lab(LabSettings()) as lab:
            catalog = rest_catalog(lab)
            monkeypatch.setattr(lab.catalog, "namespaces", broken)
            with pytest.raises(ServerError, match="InternalError: Internal error of the lab: KeyError: 'page'"):
                catalog.list_namespaces()
            assert lab.recording.requests()[-1].event.outcome == "error"

    def test_are_counted_in_the_report(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        job = """
            import os, urllib.request
            from contextlib import suppress
            key = {"Authorization": f"Credential={os.environ['AWS_ACCESS_KEY_ID']}/"}
            for _ in range(2):
                with suppress(OSError):
                    urllib.request.urlopen(urllib.request.Request(os.environ["AWS_ENDPOINT_URL"] + "/lab", headers=key))
        """
        monkeypatch.setattr(ObjectStore, "list", broken)
        done = invoke("lab", "-o", str(tmp_path), "--", sys.executable, "-c", textwrap.dedent(job))
        printed = " ".join(done.stderr.split())
        assert "answered 2 requests with status 500" in printed
        assert "First error: GET lab: KeyError: 'page'" in printed


def broken(*_: Any) -> None:
    raise KeyError("page")
