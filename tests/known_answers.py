"""Systems whose result is derived by hand, from queueing theory or from counts of real clients, without the simulator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

Tree = dict[str, Any]

CAS, CATALOG_READ, LIST_READ, LIST_WRITE, FILE_READ, FILE_WRITE, METADATA_READ, METADATA_WRITE = (
    4.0,
    2.0,
    5.0,
    7.0,
    9.0,
    11.0,
    3.0,
    6.0,
)
FIXED_STORE: Tree = {
    "T_CAS": {"mean": CAS},
    "T_METADATA_ROOT": {"read": {"mean": CATALOG_READ}, "write": {"mean": 1.0}},
    "T_TABLE_METADATA": {"read": {"mean": METADATA_READ}, "write": {"mean": METADATA_WRITE}},
    "T_MANIFEST_LIST": {"read": {"mean": LIST_READ}, "write": {"mean": LIST_WRITE}},
    "T_MANIFEST_FILE": {"read": {"mean": FILE_READ}, "write": {"mean": FILE_WRITE}},
}
"""Object store with constant latencies."""
ATTEMPT = LIST_READ + FILE_WRITE + LIST_WRITE
"""I/O time of an attempt of a fast append on the simplified path."""
ICEBERG_FIRST = CATALOG_READ + LIST_READ + FILE_WRITE + LIST_WRITE + METADATA_WRITE + CAS
"""Commit time of a fast append by Iceberg's Java library without contention: refresh, lists, manifest, metadata, swap."""
ICEBERG_AFTER = CATALOG_READ + METADATA_READ
"""Time of the reads after the swap: the refresh of the table."""
PYICEBERG_FIRST = LIST_READ + FILE_WRITE + LIST_WRITE + METADATA_WRITE + CAS


@dataclass(frozen=True)
class KnownAnswer:
    """System and its expected result: the value of a metric of a class, and the tolerance."""

    name: str
    tree: Tree
    workload_class: str
    metric: str
    value: float
    within: float
    why: str


def fixed(value: float | str) -> Tree:
    return {"distribution": "fixed", "value": value}


def system(
    minutes: float, *, path: str = "endive", catalog: Tree | None = None, storage: Tree | None = None, **sections: Any
) -> Tree:
    """Return a small system on the reference engine with an object store of constant latencies."""
    transaction = {"commit_path": path, "runtime": fixed(0.0), **sections.pop("transaction", {})}
    return {
        "simulation": {"duration_ms": minutes * 60_000.0, "engine": "reference"},
        "storage": storage or FIXED_STORE,
        "catalog": catalog or {"num_tables": 1},
        "transaction": transaction,
        **sections,
    }


def aligned(writers: int, every: str = "1min", **settings: Any) -> Tree:
    return {"jobs": {"writers": writers, "every": every, "phase": "aligned", "operation": "fast_append", **settings}}


def service(**settings: Any) -> Tree:
    times = {name: fixed(value) for name, value in {"network": 1.0, "load": 20.0, "commit": 80.0, "check": 5.0}.items()}
    return {"type": "service", **times, **settings}


VICTIM = {"operation": "validated_overwrite", "periodic": {"interval_ms": 20_000.0}, "runtime": fixed(10_000.0)}
"""Job of 10 s every 20 s; its runs do not overlap."""
APPENDS = {"rate": 0.1, "operation": "fast_append", "runtime": fixed(0.0)}
EVERY_SECOND = {"periodic": {"interval_ms": 1_000.0}, "operation": "fast_append"}
FREE_SERVER = {**FIXED_STORE, "T_TABLE_METADATA": {"read": {"mean": 0.001}, "write": {"mean": 0.001}}}


def compacted(job: str, **merge: Any) -> Tree:
    """Return a compaction per minute with concurrent MERGE jobs, one every 100 s, that delete rows of the files it rewrites."""
    return system(
        600,
        path="iceberg",
        workload={
            "merge": {"rate": 0.01, "operation": "row_delta", "isolation": "snapshot", "real_conflict_probability": 0.0, **merge},
            "compaction": {
                "periodic": {"interval_ms": "1min"},
                "operation": "rewrite_files",
                "runtime": fixed(job),
                "real_conflict_probability": 1.0,
            },
        },
    )


def in_parts(parts: int) -> Tree:
    """Return the compaction of 50 s that commits in several parts."""
    tree = compacted("50s")
    tree["workload"]["compaction"]["commits_per_job"] = parts
    return tree


KNOWN_ANSWERS = (
    KnownAnswer(
        "one writer, simplified path",
        system(5, workload={"a": EVERY_SECOND}),
        "a",
        "time_to_commit_p50_ms",
        ATTEMPT + CAS,
        1e-6,
        "nothing to wait for: the sum of its accesses",
    ),
    KnownAnswer(
        "one writer, Iceberg's Java library",
        system(5, path="iceberg", workload={"a": EVERY_SECOND}),
        "a",
        "commit_latency_p50_ms",
        ICEBERG_FIRST + ICEBERG_AFTER,
        1e-6,
        "the accesses that were counted in Iceberg",
    ),
    KnownAnswer(
        "one writer, PyIceberg",
        system(5, path="pyiceberg", workload={"a": EVERY_SECOND}),
        "a",
        "time_to_commit_p50_ms",
        PYICEBERG_FIRST,
        1e-6,
        "the accesses that were counted in PyIceberg: no refresh before the first attempt",
    ),
    KnownAnswer(
        "one writer needs no retry",
        system(1, path="iceberg", workload={"a": {"closed": {"clients": 1}, "operation": "fast_append"}}),
        "a",
        "retries_per_txn",
        0.0,
        0.0,
        "no other writer",
    ),
    KnownAnswer(
        "a periodic writer offers its rate",
        system(10, path="iceberg", workload={"a": {**EVERY_SECOND, "periodic": {"interval_ms": 10_000.0}}}),
        "a",
        "offered_per_s",
        0.1,
        1e-9,
        "one every ten seconds",
    ),
    KnownAnswer(
        "a closed loop without contention",
        system(
            10,
            catalog={"num_tables": 1},
            workload={"a": {"closed": {"clients": 1, "think_time": fixed(471.0)}, "operation": "fast_append"}},
        ),
        "a",
        "throughput_per_s",
        1_000.0 / (471.0 + CATALOG_READ + ATTEMPT + CAS),
        0.005,
        "N / (Z + R)",
    ),
    KnownAnswer(
        "forty aligned writers, one table, no retries",
        system(10, transaction={"retry": 0}, workload=aligned(40)),
        "jobs",
        "success_rate",
        1 / 40,
        1e-9,
        "all read the same version, the first swap wins",
    ),
    KnownAnswer(
        "forty aligned writers, one table, enough retries",
        system(10, transaction={"retry": 39}, workload=aligned(40)),
        "jobs",
        "retries_per_txn",
        39 / 2,
        1e-9,
        "each round has one winner: writer i needs i retries",
    ),
    KnownAnswer(
        "two aligned writers, enough retries",
        system(10, path="iceberg", transaction={"retry": 1}, workload=aligned(2)),
        "jobs",
        "success_rate",
        1.0,
        0.0,
        "the loser wins its second attempt alone",
    ),
    KnownAnswer(
        "two aligned writers, no retries, Iceberg",
        system(10, path="iceberg", transaction={"retry": 0}, workload=aligned(2)),
        "jobs",
        "success_rate",
        0.5,
        0.0,
        "both refresh before either swaps",
    ),
    KnownAnswer(
        "two aligned writers, no retries, PyIceberg",
        system(10, path="pyiceberg", transaction={"retry": 0}, workload=aligned(2)),
        "jobs",
        "success_rate",
        0.5,
        0.0,
        "both load the table before either swaps",
    ),
    KnownAnswer(
        "the backoff of the loser",
        system(
            10,
            transaction={"retry": 1, "retry_backoff": {"enabled": True, "base_ms": 500.0, "jitter": 0.0}},
            workload={"jobs": {**aligned(2)["jobs"], "every": "5s"}},
        ),
        "jobs",
        "time_to_commit_p95_ms",
        ATTEMPT + CAS + 500.0 + CATALOG_READ + ATTEMPT + CAS,
        1e-6,
        "first attempt, wait, catalog, second attempt",
    ),
    KnownAnswer(
        "a serializable delete beside Poisson appends",
        system(
            600,
            transaction={"conflict_detector": "probabilistic", "real_conflict_probability": 1.0, "retry": 10},
            workload={"victim": VICTIM, "ingest": {**APPENDS, "real_conflict_probability": 0.0}},
        ),
        "victim",
        "success_rate",
        math.exp(-0.1 * (10.0 + (ATTEMPT + CAS) / 1_000.0)),
        0.035,
        "e^(-rate x duration): no append may arrive while it runs",
    ),
    KnownAnswer(
        "a compaction of ten minutes beside appends",
        system(
            120,
            path="iceberg",
            transaction={"conflict_detector": "probabilistic", "real_conflict_probability": 1.0, "retry": 4},
            workload={
                "compaction": {"operation": "rewrite_files", "periodic": {"interval_ms": 1_200_000.0}, "runtime": fixed("10min")},
                "ingest": {**APPENDS, "rate": 0.5, "operation": "merge_append"},
            },
        ),
        "compaction",
        "success_rate",
        1.0,
        0.0,
        "rewrite_files does not validate against appends",
    ),
    KnownAnswer(
        "the same job as a serializable overwrite",
        system(
            120,
            path="iceberg",
            transaction={"conflict_detector": "probabilistic", "real_conflict_probability": 1.0, "retry": 4},
            workload={
                "overwrite": {
                    "operation": "validated_overwrite",
                    "periodic": {"interval_ms": 1_200_000.0},
                    "runtime": fixed("10min"),
                },
                "ingest": {**APPENDS, "rate": 0.5, "real_conflict_probability": 0.0},
            },
        ),
        "overwrite",
        "success_rate",
        0.0,
        0.0,
        "300 appends arrive while it runs, and each of them is a conflict",
    ),
    KnownAnswer(
        "a catalog of two workers saturates",
        system(
            2,
            path="pyiceberg",
            catalog=service(num_tables=5_000, workers=2),
            storage=FREE_SERVER,
            transaction={"retry": 4},
            workload={"a": {"closed": {"clients": 30}, "operation": "fast_append"}},
        ),
        "a",
        "throughput_per_s",
        2 / 0.1,
        0.3,
        "workers / (load + commit) = 2 / 100 ms",
    ),
    KnownAnswer(
        "a catalog of two workers below saturation",
        system(
            2,
            path="pyiceberg",
            catalog=service(num_tables=5_000, workers=2),
            storage=FREE_SERVER,
            workload={"a": {"rate": 5.0, "operation": "fast_append", "runtime": fixed(0.0)}},
        ),
        "a",
        "success_rate",
        1.0,
        0.002,
        "a quarter of its capacity; at the end of the run one may be in flight",
    ),
    KnownAnswer(
        "two tables behind one pointer",
        system(
            10,
            transaction={"retry": 0},
            catalog={"num_tables": 2, "num_groups": 1},
            workload={
                name: {"periodic": {"interval_ms": 1_000.0}, "operation": "fast_append", "tables": [table]}
                for table, name in enumerate("ab")
            },
        ),
        "b",
        "success_rate",
        0.0,
        0.0,
        "both swap at the same time; ties are ordered by transaction",
    ),
    KnownAnswer(
        "two tables with a pointer each",
        system(
            10,
            transaction={"retry": 0},
            catalog={"num_tables": 2, "num_groups": 2},
            workload={
                name: {"periodic": {"interval_ms": 1_000.0}, "operation": "fast_append", "tables": [table]}
                for table, name in enumerate("ab")
            },
        ),
        "b",
        "success_rate",
        1.0,
        0.0,
        "commits of different pointers never meet",
    ),
    KnownAnswer(
        "disjoint partitions on Iceberg's path",
        system(
            10,
            path="iceberg",
            transaction={"retry": 0, "partitions_per_txn": 1},
            catalog={"num_tables": 1, "partitions": {"num_partitions": 2}},
            workload={name: {**EVERY_SECOND, "partition_range": [part, part + 1]} for part, name in enumerate("ab")},
        ),
        "b",
        "success_rate",
        0.0,
        0.0,
        "the manifest list is that of the whole table",
    ),
    KnownAnswer(
        "clients that crash",
        system(
            25,
            failures={"client_crash": 0.2},
            workload={"a": {**EVERY_SECOND, "periodic": {"interval_ms": 500.0}}},
        ),
        "a",
        "success_rate",
        0.8,
        0.025,
        "one attempt, and a fifth of them crash",
    ),
    KnownAnswer(
        "group commit of aligned appends",
        system(
            10,
            path="pyiceberg",
            catalog=service(num_tables=1, coalesce={"linger_ms": 50.0, "max_batch": 0}),
            workload=aligned(8),
        ),
        "jobs",
        "success_rate",
        1.0,
        0.0,
        "all of them go into one swap",
    ),
    KnownAnswer(
        "one committer for ten writers",
        system(
            30,
            path="iceberg",
            workload={
                "stream": {
                    "rate": 10.0,
                    "operation": "fast_append",
                    "committer": {"interval_ms": 5_000.0, "max_batch": 0},
                }
            },
        ),
        "stream",
        "throughput_per_s",
        0.2,
        0.001,
        "one commit every five seconds",
    ),
    KnownAnswer(
        "an idle system",
        system(
            30,
            path="iceberg",
            catalog={"num_tables": 50, "num_groups": 50},
            storage={"provider": "s3"},
            workload={"a": {"rate": 0.05, "operation": "merge_append", "runtime": {"mean": 20_000.0, "sigma": 1.0}}},
        ),
        "a",
        "success_rate",
        1.0,
        0.0,
        "one transaction every 20 s on fifty tables",
    ),
    KnownAnswer(
        "a job that takes a minute is no overload",
        system(
            20,
            path="iceberg",
            catalog={"num_tables": 50, "num_groups": 50},
            workload={"a": {"rate": 1.0, "operation": "fast_append", "runtime": fixed("1min")}},
        ),
        "a",
        "offered_per_s",
        1.0,
        0.1,
        "entries, not submissions, per second",
    ),
    KnownAnswer(
        "a compaction beside merges",
        compacted("50s"),
        "compaction",
        "success_rate",
        math.exp(-0.5),
        0.05,
        "no merge commits during its 50 s",
    ),
    KnownAnswer(
        "a compaction of half the length",
        compacted("25s"),
        "compaction",
        "success_rate",
        math.exp(-0.25),
        0.05,
        "no merge commits during its 25 s",
    ),
    KnownAnswer(
        "a compaction beside equality deletes",
        compacted("50s", delete_files="equality"),
        "compaction",
        "success_rate",
        1.0,
        0.0,
        "compactions keep the sequence number of their start, so that equality deletes still apply",
    ),
    KnownAnswer(
        "a compaction in ten parts",
        in_parts(10),
        "compaction",
        "success_rate",
        sum(math.exp(-0.05 * part) for part in range(1, 11)) / 10,
        0.05,
        "a merge loses only the parts after it",
    ),
    KnownAnswer(
        "how busy one worker is",
        system(
            60,
            path="iceberg",
            catalog={
                "type": "service",
                "num_tables": 50,
                "workers": 1,
                "load": {"median": 20.0, "sigma": 0.0},
                "commit": {"median": 100.0, "sigma": 0.0},
            },
            workload={"a": {"rate": 1.0, "operation": "fast_append"}},
        ),
        "all",
        "catalog_utilization",
        0.16,
        0.01,
        "three loads and a commit per append, counted on Iceberg's REST server: 3 x 20 ms + 100 ms a second",
    ),
)
