"""Rows are what they were: what changes them on purpose is listed in ``golden.jsonl``, with the reason."""

from __future__ import annotations

from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from tests.simulation.golden import entry_of, load
from tests.simulation.runs import Engine

_REFERENCE_EVERY = 8


def _changed(engine: Engine, every: int) -> list[int]:
    columns, entries = load()
    return [
        place
        for place, entry in enumerate(entries)
        if place % every == 0 and entry_of(entry["document"], columns, engine)["sha256"] != entry["sha256"]
    ]


def test_the_compiled_engine_has_the_rows_that_it_had() -> None:
    assert _changed(CompiledEngine, 1) == []


def test_the_reference_engine_has_the_rows_that_it_had() -> None:
    assert _changed(ReferenceEngine, _REFERENCE_EVERY) == []


def test_all_commit_paths_catalogs_and_arrivals_are_among_them() -> None:
    _, entries = load()
    documents = [entry["document"] for entry in entries]
    assert len(documents) == 200
    assert all(document["storage"].get("profile") or "provider" not in document["storage"] for document in documents)
    classes = [cls for document in documents for cls in document.get("workload", {}).values()]
    paths = {document["transaction"]["commit_path"] for document in documents}
    assert paths == {"endive", "iceberg", "pyiceberg"}
    assert {document["catalog"]["type"] for document in documents} == {"cas", "append", "instant"}
    assert {key for cls in classes for key in cls} >= {"rate", "inter_arrival", "periodic", "closed"}
    assert sum(entry["rows"] for entry in entries) > 5_000
