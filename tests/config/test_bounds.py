"""Every number of the schema has bounds that the model can hold, the same in both engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from endive.config import json_schema
from tests.config import problems

ICEBERG = '[transaction]\ncommit_path = "iceberg"\n'


def numbers(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All places of the JSON Schema that take a number."""
    if isinstance(node, dict):
        if node.get("type") in ("integer", "number"):
            yield path, node
        for key, child in node.items():
            yield from numbers(child, f"{path}/{key}")
    elif isinstance(node, list):
        for place, child in enumerate(node):
            yield from numbers(child, f"{path}/{place}")


def test_every_number_of_the_schema_is_bounded_on_both_sides() -> None:
    found = dict(numbers(json_schema()))
    assert len(found) > 80
    assert [path for path, node in found.items() if not {"minimum", "exclusiveMinimum"} & set(node)] == []
    assert [path for path, node in found.items() if not {"maximum", "exclusiveMaximum"} & set(node)] == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("transaction.retry", 10**22),
        ("storage.max_parallel", 10**20),
        ("catalog.num_tables", 10**11),
        ("catalog.num_tables", 10**30),
        ("catalog.num_tables", 1_800_000),
        ("table.manifests", 10**12),
        ("table.snapshots", 2**62),
        ("table.metadata_bytes", 2**62),
        ("table.metadata_bytes_per_snapshot", 2**62),
        ("transaction.manifests_missed", 2**62),
        ("catalog.log_entry_size", 2**62),
        ("transaction.manifest_list_entry_size", 2**62),
        ("transaction.table_selection", {"distribution": "zipf", "alpha": 200}),
        ("workload.a.rate", 1e-13),
        ("workload.a.rate", 1e12),
        ("transaction.manifests_per_concurrent_commit", 1e15),
        ("transaction.retry_backoff.multiplier", 1e300),
    ],
)
def test_a_value_beyond_a_bound_is_an_error_that_shows_the_bound(key: str, value: Any) -> None:
    found = problems(ICEBERG, {key: value})
    (message,) = [text for name, text in found.items() if name.startswith(key)]
    assert "should be" in message


def test_more_memory_than_there_is_is_refused_with_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.config.checks.available_bytes", lambda: 2**30)
    keys = {"catalog.num_tables": 1_000, "catalog.partitions.num_partitions": 100_000, "transaction.partitions_per_txn": 1}
    assert "100,000,000 partitions need about 3.7 GiB" in problems(overrides=keys)["catalog.partitions"]
    assert problems(overrides={**keys, "catalog.num_tables": 10}) == {}


def test_a_path_with_nul_is_an_error_of_the_file() -> None:
    found = problems(overrides={"storage.provider": "a\0b.toml"})
    assert "cannot be read" in " ".join(found.values())
