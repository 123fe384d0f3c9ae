"""Configuration: TOML in, validated objects out, and the identity of experiments."""

from typing import TYPE_CHECKING, Any

from endive.config.build import build_simulation_config, load_simulation_config
from endive.config.errors import ConfigError, Problem
from endive.config.load import load_document
from endive.config.schema import Document, json_schema
from endive.storage import builtin_profiles

if TYPE_CHECKING:
    from endive.runs.identity import compute_experiment_hash

PROVIDER_PROFILES = builtin_profiles()
"""The built-in providers of the default set, by name."""

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
    """Offer ``compute_experiment_hash`` here, where scripts look for it; it lives with the runs, which build on this package."""
    if name == "compute_experiment_hash":
        from endive.runs.identity import compute_experiment_hash

        return compute_experiment_hash
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
