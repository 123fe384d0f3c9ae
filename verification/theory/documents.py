"""Configurations with results that are known from theory."""

from __future__ import annotations

from typing import Any

from endive.config import Document, build_simulation_config
from endive.simulation import Simulation, SimulationConfig

CATALOG_READ_MS, LIST_READ_MS, LIST_WRITE_MS, FILE_WRITE_MS, CAS_MS = 2.0, 5.0, 7.0, 11.0, 4.0
ATTEMPT_MS = LIST_READ_MS + FILE_WRITE_MS + LIST_WRITE_MS + CAS_MS
"""Duration of an attempt with fixed latencies: manifest list read, manifest and manifest list written, pointer swapped."""


def fixed_store() -> dict[str, Any]:
    """Return an object store with constant latencies."""
    return {
        "T_CAS": {"mean": CAS_MS},
        "T_METADATA_ROOT": {"read": {"mean": CATALOG_READ_MS}, "write": {"mean": 1.0}},
        "T_MANIFEST_LIST": {"read": {"mean": LIST_READ_MS}, "write": {"mean": LIST_WRITE_MS}},
        "T_MANIFEST_FILE": {"read": {"mean": 9.0}, "write": {"mean": FILE_WRITE_MS}},
    }


def built(tree: dict[str, Any], seed: int = 1) -> SimulationConfig:
    """Return a run from a tree of keys."""
    return build_simulation_config(Document.model_validate(tree), seed_override=seed)


def rows_of(tree: dict[str, Any], seed: int = 1) -> Any:
    """Return the rows of a run as a pandas DataFrame."""
    return Simulation(built(tree, seed)).run().to_dataframe()
