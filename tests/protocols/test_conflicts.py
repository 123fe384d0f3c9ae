"""Conflicts of protocols: which intervening commits make an operation fail, and where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from endive.protocols.reader import find_protocol
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from tests.simulation.runs import config_of, table_of

PROTOCOL = """
operations = ["fast_append", "delete"]
[commit]
point = "put_if_absent"
[[load]]
operation = "list"
object = "log"
[[after_loss]]
operation = "list"
object = "log"
[retries]
limit = 100
"""
PARTITIONS = 4


def aborts(tmp_path: Path, conflicts: str, engine: Any, **transaction: Any) -> tuple[int, int]:
    """Return the numbers of deletes that abort, and of those that met an append on their way to the log."""
    file = tmp_path / "my.toml"
    file.write_text(PROTOCOL + conflicts)
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 60_000.0, "seed": 3, "drain": True},
        "storage": {"provider": "s3"},
        "catalog": {"partitions": {"num_partitions": PARTITIONS}},
        "transaction": {
            "commit_path": str(file),
            "partitions_per_txn": 1,
            "partition_selection": {"distribution": "uniform"},
            "real_conflict_probability": 0.0,
            "runtime": {"distribution": "fixed", "value": 100.0},
            **transaction,
        },
        "workload": {
            "append": {"operation": "fast_append", "inter_arrival": {"scale": 150.0}},
            "delete": {"operation": "delete", "inter_arrival": {"scale": 400.0}},
        },
    }
    rows = [row for row in table_of(engine, config_of(tree))[0].to_pylist() if row["workload_class"] == "delete"]
    outcomes = Counter(row["abort_reason"] for row in rows)
    assert set(outcomes) <= {None, "", "validation_exception"}
    return outcomes["validation_exception"], sum(row["n_retries"] > 0 or row["status"] == "aborted" for row in rows)


@pytest.mark.parametrize("engine", [ReferenceEngine, CompiledEngine])
class TestOverlap:
    def test_of_the_table_needs_no_common_partition(self, tmp_path: Path, engine: Any) -> None:
        aborted, met = aborts(tmp_path, '[conflicts.table]\ndelete = ["fast_append"]\n', engine)
        assert met > 30
        assert 0.9 * met < aborted <= met  # a few meet other deletes only

    def test_of_partitions_is_certain_within_one(self, tmp_path: Path, engine: Any) -> None:
        conflicts = '[conflicts.partitions]\ndelete = ["fast_append"]\n'
        aborted, met = aborts(tmp_path, conflicts, engine)
        assert 0 < aborted < met * 2 / PARTITIONS

    def test_of_files_depends_on_the_probability(self, tmp_path: Path, engine: Any) -> None:
        conflicts = '[conflicts.files]\ndelete = ["fast_append"]\n'
        never, _ = aborts(tmp_path, conflicts, engine)
        always, met = aborts(tmp_path, conflicts, engine, real_conflict_probability=1.0)
        assert never == 0
        assert 0 < always < met * 2 / PARTITIONS

    def test_operations_that_are_not_listed_do_not_conflict(self, tmp_path: Path, engine: Any) -> None:
        aborted, met = aborts(tmp_path, '[conflicts.table]\nfast_append = ["delete"]\n', engine)
        assert met > 30
        assert aborted == 0


@pytest.mark.parametrize(
    ("name", "operation", "against", "level"),
    [
        ("delta-rs", "fast_append", "fast_append", None),
        ("delta-rs", "fast_append", "delete", "table"),
        ("delta-rs", "rewrite_files", "fast_append", None),
        ("delta-rs", "rewrite_files", "delete", "table"),
        ("delta-rs", "rewrite_files", "rewrite_files", None),
        ("delta-rs", "delete", "rewrite_files", "partitions"),
        ("delta-rs", "delete", "fast_append", "files"),
        ("delta-spark", "fast_append", "delete", None),
        ("delta-spark", "delete", "fast_append", "partitions"),
        ("delta-spark", "rewrite_files", "fast_append", None),
        ("lance", "fast_append", "overwrite", "table"),
        ("lance", "fast_append", "delete", None),
        ("lance", "overwrite", "overwrite", "table"),
        ("lance", "overwrite", "delete", None),
        ("lance", "delete", "fast_append", None),
        ("lance", "rewrite_files", "delete", "files"),
        ("ducklake", "fast_append", "fast_append", None),
        ("ducklake", "fast_append", "delete", "table"),
        ("ducklake", "fast_append", "rewrite_files", None),
        ("ducklake", "delete", "fast_append", "table"),
        ("ducklake", "delete", "delete", "files"),
        ("ducklake", "rewrite_files", "rewrite_files", "table"),
        ("icechunk", "overwrite", "overwrite", "files"),
        ("icechunk", "delete", "fast_append", "table"),
    ],
)
def test_built_in_protocols_conflict_as_their_clients(name: str, operation: str, against: str, level: str | None) -> None:
    """Observed with deltalake 1.6.6, pylance 14.0.2 and DuckLake 1.5.5; the others as in their source."""
    found = find_protocol(name).protocol.conflicts
    assert [each for each in found if against in found[each].get(operation, ())] == ([] if level is None else [level])
