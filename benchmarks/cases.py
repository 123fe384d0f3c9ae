"""Workloads of the benchmarks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.simulation import SimulationConfig

Tree = dict[str, Any]

MINUTE_MS = 60_000.0
HOUR_MS = 60.0 * MINUTE_MS
SEED = 20_250_601
PROFILE = "2025-06"
"""Fixed set of latency profiles, so that results of different days are comparable when the default set changes."""
WARM_UP_MS = 10_000.0
"""Duration of the warm-up run: loads the kernel without filling memory."""


@dataclass(frozen=True)
class Case:
    """Workload, and its simulated duration if both engines run it."""

    name: str
    what: str
    inter_arrival_ms: float
    operations: Tree = field(default_factory=lambda: {"fast_append": 1.0})
    catalog: Tree = field(default_factory=lambda: {"num_tables": 1})
    transaction: Tree = field(default_factory=dict)
    provider: str = "s3"
    compared_ms: float = HOUR_MS

    def tree(self, duration_ms: float) -> Tree:
        """Return the case as the content of a configuration file."""
        return {
            "simulation": {"duration_ms": duration_ms, "seed": SEED},
            "storage": {"provider": self.provider, "profile": PROFILE, "max_parallel": 4},
            "catalog": self.catalog,
            "transaction": {
                "runtime": {"distribution": "lognormal", "mean": 180_000.0, "sigma": 1.5},
                "inter_arrival": {"distribution": "exponential", "scale": self.inter_arrival_ms},
                "operation_types": self.operations,
                **(self.transaction if "retry_policy" in self.transaction else {"retry": 10, **self.transaction}),
            },
        }

    def config(self, duration_ms: float) -> SimulationConfig:
        """Return the case as a configuration that is ready to run."""
        return build_simulation_config(check_document(self.tree(duration_ms), f"benchmark {self.name}"))


# If an hour takes more than about a minute on the reference engine, both engines simulate less (``compared_ms``).
APPENDS = Case("appends", "appends, 1 table, every 1000 ms", 1000.0)
BUSY = Case("busy", "appends, 1 table, every 100 ms", 100.0, compared_ms=25.0 * MINUTE_MS)
SATURATED = Case("saturated", "appends, 1 table, every 20 ms (saturated)", 20.0, compared_ms=12.0 * MINUTE_MS)
MIXED = Case(
    "mixed",
    "70/20/10 fast/merge/overwrite, 1 table, every 100 ms",
    100.0,
    operations={"fast_append": 0.7, "merge_append": 0.2, "validated_overwrite": 0.1},
    compared_ms=25.0 * MINUTE_MS,
)
PARTITIONED = Case(
    "partitioned",
    "90/10 fast/overwrite, 50 tables x 100 partitions, 3 by Zipf(1.5), every 100 ms",
    100.0,
    operations={"fast_append": 0.9, "validated_overwrite": 0.1},
    catalog={"num_tables": 50, "partitions": {"num_partitions": 100}},
    transaction={"partitions_per_txn": 3, "partition_selection": {"distribution": "zipf", "alpha": 1.5}},
)
ICEBERG = Case(
    "iceberg",
    "70/20/10 fast/merge/serializable overwrite, 1 table, every 100 ms, path iceberg",
    100.0,
    operations={"fast_append": 0.7, "merge_append": 0.2, "overwrite": 0.1},
    catalog={"num_tables": 1},
    transaction={"commit_path": "iceberg", "retry_policy": "iceberg"},
    compared_ms=9.0 * MINUTE_MS,
)
ICEBERG_PARTITIONED = Case(
    "iceberg-partitioned",
    "90/10 fast/compaction, 50 tables x 100 partitions, 3 by Zipf(1.5), every 100 ms, path iceberg",
    100.0,
    operations={"fast_append": 0.9, "rewrite_files": 0.1},
    catalog=PARTITIONED.catalog,
    transaction={**PARTITIONED.transaction, "commit_path": "iceberg", "retry_policy": "iceberg"},
)
PYICEBERG = dataclasses.replace(
    ICEBERG,
    name="pyiceberg",
    what="70/20/10 fast/merge/serializable overwrite, 1 table, every 100 ms, path pyiceberg",
    transaction={"commit_path": "pyiceberg", "retry_policy": "iceberg"},
    compared_ms=12.0 * MINUTE_MS,
)
# 100 ms exceeds the capacity of a log: waiting transactions append again without a pause, and an hour has 10^9 events.
LOG = Case(
    "log",
    "appends to a catalog log, 1 table, every 250 ms, S3 Express",
    250.0,
    catalog={"type": "append", "num_tables": 1},
    provider="s3x",
)
SERVICE = Case(
    "service",
    "appends at a catalog service with 8 workers, 1 table, every 100 ms",
    100.0,
    catalog={
        "type": "service",
        "num_tables": 1,
        "workers": 8,
        "network": {"distribution": "fixed", "value": 1.0},
        "load": {"mean": 5.0, "sigma": 0.5},
        "commit": {"mean": 30.0, "sigma": 0.5},
    },
    compared_ms=25.0 * MINUTE_MS,
)
REAL_PATHS = (ICEBERG, ICEBERG_PARTITIONED, PYICEBERG)
COMPARED = (APPENDS, BUSY, SATURATED, MIXED, PARTITIONED, LOG, SERVICE, *REAL_PATHS)

ONE_PARTITION = Case(
    "one-partition", "appends, 1 table x 1 partition, every 1000 ms", 1000.0, transaction={"partitions_per_txn": 1}
)
MILLION_PARTITIONS = dataclasses.replace(
    ONE_PARTITION,
    name="million-partitions",
    what="appends, 1,000 tables x 1,000 partitions, every 1000 ms",
    catalog={"num_tables": 1000, "partitions": {"num_partitions": 1000}},
)
LIGHT = Case(
    "light",
    "appends that take 1000 ms, every 100 ms, instant store: little is ever in flight",
    100.0,
    transaction={"runtime": {"distribution": "fixed", "value": 1000.0}},
    provider="instant",
)
CASES = {case.name: case for case in (*COMPARED, ONE_PARTITION, MILLION_PARTITIONS, LIGHT)}
