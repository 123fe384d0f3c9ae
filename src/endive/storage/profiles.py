"""Profiles of providers: TOML data files, built-in ones by set and name, or a user's own.

A file gives ``name``, ``min_latency_ms`` and a table for each of ``read``, ``write``, ``cas`` and, where the store has them,
``failed_cas``, ``append``, ``failed_append``, ``compaction``, ``log_entry_read``. ``object_writes_per_s`` is the rate at which the
store takes writes of one object; left out, there is no limit. Each table holds a distribution:
``median_ms`` and ``sigma`` (lognormal), ``base_ms``, ``per_mib_ms`` and ``sigma`` (by size), ``mean_ms`` and ``stddev_ms``
(normal), or ``fixed_ms``. ``read.manifest_list`` and the like override a kind of object.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from endive.randomness import RandomSource
from endive.storage.distributions import (
    FixedLatency,
    LognormalLatency,
    NormalLatency,
    QuantileDistribution,
    SizeBasedLatency,
)
from endive.storage.provider import OBJECT_KINDS, ProfiledProvider, StorageProfile

PROFILE_SETS = ("2025-06", "2025-12", "2026-01")
DEFAULT_PROFILE_SET = "2026-01"
_FIRST_SET = PROFILE_SETS[0]
_CONDITIONALS = ("cas", "failed_cas", "append", "failed_append", "compaction", "log_entry_read")
_MAX_SIGMA = 10.0  # a spread of e^10 either way: beyond, latencies overflow
_TOP_LEVEL = {"name", "description", "source", "min_latency_ms", "tail_append", "object_writes_per_s", "read", "write"}
_TOP_LEVEL |= set(_CONDITIONALS)


class ProfileError(ValueError):
    """A profile file that does not say what it should; the message names the file and the key."""


@cache
def builtin_profiles(profile_set: str = DEFAULT_PROFILE_SET) -> Mapping[str, StorageProfile]:
    """The profiles of a set by name. Providers that a later set leaves out are those of the first set."""
    if profile_set not in PROFILE_SETS:
        raise ProfileError(f"there is no profile set {profile_set!r}; there are {', '.join(PROFILE_SETS)}")
    profiles: dict[str, StorageProfile] = {}
    for directory in dict.fromkeys((_FIRST_SET, profile_set)):
        folder = resources.files("endive.storage").joinpath("profile_data", directory)
        for entry in sorted(folder.iterdir(), key=lambda item: item.name):
            profile = parse_profile(tomllib.loads(entry.read_text()), f"{directory}/{entry.name}")
            profiles[profile.name] = profile
    return profiles


def load_profile(path: Path) -> StorageProfile:
    """A profile from a file of the user's own."""
    try:
        document = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProfileError(f"{path}: cannot be read as a provider profile: {error}") from error
    return parse_profile({"name": path.stem, **document}, str(path))


def create_provider(name: str, rng: RandomSource, profiles: Mapping[str, StorageProfile] | None = None) -> ProfiledProvider:
    """The provider with this name among ``profiles`` (by default the built-in ones)."""
    known = builtin_profiles() if profiles is None else profiles
    if name not in known:
        raise ProfileError(f"there is no provider {name!r}; there are {', '.join(known)}")
    return ProfiledProvider(known[name], rng)


def parse_profile(document: Mapping[str, Any], where: str) -> StorageProfile:
    """A profile from the content of its file."""
    unknown = sorted(set(document) - _TOP_LEVEL)
    if unknown:
        raise ProfileError(f"{where}: {unknown[0]}: no such key; allowed are {', '.join(sorted(_TOP_LEVEL))}")
    floor = _number(document, "min_latency_ms", where, default=0.0)
    for access in ("read", "write"):
        if access not in document:
            raise ProfileError(f"{where}: {access}: missing; a profile says how long reads and writes take")
    conditionals = {
        key: parse_distribution(document[key], 0.0 if key == "log_entry_read" else floor, f"{where}: {key}")
        for key in _CONDITIONALS
        if key in document
    }
    if "cas" not in conditionals and "append" not in conditionals:
        raise ProfileError(f"{where}: cas: missing; a profile has cas, append, or both")
    tail_append = document.get("tail_append", False)
    if not isinstance(tail_append, bool) or (tail_append and "append" not in conditionals):
        raise ProfileError(f"{where}: tail_append is {tail_append!r}, but must be false, or true with an append latency")
    limit = _number(document, "object_writes_per_s", where) if "object_writes_per_s" in document else None
    if limit == 0.0:
        raise ProfileError(f"{where}: object_writes_per_s is 0, but must be greater than 0; leave it out where there is no limit")
    if not isinstance(document["name"], str):
        raise ProfileError(f"{where}: name is {document['name']!r}, but must be a string")
    return StorageProfile(
        name=document["name"],
        min_latency_ms=floor,
        reads=_by_kind(document["read"], floor, f"{where}: read"),
        writes=_by_kind(document["write"], floor, f"{where}: write"),
        cas=conditionals.get("cas"),
        failed_cas=conditionals.get("failed_cas"),
        append=conditionals.get("append"),
        failed_append=conditionals.get("failed_append"),
        compaction=conditionals.get("compaction"),
        log_entry_read=conditionals.get("log_entry_read"),
        tail_append=tail_append,
        object_writes_per_s=limit,
        description=str(document.get("description", "")),
        source=str(document.get("source", "")),
    )


def _by_kind(table: Any, floor: float, where: str) -> dict[str, QuantileDistribution]:
    if not isinstance(table, dict):
        raise ProfileError(f"{where}: is {table!r}, but must be a table")
    own = {key: value for key, value in table.items() if key not in OBJECT_KINDS}
    by_kind = {"*": parse_distribution(own, floor, where)}
    for kind in OBJECT_KINDS:
        if kind in table:
            by_kind[kind] = parse_distribution(table[kind], floor, f"{where}.{kind}")
    return by_kind


_SHAPES: dict[frozenset[str], str] = {
    frozenset({"median_ms", "sigma"}): "lognormal",
    frozenset({"base_ms", "per_mib_ms", "sigma"}): "size",
    frozenset({"mean_ms", "stddev_ms"}): "normal",
    frozenset({"fixed_ms"}): "fixed",
}


def parse_distribution(table: Any, floor: float, where: str) -> QuantileDistribution:
    """A distribution from its table; which one it is follows from the keys."""
    shape = _SHAPES.get(frozenset(table)) if isinstance(table, dict) else None
    if shape is None:
        allowed = "; or ".join(", ".join(sorted(keys)) for keys in _SHAPES)
        raise ProfileError(f"{where}: is {table!r}, but must have the keys {allowed}")
    value = {key: _number(table, key, where) for key in table}
    if value.get("sigma", 0.0) > _MAX_SIGMA:
        raise ProfileError(f"{where}: sigma is {value['sigma']!r}, but must be at most {_MAX_SIGMA:g}")
    if shape == "lognormal":
        return LognormalLatency.from_median(_positive(value, "median_ms", where), value["sigma"], floor)
    if shape == "size":
        _positive(value, "base_ms", where)
        return SizeBasedLatency(value["base_ms"], value["per_mib_ms"], value["sigma"], floor)
    if shape == "normal":
        return NormalLatency(value["mean_ms"], value["stddev_ms"], floor)
    return FixedLatency(max(value["fixed_ms"], floor))


def _number(table: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ProfileError(f"{where}: {key} is {value!r}, but must be a finite number of at least 0")
    return float(value)


def _positive(value: Mapping[str, float], key: str, where: str) -> float:
    if value[key] <= 0.0:
        raise ProfileError(f"{where}: {key} is {value[key]!r}, but must be greater than 0")
    return value[key]
