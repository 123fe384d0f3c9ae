"""The path of PyIceberg described as data gives the rows of the built-in path for appends."""

from __future__ import annotations

from typing import Any

import pytest

from endive.simulation.reference import ReferenceEngine
from tests.simulation.runs import config_of, table_of

OTHER_TIMES = {"catalog_read_ms", "per_attempt_io_ms", "conflict_io_ms"}
"""Components of time: the protocol counts reads after a loss as conflict I/O, the built-in path as I/O of the attempt."""
NOT_COMPARED = {"catalog_requests", "table_metadata_bytes", "table_manifests", "table_snapshots", *OTHER_TIMES}


@pytest.mark.parametrize("provider", ["s3", "azure"])
@pytest.mark.parametrize("interval_ms", [2_000.0, 400.0])
def test_appends_have_the_rows_of_the_built_in_path(provider: str, interval_ms: float) -> None:
    rows = []
    retries: dict[str, Any] = {"retry": 4, "total_timeout_ms": 1_800_000.0}
    backoff = {"enabled": True, "base_ms": 100.0, "multiplier": 2.0, "max_ms": 60_000.0, "jitter": 0.1}
    for path in ("pyiceberg", "pyiceberg-data"):
        tree: dict[str, Any] = {
            "simulation": {"duration_ms": 60_000.0, "seed": 11},
            "storage": {"provider": provider},
            "transaction": {
                "commit_path": path,
                "runtime": {"distribution": "fixed", "value": 200.0},
                "inter_arrival": {"scale": interval_ms},
                "operation_types": {"fast_append": 1.0},
                "retry_backoff": backoff,
                **retries,
            },
        }
        if path == "pyiceberg":
            tree["table"] = {"start": "empty"}
        rows.append(table_of(ReferenceEngine, config_of(tree))[0])
    built_in, described = rows
    assert sum(built_in.column("n_retries").to_pylist()) > 0
    for name in set(built_in.column_names) - NOT_COMPARED:
        ours, theirs = built_in.column(name).to_pylist(), described.column(name).to_pylist()
        if isinstance(ours[0], float):
            assert theirs == pytest.approx(ours, rel=1e-9), name
        else:
            assert theirs == ours, name
    for row in range(built_in.num_rows):
        ours, theirs = (sum(table.column(name)[row].as_py() for name in OTHER_TIMES) for table in rows)
        assert theirs == pytest.approx(ours, rel=1e-9)
