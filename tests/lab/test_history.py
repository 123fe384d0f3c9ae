"""Lost responses: the check of a session names commits whose outcome is unknown, and data that was committed twice."""

from __future__ import annotations

import json
import os
import socket
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import obstore
from obstore.store import S3Store
from requests.exceptions import ConnectionError as LostError

from endive.lab.behavior import Behavior, LabFailures
from endive.lab.client_processes import ClientNames
from endive.lab.open_lab import BUCKET, Lab, LabSettings, open_lab
from endive.lab.recording import REQUESTS, RecordedRequest, check_history, read_requests
from tests.cli import invoke
from tests.lab.labs import ROWS, make_table, obstore_store, rest_catalog

CLIENT = "job"


def lossy_lab() -> AbstractContextManager[Lab]:
    """Open a lab that loses responses to commits of a client with a name of its own."""
    return open_lab(LabSettings(Behavior(failures=LabFailures(lost_answer=0.4), seed=3)), clients=[CLIENT])


def append(lab: Lab, *, retries: bool, rows: int = 3, count: int = 6) -> int:
    """Append several times, blindly again after a lost response if so wanted; return the rows of the table."""
    catalog = rest_catalog(lab, **lab.catalog_properties(CLIENT))
    catalog.create_namespace("db")
    while not catalog.table_exists("db.events"):
        with suppress(LostError):
            make_table(catalog)
    for _ in range(count):
        for _ in range(2 if retries else 1):
            with suppress(LostError):
                catalog.load_table("db.events").append(ROWS.slice(0, rows))
                break
        rows = rows % 3 + 1
    return len(catalog.load_table("db.events").scan().to_arrow())


def test_a_blind_retry_commits_twice_and_is_named() -> None:
    with lossy_lab() as lab:
        rows = append(lab, retries=True)
        requests = lab.recording.requests()
        found = check_history(requests)
    added = {
        f"snapshot {each.event.snapshot_id}": int(each.event.change.removeprefix("added-records=").split()[0])
        for each in requests
        if each.is_commit
    }
    repeated = [each for each in found if each.problem == "repeated"]
    assert repeated
    assert rows == 12 + sum(added[each.commit] for each in repeated)
    assert all(each.again in added for each in repeated)


def test_a_client_that_does_not_repeat_only_does_not_know() -> None:
    with lossy_lab() as lab:
        rows = append(lab, retries=False)
        found = check_history(lab.recording.requests())
    assert {each.problem for each in found} == {"unknown"}
    assert rows == 12


def test_a_stored_recording_is_checked(tmp_path: Path) -> None:
    with lossy_lab() as lab:
        append(lab, retries=True)
        found = check_history(lab.recording.requests())
        lab.recording.write(tmp_path)
    assert check_history(read_requests(tmp_path / REQUESTS)) == found
    done = invoke("experiments", "check", str(tmp_path), "--json")
    assert done.exit_code == 0
    assert [each["commit"] for each in json.loads(done.stdout)["reported_wrongly"]] == [each.commit for each in found]


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / REQUESTS).write_bytes(b"nothing")
    done = invoke("experiments", "check", str(tmp_path))
    assert done.exit_code == 2
    assert "not a recording of the lab" in done.stderr


class TestLogs:
    """Commits by conditional writes to the object store."""

    def test_an_entry_that_is_written_again_without_new_data_is_named(self, lab: Lab) -> None:
        store = obstore_store(lab)
        write(store, "t/data/1.parquet", "t/_log/1.json")
        write(store, None, "t/_log/2.json")
        requests = [lose(each) if each.event.target.endswith("1.json") else each for each in lab.recording.requests()]
        (finding,) = check_history(requests)
        assert (finding.problem, finding.table) == ("repeated", f"{BUCKET}/t/_log")
        assert (finding.commit, finding.again) == ("1.json (version 1)", "2.json (version 1)")

    def test_an_entry_with_other_data_is_another_commit(self, lab: Lab) -> None:
        store = obstore_store(lab)
        write(store, "t/data/1.parquet", "t/_log/1.json")
        write(store, "t/data/2.parquet", "t/_log/2.json")
        requests = [lose(each) if each.event.target.endswith("1.json") else each for each in lab.recording.requests()]
        assert [each.problem for each in check_history(requests)] == ["unknown"]


def write(store: S3Store, data: str | None, entry: str) -> None:
    if data is not None:
        obstore.put(store, data, data.encode())
    obstore.put(store, entry, b"x", mode="create")


def lose(request: RecordedRequest) -> RecordedRequest:
    return replace(request, event=replace(request.event, outcome="lost"))


def test_nothing_is_found_without_failures() -> None:
    with open_lab(LabSettings(), clients=[CLIENT]) as lab:
        assert append(lab, retries=True) == 12
        assert check_history(lab.recording.requests()) == []


def test_a_client_is_named_by_its_process_from_its_first_request_on() -> None:
    names = ClientNames()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        connection = client.getsockname()[1], server.getsockname()[1]
        names.connection_opened(connection)
        assert names.name(connection) == f"pid:{os.getpid()}"
    names.close()
