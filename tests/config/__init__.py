"""Configurations for tests, and functions to check and build them."""

from __future__ import annotations

import copy
import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from endive.config import ConfigError, Document, build_simulation_config
from endive.config.load import check_document
from endive.randomness import Stream
from endive.simulation import SimulationConfig

Tree = dict[str, Any]

BASE = """
[simulation]
duration_ms = 2_000
seed = 7
engine = "reference"

[storage]
provider = "s3x"

[transaction]
runtime.mean = 100
runtime.sigma = 0.5
inter_arrival.scale = 50.0
"""
"""Small run with the default keys of fragments."""


def tree(text: str = "") -> Tree:
    """Return the base merged with the keys of ``text``; tables in ``text`` extend the tables of the base."""
    return merged(tomllib.loads(BASE), tomllib.loads(text))


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    result = copy.deepcopy(dict(below))
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def leaves(node: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Yield all dotted keys and their values."""
    found: dict[str, Any] = {}
    for key, value in node.items():
        if isinstance(value, dict):
            found |= leaves(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def without(node: Tree, keys: Iterable[str]) -> Tree:
    """Return the tree without these dotted keys."""
    node = copy.deepcopy(node)
    for key in keys:
        *path, last = key.split(".")
        table = node
        for part in path:
            table = table[part]
        del table[last]
    return node


def with_classes(node: Tree, overrides: Mapping[str, Any] | None) -> Tree:
    """Return the tree with the classes that the overrides refer to, because only a file can define classes."""
    for _, name, *_ in (key.split(".") for key in overrides or () if key.startswith("workload.")):
        node.setdefault("workload", {}).setdefault(name, {})
    return node


def checked(text: str = "", overrides: Mapping[str, Any] | None = None, directory: Path = Path()) -> Document:
    """Return the base with ``text`` and ``overrides``, checked."""
    return check_document(with_classes(tree(text), overrides), "test.toml", directory, overrides)


def built(text: str = "", overrides: Mapping[str, Any] | None = None) -> SimulationConfig:
    """Return the base with ``text`` and ``overrides``, ready to run."""
    return build_simulation_config(checked(text, overrides))


def problems(text: str = "", overrides: Mapping[str, Any] | None = None, *, over: str = BASE) -> dict[str, str]:
    """Return the problems of a document by key."""
    try:
        check_document(with_classes(merged(tomllib.loads(over), tomllib.loads(text)), overrides), "test.toml", Path(), overrides)
    except ConfigError as error:
        return {problem.key: str(problem) for problem in error.problems}
    return {}


def plain(value: Any) -> Any:
    """Return an object of the model as plain data, for comparison."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Stream):
        return "Stream"
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        named = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    else:
        named = {name: item for name, item in vars(value).items() if name not in ("_prepared", "_state")}
    return {"": type(value).__name__, **{name: plain(item) for name, item in named.items()}}
