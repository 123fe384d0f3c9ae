"""PyIceberg against the catalog of a lab without latencies: it works as against any catalog."""

from __future__ import annotations

import http.client
import json
import threading
import urllib.error
import urllib.request
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from endive.lab.open_lab import BUCKET, Lab
from tests.lab.labs import PATIENCE_S, ROWS, make_table, rest_catalog, shared


def post(lab: Lab, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Send a POST to the catalog, as clients that PyIceberg is not do."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{lab.catalog_url}/v1/{path}", content, method="POST")
    for name, value in {"Authorization": f"Bearer {shared(lab).token}", **headers}.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


class TestNamespaces:
    def test_are_created_changed_listed_and_dropped(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        catalog.create_namespace("a", {"owner": "me"})
        catalog.create_namespace(("a", "b"))
        assert catalog.list_namespaces() == [("a",)]
        assert catalog.list_namespaces("a") == [("a", "b")]
        catalog.update_namespace_properties("a", removals={"owner"}, updates={"purpose": "test"})
        assert catalog.load_namespace_properties("a") == {"purpose": "test"}
        with pytest.raises(NamespaceAlreadyExistsError):
            catalog.create_namespace("a")
        catalog.drop_namespace(("a", "b"))
        with pytest.raises(NoSuchNamespaceError):
            catalog.load_namespace_properties(("a", "b"))

    def test_with_tables_are_not_dropped(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        make_table(catalog)
        with pytest.raises(NamespaceNotEmptyError):
            catalog.drop_namespace("db")


class TestTables:
    def test_are_created_listed_renamed_and_dropped(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        make_table(catalog)
        assert catalog.list_tables("db") == [("db", "events")]
        assert catalog.table_exists("db.events")
        with pytest.raises(TableAlreadyExistsError):
            make_table(catalog)
        catalog.rename_table("db.events", "db.renamed")
        catalog.drop_table("db.renamed")
        assert not catalog.table_exists("db.renamed")
        with pytest.raises(NoSuchTableError):
            catalog.load_table("db.events")

    def test_purge_deletes_their_files(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        make_table(catalog).append(ROWS)
        catalog.purge_table("db.events")
        assert lab.store.list("lab", "warehouse/db/events/").objects == ()

    def test_a_dropped_table_can_be_registered(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        table = make_table(catalog)
        table.append(ROWS)
        catalog.drop_table("db.events")
        assert catalog.register_table("db.again", table.metadata_location).scan().to_arrow().num_rows == 3

    def test_a_staged_table_appears_with_its_data(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        catalog.create_namespace("db")
        with catalog.create_table_transaction("db.staged", ROWS.schema) as transaction:
            assert not catalog.table_exists("db.staged")
            transaction.append(ROWS)
        assert catalog.load_table("db.staged").scan().to_arrow().num_rows == 3


class TestChanges:
    def test_append_overwrite_and_delete(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        table.append(ROWS)
        table.append(ROWS)
        assert table.scan().to_arrow().num_rows == 6
        table.overwrite(ROWS)
        table.delete("id = 1")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3]
        assert rest_catalog(lab).load_table("db.events").metadata == table.metadata

    def test_schema_and_properties(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        table.append(ROWS)
        with table.update_schema() as update:
            update.add_column("size", LongType())
            update.rename_column("name", "label")
        table.transaction().set_properties({"a": "b"}).commit_transaction()
        assert table.properties["a"] == "b"
        assert table.scan().to_arrow().column_names == ["id", "label", "size"]

    def test_partitions(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        catalog.create_namespace("db")
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
        spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
        table = catalog.create_table("db.parts", schema, partition_spec=spec)
        table.append(ROWS)
        table.dynamic_partition_overwrite(ROWS.filter(pc.equal(ROWS["name"], "y")))
        assert len(table.inspect.partitions()) == 3
        table.delete("name = 'x'")
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [2, 3]

    def test_expiry(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        for _ in range(3):
            table.append(ROWS)
        table.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(days=1)).commit()
        assert len(table.metadata.snapshots) == 1
        assert table.scan().to_arrow().num_rows == 9

    def test_metadata_is_in_the_store_and_logged(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        created = table.metadata_location
        table.append(ROWS)
        assert [entry.metadata_file for entry in table.metadata.metadata_log] == [created]
        key = table.metadata_location.removeprefix("s3://lab/")
        assert json.loads(lab.store.read("lab", key))["current-snapshot-id"] == table.metadata.current_snapshot_id


class TestConflicts:
    def test_the_second_of_two_commits_loses(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab), **{"commit.retry.num-retries": "0"})
        stale = rest_catalog(lab).load_table("db.events")
        table.append(ROWS)
        with pytest.raises(CommitFailedException):
            stale.append(ROWS)
        assert table.refresh().scan().to_arrow().num_rows == 3

    def test_a_retry_commits_the_same_snapshot(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab), **{"commit.retry.min-wait-ms": "1"})
        stale = rest_catalog(lab).load_table("db.events")
        table.append(ROWS)
        stale.append(ROWS)
        assert table.refresh().scan().to_arrow().num_rows == 6
        commits = [each.event for each in lab.recording.requests() if each.is_commit]
        assert [(each.status, each.outcome) for each in commits] == [(200, "ok"), (409, "conflict"), (200, "ok")]
        assert commits[1].snapshot_id == commits[2].snapshot_id == table.metadata.current_snapshot_id

    def test_concurrent_appends_all_commit(self, lab: Lab) -> None:
        make_table(rest_catalog(lab), **{"commit.retry.num-retries": "50", "commit.retry.min-wait-ms": "1"})

        def append() -> None:
            table = rest_catalog(lab).load_table("db.events")
            for _ in range(2):
                table.append(ROWS)

        threads = [threading.Thread(target=append) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        table = rest_catalog(lab).load_table("db.events")
        assert table.scan().to_arrow().num_rows == 8 * 3
        assert len(table.metadata.snapshots) == 8


def added_snapshot(lab: Lab, name: str) -> dict[str, Any]:
    """Return a commit that would add a property to a table, with a requirement on its main branch."""
    metadata = rest_catalog(lab).load_table(name).metadata
    namespace, _, table = name.rpartition(".")
    requirement = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": metadata.current_snapshot_id}
    updates = [{"action": "set-properties", "updates": {"changed": "yes"}}]
    return {"identifier": {"namespace": [namespace], "name": table}, "requirements": [requirement], "updates": updates}


class TestTransactions:
    def test_a_commit_over_several_tables_is_atomic(self, lab: Lab) -> None:
        catalog = rest_catalog(lab)
        first, second = make_table(catalog, "db.a"), make_table(catalog, "db.b")
        changes = [added_snapshot(lab, "db.a"), added_snapshot(lab, "db.b")]
        second.append(ROWS)  # the requirement on db.b fails
        status, error = post(lab, "transactions/commit", {"table-changes": changes})
        assert (status, error["error"]["type"]) == (409, "CommitFailedException")
        assert "changed" not in first.refresh().properties
        changes = [added_snapshot(lab, "db.a"), added_snapshot(lab, "db.b")]
        assert post(lab, "transactions/commit", {"table-changes": changes})[0] == 204
        assert {table.refresh().properties["changed"] for table in (first, second)} == {"yes"}

    def test_the_body_of_a_commit_needs_no_identifier(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        change = added_snapshot(lab, "db.events")
        del change["identifier"]
        assert post(lab, "namespaces/db/tables/events", change)[0] == 200
        assert table.refresh().properties["changed"] == "yes"

    def test_an_idempotency_key_commits_once(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        path, change = "namespaces/db/tables/events", added_snapshot(lab, "db.events")
        first = post(lab, path, change, Idempotency_Key="k1")
        table.refresh().append(ROWS)  # the requirement would fail now
        assert post(lab, path, change, Idempotency_Key="k1") == first
        assert post(lab, path, change, Idempotency_Key="k2")[0] == 409


class TestReports:
    def test_reports_of_clients_are_recorded(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        table.append(ROWS)
        report = {
            "report-type": "commit-report",
            "snapshot-id": table.metadata.current_snapshot_id,
            "operation": "append",
            "metrics": {"total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 5}, "attempts": {"value": 2}},
        }
        assert post(lab, "namespaces/db/tables/events/metrics", report)[0] == 204
        assert lab.recording.reports() == [report]


class TestErrors:
    def test_another_token_is_rejected(self, lab: Lab) -> None:
        with pytest.raises(ForbiddenError):
            rest_catalog(lab, token="other")

    @pytest.mark.parametrize(
        ("path", "body", "status"),
        [
            ("namespaces", b"not json", 400),
            ("namespaces", [], 400),
            ("namespaces", {"namespace": []}, 400),
            ("namespaces", {"namespace": 5}, 400),
            ("namespaces", {"namespace": ["a"], "properties": "abc"}, 400),
            ("namespaces/db/properties", {"removals": 5, "updates": 7}, 400),
            ("namespaces/db/properties", {"updates": {"a": {}}}, 400),
            ("namespaces/db/tables", {"name": "x"}, 400),
            ("namespaces/none/tables/t", {"requirements": [], "updates": []}, 404),
            ("namespaces/db/tables/events", {"requirements": [{"type": "unknown"}], "updates": []}, 400),
            ("namespaces/db/tables/events", {"requirements": [], "updates": [{"action": "unknown"}]}, 400),
            ("namespaces/db/tables/events", {"updates": [{"action": "set-location", "location": "file:///etc"}]}, 400),
            ("namespaces/db/tables/events", {"updates": [{"action": "set-location", "location": "s3://lab/../x"}]}, 400),
            ("namespaces/db/register", {"name": "x", "metadata-location": "s3://lab/none"}, 400),
            ("transactions/commit", {"table-changes": []}, 400),
            ("tables/rename", {"source": 1}, 400),
            (
                "tables/rename",
                {"source": {"namespace": ["db"], "name": "events"}, "destination": {"namespace": [5], "name": "x"}},
                400,
            ),
            ("nowhere", {}, 404),
            ("namespaces/" + "x" * 4096 + "/tables/t", {"updates": []}, 404),
        ],
    )
    def test_malformed_requests_are_rejected(self, lab: Lab, path: str, body: Any, status: int) -> None:
        make_table(rest_catalog(lab))
        found, error = post(lab, path, body)
        assert (found, error["error"]["code"]) == (status, status)

    def test_a_file_that_is_no_metadata_is_not_registered(self, lab: Lab) -> None:
        make_table(rest_catalog(lab))
        for content in (b"5", b"[]", b"{}", b"\xff", b'{"format-version": 2}'):
            lab.store.write(BUCKET, "x.metadata.json", content)
            status, _ = post(lab, "namespaces/db/register", {"name": "x", "metadata-location": "s3://lab/x.metadata.json"})
            assert status == 400

    def test_a_large_request_is_rejected(self, lab: Lab) -> None:
        address = urlsplit(lab.catalog_url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_S)
        connection.putrequest("POST", "/v1/namespaces")
        connection.putheader("Authorization", f"Bearer {shared(lab).token}")
        connection.putheader("Content-Length", str(2**24 + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def test_rows_survive_a_round_trip(lab: Lab) -> None:
    table = make_table(rest_catalog(lab))
    table.append(ROWS)
    assert table.scan().to_arrow().sort_by("id").cast(ROWS.schema) == pa.table(ROWS)
