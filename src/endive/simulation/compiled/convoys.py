"""Convoys: the time of many like batches in a row, drawn at once.

In exact mode each batch is a draw. In convolved mode the sum of n batches is made of at most log2(n) draws: one from the
distribution of the sum of 2^k batches for each bit of n. Those distributions are worked out when a run is lowered, by convolving
the distribution of one batch with itself again and again (FFT), and kept as quantiles at normal scores.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from endive.arithmetic.draws import (
    EXPONENTIAL,
    FIXED,
    LOGNORMAL,
    NORMAL,
    QUANTILES,
    SCORE_LIMIT,
    TABLE,
    TABLE_CELLS,
    UNIFORM,
    quantile,
)
from endive.cache import cache_root
from endive.files import whole_file
from endive.simulation.compiled.layout import LEVELS, SCORES, Floats
from endive.storage.distributions import Parameters
from endive.utils import fingerprint

_GRID = 1 << 15
_ROW = SCORES + 1
_NEGLIGIBLE = 1e-14


@lru_cache(maxsize=64)
def kept_convoy_table(parameters: Parameters, parallel: int) -> Floats:
    """Return what ``convoy_table`` does, from memory or from the cache directory where it was worked out before."""
    if parameters[0] == TABLE:  # its place in memory is not the same in every process
        return convoy_table(parameters, parallel)
    path = _kept_at(parameters, parallel)
    with suppress(OSError, ValueError, EOFError):
        kept: Floats = np.load(path)
        if kept.shape == (LEVELS * _ROW,):
            return kept
    table = convoy_table(parameters, parallel)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as written, written.open("wb") as file:
            np.save(file, table)
    return table


def _kept_at(parameters: Parameters, parallel: int) -> Path:
    asked = repr((parameters, parallel, np.__version__))
    code = fingerprint("arithmetic", "simulation/compiled/convoys.py", "simulation/compiled/layout.py")
    return cache_root() / "convoys" / code / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.npy"


def convoy_table(parameters: Parameters, parallel: int) -> Floats:
    """Work out the quantiles of sums of 1, 2, 4, ... batches, one level after the other."""
    scores = np.linspace(-SCORE_LIMIT, SCORE_LIMIT, _ROW)
    probabilities = _normal_cdf(scores)
    table = np.empty((LEVELS, _ROW))
    grid = _batch(parameters, parallel)
    for level in range(LEVELS):
        if level:
            grid = _doubled(grid)
        start, width, mass = grid
        cumulative = np.concatenate([[0.0], np.cumsum(mass)])
        edges = start + width * np.arange(len(cumulative))
        rising = np.concatenate([[True], mass > 0.0])
        table[level] = np.interp(probabilities, cumulative[rising] / cumulative[-1], edges[rising])
    return table.ravel()


Grid = tuple[float, float, Floats]
"""A distribution in cells: where the first begins, how wide each is, the mass of each."""


def _batch(parameters: Parameters, parallel: int) -> Grid:
    """One batch: the slowest of ``parallel`` accesses."""
    kind, a, b, floor = parameters
    low = quantile(kind, a, b, floor, _NEGLIGIBLE)
    high = quantile(kind, a, b, floor, 1.0 - _NEGLIGIBLE)
    width = max((high - low) / _GRID, 1e-9 * max(high, 1.0))
    start = low - width / 2.0  # the floor, where many draws may lie, is the middle of the first cell
    edges: Floats = start + width * np.arange(_GRID + 2, dtype=np.float64)
    cumulative = np.where(edges < floor, 0.0, _cdf(kind, a, b, edges)) ** parallel
    return start, width, np.diff(cumulative)


def _cdf(kind: int, a: float, b: float, x: Floats) -> Floats:
    if kind == FIXED or (kind in (NORMAL, LOGNORMAL) and b == 0.0):
        at = float(np.exp(a)) if kind == LOGNORMAL else a
        return (x >= at).astype(np.float64)
    if kind == UNIFORM:
        return np.clip((x - a) / (b - a), 0.0, 1.0) if b > a else (x >= a).astype(np.float64)
    if kind == EXPONENTIAL:
        return -np.expm1(-np.maximum(x, 0.0) / a)
    if kind == TABLE:
        return _table_cdf(a, int(b), x)
    score = (np.log(np.maximum(x, 1e-300)) - a) / b if kind == LOGNORMAL else (x - a) / b
    return _normal_cdf(score)


def _table_cdf(log_median: float, place: int, x: Floats) -> Floats:
    """The distribution function of a table of quantiles; where the table is flat, all its mass lies at its upper end."""
    logs = log_median + np.array(QUANTILES[place : place + TABLE_CELLS + 1])
    scores = np.linspace(-SCORE_LIMIT, SCORE_LIMIT, TABLE_CELLS + 1)
    rising = np.append(np.diff(logs) > 0.0, True)
    score = np.interp(np.log(np.maximum(x, 1e-300)), logs[rising], scores[rising], left=-np.inf, right=np.inf)
    return _normal_cdf(score)


def _normal_cdf(score: Floats) -> Floats:
    from scipy import special  # takes longer to load than tables that were kept

    cumulative: Floats = special.ndtr(score)
    return cumulative


def _doubled(grid: Grid) -> Grid:
    """The sum of two draws: masses convolve, and the middles of cells add."""
    start, width, mass = grid
    length = 2 * len(mass) - 1
    size = max(2, 1 << (length - 1).bit_length())
    transform = np.fft.rfft(mass, size)
    doubled = np.maximum(np.fft.irfft(transform * transform, size)[:length], 0.0)
    start = 2.0 * start + width / 2.0
    cumulative = np.cumsum(doubled) / doubled.sum()
    first = int(np.searchsorted(cumulative, _NEGLIGIBLE))
    last = int(np.searchsorted(cumulative, 1.0 - _NEGLIGIBLE)) + 1
    doubled, start = doubled[first:last], start + first * width
    while len(doubled) > _GRID:
        doubled = np.append(doubled, 0.0) if len(doubled) % 2 else doubled
        doubled, width = doubled[0::2] + doubled[1::2], 2.0 * width
    return start, width, doubled
