"""Jobs with several commits (partial progress of a compaction): known answers on both engines."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.config import problems
from tests.simulation.runs import ENGINES, Engine, check_run, frame_of
from tests.simulation.test_engines_agree import assert_engines_agree

both_engines = pytest.mark.parametrize("engine", ENGINES)
RUNTIME, JOBS_EVERY = 8_000.0, 20_000.0


def compaction(duration_ms: float = JOBS_EVERY, deletes: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    """Return a compaction of 8 s every 20 s, optionally with concurrent deletes; every access takes 10 ms."""
    latency = {"mean": 10.0, "stddev": 0.0}
    both = {"read": latency, "write": latency}
    fixed = {"distribution": "fixed", "value": RUNTIME}
    classes = {"compaction": {"periodic": {"interval_ms": JOBS_EVERY}, "operation": "rewrite_files", "runtime": fixed, **keys}}
    if deletes is not None:
        classes["deletes"] = {"operation": "row_delta", "isolation": "none", "runtime": {**fixed, "value": 0.0}, **deletes}
    return {
        "simulation": {"duration_ms": duration_ms, "seed": 3, "drain": True},
        "storage": {"T_CAS": latency, "T_METADATA_ROOT": both, "T_MANIFEST_LIST": both, "T_MANIFEST_FILE": both},
        "table": {"start": "empty", "snapshots": 1_000},
        "transaction": {"commit_path": "iceberg", "retry": 9},
        "workload": classes,
    }


def commits_of(engine: Engine, tree: dict[str, Any]) -> pd.DataFrame:
    rows = frame_of(engine, tree)
    return rows[rows["workload_class"] == "compaction"].sort_values("txn_id").reset_index(drop=True)


@both_engines
def test_a_job_of_one_commit_is_an_ordinary_transaction(engine: Engine) -> None:
    contended = {"rate": 3.0}
    plain = frame_of(engine, compaction(200_000.0, contended))
    assert plain.equals(frame_of(engine, compaction(200_000.0, contended, commits_per_job=1)))


@both_engines
def test_commits_are_spread_over_the_runtime_and_only_the_first_one_loads_the_table(engine: Engine) -> None:
    rows = commits_of(engine, compaction(commits_per_job=4))
    first = rows["t_commit_start"][0] - RUNTIME / 4
    assert list(rows["t_commit_start"]) == [first + RUNTIME * part / 4 for part in (1, 2, 3, 4)]
    assert list(rows["t_submit"][1:]) == list(rows["t_commit"][:-1])
    assert (rows["status"] == "committed").all()
    # the first one reads the catalog and metadata.json at its start; each one reads the pointer before and after its commit
    assert list(rows["catalog_read_ms"]) == [40.0, 20.0, 20.0, 20.0]
    assert list(rows["metadata_reads"]) == [2, 1, 1, 1]


@both_engines
def test_every_commit_validates_from_the_start_of_the_job(engine: Engine) -> None:
    """With one delete per second, the commits after 2, 4, 6 and 8 s read the lists of 2, 4, 6 and 8 snapshots."""
    deletes = {"periodic": {"interval_ms": 1_000.0, "phase_ms": 500.0}}
    tree = compaction(JOBS_EVERY, deletes, commits_per_job=4, real_conflict_probability=0.0)
    rows = commits_of(engine, tree)
    assert (rows["n_retries"] == 0).all()
    alone = commits_of(engine, compaction(JOBS_EVERY, commits_per_job=4))["manifest_list_reads"]
    # the list of the head is read in any case; here it is that of a delete
    assert list(rows["manifest_list_reads"] - alone + 1) == [2, 4, 6, 8]


@both_engines
def test_a_job_does_not_conflict_with_its_own_commits(engine: Engine) -> None:
    rows = commits_of(engine, compaction(commits_per_job=5, real_conflict_probability=1.0))
    assert list(rows["status"]) == ["committed"] * 5
    assert (rows[["real_conflicts", "false_conflicts"]] == 0).all(axis=None)


@both_engines
def test_a_job_ends_when_more_commits_fail_than_it_tolerates(engine: Engine) -> None:
    """The only delete is between the second and the third of five commits, so the last three fail."""
    once = {"periodic": {"interval_ms": 1e6, "phase_ms": 4_000.0}}

    def statuses(**keys: Any) -> list[str]:
        tree = compaction(JOBS_EVERY, once, commits_per_job=5, real_conflict_probability=1.0, **keys)
        return list(commits_of(engine, tree)["status"])

    assert statuses() == ["committed"] * 2 + ["aborted"] * 3
    assert statuses(max_failed_commits=1) == ["committed"] * 2 + ["aborted"] * 2
    assert statuses(max_failed_commits=0) == ["committed"] * 2 + ["aborted"]


def test_engines_and_histories_agree_under_contention() -> None:
    for keys in ({}, {"max_failed_commits": 1, "retry": 1}, {"table_handle": "kept"}):
        tree = compaction(100_000.0, {"rate": 5.0}, commits_per_job=4, real_conflict_probability=0.1, **keys)
        assert_engines_agree(tree)
        check_run(tree)


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ("commits_per_job = 2", "transaction.commits_per_job", "without the operation rewrite_files"),
        ('commits_per_job = 2\ncommit_path = "endive"', "transaction.commits_per_job", "has no effect with commit_path"),
        ("max_failed_commits = 2", "transaction.max_failed_commits", "without commits_per_job"),
        (
            'commits_per_job = 2\noperation_types = { rewrite_files = 1 }\non_real_conflict = "restart"',
            "transaction.commits_per_job",
            "is not supported with on_real_conflict",
        ),
    ],
)
def test_invalid_keys_of_jobs_are_errors(keys: str, key: str, message: str) -> None:
    path = "" if "commit_path" in keys else 'commit_path = "iceberg"\n'
    assert message in problems(f"[transaction]\n{path}{keys}")[key]
