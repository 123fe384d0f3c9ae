"""Read latency profiles of object stores, built-in or custom, from TOML files.

A file has ``name``, ``min_latency_ms`` and a table for each kind of request: ``read``, ``write``, ``cas`` and, if the object store
supports them, ``failed_cas``, ``append``, ``failed_append``, ``compaction`` and ``log_entry_read``. ``object_writes_per_s`` is the
maximum rate of writes to one object; without this key, the rate is not limited.

The keys of a table determine its distribution:

* lognormal: ``median_ms`` and ``sigma``
* lognormal with a median that depends on the object size: ``base_ms``, ``per_mib_ms`` and ``sigma``
* normal: ``mean_ms`` and ``stddev_ms``
* constant: ``fixed_ms``
* shifted lognormal: ``shift_ms``, ``median_ms`` (which includes the shift) and ``sigma``
* gamma: ``mean_ms`` and ``shape``
* mixture of two lognormals: ``median_ms``, ``sigma``, ``second_median_ms``, ``second_sigma`` and ``second_share``
* empirical: ``probabilities`` and ``quantiles_ms``

The last four kinds also accept ``per_mib_ms``. A table such as ``read.manifest_list`` overrides the distribution for one kind of
object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from endive.arithmetic.draws import quantile
from endive.input_files import UnreadableError, in_short, parse_toml, read_toml
from endive.randomness import RandomSource
from endive.storage.distributions import (
    EmpiricalLatency,
    FixedLatency,
    GammaLatency,
    LognormalLatency,
    MixtureLatency,
    NormalLatency,
    Parameters,
    QuantileDistribution,
    ShiftedLognormalLatency,
    SizeBasedLatency,
)
from endive.storage.provider import MANIFEST_FILE, OBJECT_KINDS, ProfiledProvider, StorageProfile

PROFILE_SETS = ("2025-06", "2025-12", "2026-01")
DEFAULT_PROFILE_SET = "2026-01"
_CONDITIONALS = ("cas", "failed_cas", "append", "failed_append", "compaction", "log_entry_read")
_MAX_SIGMA = 10.0  # latencies overflow above a spread of e^10
_TOP_LEVEL = {"name", "description", "source", "min_latency_ms", "tail_append", "object_writes_per_s", "read", "write"}
_TOP_LEVEL |= set(_CONDITIONALS)


class ProfileError(ValueError):
    """Raised if a latency profile is invalid. The message names the file and the key."""


@cache
def builtin_profiles(profile_set: str = DEFAULT_PROFILE_SET) -> Mapping[str, StorageProfile]:
    """Return the latency profiles of a built-in profile set, by name.

    For providers that a later set does not describe, it contains the profiles of the first set.
    """
    if profile_set not in PROFILE_SETS:
        raise ProfileError(f"unknown profile version {profile_set!r}; allowed: {', '.join(PROFILE_SETS)}")
    profiles: dict[str, StorageProfile] = {}
    for directory in dict.fromkeys((PROFILE_SETS[0], profile_set)):
        folder = resources.files("endive.storage").joinpath("profile_data", directory)
        for entry in sorted(folder.iterdir(), key=lambda item: item.name):
            profile = parse_profile(parse_toml(entry.read_text()), f"{directory}/{entry.name}")
            profiles[profile.name] = profile
    return profiles


def load_profile(path: Path) -> StorageProfile:
    """Load a latency profile from a file."""
    try:
        document = read_toml(path)
    except UnreadableError as error:
        raise ProfileError(f"{path}: the latency profile cannot be read: {error}") from error
    return parse_profile({"name": path.stem, **document}, str(path))


def create_provider(name: str, rng: RandomSource, profiles: Mapping[str, StorageProfile] | None = None) -> ProfiledProvider:
    """Return the storage provider with this name. ``profiles`` are the known profiles; by default, the built-in ones."""
    known = builtin_profiles() if profiles is None else profiles
    if name not in known:
        raise ProfileError(f"unknown provider {name!r}; allowed: {', '.join(known)}")
    return ProfiledProvider(known[name], rng)


def parse_profile(document: Mapping[str, Any], where: str) -> StorageProfile:
    """Return the latency profile that a file describes."""
    unknown = sorted(set(document) - _TOP_LEVEL)
    if unknown:
        raise ProfileError(f"{where}: {unknown[0]}: unknown key; allowed: {', '.join(sorted(_TOP_LEVEL))}")
    floor = _number(document, "min_latency_ms", where, default=0.0)
    for access in ("read", "write"):
        if access not in document:
            raise ProfileError(f"{where}: `{access}` is missing; a profile needs read and write latencies")
    conditionals = {
        key: parse_distribution(document[key], 0.0 if key == "log_entry_read" else floor, f"{where}: {key}")
        for key in _CONDITIONALS
        if key in document
    }
    if "cas" not in conditionals and "append" not in conditionals:
        raise ProfileError(f"{where}: `cas` is missing; a profile needs cas, append, or both")
    tail_append = document.get("tail_append", False)
    if not isinstance(tail_append, bool) or (tail_append and "append" not in conditionals):
        raise ProfileError(
            f"{where}: tail_append is {in_short(repr(tail_append))}, but must be false, or true with an append latency"
        )
    limit = _number(document, "object_writes_per_s", where) if "object_writes_per_s" in document else None
    if limit is not None and limit < _FEWEST_PER_S:
        raise ProfileError(
            f"{where}: object_writes_per_s is {limit:g}, but must be at least {_FEWEST_PER_S:g}; remove it for no limit"
        )
    if not isinstance(document["name"], str):
        raise ProfileError(f"{where}: name is {in_short(repr(document['name']))}, but must be a string")
    return StorageProfile(
        name=document["name"],
        min_latency_ms=floor,
        reads=_by_kind(document["read"], floor, f"{where}: read"),
        writes=_by_kind(document["write"], floor, f"{where}: write"),
        tail_append=tail_append,
        object_writes_per_s=limit,
        description=str(document.get("description", "")),
        source=str(document.get("source", "")),
        **{"cas": None, **conditionals},
    )


def _by_kind(table: Any, floor: float, where: str) -> dict[str, QuantileDistribution]:
    if not isinstance(table, dict):
        raise ProfileError(f"{where} is {in_short(repr(table))}, but must be a table")
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
    frozenset({"shift_ms", "median_ms", "sigma"}): "shifted",
    frozenset({"mean_ms", "shape"}): "gamma",
    frozenset({"median_ms", "sigma", "second_median_ms", "second_sigma", "second_share"}): "mixture",
    frozenset({"probabilities", "quantiles_ms"}): "empirical",
}
_BY_SIZE = ("shifted", "gamma", "mixture", "empirical")
"""Kinds of distributions that accept the key ``per_mib_ms``."""
_MIN_GAMMA, _MAX_GAMMA = 0.05, 1e5
_MOST, _FEWEST_PER_S = 1e15, 1e-9
"""Largest number that a profile can contain, and smallest write rate.

With these limits, sums of latencies remain finite.
"""


def parse_distribution(table: Any, floor: float, where: str) -> QuantileDistribution:
    """Return the distribution that a table describes. The keys of the table determine the kind of distribution."""
    shape = _shape_of(table)
    if shape is None:
        allowed = "; or ".join(", ".join(sorted(keys)) for keys in _SHAPES)
        raise ProfileError(f"{where} is {in_short(repr(table))}, but must have the keys {allowed}")
    if shape == "empirical":
        return _make_empirical(table, floor, where)
    value = {key: _number(table, key, where) for key in table}
    for key in ("sigma", "second_sigma"):
        if value.get(key, 0.0) > _MAX_SIGMA:
            raise ProfileError(f"{where}: {key} is {value[key]!r}, but must be at most {_MAX_SIGMA:g}")
    if shape == "lognormal":
        return LognormalLatency.from_median(_positive(value, "median_ms", where), value["sigma"], floor)
    if shape == "size":
        return SizeBasedLatency(_positive(value, "base_ms", where), value["per_mib_ms"], value["sigma"], floor)
    if shape == "normal":
        return NormalLatency(value["mean_ms"], value["stddev_ms"], floor)
    if shape == "fixed":
        return FixedLatency(max(value["fixed_ms"], floor))
    return _make_tabled(shape, value, floor, where)


def _shape_of(table: Any) -> str | None:
    if not isinstance(table, dict):
        return None
    shape = _SHAPES.get(frozenset(table))
    if shape is None and "per_mib_ms" in table:
        shape = _SHAPES.get(frozenset(table) - {"per_mib_ms"})
        return shape if shape in _BY_SIZE else None
    return shape


def _make_tabled(shape: str, value: dict[str, float], floor: float, where: str) -> QuantileDistribution:
    """Return a shifted lognormal, gamma or mixture distribution."""
    common: dict[str, Any] = {"latency_per_mib_ms": value.get("per_mib_ms", 0.0), "min_latency_ms": floor}
    if shape == "gamma":
        if not _MIN_GAMMA <= value["shape"] <= _MAX_GAMMA:
            raise ProfileError(f"{where}: shape is {value['shape']!r}, but must be from {_MIN_GAMMA:g} to {_MAX_GAMMA:g}")
        return GammaLatency(_positive(value, "mean_ms", where), value["shape"], **common)
    median_ms = _positive(value, "median_ms", where)
    if shape == "shifted":
        if value["shift_ms"] >= median_ms:
            raise ProfileError(f"{where}: shift_ms is {value['shift_ms']!r}, but must be below median_ms, {median_ms!r}")
        return ShiftedLognormalLatency(value["shift_ms"], median_ms - value["shift_ms"], value["sigma"], **common)
    if value["second_share"] > 1.0:
        raise ProfileError(f"{where}: second_share is {value['second_share']!r}, but must be from 0 to 1")
    second_ms = _positive(value, "second_median_ms", where)
    return MixtureLatency(median_ms, value["sigma"], second_ms, value["second_sigma"], value["second_share"], **common)


def _make_empirical(table: Mapping[str, Any], floor: float, where: str) -> QuantileDistribution:
    """Return a distribution with measured quantiles, which must increase."""
    probabilities, quantiles = table["probabilities"], table["quantiles_ms"]
    for key, values in (("probabilities", probabilities), ("quantiles_ms", quantiles)):
        if not isinstance(values, list) or len(values) < 2:
            raise ProfileError(f"{where}: {key} is {in_short(repr(values))}, but must be a list of at least two numbers")
        numbers = [_number({key: value}, key, where) for value in values]
        if any(b < a for a, b in pairwise(numbers)) or numbers[0] <= 0.0:
            raise ProfileError(f"{where}: {key} must be greater than 0 and must not decrease")
    if len(probabilities) != len(quantiles):
        raise ProfileError(
            f"{where}: {len(probabilities)} probabilities, but {len(quantiles)} quantiles_ms; set one for each probability"
        )
    if probabilities[-1] >= 1.0 or any(b <= a for a, b in pairwise(probabilities)):
        raise ProfileError(f"{where}: probabilities must increase and be below 1")
    per_mib_ms = _number(table, "per_mib_ms", where, default=0.0)
    return EmpiricalLatency(
        tuple(map(float, probabilities)), tuple(map(float, quantiles)), latency_per_mib_ms=per_mib_ms, min_latency_ms=floor
    )


def _number(table: Mapping[str, Any], key: str, where: str, default: float | None = None) -> float:
    value = table.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise ProfileError(f"{where}: {key} is {in_short(repr(value))}, but must be a number from 0 to {_MOST:g}")
    return float(value)


def _positive(value: Mapping[str, float], key: str, where: str) -> float:
    if value[key] <= 0.0:
        raise ProfileError(f"{where}: {key} is {value[key]!r}, but must be greater than 0")
    return value[key]


TYPICAL_BYTES = 8_192
"""Object size in bytes for which size-dependent latencies are reported."""
_STEPS = 2_000


@dataclass(frozen=True)
class Drawn:
    """Median and 99th percentile of a latency distribution, in ms."""

    median_ms: float
    p99_ms: float


def drawn_latencies(profile: StorageProfile) -> dict[str, Drawn | None]:
    """Return the median and p99 latency of each kind of request, for an object of ``TYPICAL_BYTES``.

    The value is None for a request that the object store does not support.
    """
    conditional = {
        "cas": profile.cas,
        "failed_cas": profile.failed_cas or profile.cas,
        "append": profile.append,
        "failed_append": profile.failed_append or profile.append,
    }
    return {
        "read": _make_drawn(profile.read_parameters(MANIFEST_FILE, TYPICAL_BYTES)),
        "write": _make_drawn(profile.write_parameters(MANIFEST_FILE, TYPICAL_BYTES)),
        **{name: None if latency is None else _make_drawn(latency.parameters) for name, latency in conditional.items()},
    }


def cas_rate_per_s(profile: StorageProfile) -> float | None:
    """Return the maximum rate of sequential compare-and-swaps of one object, per second.

    The object store's limit on writes to one object can reduce this rate.
    """
    if profile.cas is None:
        return None
    rate = 1000.0 / profile.cas.mean_of_quantiles_ms(_STEPS)
    return rate if profile.object_writes_per_s is None else min(rate, profile.object_writes_per_s)


def _make_drawn(parameters: Parameters) -> Drawn:
    return Drawn(quantile(*parameters, 0.5), quantile(*parameters, 0.99))
