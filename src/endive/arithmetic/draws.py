"""Compute random values.

A uniform random number is a function of a key and an index. A value from a distribution is a function of one uniform random number.
The code is plain arithmetic in the subset of Python that Numba compiles. Masks keep integers within 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock

MASK = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the increment of SplitMix64
MIX_1 = 0xBF58476D1CE4E5B9  # Stafford's variant 13, the finalizer of SplitMix64
MIX_2 = 0x94D049BB133111EB
_WORD = 0xD6E8FEB86659FD93  # odd multiplier that spreads small numbers (ordinals, purposes) over 64 bits
TO_UNIT = 2.0**-52


def mix64(z: int) -> int:
    """Mix the bits of a 64-bit integer. The function is a bijection."""
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return z ^ (z >> 31)


def derive(key: int, word: int) -> int:
    """Return a key derived from ``key`` and a number.

    Keys are derived in the order run, class, transaction, purpose.
    """
    return mix64(((key ^ ((word * _WORD) & MASK)) + GOLDEN) & MASK)


def keyed_uniform(key: int, index: int) -> float:
    """Return the uniform random number at ``index`` in the stream ``key``, in the open interval (0, 1)."""
    z = (key + index * GOLDEN) & MASK  # mix64, inlined by hand because runs spend most of their time here
    z = ((z ^ (z >> 30)) * MIX_1) & MASK
    z = ((z ^ (z >> 27)) * MIX_2) & MASK
    return (((z ^ (z >> 31)) >> 12) + 0.5) * TO_UNIT


def largest_uniform(key: int, index: int, count: int) -> float:
    """Return the maximum of ``count`` uniform random numbers, starting at ``index``.

    The latency of the slowest request of a batch is this quantile.
    """
    largest = keyed_uniform(key, index)
    for _ in range(count - 1):
        index += 1
        u = keyed_uniform(key, index)
        if u > largest:
            largest = u
    return largest


def _polynomial(r: float, c7: float, c6: float, c5: float, c4: float, c3: float, c2: float, c1: float, c0: float) -> float:
    """Return the value of the polynomial with coefficients ``c7`` to ``c0`` at ``r``, by Horner's rule."""
    return ((((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2) * r + c1) * r + c0


def exact_normal_quantile(u: float) -> float:
    """Return the standard normal quantile of ``u``, with a relative error of about 1e-16 (Wichura, AS 241, PPND16)."""
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        # fmt: off
        return q * _polynomial(
            r, 2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
            13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608,
        ) / _polynomial(
            r, 5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
            5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0,
        )
        # fmt: on
    tail = u if q < 0.0 else 1.0 - u
    r = math.sqrt(-math.log(tail if tail > 0.0 else 1e-300))
    # fmt: off
    if r <= 5.0:
        r -= 1.6
        value = _polynomial(
            r, 7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
            3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734,
        ) / _polynomial(
            r, 1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
            0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0,
        )
    else:
        r -= 5.0
        value = _polynomial(
            r, 2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
            0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772,
        ) / _polynomial(
            r, 2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
            0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0,
        )
    # fmt: on
    return -value if q < 0.0 else value


CELL_BITS = 7
_CELLS = 2**CELL_BITS
"""Number of cells of the quantile table per power of two."""
_POWERS = 53
SMALLEST = 2.0**-53


def _quantile_table() -> list[float]:
    """Return cubic polynomials that approximate the normal quantile of p in (2^-53, 1/2], four coefficients for each cell.

    All cells within [2^-k-1, 2^-k) have equal width, so cells are narrower in the tail, where the quantile is steep. At both ends
    of a cell, its polynomial has the value and the slope of the quantile.
    """
    table: list[float] = []
    for power in range(_POWERS):
        first = 2.0 ** (-power - 2)
        width = first / _CELLS
        low, slope_low = 0.0, 0.0
        for cell in range(_CELLS + 1):
            high = exact_normal_quantile(first + cell * width)
            slope_high = width * math.sqrt(2.0 * math.pi) * math.exp(high * high / 2.0)
            if cell > 0:
                rise = high - low
                table += (low, slope_low, 3.0 * rise - 2.0 * slope_low - slope_high, slope_low + slope_high - 2.0 * rise)
            low, slope_low = high, slope_high
    return table


QUANTILES = _quantile_table()
"""Polynomials of ``normal_quantile``, followed by the tables of other distributions. Compiled code uses a copy in an array."""
_KEEPING = Lock()


def quantile_cell(p: float) -> tuple[int, float]:
    """Return the cell of ``QUANTILES`` that contains ``p``, and the position of ``p`` in the cell from 0 to 1.

    The cell of 1/2 is negative. Compiled code derives cell and position from the bits of ``p``
    (``simulation/compiled/streams.py``).
    """
    mantissa, exponent = math.frexp(p)
    x = (mantissa - 0.5) * (2.0 * _CELLS)
    cell = int(x)
    return cell - _CELLS * (exponent + 1), x - cell


def normal_quantile(u: float, table: Sequence[float]) -> float:
    """Return the standard normal quantile of ``u`` from ``QUANTILES``, with an error of at most 1e-9."""
    p = u if u < 0.5 else 1.0 - u
    cell, x = quantile_cell(p if p > SMALLEST else SMALLEST)
    if cell < 0:
        return 0.0
    i = 4 * cell
    z = table[i] + x * (table[i + 1] + x * (table[i + 2] + x * table[i + 3]))
    return z if u < 0.5 else -z


FIXED, UNIFORM, EXPONENTIAL, NORMAL, LOGNORMAL, TABLE = range(6)
"""Kinds of distributions. For ``NORMAL`` and the kinds after it, the value is a function of a normal score."""

TABLE_CELLS = 1024
"""Number of cells of a quantile table. The table covers normal scores from -8.3 to 8.3, the range of all uniform random numbers."""
SCORE_LIMIT = 8.3


def keep_table(logarithms: Sequence[float]) -> int:
    """Append a table of logarithms of quantiles to ``QUANTILES``, and return its offset.

    The table remains until the process ends.
    """
    assert len(logarithms) == TABLE_CELLS + 1
    with _KEEPING:
        place = len(QUANTILES)
        QUANTILES.extend(logarithms)
    return place


def quantile(kind: int, a: float, b: float, floor: float, u: float, table: Sequence[float] = QUANTILES) -> float:
    """Return the quantile ``u`` of a distribution, at least ``floor``.

    The meaning of ``a`` and ``b`` depends on the kind. FIXED: value, unused. UNIFORM: low, high. EXPONENTIAL: mean, unused. NORMAL:
    mean, standard deviation. LOGNORMAL: mu, sigma. TABLE: logarithm of the median, offset of the table. Compiled code passes its
    copy of ``QUANTILES`` as ``table``.
    """
    if kind >= NORMAL:
        return quantile_at_score(kind, a, b, floor, normal_quantile(u, table), table)
    return quantile_by_uniform(kind, a, b, floor, u)


def quantile_at_score(kind: int, a: float, b: float, floor: float, z: float, table: Sequence[float] = QUANTILES) -> float:
    """Return the value of a distribution at the normal score ``z``. The kind must be ``NORMAL``, ``LOGNORMAL`` or ``TABLE``."""
    if kind == TABLE:
        x = (z + SCORE_LIMIT) * (TABLE_CELLS / (2.0 * SCORE_LIMIT))
        cell = int(x)
        i = int(b) + cell
        value = a + table[i] + (x - cell) * (table[i + 1] - table[i])
    else:
        value = a + b * z
    if kind != NORMAL:
        value = math.exp(value)
    return value if value > floor else floor


def quantile_by_uniform(kind: int, a: float, b: float, floor: float, u: float) -> float:
    """Return the quantile ``u`` of a distribution. The kind must be ``FIXED``, ``UNIFORM`` or ``EXPONENTIAL``."""
    if kind == FIXED:
        value = a
    elif kind == EXPONENTIAL:
        value = -a * math.log1p(-u)
    else:
        value = a + (b - a) * u
    return value if value > floor else floor
