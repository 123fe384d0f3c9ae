"""What the latencies of a profile come to, floors included: medians, 99th percentiles, and the rate of one writer."""

from __future__ import annotations

from dataclasses import dataclass

from endive.arithmetic.draws import quantile
from endive.storage.distributions import Parameters
from endive.storage.provider import MANIFEST_FILE, StorageProfile

TYPICAL_BYTES = 8_192
"""The size of the object for which latencies that depend on it are told."""
_STEPS = 2_000


@dataclass(frozen=True)
class Drawn:
    """The median and the 99th percentile of a latency as it is drawn, in ms."""

    median_ms: float
    p99_ms: float


def drawn_latencies(profile: StorageProfile) -> dict[str, Drawn | None]:
    """For each kind of access, what is drawn for an object of ``TYPICAL_BYTES``; None where the store has no such access."""
    conditional = {
        "cas": profile.cas,
        "failed_cas": profile.failed_cas or profile.cas,
        "append": profile.append,
        "failed_append": profile.failed_append or profile.append,
    }
    return {
        "read": _drawn(profile.read_parameters(MANIFEST_FILE, TYPICAL_BYTES)),
        "write": _drawn(profile.write_parameters(MANIFEST_FILE, TYPICAL_BYTES)),
        **{name: None if latency is None else _drawn(latency.parameters) for name, latency in conditional.items()},
    }


def cas_rate_per_s(profile: StorageProfile) -> float | None:
    """How often in a second one writer alone can swap one object: one after the other, and within the limit of the store."""
    if profile.cas is None:
        return None
    rate = 1000.0 / profile.cas.mean_of_quantiles_ms(_STEPS)
    return rate if profile.object_writes_per_s is None else min(rate, profile.object_writes_per_s)


def _drawn(parameters: Parameters) -> Drawn:
    return Drawn(quantile(*parameters, 0.5), quantile(*parameters, 0.99))
