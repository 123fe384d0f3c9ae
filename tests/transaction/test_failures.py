"""Failures: rows account for all installed commits, and each reaction to a lost response works as documented."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from endive.config.errors import ConfigError
from endive.transaction.policy import Failures
from tests.catalog.test_service import FIXED_STORE, fixed, service
from tests.simulation.runs import ENGINES, Engine, config_of, table_of
from tests.simulation.test_engines_agree import assert_engines_agree

Tree = dict[str, Any]


def run(engine: Engine, failures: Tree, catalog: Tree | None = None, path: str = "iceberg") -> tuple[pd.DataFrame, dict[str, Any]]:
    tree: Tree = {
        "simulation": {"duration_ms": 20_000.0, "seed": 11, "drain": True},
        "storage": FIXED_STORE,
        "catalog": service(num_tables=3) if catalog is None else catalog,
        "transaction": {
            "commit_path": path,
            "retry": 4,
            "runtime": fixed(20.0),
            "inter_arrival": {"scale": 50.0},
            "operation_types": {"fast_append": 1.0},
        },
        "failures": {"min_wait_ms": 5.0, **failures}
        if failures.get("on_unknown", "check") == "check" and failures.get("lost_answer")
        else failures,
    }
    table, counters = table_of(engine, config_of(tree))
    return table.to_pandas(), counters.counts


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("on_unknown", ["check", "retry", "idempotency_key"])
def test_rows_account_for_all_installed_commits(engine: Engine, on_unknown: str) -> None:
    rows, counters = run(engine, {"lost_answer": 0.3, "client_crash": 0.05, "on_unknown": on_unknown})
    committed = rows[rows.status == "committed"]
    unknown = rows[(rows.status == "aborted") & (rows.installs > 0)]
    assert rows.unknown_outcomes.sum() > 50
    assert counters["commit_success"] == len(committed) + len(unknown) + rows.duplicates.sum()
    assert (committed.installs >= 1).all()
    if on_unknown != "retry":
        assert rows.duplicates.sum() == 0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("path", "requests"), [("endive", 5), ("iceberg", 6), ("pyiceberg", 5)])
def test_an_operation_succeeds_if_none_of_its_requests_fails_permanently(engine: Engine, path: str, requests: int) -> None:
    """Requests before the commit has taken effect: loads, a manifest, a manifest list read and written, the commit."""
    rows, _ = run(engine, {"fatal_error": 0.05}, service(num_tables=300), path)
    assert set(rows.abort_reason.dropna()) == {"request_failed"}
    expected = 0.95**requests
    assert (rows.status == "committed").mean() == pytest.approx(
        expected, abs=3.5 * (expected * (1.0 - expected) / len(rows)) ** 0.5
    )
    failed = rows[rows.status == "aborted"]
    assert (failed.installs == 0).all()
    assert (failed.orphaned_files == failed.manifest_file_writes + failed.manifest_list_writes).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_request_that_fails_after_the_commit_aborts_nothing(engine: Engine) -> None:
    rows, counters = run(engine, {"fatal_error": 0.3}, service(num_tables=300))
    assert counters["commit_success"] == (rows.status == "committed").sum() > 10


@pytest.mark.parametrize("engine", ENGINES)
def test_a_blind_retry_commits_twice_and_a_key_does_not(engine: Engine) -> None:
    blind, _ = run(engine, {"lost_answer": 0.2, "on_unknown": "retry"})
    keyed, _ = run(engine, {"lost_answer": 0.2, "on_unknown": "idempotency_key"})
    assert blind.duplicates.sum() > 20
    assert keyed.duplicates.sum() == 0
    assert (keyed.status == "committed").mean() > 0.95


@pytest.mark.parametrize("engine", ENGINES)
def test_a_status_that_is_never_learned_ends_the_operation_and_keeps_its_files(engine: Engine) -> None:
    rows, _ = run(engine, {"lost_answer": 1.0, "status_checks": 1})
    assert set(rows.abort_reason) == {"commit_state_unknown"}
    assert (rows.file_deletes == 0).all()
    assert (rows[rows.installs == 0].orphaned_files == 2).all()
    # an undisturbed commit, two looks that are lost, and the wait between them
    first = rows.sort_values("txn_id").iloc[0]
    assert first.t_backoff == 5.0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_status_check_that_is_rejected_or_fails_is_tried_again(engine: Engine) -> None:
    """Iceberg's checkCommitStatus catches every failure of a check, and the outcome is unknown after the last one."""
    busy = service(num_tables=1, workers=1, queue_limit=0, retry_after_ms=1.0, max_resends=0)
    rows, counters = run(engine, {"lost_answer": 0.5, "status_checks": 2}, busy)
    unknown = rows[(rows.unknown_outcomes == 1) & (rows.n_retries == 0)]
    assert counters["service_refused"] > 100
    assert set(unknown.abort_reason.dropna()) == {"commit_state_unknown"}
    assert (unknown.status == "aborted").sum() > 10
    fatal, _ = run(engine, {"lost_answer": 0.5, "fatal_error": 0.2, "status_checks": 0}, service(num_tables=300))
    checked = fatal[(fatal.unknown_outcomes == 1) & (fatal.n_retries == 0)]
    answered = (checked.status == "committed").mean()  # neither failed nor lost
    assert answered == pytest.approx(0.8 * 0.5, abs=0.12)
    assert set(checked.abort_reason.dropna()) == {"commit_state_unknown"}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("path", ["endive", "iceberg", "pyiceberg", "lance"])
def test_a_cancelled_operation_ends_at_its_limit_or_with_the_response_that_it_waits_for(engine: Engine, path: str) -> None:
    files = {"read": {"mean": 5.0}, "write": {"mean": 20.0}}
    store = FIXED_STORE | {"T_CAS": {"mean": 12.0}, "T_MANIFEST_LIST": files, "T_MANIFEST_FILE": files}
    tree: Tree = {
        "simulation": {"duration_ms": 20_000.0, "seed": 11, "drain": True},
        "storage": store,
        "catalog": {"num_tables": 1},
        "transaction": {
            "commit_path": path,
            "retry": 20,
            "runtime": {"distribution": "exponential", "scale": 20.0},
            "operation_timeout_ms": 150.0,
        },
        "workload": {"w": {"closed": {"clients": 6}, "operation": "delete" if path == "lance" else "fast_append"}},
    }
    table, counters = table_of(engine, config_of(tree))
    rows = table.to_pandas()
    cancelled = rows[rows.abort_reason == "operation_timeout"]
    at_limit = (cancelled.total_latency - 150.0).abs() < 1e-6
    assert at_limit.sum() > 300
    late = cancelled[~at_limit & (cancelled.n_retries > 0)]
    assert (late.total_latency <= 150.0 + 12.0).all()  # a compare-and-swap, or a read of the catalog
    assert (cancelled.total_latency > 150.0 - 1e-6).all()
    assert counters.counts["commit_success"] == rows.installs.sum() > (rows.status == "committed").sum() > 20
    assert (cancelled.installs[cancelled.unknown_outcomes == 0] == 0).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_that_crashes_leaves_its_files_and_commits_nothing(engine: Engine) -> None:
    rows, counters = run(engine, {"client_crash": 0.3, "lost_answer": 0.0})
    crashed = rows[rows.abort_reason == "client_crash"]
    assert 0.2 < len(crashed) / len(rows) < 0.45
    assert (crashed.installs == 0).all()
    assert (crashed.orphaned_files == crashed.manifest_file_writes + crashed.manifest_list_writes - crashed.file_deletes).all()
    assert counters["commit_success"] == (rows.status == "committed").sum()


@pytest.mark.parametrize("engine", ENGINES)
def test_errors_of_requests_cost_time_and_nothing_else(engine: Engine) -> None:
    cas = {"type": "cas", "num_tables": 3, "num_groups": 3}
    quiet, _ = run(engine, {"request_error": 0.0}, cas)
    noisy, _ = run(engine, {"request_error": 0.1}, cas)
    assert noisy.total_latency.mean() > quiet.total_latency.mean() + 10.0
    assert noisy.orphaned_files.sum() == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_google_s_store_takes_one_commit_a_second(engine: Engine) -> None:
    tree: Tree = {
        "simulation": {"duration_ms": 200_000.0, "seed": 2},
        "storage": {"provider": "gcp"},
        "transaction": {
            "runtime": {"mean": 10.0},
            "inter_arrival": {"scale": 250.0},
            "operation_types": {"fast_append": 1.0},
            "retry": 50,
        },
    }
    table, counters = table_of(engine, config_of(tree))
    times = sorted(t for t in table.column("t_commit").to_pylist() if t > 0.0)
    assert counters.counts["commit_throttled"] > 100
    assert len(times) <= 200
    assert len(times) > 100


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["service", "cas"])
def test_metadata_beyond_the_limit_fails_and_the_time_is_recorded(engine: Engine, kind: str) -> None:
    catalog: Tree = {"metadata_limit_bytes": 2_000 + 1_100 * 51}
    catalog |= service(num_tables=1) if kind == "service" else {"type": "cas"}
    rows, counters = run(engine, {"request_error": 0.0}, catalog)
    assert counters["commit_success"] == 50
    assert counters["metadata_limit_reached_ms"] >= rows[rows.status == "committed"].t_commit.iloc[-2]
    late = rows[rows.t_commit_start > counters["metadata_limit_reached_ms"]]
    assert set(late.abort_reason) == {"metadata_too_large"}


@pytest.mark.parametrize(
    ("failures", "message"),
    [
        ({"lost_answer": 1.5}, "failures.lost_answer"),
        ({"client_crash": -0.1}, "failures.client_crash"),
        ({"request_error": 1.0}, "request_error must be at most 0.99"),
        ({"request_error": 1.0 - 1e-12}, "request_error must be at most 0.99"),
        ({"lost_answer": 1.0 - 1e-12, "on_unknown": "idempotency_key"}, "lost_answer must be at most 0.99"),
        ({"lost_answer": 0.1, "on_unknown": "idempotency_key"}, 'catalog.type = "service"'),
        ({"on_unknown": "retry"}, "has no effect unless failures.lost_answer is above 0"),
        ({"lost_answer": 0.1, "on_unknown": "chek"}, "did you mean 'check'"),
    ],
)
def test_bad_failures_are_refused(failures: Tree, message: str) -> None:
    tree = {
        "simulation": {"duration_ms": 1.0},
        "storage": {"provider": "s3"},
        "transaction": {"inter_arrival": {"scale": 1.0}},
        "failures": failures,
    }
    with pytest.raises(ConfigError, match=message):
        config_of(tree)


def test_a_probability_is_from_0_to_1() -> None:
    with pytest.raises(ValueError, match="lost_answer is 2"):
        Failures(lost_answer=2.0)


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        ({"type": "instant", "workers": 2}, '`catalog.workers` has no effect unless catalog.type = "service"'),
        ({"type": "service", "coalesce": {"linger_ms": 1.0}, "lock": "none"}, "contradicts catalog.coalesce"),
        ({"type": "service", "queue_limit": 3}, "has no effect unless catalog.workers or catalog.coalesce is set"),
        ({"type": "service", "workers": 1, "retry_after_ms": 5.0}, "has no effect unless catalog.queue_limit is set"),
        ({"type": "service", "server_backoff_ms": 5.0}, "has no effect unless catalog.server_retries is above 0"),
        ({"type": "service", "linearization": 0.5}, "has no effect with catalog.type"),
        ({"type": "servce"}, "did you mean 'service'"),
    ],
)
def test_contradicting_keys_of_a_service_are_refused(catalog: Tree, message: str) -> None:
    tree = {
        "simulation": {"duration_ms": 1.0},
        "storage": {"provider": "s3"},
        "catalog": catalog,
        "transaction": {"inter_arrival": {"scale": 1.0}},
    }
    with pytest.raises(ConfigError, match=message):
        config_of(tree)


def test_a_resent_commit_relies_on_the_state_read_by_its_client() -> None:
    """A server that applied the commit to a later state, and rejected it for its size, detects that the table has moved again."""
    table = {"T_TABLE_METADATA": {"read": {"mean": 3.0, "stddev": 0.0}, "write": {"mean": 3.0, "stddev": 0.0}}}
    assert_engines_agree(
        {
            "simulation": {"duration_ms": 2_000.0, "seed": 3},
            "storage": {**FIXED_STORE, **table},
            "catalog": service(workers=1, server_retries=1, server_retry_mode="rebase", metadata_limit_bytes=90_000),
            "transaction": {"commit_path": "iceberg"},
            "workload": {"w": {"closed": {"clients": 4}, "operation": "fast_append", "runtime": fixed(5.0), "retry": 2}},
            "table": {"snapshots": 100},
            "failures": {"lost_answer": 0.5, "on_unknown": "idempotency_key"},
        }
    )
