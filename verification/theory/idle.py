"""Compare idle systems with M/G/infinity: transactions do not wait, so the number of running jobs is Poisson-distributed.

At an arrival rate r and runtimes with distribution G, the number of running jobs at time t has mean and variance r * (integral of 1
- G from 0 to t), and transactions start committing at rate r * G(t).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from verification.theory.documents import rows_of
from verification.theory.rows import TheoryRow

_RATE_PER_S = 2.0
_MEAN_MS, _SIGMA = 20_000.0, 1.0
_AT_MS = (10_000.0, 60_000.0, 300_000.0)
_SEEDS, _QUICK_SEEDS = 400, 40


def _tree() -> dict[str, Any]:
    return {
        "simulation": {"duration_ms": 310_000.0, "drain": True},
        "storage": {"provider": "instant"},
        "catalog": {"num_tables": 200, "num_groups": 200},
        "transaction": {"runtime": {"mean": _MEAN_MS, "sigma": _SIGMA}},
        "workload": {"writers": {"rate": _RATE_PER_S, "operation": "fast_append"}},
    }


def _working(at_ms: float) -> float:
    """Return the mean number of running jobs at a time."""
    runtime = stats.lognorm(_SIGMA, scale=math.exp(math.log(_MEAN_MS) - _SIGMA**2 / 2.0))
    grid = np.linspace(0.0, at_ms, 20_001)
    return float(_RATE_PER_S / 1000.0 * np.trapezoid(runtime.sf(grid), grid))


def compare(quick: bool) -> Iterator[TheoryRow]:
    """Compare mean and variance of the number of running jobs, at the start and in the steady state."""
    seeds = _QUICK_SEEDS if quick else _SEEDS
    working: dict[float, list[int]] = {at_ms: [] for at_ms in _AT_MS}
    for seed in range(seeds):
        rows = rows_of(_tree(), seed)
        done = rows["t_submit"] + rows["t_runtime"]
        for at_ms in _AT_MS:
            working[at_ms].append(int(((rows["t_submit"] <= at_ms) & (done > at_ms)).sum()))
    for at_ms in _AT_MS:
        expected = _working(at_ms)
        counts = np.array(working[at_ms], np.float64)
        case = f"{_RATE_PER_S:g}/s, work {_MEAN_MS / 1000.0:g} s, after {at_ms / 1000.0:g} s"
        spread = 4.0 / math.sqrt(seeds * expected)
        yield TheoryRow("idle", case, "working, mean", expected, float(counts.mean()), spread)
        spread = 4.0 * math.sqrt(2.0 / (seeds - 1) + 1.0 / (seeds * expected))
        yield TheoryRow("idle", case, "working, variance", expected, float(counts.var(ddof=1)), spread)
