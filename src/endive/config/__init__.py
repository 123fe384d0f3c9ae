"""Configuration: TOML in, validated objects out, and the identity of experiments."""

from endive.config.build import build_simulation_config, load_simulation_config
from endive.config.errors import ConfigError, Problem
from endive.config.identity import compute_experiment_hash
from endive.config.load import load_document
from endive.config.schema import Document, json_schema
from endive.storage import builtin_profiles

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
