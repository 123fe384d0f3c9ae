"""Clients: how they wait, what they keep, and the time that they compute themselves. Both engines run each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from endive.simulation.reference import ReferenceEngine
from tests.config import problems
from tests.simulation.runs import ENGINES, Engine, frame_of
from tests.simulation.test_engines_agree import assert_engines_agree

Tree = dict[str, Any]
both_engines = pytest.mark.parametrize("engine", ENGINES)


def run_of(transaction: Tree, clients: int = 6, path: str = "endive", **catalog: Any) -> Tree:
    """Writers in a closed loop on one table; every access takes 10 ms."""
    latency = {"mean": 10.0, "stddev": 0.0}
    both = {"read": latency, "write": latency}
    return {
        "simulation": {"duration_ms": 20_000.0, "seed": 3},
        "storage": {"T_CAS": latency, "T_METADATA_ROOT": both, "T_MANIFEST_LIST": both, "T_MANIFEST_FILE": both},
        "catalog": catalog,
        "transaction": {"commit_path": path, **transaction},
        "workload": {
            "w": {
                "closed": {"clients": clients},
                "operation": "fast_append",
                "runtime": {"distribution": "fixed", "value": 5.0},
                "retry": 8,
            }
        },
    }


def backoff(**keys: Any) -> Tree:
    return {"retry_backoff": {"enabled": True, **keys}}


class TestBackoff:
    @both_engines
    def test_decorrelated_waits_are_at_least_the_base(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of(backoff(jitter="decorrelated", base_ms=20, multiplier=3, max_ms=200)))
        lost = rows[(rows["n_retries"] > 0) & (rows["status"] != "in_flight")]
        assert (lost["t_backoff"] >= 20.0 * lost["n_retries"]).all()
        assert (lost["t_backoff"] <= 200.0 * lost["n_retries"]).all()

    @both_engines
    def test_slots_are_as_long_as_the_first_attempt(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of(backoff(kind="slots")))
        once = rows[(rows["n_retries"] == 1) & (rows["status"] == "committed")]
        assert set(np.round(once["t_backoff"] / 40.0, 6)) <= {0.0, 1.0, 2.0, 3.0}  # list read, manifest, list, commit: 40 ms
        assert len(set(once["t_backoff"])) > 1

    @both_engines
    def test_a_service_says_how_long_to_wait(self, engine: Engine) -> None:
        tree = run_of(backoff(kind="retry_after", jitter=0.0), path="iceberg", type="service", retry_after_ms=70.0)
        rows = frame_of(engine, tree)
        lost = rows[(rows["n_retries"] > 0) & (rows["status"] != "in_flight")]
        assert lost["n_retries"].max() > 2
        assert (lost["t_backoff"] == 70.0 * lost["n_retries"]).all()

    @both_engines
    def test_linear_waits_add_up_to_a_triangle(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of(backoff(kind="linear", base_ms=10, jitter=0.0)))
        lost = rows[(rows["n_retries"] > 0) & (rows["status"] == "committed")]
        assert lost["n_retries"].max() > 2
        assert (lost["t_backoff"] == 10.0 * lost["n_retries"] * (lost["n_retries"] + 1) / 2).all()

    @both_engines
    def test_aimd_is_kept_from_one_transaction_to_the_next(self, engine: Engine) -> None:
        rows = frame_of(engine, run_of(backoff(kind="aimd", base_ms=10, jitter=0.5, max_ms=10_000)))
        once = rows[(rows["n_retries"] == 1) & (rows["status"] == "committed")]
        assert once["t_backoff"].max() > 15.0  # the first wait of a transaction is longer than the base: it was remembered

    @both_engines
    def test_spreading_waits_raises_the_share_of_commits(self, engine: Engine) -> None:
        def success(keys: Tree) -> float:
            rows = frame_of(engine, run_of(keys, clients=10))
            return float((rows["status"] == "committed").mean())

        together = success(backoff(base_ms=100, multiplier=1.0, jitter=0.0))
        for spread in (backoff(base_ms=100, jitter="full"), backoff(kind="slots"), backoff(kind="aimd", base_ms=100, jitter=1.0)):
            assert success(spread) > together


class TestKeptHandle:
    @both_engines
    @pytest.mark.parametrize("path", ["endive", "iceberg", "pyiceberg"])
    def test_a_writer_alone_loads_its_table_once(self, engine: Engine, path: str) -> None:
        def rows(handle: str) -> Any:
            apart = {"table_metadata_inlined": False} if path == "endive" else {}
            tree = run_of({"table_handle": handle}, clients=1, path=path, **apart)
            return frame_of(engine, tree).sort_values("txn_id")

        loaded, kept = rows("loaded"), rows("kept")
        assert kept["metadata_reads"].iloc[0] == loaded["metadata_reads"].iloc[0]
        assert set(kept["metadata_reads"].iloc[1:-1]) == {loaded["metadata_reads"].iloc[0] - 1}
        assert len(kept) > len(loaded)

    @both_engines
    def test_what_others_commit_is_read_again(self, engine: Engine) -> None:
        tree = run_of({"table_handle": "kept"}, clients=3, table_metadata_inlined=False)
        rows = frame_of(engine, tree)
        assert {0, 1} <= set(rows["metadata_reads"])

    def test_a_commit_is_known_even_if_the_refresh_after_it_is_rejected(self) -> None:
        def fixed(value: float) -> Tree:
            return {"distribution": "fixed", "value": value}

        tree = run_of({"table_handle": "kept"} | backoff(kind="aimd", base_ms=5), clients=4, path="iceberg")
        tree["simulation"]["duration_ms"] = 5_000.0
        times = {"network": fixed(1.0), "load": fixed(8.0), "commit": fixed(12.0), "check": fixed(2.0)}
        limits = {"workers": 1, "queue_limit": 1, "retry_after_ms": 5.0, "max_resends": 0}
        tree["catalog"] = {"type": "service", "writes_metadata": False, **times, **limits}
        rows = frame_of(ReferenceEngine, tree)
        assert {"aborted", "committed"} <= set(rows["status"])
        assert rows.loc[rows["status"] == "aborted", "installs"].sum() == 0
        assert_engines_agree(tree)

    def test_a_transaction_with_a_handle_starts_though_requests_are_rejected(self) -> None:
        def fixed(value: float) -> Tree:
            return {"distribution": "fixed", "value": value}

        tree = run_of({"table_handle": "kept"}, path="pyiceberg")
        tree["simulation"]["duration_ms"] = 1_000.0
        tree["workload"] = {"w": {"inter_arrival": fixed(3.0), "operation": "fast_append", "runtime": fixed(0.5), "retry": 0}}
        times = {"network": fixed(1.0), "load": fixed(2.0), "commit": fixed(5.0), "check": fixed(1.0)}
        limits = {"workers": 1, "queue_limit": 0, "retry_after_ms": 5.0, "max_resends": 2}
        tree["catalog"] = {"type": "service", "num_tables": 2, "num_groups": 1, "writes_metadata": False, **times, **limits}
        rows = frame_of(ReferenceEngine, tree)
        assert (rows["t_commit_start"] >= 0.0).all(), "no load precedes the job"
        assert (rows["abort_reason"] == "service_unavailable").sum() > 5
        assert set(rows.loc[rows["t_commit_start"] > 0.0, "metadata_reads"]) >= {0, 1}
        assert_engines_agree(tree)

    def test_it_needs_metadata_that_lies_apart(self) -> None:
        message = problems('[transaction]\ntable_handle = "kept"')["transaction.table_handle"]
        assert "table_metadata_inlined = false" in message


class TestClientTime:
    @both_engines
    @pytest.mark.parametrize("path", ["endive", "iceberg", "pyiceberg"])
    def test_each_access_takes_so_much_longer(self, engine: Engine, path: str) -> None:
        def rows(time: Any) -> Any:
            return frame_of(engine, run_of({"client_ms_per_access": time}, clients=1, path=path)).sort_values("txn_id").iloc[:20]

        without, computing = rows(0.0), rows("9ms")
        accesses = without["event_count"] - 1  # all but the work
        assert list(computing["event_count"]) == list(without["event_count"])
        assert list(computing["total_latency"]) == pytest.approx(list(without["total_latency"] + 9.0 * accesses))

    @both_engines
    def test_a_distribution_is_drawn(self, engine: Engine) -> None:
        tree = run_of({"client_ms_per_access": {"mean": 9.0, "sigma": 0.5}}, clients=1)
        assert frame_of(engine, tree)["total_latency"].nunique() > 50


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('kind = "slots"\nbase_ms = 5', 'has no effect with kind = "slots"'),
        ('kind = "aimd"\njitter = "full"', 'jitter must be a number such as 0.1 with kind = "aimd"'),
        ('kind = "retry_after"\nbase_ms = 5', 'has no effect with kind = "retry_after"'),
        ('kind = "retry_after"\njitter = "full"', 'jitter must be a number such as 0.1 with kind = "retry_after"'),
        ('kind = "retry_after"', 'needs catalog.type = "service"'),
        ('kind = "slot"', "did you mean 'slots'?"),
        ('jitter = "ful"', "did you mean 'full'?"),
        ("jitter = 1.5", "less than or equal to 1"),
    ],
)
def test_what_is_wrong_with_backoff_is_reported(keys: str, message: str) -> None:
    found = problems(f"[transaction.retry_backoff]\nenabled = true\n{keys}")
    assert any(message in each for each in found.values()), found
