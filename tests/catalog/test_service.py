"""Catalog service: cost of requests, winners of races, and agreement of the queue with theory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from endive.catalog import CommitResult, IntentionRecord
from endive.catalog.service import ServiceCatalog
from endive.catalog.service_queue import ServiceSettings
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from endive.storage import FixedLatency
from tests.interleave import fixed_provider, group_seq, outcome, spend
from tests.simulation.runs import ENGINES, Engine, config_of, table_of

Tree = dict[str, Any]


FIXED_STORE: Tree = {
    "T_CAS": {"mean": 4.0},
    "T_METADATA_ROOT": {"read": {"mean": 2.0}, "write": {"mean": 3.0}},
    "T_MANIFEST_LIST": {"read": {"mean": 2.0}, "write": {"mean": 3.0}},
    "T_MANIFEST_FILE": {"read": {"mean": 2.0}, "write": {"mean": 3.0}},
}


def fixed(value: float) -> Tree:
    return {"distribution": "fixed", "value": value}


def service(**keys: Any) -> Tree:
    """Return a service with 1 ms network latency, loads of 2 ms, commits of 5 ms, rejections of 3 ms, and free metadata."""
    times = {"network": fixed(1.0), "load": fixed(2.0), "commit": fixed(5.0), "check": fixed(3.0)}
    return {"type": "service", "transfer_ms_per_mib": 0.0, **times, **keys}


def run(
    engine: Engine, catalog: Tree, workload: Tree, duration_ms: float = 1000.0, seed: int = 1, **sections: Tree
) -> tuple[pd.DataFrame, dict[str, Any]]:
    tree = {
        "simulation": {"duration_ms": duration_ms, "seed": seed, "drain": True},
        "storage": FIXED_STORE,
        "catalog": catalog,
        "workload": workload,
        **sections,
    }
    table, counters = table_of(engine, config_of(tree))
    return table.to_pandas(), counters.counts


def once(at_ms: float, operation: str = "fast_append", runtime_ms: float = 10.0, **keys: Any) -> Tree:
    """Return a class that submits one transaction within a second."""
    return {
        "periodic": {"interval_ms": 1e6, "phase_ms": at_ms},
        "operation": operation,
        "runtime": fixed(runtime_ms),
        **keys,
    }


def direct(tables: int = 1, server_retries: int = 0) -> ServiceCatalog:
    """Return the same service for direct calls without a transaction."""
    settings = ServiceSettings(
        network=FixedLatency(1.0),
        load=FixedLatency(2.0),
        commit=FixedLatency(5.0),
        check=FixedLatency(3.0),
        server_retries=server_retries,
        server_retry_mode="rebase",
        writes_metadata=False,
    )
    return ServiceCatalog(fixed_provider(), tables, (1,) * tables, settings)


def test_a_response_contains_the_time_since_the_request() -> None:
    catalog = direct()
    assert spend(catalog.commit(0, {0: 1}, 50.0)) == ([1.0, 5.0, 1.0], CommitResult(True, 7.0, 1))
    assert spend(catalog.commit(0, {0: 1}, 60.0)) == ([1.0, 3.0, 1.0], CommitResult(False, 5.0, 1))
    latencies, snapshot = spend(catalog.read(70.0))
    assert latencies == [1.0, 2.0, 1.0]
    assert (snapshot.seq, snapshot.timestamp_ms, snapshot.get_table(0).version) == (1, 73.0, 1)


def test_only_a_commit_that_reports_it_is_applied_again_by_the_server() -> None:
    catalog = direct(server_retries=1)
    assert outcome(catalog.commit(0, {0: 1})).success
    assert not outcome(catalog.commit(0, {0: 1})).success
    append = IntentionRecord(1, 0, {0: 1}, refs={0: 0}, rebasable=True)
    assert outcome(catalog.commit(0, {0: 1}, 0.0, append)).success
    assert outcome(catalog.read()).get_table(0).version == 2


def test_a_commit_over_several_pointers_moves_each_of_them_once() -> None:
    catalog = direct(tables=4)
    assert outcome(catalog.commit(0, {0: 1, 1: 1, 3: 1})).success
    assert [group_seq(catalog, group) for group in range(4)] == [1, 1, 0, 1]
    assert catalog.counters.commit_success == 1
    assert not outcome(catalog.commit(0, {2: 1, 3: 1})).success
    assert [group_seq(catalog, group) for group in range(4)] == [1, 1, 0, 1]


WRITE = 3.0
"""Time in which the server writes metadata.json to the object store."""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_request_costs_the_way_there_its_service_and_the_way_back(engine: Engine) -> None:
    rows, counters = run(engine, service(), {"a": once(0.0)})
    assert rows.catalog_read_ms[0] == 1.0 + 2.0 + 1.0
    assert rows.catalog_commit_ms[0] == 1.0 + 5.0 + WRITE + 1.0
    assert rows.metadata_writes[0] == 0
    assert counters["service_requests"] == 2
    assert counters["service_busy_ms"] == 2.0 + 5.0 + WRITE


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refusal_given_in_five_milliseconds_costs_five_milliseconds(engine: Engine) -> None:
    workload = {"a": once(0.0, retry=0), "b": once(0.0, runtime_ms=30.0, retry=0)}
    rows, counters = run(engine, service(commit=fixed(60.0)), workload)
    lost = rows[rows.status == "aborted"]
    # b arrives when a has begun and is not done: it fails at the end of its own service
    assert lost.catalog_commit_ms.tolist() == [1.0 + 60.0 + WRITE + 1.0]
    workload["b"] = once(0.0, runtime_ms=100.0, retry=0)
    rows, counters = run(engine, service(commit=fixed(60.0)), workload)
    lost = rows[rows.status == "aborted"]
    assert lost.catalog_commit_ms.tolist() == [1.0 + 3.0 + 1.0]
    assert counters["commit_conflict"] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lock_makes_a_commit_wait_for_the_one_before_it(engine: Engine) -> None:
    workload = {"a": once(0.0, retry=0), "b": once(0.0, runtime_ms=30.0, retry=0)}
    rows, _ = run(engine, service(commit=fixed(60.0), lock="table"), workload)
    first, second = rows.sort_values("workload_class").itertuples()
    assert first.status == "committed"
    assert second.status == "aborted"
    # it waits until a is done, and is refused then: a began 20 ms before it
    assert second.catalog_commit_ms == 1.0 + (60.0 + WRITE - 20.0) + 3.0 + 1.0


RELOAD = 100.0 + 2.0
"""Backoff of the server and the load of a server-side retry."""


@pytest.mark.parametrize("engine", ENGINES)
def test_the_server_applies_an_append_again(engine: Engine) -> None:
    workload = {"a": once(0.0, retry=0), "b": once(0.0, runtime_ms=30.0, retry=0)}
    catalog = service(commit=fixed(60.0), server_retries=1, server_retry_mode="rebase")
    rows, counters = run(engine, catalog, workload)
    assert (rows.status == "committed").all()
    assert rows.catalog_commit_ms.max() == 1.0 + (60.0 + WRITE) + RELOAD + (60.0 + WRITE) + 1.0
    assert counters["service_retries"] == 1
    overwrite = {**workload, "b": once(0.0, "validated_overwrite", 30.0, retry=0)}
    rows, counters = run(engine, catalog, overwrite)
    assert rows[rows.operation_type == "validated_overwrite"].status.tolist() == ["aborted"]
    late = {**workload, "b": once(0.0, runtime_ms=100.0, retry=0)}
    rows, counters = run(engine, catalog, late)
    # it has lost when it arrives, and is applied to the current state after a reload
    assert rows[rows.workload_class == "b"].catalog_commit_ms.tolist() == [1.0 + 3.0 + RELOAD + 60.0 + WRITE + 1.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_icebergs_server_rejects_an_append_to_a_branch_that_has_moved(engine: Engine) -> None:
    workload = {"a": once(0.0, retry=0), "b": once(0.0, runtime_ms=30.0, retry=0)}
    rows, counters = run(engine, service(commit=fixed(60.0), server_retries=4), workload)
    lost = rows[rows.workload_class == "b"].iloc[0]
    assert (lost.status, lost.abort_reason) == ("aborted", "max_retries_exceeded")
    # one reload shows that the branch has moved: 409, without a second swap
    assert lost.catalog_commit_ms == 1.0 + 60.0 + WRITE + RELOAD + 1.0
    assert counters["service_retries"] == 1
    workload["b"] = once(0.0, runtime_ms=100.0, retry=0)
    rows, counters = run(engine, service(commit=fixed(60.0), server_retries=4), workload)
    assert rows[rows.workload_class == "b"].catalog_commit_ms.tolist() == [1.0 + 3.0 + 1.0]
    assert counters["service_retries"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_icebergs_server_repeats_the_swap_of_an_append_that_met_an_expiry(engine: Engine) -> None:
    workload = {"a": once(0.0, runtime_ms=30.0, retry=0), "e": once(0.0, "expire_snapshots", 10.0, retry=0)}
    catalog = service(commit=fixed(60.0), server_retries=1, server_backoff_ms=20.0)
    rows, counters = run(engine, catalog, workload, transaction={"commit_path": "iceberg"})
    assert (rows.status == "committed").all()
    append = rows[rows.workload_class == "a"].iloc[0]
    assert append.catalog_commit_ms == 1.0 + (60.0 + WRITE) + (20.0 + 2.0) + (60.0 + WRITE) + 1.0
    assert (append.n_retries, counters["service_retries"]) == (0, 1)


RECHECK = {"server_retries": 4}
SERVER_RETRIES: dict[str, Tree] = {"none": {}, "recheck": RECHECK, "rebase": {**RECHECK, "server_retry_mode": "rebase"}}


@pytest.mark.parametrize("engine", ENGINES)
def test_retries_of_icebergs_server_do_not_commit_appends_that_met_each_other(engine: Engine) -> None:
    writers = {"closed": {"clients": 6, "think_time": {"scale": 10.0}}, "operation": "fast_append", "runtime": {"mean": 5.0}}
    success = {}
    for name, keys in SERVER_RETRIES.items():
        catalog = service(commit=fixed(30.0), **keys)
        rows, _ = run(engine, catalog, {"w": {**writers, "retry": 1}}, 20_000.0, transaction={"commit_path": "iceberg"})
        success[name] = (rows.status == "committed").mean()
    assert max(success["none"], success["recheck"]) < 0.8 < 0.95 < success["rebase"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_database_fails_commits_that_run_beside_those_of_other_tables(engine: Engine) -> None:
    writers = {"closed": {"clients": 4, "think_time": {"scale": 20.0}}, "operation": "fast_append", "runtime": {"mean": 10.0}}
    for tables, path in ((1, "iceberg"), (8, "iceberg"), (8, "pyiceberg"), (8, "endive")):
        catalog = service(num_tables=tables, commit=fixed(20.0), database_conflict=0.25)
        rows, counters = run(engine, catalog, {"w": {**writers, "retry": 0}}, 20_000.0, transaction={"commit_path": path})
        failed = rows[rows.abort_reason == "request_failed"]
        assert counters["service_database_conflicts"] == len(failed)
        assert (len(failed) > 100) == (tables > 1)
        assert (failed.file_deletes == 0).all()
        assert (failed.orphaned_files > 0).all()
        assert set(rows.abort_reason.dropna()) <= {"request_failed", "max_retries_exceeded"}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_probability_of_a_serialization_failure_counts_each_commit_in_service(engine: Engine) -> None:
    """Three commits on other tables are in service when the last one ends; with two they are one fewer."""
    workload = {name: once(0.0, tables=[i], retry=0, runtime_ms=10.0 + i) for i, name in enumerate("abcd")}
    catalog = service(num_tables=4, commit=fixed(50.0), database_conflict=1.0)
    rows, _ = run(engine, catalog, workload)
    # the last to end finds no other in service
    assert rows.set_index("workload_class").status.to_dict() == dict.fromkeys("abc", "aborted") | {"d": "committed"}


@pytest.mark.parametrize("engine", ENGINES)
def test_requests_wait_for_a_worker_in_the_order_in_which_they_arrive(engine: Engine) -> None:
    workload = {name: once(0.0, "read_only", 0.5) for name in "abcd"}
    rows, counters = run(engine, service(workers=1), workload)
    assert sorted(rows.catalog_read_ms) == [4.0, 6.0, 8.0, 10.0]
    assert rows.sort_values("txn_id").catalog_read_ms.is_monotonic_increasing
    assert counters["service_waited_ms"] == 2.0 + 4.0 + 6.0
    assert counters["service_longest_queue"] == 3
    rows, _ = run(engine, service(workers=2), workload)
    assert sorted(rows.catalog_read_ms) == [4.0, 4.0, 6.0, 6.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_beyond_the_limit_of_the_queue_requests_are_refused_and_sent_again(engine: Engine) -> None:
    workload = {name: once(0.0, "read_only", 0.5) for name in "abc"}
    rows, counters = run(engine, service(workers=1, queue_limit=1, retry_after_ms=100.0), workload)
    # two ways for the refusal, the wait, and then as if nobody else were there
    assert sorted(rows.catalog_read_ms) == [4.0, 6.0, 2.0 + 100.0 + 4.0]
    assert counters["service_refused"] == 1
    assert (rows.status == "committed").all()
    rows, counters = run(engine, service(workers=1, queue_limit=1, max_resends=0), workload)
    refused = rows[rows.abort_reason == "service_unavailable"]
    assert refused.total_latency.tolist() == [2.0]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("operation", "files_ms"), [("fast_append", 2.0 + 3.0 + 3.0), ("expire_snapshots", 0.0)])
def test_a_commit_stands_if_the_refresh_after_it_is_rejected(engine: Engine, operation: str, files_ms: float) -> None:
    catalog = service(workers=1, queue_limit=0, max_resends=0)
    committed_ms = 4.0 + 10.0 + 4.0 + files_ms + 1.0 + 5.0 + WRITE + 1.0
    # `b` occupies the worker when the refresh of `a` arrives, 1 ms after its commit
    workload = {"a": once(0.0, operation), "b": once(committed_ms - 0.5, "read_only", 0.5)}
    rows, counters = run(engine, catalog, workload, transaction={"commit_path": "iceberg"})
    assert counters["service_refused"] == 1
    first = rows[rows.operation_type == operation].iloc[0]
    assert (first.status, first.installs, first.t_commit) == ("committed", 1, committed_ms + 2.0)
    assert first.manifest_list_reads == (operation == "fast_append"), "the snapshot is not read again"
    assert first.file_deletes == 0, "cleanup is skipped"


@pytest.mark.parametrize("engine", ENGINES)
def test_commits_that_wait_for_a_batch_count_towards_the_limit_of_the_queue_though_workers_are_idle(engine: Engine) -> None:
    limits = {"workers": 4, "queue_limit": 1, "retry_after_ms": 100.0}
    rows, counters = run(engine, service(coalesce={}, **limits), {name: once(0.0) for name in "abc"})
    alone = 1.0 + 5.0 + WRITE + 1.0
    # the first goes alone, the second after it, and the third is sent away
    assert sorted(rows.catalog_commit_ms) == [alone, alone + 5.0 + WRITE, 2.0 + 100.0 + alone]
    assert (counters["service_refused"], counters["service_batches"]) == (1, 3)
    rows, counters = run(engine, service(coalesce={}, **limits), {name: once(0.0, "read_only") for name in "abc"})
    assert counters["service_refused"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_a_batch_that_waits_for_a_worker_is_counted_once_towards_the_limit_of_the_queue(engine: Engine) -> None:
    catalog = service(num_tables=2, workers=1, queue_limit=2, commit=fixed(50.0), coalesce={})
    workload = {"a": once(0.0, tables=[0]), "b": once(10.0, tables=[1]), "c": once(20.0, tables=[1])}
    rows, counters = run(engine, catalog, workload)
    # the first has the worker; the second leads a batch that waits for it, and the third joins that batch
    assert (counters["service_refused"], counters["service_batches"]) == (0, 2)
    assert (rows.status == "committed").all()


EMPTY: Tree = {"start": "empty"}
"""Tables without the snapshots of five days, which an expiry would read."""


@pytest.mark.parametrize("engine", ENGINES)
def test_an_expiry_of_snapshots_and_an_append_do_not_conflict(engine: Engine) -> None:
    expiry = {"periodic": {"interval_ms": 200.0}, "operation": "expire_snapshots", "runtime": fixed(1.0), "retry": 0}
    append = {"periodic": {"interval_ms": 333.0, "phase_ms": 50.0}, "operation": "fast_append", "runtime": fixed(20.0), "retry": 0}
    transaction = {"commit_path": "iceberg"}
    rows, _ = run(engine, service(), {"a": append, "e": expiry}, 60_000.0, transaction=transaction, table=EMPTY)
    assert (rows.status == "committed").all()
    assert len(rows[rows.workload_class == "a"]) == 181
    single_file = {"type": "cas"}
    rows, _ = run(engine, single_file, {"a": append, "e": expiry}, 60_000.0, transaction=transaction, table=EMPTY)
    assert (rows[rows.workload_class == "a"].status == "aborted").mean() > 0.03


@pytest.mark.parametrize("engine", ENGINES)
def test_pyiceberg_sends_one_request_with_requirements(engine: Engine) -> None:
    transaction = {"commit_path": "pyiceberg"}
    rows, counters = run(engine, service(), {"a": once(0.0)}, transaction=transaction)
    assert rows.catalog_read_ms[0] == 4.0  # the load at the start, and no other
    assert counters["service_requests"] == 2
    behind_glue = {key: value for key, value in service().items() if key != "transfer_ms_per_mib"} | {"writes_metadata": False}
    rows, counters = run(engine, behind_glue, {"a": once(0.0)}, transaction=transaction)
    assert counters["service_requests"] == 3  # where the client writes the metadata, it looks before it commits
    assert rows.metadata_writes[0] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_commit_over_two_pointers_takes_effect_as_a_whole(engine: Engine) -> None:
    pair = once(0.0, runtime_ms=40.0, tables_per_txn=2, retry=0)
    rows, counters = run(engine, service(num_tables=2), {"a": pair})
    assert rows.tables_written[0].tolist() == [0, 1]
    assert rows.status[0] == "committed"
    assert rows.catalog_commit_ms[0] == 1.0 + 5.0 + 2 * WRITE + 1.0
    rival = once(0.0, runtime_ms=10.0, tables=[1], tables_per_txn=1, retry=0)
    rows, counters = run(engine, service(num_tables=2), {"a": pair, "b": rival})
    assert rows.set_index("workload_class").status.to_dict() == {"a": "aborted", "b": "committed"}
    assert counters["commit_success"] == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_metadata_that_grows_with_snapshots_takes_longer_to_write_and_to_load(engine: Engine) -> None:
    catalog = {"type": "service", "network": fixed(1.0), "load": fixed(2.0), "commit": fixed(5.0)}
    transaction = {"commit_path": "iceberg"}

    def one(snapshots: int) -> Any:
        rows, _ = run(
            engine, catalog, {"a": once(0.0)}, storage={"provider": "s3"}, transaction=transaction, table={"snapshots": snapshots}
        )
        return rows.iloc[0]

    few, many = one(1), one(5000)
    mib = 1_100 * 4999 / 2**20
    assert many.catalog_read_ms - few.catalog_read_ms == pytest.approx(10.0 * (3 * mib + 2 * 0.0), rel=1e-3)
    assert many.catalog_commit_ms > few.catalog_commit_ms + 20.0
    assert (many.metadata_reads, many.metadata_writes) == (0, 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("operation", "retries"), [("fast_append", [0, 0]), ("overwrite", [0, 1])])
def test_the_second_overwrite_of_a_group_commit_retries(engine: Engine, operation: str, retries: list[int]) -> None:
    """Both overwrites have the same base: appends of a batch are applied in sequence, but the second overwrite must retry."""
    catalog = service(coalesce={"linger_ms": 5.0})
    rows, counters = run(engine, catalog, {"a": once(0.0, operation), "b": once(0.0, operation)})
    assert counters["service_batches"] == 1 + retries[1]
    assert counters["commit_conflict"] == retries[1]
    assert rows.sort_values("txn_id").n_retries.tolist() == retries
    assert rows.status.tolist() == ["committed", "committed"]


def mean_and_error(catalog: Tree, workload: Tree, duration_ms: float, seeds: int) -> tuple[float, float, float]:
    """Return the mean time in the system over seeds, the half width of its 99.9% interval, and the utilization per worker.

    Uses the compiled engine; the reference engine must produce the same rows in the first run.
    """
    means, busy = [], []
    for seed in range(seeds):
        rows, counters = run(CompiledEngine, catalog, workload, duration_ms, seed)
        if seed == 0:
            pd.testing.assert_frame_equal(rows, run(ReferenceEngine, catalog, workload, duration_ms, seed)[0], rtol=1e-12)
        means.append(rows.catalog_read_ms.mean())
        busy.append(counters["service_busy_ms"] / duration_ms / catalog["workers"])
    error = stats.t.ppf(0.9995, seeds - 1) * float(np.std(means, ddof=1)) / math.sqrt(seeds)
    return float(np.mean(means)), float(error), float(np.mean(busy))


def readers(mean_ms: float) -> Tree:
    return {"a": {"inter_arrival": {"scale": mean_ms}, "operation": "read_only", "runtime": fixed(0.001)}}


def test_one_worker_with_exponential_service_is_m_m_1() -> None:
    catalog = service(workers=1) | {"network": fixed(0.0), "load": {"distribution": "exponential", "scale": 10.0}}
    mean, error, busy = mean_and_error(catalog, readers(20.0), 40_000.0, 12)
    assert abs(mean - 1.0 / (1.0 / 10.0 - 1.0 / 20.0)) < error < 4.0
    assert busy == pytest.approx(0.5, rel=0.05)


def mean_in_m_d_c(rate: float, service_ms: float, workers: int, most: int = 400) -> float:
    """Return the mean time in an M/D/c system, from its states at one time and one service time later (Crommelin)."""
    arrivals = stats.poisson.pmf(np.arange(most), rate * service_ms)
    moves = np.zeros((most, most))
    for n in range(most):
        left = max(n - workers, 0)
        moves[n, left:] = arrivals[: most - left]
    stationary = np.linalg.solve(np.vstack([(moves.T - np.eye(most))[:-1], np.ones(most)]), np.append(np.zeros(most - 1), 1.0))
    return float(np.arange(most) @ stationary) / rate


def test_some_workers_with_fixed_service_are_m_d_c() -> None:
    catalog = service(workers=3) | {"network": fixed(0.0), "load": fixed(30.0)}
    mean, error, busy = mean_and_error(catalog, readers(12.5), 30_000.0, 12)
    assert abs(mean - mean_in_m_d_c(1 / 12.5, 30.0, 3)) < error < 4.0
    assert busy == pytest.approx(0.8, rel=0.05)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("clients", "linger_ms"), [(2, 0.0), (5, 0.0), (8, 0.0), (5, 1.0), (8, 7.0)])
def test_submissions_per_swap_of_a_group_commit(engine: Engine, clients: int, linger_ms: float) -> None:
    """Fixed times and no think time: without lingering, one commits alone and the others together, in turn: N / 2 per swap. With
    it, all of them go into every swap.
    """
    catalog = service(network=fixed(0.0), load=fixed(0.0), commit=fixed(50.0), coalesce={"linger_ms": linger_ms})
    writers = {
        "closed": {"clients": clients},
        "operation": "fast_append",
        "runtime": fixed(1e-9),
    }
    tree: Tree = {"T_CAS": {"mean": 4.0}, "min_latency_ms": 0.0}
    tiny = {"mean": 1e-9}
    for key in ("T_METADATA_ROOT", "T_MANIFEST_LIST", "T_MANIFEST_FILE"):
        tree[key] = {"read": tiny, "write": tiny}
    rows, counters = run(engine, catalog, {"a": writers}, 10_000.0, storage=tree)
    assert (rows.status == "committed").all()
    per_swap = counters["commit_success"] / counters["service_batches"]
    if linger_ms == 0.0:
        assert per_swap == pytest.approx(clients / 2, rel=0.02)
    else:
        assert per_swap == clients


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("path", "loaded", "kept"), [("iceberg", 3, 2), ("pyiceberg", 1, 0)])
def test_a_kept_table_handle_saves_the_load_at_the_start(engine: Engine, path: str, loaded: int, kept: int) -> None:
    """An append of Iceberg's Java library loads the table three times with a fresh handle, twice with a cached handle."""
    writer = {"periodic": {"interval_ms": 300.0}, "operation": "fast_append", "runtime": fixed(10.0)}
    reads = {}
    for handle in ("loaded", "kept"):
        transaction = {"commit_path": path, "table_handle": handle}
        rows, _ = run(engine, service(), {"a": writer}, transaction=transaction)
        assert rows.status.tolist() == ["committed"] * 4
        reads[handle] = (rows.catalog_read_ms / 4.0).tolist()
    assert reads["loaded"] == [loaded] * 4
    assert reads["kept"] == [loaded, kept, kept, kept], "the first operation loads the table"


@pytest.mark.parametrize("engine", ENGINES)
def test_pyiceberg_with_a_kept_handle_loses_its_first_attempt_after_a_commit_of_another_writer(engine: Engine) -> None:
    kept = {"periodic": {"interval_ms": 300.0}, "operation": "fast_append", "runtime": fixed(10.0), "table_handle": "kept"}
    other = {"periodic": {"interval_ms": 600.0, "phase_ms": 450.0}, "operation": "fast_append", "runtime": fixed(10.0)}
    rows, counters = run(engine, service(), {"a": kept, "b": other}, 1_500.0, transaction={"commit_path": "pyiceberg"})
    mine = rows[rows.workload_class == "a"].sort_values("txn_id")
    # b commits between the second and the third operation of a, and between its fourth and fifth
    assert mine.n_retries.tolist() == [0, 0, 1, 0, 1]
    assert (mine.catalog_read_ms / 4.0).tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
    assert counters["commit_conflict"] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_an_overwrite_with_a_kept_handle_validates_from_the_state_of_the_handle(engine: Engine) -> None:
    kept = {"periodic": {"interval_ms": 300.0}, "operation": "overwrite", "runtime": fixed(10.0), "table_handle": "kept"}
    other = {"periodic": {"interval_ms": 600.0, "phase_ms": 450.0}, "operation": "fast_append", "runtime": fixed(10.0)}
    settings = {"commit_path": "iceberg", "isolation": "serializable", "real_conflict_probability": 1.0}
    rows, _ = run(engine, service(), {"a": kept, "b": other}, 1_200.0, transaction=settings)
    mine = rows[rows.workload_class == "a"].sort_values("txn_id")
    assert mine.abort_reason.fillna("").tolist() == ["", "", "validation_exception", ""]
