"""Both engines at the bounds: each key at its smallest and at its largest, in runs that the end cuts off."""

from __future__ import annotations

from typing import Any

import pytest

from tests.config import leaves, merged
from tests.simulation.runs import ENGINES, frame_of

BASE: dict[str, Any] = {
    "simulation": {"duration_ms": 400, "seed": 3},
    "storage": {"provider": "s3x", "profile": "2025-12"},
    "catalog": {"num_tables": 2},
    "transaction": {"runtime": {"mean": 20, "sigma": 0.5}, "retry": 3},
    "workload": {"a": {"rate": 40.0}, "b": {"rate": 10.0}},
}
ICEBERG: dict[str, Any] = {"transaction": {"commit_path": "iceberg"}, "workload": {"b": {"operation": "overwrite"}}}
LOG: dict[str, Any] = {"catalog": {"type": "append"}}
LISTS: dict[str, Any] = {"transaction": {"manifest_list_mode": "append"}}
MERGES: dict[str, Any] = {"workload": {"a": {"operation": "merge_append"}}}

SERVICE: dict[str, Any] = {"catalog": {"type": "service", "workers": 1}}
REFUSING: dict[str, Any] = {"catalog": {"type": "service", "workers": 1, "queue_limit": 1}}
RETRYING: dict[str, Any] = {"catalog": {"type": "service", "workers": 1, "server_retries": 2}}
BATCHES: dict[str, Any] = {"catalog": {"type": "service", "workers": 1, "coalesce": {"linger_ms": 1.0, "max_batch": 2}}}
SEPARATE_METADATA: dict[str, Any] = {**SERVICE, "catalog": {**SERVICE["catalog"], "writes_metadata": False}}
KEPT: dict[str, Any] = {"catalog": {"table_metadata_inlined": False}, "workload": {"a": {"table_handle": "kept"}}}
LOST: dict[str, Any] = {"failures": {"lost_answer": 0.3}}
ERRORS: dict[str, Any] = {"failures": {"request_error": 0.1, "client_crash": 0.05}}
COMMITTER: dict[str, Any] = {"workload": {"a": {"committer": {"interval_ms": 20.0, "max_batch": 3}}}}
CLIENTS: dict[str, Any] = {"workload": {"c": {"closed": {"clients": 3, "think_time": {"scale": 5.0}}}}}


def waiting(catalog: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    return {"catalog": catalog or {}, "transaction": {"retry_backoff": {"enabled": True, **keys}}}


CASES: tuple[tuple[dict[str, Any], str, tuple[float, ...]], ...] = (
    ({}, "transaction.retry", (0, 10**6)),
    ({}, "transaction.max_restarts", (0, 10**6)),
    ({}, "storage.max_parallel", (1, 10**5)),
    ({}, "transaction.runtime.mean", (1e-9, 1e15)),
    ({}, "transaction.runtime.sigma", (0.0, 10.0)),
    ({}, "workload.b.rate", (1e-9, 1e3)),
    ({}, "catalog.size_bytes", (0, 10**9)),
    ({}, "catalog.linearization", (0.0, 1.0)),
    ({}, "storage.sizes.manifest_list_bytes", (0, 10**9)),
    ({}, "storage.sizes.manifest_file_bytes", (0, 10**9)),
    (MERGES, "transaction.manifests_per_concurrent_commit", (0.0, 1000.0)),
    (LISTS, "transaction.manifest_list_entry_size", (1, 10**9)),
    (LISTS, "transaction.manifest_list_seal_threshold", (0, 1, 10**15)),
    (LOG, "catalog.log_entry_size", (1, 10**9)),
    (LOG, "catalog.compaction_threshold", (0, 10**15)),
    (LOG, "catalog.compaction_max_entries", (0, 1, 10**9)),
    *(
        (ICEBERG, f"table.{key}", bounds)
        for key, bounds in {
            "manifests": (0, 10**6),
            "delete_manifests": (0, 10**6),
            "snapshots": (1, 10**6),
            "metadata_bytes": (0, 10**9),
            "metadata_bytes_per_snapshot": (0, 10**9),
            "manifest_list_bytes": (0, 10**9),
            "manifest_list_bytes_per_manifest": (0, 10**9),
            "manifest_bytes": (6_900, 10**9),
            "manifest_header_bytes": (0, 7_100),
            "min_count_to_merge": (2, 10**9),
            "target_bytes": (1, 10**15),
        }.items()
    ),
    (ICEBERG, "transaction.manifests_hit", (0, 10**6)),
    (ICEBERG, "transaction.manifests_missed", (0, 10**6)),
    *(
        (extra, f"catalog.{key}", bounds)
        for extra, key, bounds in (
            (SERVICE, "workers", (0, 10**6)),
            (SERVICE, "server_retries", (0, 10**6)),
            (RETRYING, "server_backoff_ms", (0.0, 1e15)),
            (SERVICE, "database_conflict", (0.0, 1.0)),
            (SERVICE, "queue_limit", (0, 10**15)),
            (REFUSING, "retry_after_ms", (0.0, 1e15)),
            (REFUSING, "max_resends", (0, 10**6)),
            (BATCHES, "coalesce.linger_ms", (0.0, 1e15)),
            (BATCHES, "coalesce.max_batch", (0, 1, 10**9)),
            (merged(SERVICE, ICEBERG), "transfer_ms_per_mib", (0.0, 1e15)),
            (merged(SERVICE, ICEBERG), "metadata_limit_bytes", (1, 10**15)),
            *((SERVICE, f"{key}.median", (1e-9, 1e15)) for key in ("network", "load", "commit", "check")),
            (KEPT, "size_bytes", (0, 10**9)),
            (merged(SEPARATE_METADATA, {"workload": {"a": {"table_handle": "kept"}}}), "workers", (0, 10**6)),
        )
    ),
    *(
        (extra, f"failures.{key}", bounds)
        for extra, key, bounds in (
            (ERRORS, "request_error", (0.0, 0.99)),
            (ERRORS, "client_crash", (0.0, 1.0)),
            (LOST, "lost_answer", (0.0, 1.0)),
            (LOST, "status_checks", (0, 10**9)),
            (LOST, "min_wait_ms", (0.0, 1e15)),
            (LOST, "max_wait_ms", (0.0, 1e15)),
        )
    ),
    *(
        (extra, f"transaction.retry_backoff.{key}", bounds)
        for extra, key, bounds in (
            (waiting(), "base_ms", (0.0, 1e15)),
            (waiting(), "multiplier", (1.0, 1e6)),
            (waiting(), "max_ms", (0.0, 1e15)),
            (waiting(), "jitter", (0.0, 1.0)),
            *((waiting(jitter=jitter), "base_ms", (0.0, 1e15)) for jitter in ("full", "equal", "decorrelated")),
            (waiting(kind="slots"), "max_ms", (0.0, 1e15)),
            (waiting(kind="aimd"), "base_ms", (0.0, 1e15)),
            (waiting(kind="aimd"), "multiplier", (1.0, 1e6)),
            (waiting(SERVICE["catalog"], kind="retry_after"), "jitter", (0.0, 1.0)),
        )
    ),
    (waiting(SERVICE["catalog"], kind="retry_after"), "catalog.retry_after_ms", (0.0, 1e15)),
    (COMMITTER, "workload.a.committer.interval_ms", (0.0, 1e15)),
    (COMMITTER, "workload.a.committer.max_batch", (0, 1, 10**9)),
    (CLIENTS, "workload.c.committer.max_in_flight", (1, 10**9)),
    (CLIENTS, "workload.c.closed.clients", (1, 10**3)),
    (CLIENTS, "workload.c.closed.think_time.scale", (1e-9, 1e15)),
)


def tree_of(extra: dict[str, Any], key: str, value: float) -> dict[str, Any]:
    node: Any = value
    for part in reversed(key.split(".")):
        node = {part: node}
    return merged(merged(BASE, extra), node)


@pytest.mark.parametrize(("extra", "key", "value"), [(extra, key, value) for extra, key, bounds in CASES for value in bounds])
def test_rows_are_equal_at_the_bounds(extra: dict[str, Any], key: str, value: float) -> None:
    tree = tree_of(extra, key, value)
    first, second = (frame_of(engine, tree) for engine in ENGINES)
    assert len(first) > 0
    assert first.equals(second)


def test_all_at_once_at_their_largest() -> None:
    tree = merged(BASE, ICEBERG)
    for extra, key, bounds in CASES:
        if extra is ICEBERG:
            tree = merged(tree, tree_of({}, key, bounds[-1]))
    assert leaves(tree)["table.metadata_bytes_per_snapshot"] == 10**9
    first, second = (frame_of(engine, tree) for engine in ENGINES)
    assert first.equals(second)
