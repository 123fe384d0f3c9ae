"""Create a small run for tests and first steps."""

from __future__ import annotations

from typing import Any

from endive.config import build_simulation_config
from endive.config.load import check_document, override
from endive.simulation import SimulationConfig
from endive.workload.arrivals import INTER_ARRIVAL

_SMALL: dict[str, Any] = {
    "simulation": {"duration_ms": 10_000.0, "seed": 42},
    "storage": {"provider": "instant"},
    "transaction": {"runtime": {"mean": 100.0, "sigma": 0.5}, INTER_ARRIVAL.key: {"scale": 50.0}},
}


def create_test_config(**overrides: Any) -> SimulationConfig:
    """Create a run of 10 s on the object store ``instant``; ``simulation__seed=7`` sets the key ``simulation.seed``.

    Raises ``ConfigError``, which lists all problems, if the arguments are invalid.

    >>> create_test_config(catalog__num_tables=3).workload.config.num_tables
    3
    """
    tree = _SMALL
    for name, value in overrides.items():
        tree = override(tree, name.replace("__", "."), value)
    return build_simulation_config(check_document(tree, "create_test_config"))
