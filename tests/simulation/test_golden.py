"""Rows are what they were: what changes them on purpose is listed in the golden files, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.version import MODEL_VERSION
from tests.simulation.golden import FILES, MORE, STORES, TABLES, Golden


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_compiled_engine_has_the_rows_that_it_had(path: Path) -> None:
    golden = Golden.load(path)
    assert golden.changed(golden.compiled) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_golden_rows_are_of_this_model_version(path: Path) -> None:
    """Run ``python -m tests.simulation.golden --why REASON`` after raising MODEL_VERSION."""
    assert Golden.load(path).model_version == MODEL_VERSION


_PARTS = [*((STORES, part, 10) for part in range(3)), *((MORE, part, 8) for part in range(8)), (TABLES, 0, 1)]


@pytest.mark.parametrize(("path", "part", "parts"), _PARTS, ids=[f"{path.stem}-{part}" for path, part, _ in _PARTS])
def test_the_reference_engine_has_the_rows_and_the_trace_that_it_had(path: Path, part: int, parts: int) -> None:
    golden = Golden.load(path)
    assert golden.changed(golden.reference, part, parts) == []


def test_all_commit_paths_catalogs_and_arrivals_are_among_them() -> None:
    entries = Golden.load(STORES).entries
    documents = [entry["document"] for entry in entries]
    assert len(documents) == 200
    assert all(document["storage"].get("profile") or "provider" not in document["storage"] for document in documents)
    classes = [cls for document in documents for cls in document.get("workload", {}).values()]
    paths = {document["transaction"]["commit_path"] for document in documents}
    assert paths == {"endive", "iceberg", "pyiceberg"}
    assert {document["catalog"]["type"] for document in documents} == {"cas", "append", "instant"}
    assert {key for cls in classes for key in cls} >= {"rate", "inter_arrival", "periodic", "closed"}
    assert sum(entry["rows"] for entry in entries) > 5_000


def test_services_of_all_kinds_failures_and_committers_are_among_them() -> None:
    documents = [entry["document"] for entry in Golden.load(MORE).entries]
    assert all(document["storage"].get("profile") or "provider" not in document["storage"] for document in documents)
    services = [document["catalog"] for document in documents if document["catalog"]["type"] == "service"]
    assert {key for catalog in services for key in catalog} >= {"queue_limit", "lock", "server_retries", "coalesce"}
    failures = [document["failures"] for document in documents if "failures" in document]
    assert {each["on_unknown"] for each in failures} == {"check", "retry", "idempotency_key"}
    assert any("committer" in cls for document in documents for cls in document.get("workload", {}).values())
    assert any(document["transaction"].get("manifest_list_mode") == "append" for document in documents)


def test_tables_in_a_steady_state_protocols_and_time_limits_are_among_them() -> None:
    documents = [entry["document"] for entry in Golden.load(TABLES).entries]
    classes = [document["transaction"] | cls for document in documents for cls in document["workload"].values()]
    assert sum(document["table"].get("start") == "steady" for document in documents if "table" in document) >= 5
    assert {cls["commit_path"] for cls in classes} >= {"iceberg", "pyiceberg", "lance", "delta-rs", "ducklake", "delta-catalog"}
    assert {key for cls in classes for key in cls} >= {"commits_per_job", "max_snapshot_age_ms", "operation_timeout_ms"}
    assert any(cls.get("committer", {}).get("round") == "all_writers" for cls in classes)
