"""Lost responses: the check of a session names commits whose outcome is unknown, and data that was committed twice."""

from __future__ import annotations

from contextlib import suppress

from requests.exceptions import ConnectionError as LostError

from endive.lab.behavior import Behavior, LabFailures
from endive.lab.history import check_history
from endive.lab.session import Lab, LabSettings, open_lab
from tests.lab.labs import ROWS, make_table, rest_catalog


def append(lab: Lab, *, retries: bool, rows: int = 3, count: int = 6) -> int:
    """Append several times, blindly again after a lost response if so wanted; return the rows of the table."""
    catalog = rest_catalog(lab)
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
    with open_lab(LabSettings(Behavior(failures=LabFailures(lost_answer=0.4), seed=3))) as lab:
        rows = append(lab, retries=True)
        found = check_history(lab.recording.requests(), lab.catalog.summaries)
        added = {snapshot: int(summary["added-records"]) for snapshot, summary in lab.catalog.summaries.items()}
    repeated = [each for each in found if each.problem == "repeated"]
    assert repeated
    assert rows == 12 + sum(added[each.snapshot_id] for each in repeated)
    assert all(each.again in added for each in repeated)


def test_a_client_that_does_not_repeat_only_does_not_know() -> None:
    with open_lab(LabSettings(Behavior(failures=LabFailures(lost_answer=0.4), seed=3))) as lab:
        rows = append(lab, retries=False)
        found = check_history(lab.recording.requests(), lab.catalog.summaries)
    assert {each.problem for each in found} == {"unknown"}
    assert rows == 12


def test_nothing_is_found_without_failures(lab: Lab) -> None:
    assert append(lab, retries=True) == 12
    assert check_history(lab.recording.requests(), lab.catalog.summaries) == []
