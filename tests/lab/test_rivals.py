"""Rivals: the other classes of a configuration commit real snapshots at their simulated times."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from endive.config.load import check_document
from endive.config.schema import Document
from endive.lab import LabError
from endive.lab.open_lab import BUCKET, Lab, LabSettings, open_lab
from endive.lab.rivals import RivalCommit, commit_rival, keep_committing, parse_table, plan_rivals, run_rivals
from tests.lab.labs import PATIENCE_S, ROWS, make_table, rest_catalog


def document(**changes: Any) -> Document:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 60_000, "seed": 1, "engine": "reference"},
        "storage": {"provider": "s3"},
        "catalog": {"type": "service"},
        "transaction": {"commit_path": "iceberg", "runtime": {"mean": 100.0, "sigma": 0.1}},
        "workload": {"job": {"rate": 1.0}, "others": {"rate": 0.5}},
    }
    return check_document({**tree, **changes}, "test")


class TestPlan:
    def test_has_the_commits_of_the_other_classes(self) -> None:
        plan = plan_rivals(document(), "job")
        assert 15 <= len(plan) <= 50
        assert {rival.rival for rival in plan} == {"others"}
        assert [rival.time_ms for rival in plan] == sorted(rival.time_ms for rival in plan)
        assert plan == plan_rivals(document(), "job")

    def test_rivals_contend_with_the_simulated_job(self) -> None:
        alone = plan_rivals(document(workload={"job": {"rate": 0.001}, "others": {"rate": 3.0}}), "job")
        contended = plan_rivals(document(workload={"job": {"rate": 20.0}, "others": {"rate": 3.0}}), "job")
        assert len(contended) < 0.8 * len(alone)

    def test_without_a_job_all_classes_are_rivals(self) -> None:
        assert {rival.rival for rival in plan_rivals(document())} == {"job", "others"}

    def test_needs_another_class(self) -> None:
        with pytest.raises(LabError, match="no workload class except the job"):
            plan_rivals(document(workload={"job": {"rate": 1.0}}), "job")
        with pytest.raises(LabError, match="the classes of the file are job, others"):
            plan_rivals(document(), "jobs")

    @pytest.mark.parametrize("name", ["events", ".events", "db.", ""])
    def test_a_table_has_a_namespace(self, name: str) -> None:
        with pytest.raises(LabError, match=r"NAMESPACE\.TABLE"):
            parse_table(name)


def commit_now(lab: Lab, count: int = 1) -> None:
    async def commit() -> None:
        for _ in range(count):
            commit_rival(lab, (("db",), "events"), "others", "append")

    asyncio.run_coroutine_threadsafe(commit(), lab.loop).result(PATIENCE_S)


class TestCommits:
    def test_make_a_real_client_lose_the_race(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab), **{"commit.retry.min-wait-ms": "1"})
        commit_now(lab)  # the first snapshot of the table
        table.append(ROWS)
        commit_now(lab, 3)
        table.append(ROWS)
        own = [each.event for each in lab.recording.requests() if each.is_commit and not each.client.startswith("rival:")]
        assert [each.status for each in own] == [409, 200, 409, 200]
        assert len(table.metadata.snapshots) == 6

    def test_change_no_data(self, lab: Lab) -> None:
        table = make_table(rest_catalog(lab))
        commit_now(lab)
        assert table.refresh().scan().to_arrow().num_rows == 0
        table.append(ROWS)
        commit_now(lab, 2)
        table = rest_catalog(lab).load_table("db.events")
        assert table.scan().to_arrow().num_rows == 3
        table.delete("id = 1")
        assert table.scan().to_arrow().num_rows == 2

    def test_happen_at_their_times(self, lab: Lab) -> None:
        plan = [RivalCommit(time_ms, table, "others", "append") for time_ms, table in ((0.0, 0), (60.0, 0), (61.0, 1), (120.0, 0))]
        running = asyncio.run_coroutine_threadsafe(run_rivals(lab, plan, [(("db",), "events")]), lab.loop)
        make_table(rest_catalog(lab))
        assert running.result(PATIENCE_S) == 3
        requests = lab.recording.requests()
        times = [each.time_ms for each in requests if each.client == "rival:others"]
        assert times[1] - requests[0].time_ms >= 60.0
        assert times[2] - requests[0].time_ms >= 120.0

    def test_that_fail_do_not_end_the_lab(self) -> None:
        """Rivals ran out of memory, and the lab ended with their exception, without a recording."""
        notes: list[str] = []
        with open_lab(LabSettings(memory_bytes=100_000)) as lab:
            make_table(rest_catalog(lab))
            lab.store.write(BUCKET, "all", bytes(100_000 - lab.store.used_bytes))
            plan = [RivalCommit(0.0, 0, "others", "append")]
            with keep_committing(lab, plan, [(("db",), "events")], notes.append) as running:
                running.exception(PATIENCE_S)
        assert len(notes) == 1
        assert "raise --memory" in notes[0]

    def test_that_wait_end_with_the_lab(self, lab: Lab) -> None:
        notes: list[str] = []
        with keep_committing(lab, [RivalCommit(0.0, 0, "others", "append")], [(("db",), "missing")], notes.append) as running:
            pass
        assert (running.cancelled(), notes) == (True, [])
