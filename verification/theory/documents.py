"""Configurations whose answer theory knows."""

from __future__ import annotations

from typing import Any

from endive.config import Document, build_simulation_config
from endive.simulation import Simulation, SimulationConfig

CATALOG_READ_MS, LIST_READ_MS, LIST_WRITE_MS, FILE_WRITE_MS, CAS_MS = 2.0, 5.0, 7.0, 11.0, 4.0
ATTEMPT_MS = LIST_READ_MS + FILE_WRITE_MS + LIST_WRITE_MS + CAS_MS
"""An attempt with fixed latencies: manifest list read, manifest and list written, the pointer swapped."""


def fixed_store() -> dict[str, Any]:
    """A store whose latencies are always the same."""
    return {
        "T_CAS": {"mean": CAS_MS},
        "T_METADATA_ROOT": {"read": {"mean": CATALOG_READ_MS}, "write": {"mean": 1.0}},
        "T_MANIFEST_LIST": {"read": {"mean": LIST_READ_MS}, "write": {"mean": LIST_WRITE_MS}},
        "T_MANIFEST_FILE": {"read": {"mean": 9.0}, "write": {"mean": FILE_WRITE_MS}},
    }


def built(tree: dict[str, Any], seed: int = 1) -> SimulationConfig:
    """A run from a tree of keys."""
    return build_simulation_config(Document.model_validate(tree), seed_override=seed)


def rows_of(tree: dict[str, Any], seed: int = 1) -> Any:
    """The rows of a run, as a pandas frame."""
    return Simulation(built(tree, seed)).run().to_dataframe()
