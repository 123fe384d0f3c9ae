"""Write a latency profile, with comments on the source and the uncertainty of each number."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tomli_w

from endive import storage
from endive.calibrate import InputError
from endive.calibrate.fit import Fit, quantile_interval
from endive.calibrate.measurements import BASIC_OPERATIONS
from endive.formatting import format_count, format_duration
from endive.storage import QuantileDistribution, StorageProfile
from endive.storage.profiles import parse_profile

_STAND_INS = {"read": ("write", "cas", "append"), "write": ("read", "cas", "append"), "cas": ("write", "read")}
"""Operations that a profile needs, each with its substitutes if it was not measured."""
_ATTRIBUTES: dict[type[QuantileDistribution], dict[str, str]] = {
    storage.SizeBasedLatency: {"base_ms": "base_latency_ms", "per_mib_ms": "latency_per_mib_ms", "sigma": "sigma"},
    storage.NormalLatency: {"mean_ms": "mean_ms", "stddev_ms": "stddev_ms"},
    storage.FixedLatency: {"fixed_ms": "latency_ms"},
    storage.GammaLatency: {"mean_ms": "mean_ms", "shape": "shape"},
    storage.MixtureLatency: {"median_ms": "first_median_ms", "sigma": "first_sigma"}
    | {name: name for name in ("second_median_ms", "second_sigma", "second_share")},
}
"""Attributes that correspond to the keys of a distribution in a latency profile, by type of distribution."""


def describe(fit: Fit) -> dict[str, Any]:
    """Return a fit for JSON: number of values, percentiles, confidence intervals, AIC and warnings."""
    x = fit.at_no_size
    measured, fitted = np.quantile(x, [0.5, 0.99]), fit.family.quantile(np.array([0.5, 0.99]))
    return {
        "operation": fit.sample.operation,
        "values": len(x),
        "family": fit.family.name,
        "per_mib_ms": fit.per_mib_ms if fit.growth_per_mib else 0.0,
        "measured": {"p50_ms": float(measured[0]), "p99_ms": float(measured[1]), "max_ms": float(x.max())},
        "fitted": {"p50_ms": float(fitted[0]), "p99_ms": float(fitted[1])},
        "interval_95": {"p50_ms": quantile_interval(x, 0.5), "p99_ms": quantile_interval(x, 0.99)},
        "aic": fit.scores,
        "keys": fit.keys(),
        "warnings": list(fit.warnings),
    }


def assumptions(measured: Sequence[str], base: StorageProfile | None) -> dict[str, str]:
    """Return the operations without measurements, each with the latency that the profile uses instead."""
    found: dict[str, str] = {}
    own = {name.partition(".")[0] for name in measured}
    for name in ("read", "write", "cas"):
        if name not in measured and not (name == "cas" and "append" in own):
            stand_in = _find_stand_in(name, measured, base)
            found[name] = f"not measured; the profile uses the latency of {stand_in or (base.name if base else '')}"
    for name in ("failed_cas", "failed_append"):
        kind = name.removeprefix("failed_")
        if name not in measured and kind in own:
            found[name] = f"not measured; assumed to take as long as a successful {kind}"
    return found


def _find_stand_in(name: str, measured: Sequence[str], base: StorageProfile | None) -> str:
    """Return the measured operation whose latency replaces a missing one; empty if the latency of the base profile does."""
    of_one_kind = next((each for each in measured if each.startswith(f"{name}.")), "")
    if of_one_kind or base is not None:
        return of_one_kind
    return next(each for each in (*_STAND_INS[name], *measured) if each in measured)


def profile_text(
    fits: Sequence[Fit], name: str, *, base: StorageProfile | None = None, source: str = "", notes: Sequence[str] = ()
) -> str:
    """Return a latency profile as TOML."""
    by_name = {fit.sample.operation: fit for fit in fits}
    assumed = assumptions(list(by_name), base)
    lines = [f"# {note}" for note in notes]
    lines += [tomli_w.dumps({"name": name, "description": f"measured: {', '.join(by_name)}", "source": source}).rstrip()]
    for key in BASIC_OPERATIONS:
        if key in by_name:
            lines += _section(key, by_name[key])
        elif key in assumed:
            lines += ["", f"# {key}: {assumed[key]}"]
            if not key.startswith("failed_"):
                lines += [tomli_w.dumps({key: _assumed_keys(key, by_name, base)}).rstrip()]
        for kind, fit in by_name.items():
            lines += _section(kind, fit) if kind.startswith(f"{key}.") else []
    return _check_profile("\n".join(lines) + "\n", name)


def scaled_profile_text(profile: StorageProfile, factor: float) -> str:
    """Return a latency profile as TOML, with all latencies multiplied by ``factor``."""
    tree: dict[str, Any] = {
        "name": f"{profile.name} x {factor:.3g}",
        "min_latency_ms": profile.min_latency_ms * factor,
        "tail_append": profile.tail_append,
        "source": f"latencies of {profile.name}, {factor:.4g} times as long",
    }
    for access, by_kind in (("read", profile.reads), ("write", profile.writes)):
        tree[access] = _scale_times(_keys_of(by_kind["*"]), factor)
        tree[access] |= {kind: _scale_times(_keys_of(each), factor) for kind, each in by_kind.items() if kind != "*"}
    for name in ("cas", "failed_cas", "append", "failed_append", "compaction", "log_entry_read"):
        found = getattr(profile, name)
        if found is not None:
            tree[name] = _scale_times(_keys_of(found), factor)
    return _check_profile(tomli_w.dumps(tree), profile.name)


def _check_profile(text: str, name: str) -> str:
    parse_profile(tomllib.loads(text), name)
    return text


def _scale_times(keys: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return the keys of a distribution with all times multiplied by a factor."""
    made: dict[str, Any] = {}
    for key, value in keys.items():
        if not key.endswith("_ms"):
            made[key] = value
        else:
            made[key] = [each * factor for each in value] if isinstance(value, list) else value * factor
    return made


def _section(key: str, fit: Fit) -> list[str]:
    values = describe(fit)
    interval = values["interval_95"]["p99_ms"]
    certain = (
        f" (95% confidence interval: {format_duration(interval[0])} to {format_duration(interval[1])})"
        if interval
        else " (too few values for a confidence interval)"
    )
    lines = ["", f"# {key}: {values['family']}, fitted to {format_count(values['values'], 'value')}"]
    measured, fitted = (
        f"{name} p50 {format_duration(values[name]['p50_ms'])}, p99 {format_duration(values[name]['p99_ms'])}"
        for name in ("measured", "fitted")
    )
    lines.append(f"# {measured}{certain}; {fitted}")
    lines += [f"# uncertain: {warning}" for warning in values["warnings"]]
    nested: dict[str, Any] = _round_values(fit.keys())
    for part in reversed(key.split(".")):
        nested = {part: nested}
    return [*lines, tomli_w.dumps(nested).rstrip()]


def _round_values(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, list) else float(f"{value:.6g}") for key, value in keys.items()}


def _assumed_keys(key: str, by_name: Mapping[str, Fit], base: StorageProfile | None) -> dict[str, Any]:
    stand_in = _find_stand_in(key, list(by_name), base)
    if stand_in or base is None:
        return _round_values(by_name[stand_in].keys())
    found = base.cas if key == "cas" else base.distribution("*", write=key == "write")
    if found is None:
        raise InputError(f"{base.name} has no latency of {key}; measure the latency, or use a different --base")
    return _round_values(_keys_of(found))


def _keys_of(distribution: QuantileDistribution) -> dict[str, Any]:
    """Return the keys of a distribution in a latency profile."""
    keys: dict[str, Any]
    if isinstance(distribution, storage.LognormalLatency):
        keys = {"median_ms": math.exp(distribution.mu), "sigma": distribution.sigma}
    elif isinstance(distribution, storage.ShiftedLognormalLatency):
        median = distribution.shift_ms + distribution.median_above_ms
        keys = {"shift_ms": distribution.shift_ms, "median_ms": median, "sigma": distribution.sigma}
    elif isinstance(distribution, storage.EmpiricalLatency):
        keys = {"probabilities": list(distribution.probabilities), "quantiles_ms": list(distribution.quantiles_ms)}
    elif type(distribution) in _ATTRIBUTES:
        keys = {key: getattr(distribution, name) for key, name in _ATTRIBUTES[type(distribution)].items()}
    else:
        probabilities = [0.001, 0.01, 0.05, *(n / 10 for n in range(1, 10)), 0.95, 0.99, 0.999, 0.9999]
        keys = {"probabilities": probabilities, "quantiles_ms": [distribution.at(p) for p in probabilities]}
    if isinstance(distribution, storage.TableLatency) and distribution.latency_per_mib_ms:
        keys["per_mib_ms"] = distribution.latency_per_mib_ms
    return keys
