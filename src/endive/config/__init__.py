"""Read and validate configuration files (TOML), and build simulations from them."""

from typing import TYPE_CHECKING, Any

from endive.config.build import build_simulation_config, load_simulation_config
from endive.config.errors import ConfigError, Problem
from endive.config.load import load_document
from endive.config.schema import Document, json_schema
from endive.storage import builtin_profiles

if TYPE_CHECKING:
    from endive.runs.identity import compute_experiment_hash

PROVIDER_PROFILES = builtin_profiles()
"""Latency profiles of the default built-in profile set, by name."""

__all__ = [
    "PROVIDER_PROFILES",
    "ConfigError",
    "Document",
    "Problem",
    "build_simulation_config",
    "compute_experiment_hash",
    "json_schema",
    "load_document",
    "load_simulation_config",
]


def __getattr__(name: str) -> Any:
    """Import ``compute_experiment_hash`` on first use, because its module imports this package."""
    if name == "compute_experiment_hash":
        from endive.runs.identity import compute_experiment_hash

        return compute_experiment_hash
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
