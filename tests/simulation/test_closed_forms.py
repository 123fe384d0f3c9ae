"""Runs whose outcome can be worked out by hand, in both engines, exactly."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.simulation.runs import ENGINES, Engine, frame_of

CAS, CATALOG_READ = 4.0, 2.0
LIST_READ, LIST_WRITE, FILE_WRITE = 5.0, 7.0, 11.0
RUNTIME = 100.0
ATTEMPT_IO = LIST_READ + FILE_WRITE + LIST_WRITE
ALONE = CATALOG_READ + RUNTIME + ATTEMPT_IO + CAS


def fixed(clients: int, duration_ms: float, **extra: Any) -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": duration_ms, "seed": 1, "drain": True},
        "storage": {
            "T_CAS": {"mean": CAS},
            "T_METADATA_ROOT": {"read": {"mean": CATALOG_READ}, "write": {"mean": 1.0}},
            "T_MANIFEST_LIST": {"read": {"mean": LIST_READ}, "write": {"mean": LIST_WRITE}},
            "T_MANIFEST_FILE": {"read": {"mean": 9.0}, "write": {"mean": FILE_WRITE}},
        },
        "transaction": {"runtime": {"distribution": "fixed", "value": RUNTIME}, **extra},
        "workload": {"writers": {"closed": {"clients": clients}, "operation": "fast_append"}},
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_one_writer_meets_no_conflict_and_its_latency_is_the_sum_of_its_parts(engine: Engine) -> None:
    rows = frame_of(engine, fixed(1, 1_000.0))
    assert (rows["n_retries"] == 0).all()
    assert (rows["total_latency"] == ALONE).all()
    assert list(rows["t_submit"]) == [n * ALONE for n in range(len(rows))]
    assert len(rows) == 8
    assert (rows["event_count"] == 6).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_one_writer_with_random_latencies_meets_no_conflict_either(engine: Engine) -> None:
    tree = fixed(1, 60_000.0)
    tree["storage"] = {"provider": "azure"}
    rows = frame_of(engine, tree)
    assert len(rows) > 50
    assert (rows["status"] == "committed").all()
    assert (rows[["n_retries", "conflict_io_ms", "t_backoff"]] == 0).all(axis=None)


@pytest.mark.parametrize("engine", ENGINES)
def test_two_writers_in_step_take_turns_as_worked_out_by_hand(engine: Engine) -> None:
    """Both swap first at 129 ms: transaction 0 wins, 1 reads the catalog, makes its manifests anew and swaps at 158 ms.

    Transaction 2 begins at 129 ms, reads the catalog until 131 and swaps at 258, after 1 has committed: it needs a retry, too.
    """
    retry = CATALOG_READ + ATTEMPT_IO + CAS
    rows = frame_of(engine, fixed(2, 140.0)).sort_values("txn_id")
    # transactions 0 and 1 at 0 ms; 2 follows 0 at 129 ms; nothing else begins before 140 ms
    assert list(rows["t_submit"]) == [0.0, 0.0, ALONE]
    assert list(rows["t_commit"]) == [ALONE, ALONE + retry, 2 * ALONE + retry]
    assert list(rows["n_retries"]) == [0, 1, 1]
    assert list(rows["catalog_read_ms"]) == [CATALOG_READ, 2 * CATALOG_READ, 2 * CATALOG_READ]
    assert list(rows["per_attempt_io_ms"]) == [ATTEMPT_IO, 2 * ATTEMPT_IO, 2 * ATTEMPT_IO]
    assert list(rows["catalog_commit_ms"]) == [CAS, 2 * CAS, 2 * CAS]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_convoy_of_reads_takes_its_batches(engine: Engine) -> None:
    """An overwrite that finds ten appends reads ten lists, four at a time."""
    tree = fixed(1, 50.0)
    tree["workload"] = {
        "appends": {
            "periodic": {"interval_ms": 50.0, "phase_ms": 10.0},
            "operation": "fast_append",
            "runtime": {"distribution": "fixed", "value": 1.0},
        },
        "overwrite": {
            "periodic": {"interval_ms": 10_000.0, "phase_ms": 0.0},
            "operation": "validated_overwrite",
            "runtime": {"distribution": "fixed", "value": 510.0},
        },
    }
    tree["simulation"]["duration_ms"] = 500.0
    rows = frame_of(engine, tree)
    victim = rows[rows["workload_class"] == "overwrite"].iloc[0]
    assert victim["n_retries"] == 1
    assert victim["manifest_list_reads"] == 10 + 2
    assert victim["conflict_io_ms"] == 3 * LIST_READ
    assert victim["event_count"] == 6 + 1 + 3 + 4


@pytest.mark.parametrize("engine", ENGINES)
def test_an_empty_run_has_no_rows(engine: Engine) -> None:
    tree = fixed(1, 50.0)
    tree["workload"] = {"late": {"periodic": {"interval_ms": 10.0, "phase_ms": 50.0}, "operation": "fast_append"}}
    assert len(frame_of(engine, tree)) == 0


def readers(storage: dict[str, Any], mean_ms: float, sigma: float) -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": 100_000.0, "seed": 1, "drain": True},
        "storage": storage,
        "transaction": {"runtime": {"mean": mean_ms, "sigma": sigma}},
        "workload": {"readers": {"rate": 20.0, "operation": "read_only"}},
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_arrivals_have_their_rate_and_runtimes_their_mean(engine: Engine) -> None:
    """Poisson arrivals: the variance of their number is its mean. A lognormal has the variance mean^2 (e^(sigma^2) - 1)."""
    rows = frame_of(engine, readers({"provider": "instant"}, 100.0, 1.0))
    assert len(rows) == pytest.approx(2_000, abs=4.0 * math.sqrt(2_000.0))
    assert rows["t_runtime"].mean() == pytest.approx(100.0, abs=4.0 * 100.0 * math.sqrt((math.e - 1.0) / 2_000.0))


@pytest.mark.parametrize("engine", ENGINES)
def test_no_latency_is_below_the_floor_of_its_provider_and_many_are_at_it(engine: Engine) -> None:
    """In the profiles of 2025-06, the floor of s3 is 43 ms and the median of its reads 30 ms."""
    rows = frame_of(engine, readers({"provider": "s3", "profile": "2025-06"}, 1.0, 0.0))
    assert rows["catalog_read_ms"].min() == 43.0
    assert rows["catalog_read_ms"].median() == 43.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("parallel", "expected_ms", "deviation_ms"), [(4, 100.0 + 10.0 * 1.02938, 7.0), (1, 400.0, 20.0)])
def test_a_batch_takes_as_long_as_its_slowest_access(
    engine: Engine, parallel: int, expected_ms: float, deviation_ms: float
) -> None:
    """The largest of four standard normals is 1.02938 on average."""
    storage = {
        "max_parallel": parallel,
        "T_CAS": {"mean": CAS},
        "T_METADATA_ROOT": {"read": {"mean": CATALOG_READ}, "write": {"mean": 1.0}},
        "T_TABLE_METADATA": {"read": {"mean": 100.0, "stddev": 10.0}, "write": {"mean": 1.0}},
    }
    tree = readers(storage, 1.0, 0.0)
    tree["catalog"] = {"num_tables": 4, "table_metadata_inlined": False}
    tree["transaction"]["tables_per_txn"] = 4
    rows = frame_of(engine, tree)
    error = deviation_ms / math.sqrt(len(rows))
    assert rows["catalog_read_ms"].mean() - CATALOG_READ == pytest.approx(expected_ms, abs=4.0 * error)


def expiring(every_ms: float, age_ms: float, duration_ms: float) -> dict[str, Any]:
    """One writer, and an expiry by age every minute."""
    instant: dict[str, Any] = {"runtime": {"distribution": "fixed", "value": 0.0}, "writers": 1}
    return {
        "simulation": {"duration_ms": duration_ms, "seed": 1},
        "storage": {"provider": "instant"},
        "catalog": {"type": "instant", "latency_ms": 0.01},
        "transaction": {"commit_path": "iceberg", "retry": 30},
        "table": {"snapshots": 1, "metadata_bytes": 1_000, "metadata_bytes_per_snapshot": 100},
        "workload": {
            "writer": {**instant, "every": every_ms, "operation": "fast_append"},
            "expiry": {**instant, "every": "60s", "operation": "expire_snapshots", "max_snapshot_age_ms": age_ms},
        },
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_a_commit_a_second_with_expiry_after_ten_minutes_keeps_600_to_660_snapshots(engine: Engine) -> None:
    rows = frame_of(engine, expiring(1_000.0, 600_000.0, 3_600_000.0))
    snapshots = rows["table_snapshots"][rows["t_commit"] > 660_000.0]
    assert 599 <= snapshots.min() <= 601
    assert 659 <= snapshots.max() <= 661
    assert snapshots.mean() == pytest.approx(630.0, abs=2.0)
    assert (rows["table_metadata_bytes"] == 1_000 + 100 * rows["table_snapshots"]).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_snapshots_that_are_younger_than_the_age_are_all_retained(engine: Engine) -> None:
    rows = frame_of(engine, expiring(100.0, 700_000.0, 600_000.0))
    assert rows["table_snapshots"].max() == 1 + (rows["operation_type"] == "fast_append").sum() == 6_001
