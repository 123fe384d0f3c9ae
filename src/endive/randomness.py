"""Keyed random streams: every draw is a function of its key and its index.

What flows in: the seed of the run, the name of a workload class, the ordinal of a transaction in that class and the purpose of
the draw. What flows out: uniforms in the open interval (0, 1), and quantiles of the distributions made from them, one uniform
for one value. Nobody owns any state but the stream itself, which remembers how many draws it has made.

Because no draw depends on what other transactions did before, two engines, two orders of events, or two configurations compared
under one seed see the same arrivals, runtimes and latencies.

The functions at module level are plain arithmetic on numbers. The compiled engine compiles these very functions, so they keep
to the subset of Python that Numba understands, and integers stay within 64 bits by masking.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from enum import IntEnum
from threading import Lock
from typing import Protocol

import numpy as np

MASK = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: the increment of SplitMix64
_MIX_1 = 0xBF58476D1CE4E5B9  # Stafford's variant 13, the finalizer of SplitMix64
_MIX_2 = 0x94D049BB133111EB
_WORD = 0xD6E8FEB86659FD93  # an odd multiplier that spreads small words (ordinals, purposes) over 64 bits
_TO_UNIT = 2.0**-52
_SINGLE_DRAWS = 8
_BLOCK = 64


class Purpose(IntEnum):
    """What a stream is drawn for. A purpose of its own keeps the other streams where they are when one draws more."""

    ARRIVAL = 1
    RUNTIME = 2
    OPERATION = 3
    TABLES = 4
    PARTITIONS = 5
    STORAGE = 6
    CATALOG = 7
    CONFLICT = 8
    BACKOFF = 9
    GROUPS = 10


def mix64(z: int) -> int:
    """Scramble 64 bits into 64 bits (a bijection)."""
    z = ((z ^ (z >> 30)) * _MIX_1) & MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & MASK
    return z ^ (z >> 31)


def derive(key: int, word: int) -> int:
    """The key one level below ``key``: of a class in a run, a transaction in a class, a purpose in a transaction."""
    return mix64(((key ^ ((word * _WORD) & MASK)) + GOLDEN) & MASK)


def keyed_uniform(key: int, index: int) -> float:
    """Draw number ``index`` of the stream ``key``: a uniform in the open interval (0, 1)."""
    z = (key + index * GOLDEN) & MASK  # mix64, written out because this is where a run spends its time
    z = ((z ^ (z >> 30)) * _MIX_1) & MASK
    z = ((z ^ (z >> 27)) * _MIX_2) & MASK
    return (((z ^ (z >> 31)) >> 12) + 0.5) * _TO_UNIT


def largest_uniform(key: int, index: int, count: int) -> float:
    """The largest of ``count`` draws from ``index`` on: the slowest of a batch, since quantiles grow with the uniform."""
    largest = keyed_uniform(key, index)
    for _ in range(count - 1):
        index += 1
        u = keyed_uniform(key, index)
        if u > largest:
            largest = u
    return largest


def _polynomial(r: float, c7: float, c6: float, c5: float, c4: float, c3: float, c2: float, c1: float, c0: float) -> float:
    """The polynomial with coefficients ``c7`` to ``c0`` at ``r``, by Horner's rule."""
    return ((((((c7 * r + c6) * r + c5) * r + c4) * r + c3) * r + c2) * r + c1) * r + c0


def exact_normal_quantile(u: float) -> float:
    """The standard normal quantile of ``u``: Wichura's algorithm AS 241 (PPND16), right to about 1e-16, relative."""
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


_CELLS = 128
"""Cells of the quantile table for each power of two."""
_POWERS = 53
_SMALLEST = 2.0**-53


def _quantile_table() -> list[float]:
    """Cubics for the normal quantile of p in (2^-53, 1/2], four coefficients for each cell.

    Cells have the same width within [2^-k-1, 2^-k), so they shrink with the tail, where the quantile is steep. In each the
    cubic has the values and the slopes of the quantile at both ends.
    """
    table: list[float] = []
    for power in range(_POWERS):
        width = 2.0 ** (-power - 2) / _CELLS
        for cell in range(_CELLS):
            left = 2.0 ** (-power - 2) + cell * width
            low, high = exact_normal_quantile(left), exact_normal_quantile(left + width)
            slope_low = width * math.sqrt(2.0 * math.pi) * math.exp(low * low / 2.0)
            slope_high = width * math.sqrt(2.0 * math.pi) * math.exp(high * high / 2.0)
            rise = high - low
            table += (low, slope_low, 3.0 * rise - 2.0 * slope_low - slope_high, slope_low + slope_high - 2.0 * rise)
    return table


QUANTILES = _quantile_table()
"""What ``normal_quantile`` looks up, followed by the tables that distributions keep; compiled code gets the same as an array."""
_KEEPING = Lock()


def normal_quantile(u: float, table: Sequence[float]) -> float:
    """The standard normal quantile of ``u``, right to 1e-9, from ``QUANTILES``."""
    p = u if u < 0.5 else 1.0 - u
    if p < _SMALLEST:
        p = _SMALLEST
    mantissa, exponent = math.frexp(p)
    x = (mantissa - 0.5) * (2.0 * _CELLS)
    cell = int(x)
    x -= cell
    i = 4 * (cell - _CELLS * (exponent + 1))
    if i < 0:  # p is one half
        return 0.0
    z = table[i] + x * (table[i + 1] + x * (table[i + 2] + x * table[i + 3]))
    return z if u < 0.5 else -z


FIXED = 0
UNIFORM = 1
EXPONENTIAL = 2
NORMAL = 3
LOGNORMAL = 4
TABLE = 5

TABLE_CELLS = 1024
"""Cells of a table of quantiles, over the normal scores from -8.3 to 8.3 (beyond them lies no uniform)."""
SCORE_LIMIT = 8.3


def keep_table(logarithms: Sequence[float]) -> int:
    """Put a table of logarithms of quantiles behind ``QUANTILES`` and return its place. It stays: callers do so once for each."""
    assert len(logarithms) == TABLE_CELLS + 1
    with _KEEPING:
        place = len(QUANTILES)
        QUANTILES.extend(logarithms)
    return place


def quantile(kind: int, a: float, b: float, floor: float, u: float, table: Sequence[float] = QUANTILES) -> float:
    """The value of a distribution at the uniform ``u``, not below ``floor``.

    The parameters ``a`` and ``b`` are: FIXED value, -; UNIFORM low, high; EXPONENTIAL mean, -; NORMAL mean, standard deviation;
    LOGNORMAL mu, sigma; TABLE logarithm of the median, place of the table. ``table`` is for compiled code, which holds its own
    copy of ``QUANTILES``.
    """
    if kind == LOGNORMAL:
        value = math.exp(a + b * normal_quantile(u, table))
    elif kind == FIXED:
        value = a
    elif kind == EXPONENTIAL:
        value = -a * math.log1p(-u)
    elif kind == NORMAL:
        value = a + b * normal_quantile(u, table)
    elif kind == TABLE:
        x = (normal_quantile(u, table) + SCORE_LIMIT) * (TABLE_CELLS / (2.0 * SCORE_LIMIT))
        cell = int(x)
        i = int(b) + cell
        value = math.exp(a + table[i] + (x - cell) * (table[i + 1] - table[i]))
    else:
        value = a + (b - a) * u
    return value if value > floor else floor


def name_key(name: str) -> int:
    """A word for a name, the same on every machine and in every process (unlike ``hash``)."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def run_key(seed: int) -> int:
    """The key at the root of all streams of a run."""
    return derive(GOLDEN, seed & MASK)


class RandomSource(Protocol):
    """What a distribution needs of a generator: ``np.random.RandomState`` has it, and so has ``Stream``."""

    def random_sample(self) -> float:
        """A uniform in [0, 1)."""
        ...


class Stream:
    """The draws of one transaction for one purpose, with the method names of ``np.random.RandomState``.

    >>> stream = Stream(derive(run_key(42), Purpose.STORAGE))
    >>> 0.0 < stream.random_sample() < 1.0
    True
    """

    __slots__ = ("_block", "_block_start", "_index", "_key")

    def __init__(self, key: int) -> None:
        self._key = key
        self._index = 0
        self._block: list[float] = []
        self._block_start = 0

    @property
    def draws(self) -> int:
        """How many uniforms were drawn so far."""
        return self._index

    def random_sample(self) -> float:
        """The next uniform in (0, 1)."""
        index = self._index
        self._index = index + 1
        if index < _SINGLE_DRAWS:
            return keyed_uniform(self._key, index)
        position = index - self._block_start
        if position >= len(self._block):
            position = self._load(index)
        return self._block[position]

    random = random_sample
    rand = random_sample

    def largest_sample(self, count: int) -> float:
        """The largest of the next ``count`` uniforms."""
        index = self._index
        self._index = end = index + count
        if end <= _SINGLE_DRAWS:
            return largest_uniform(self._key, index, count)
        position = index - self._block_start
        if not self._block or position + count > len(self._block):
            position = self._load(index, count)
        return max(self._block[position : position + count])

    def _load(self, index: int, count: int = 1) -> int:
        """Work out the next draws at once, in an array: a long stream costs a tenth that way."""
        indices = np.arange(index, index + max(count, _BLOCK), dtype=np.uint64)
        self._block = keyed_uniform(self._key, indices).tolist()  # type: ignore[arg-type, attr-defined]
        self._block_start = index
        return 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """The next uniform in (low, high)."""
        return low + (high - low) * self.random_sample()

    def standard_normal(self) -> float:
        """The next standard normal."""
        return normal_quantile(self.random_sample(), QUANTILES)

    def normal(self, loc: float = 0.0, scale: float = 1.0) -> float:
        """The next normal with mean ``loc`` and standard deviation ``scale``."""
        return loc + scale * self.standard_normal()

    def lognormal(self, mean: float = 0.0, sigma: float = 1.0) -> float:
        """The next lognormal whose logarithm has mean ``mean`` and standard deviation ``sigma``."""
        return math.exp(self.normal(mean, sigma))

    def exponential(self, scale: float = 1.0) -> float:
        """The next exponential with mean ``scale``."""
        return -scale * math.log1p(-self.random_sample())

    def randint(self, low: int, high: int | None = None) -> int:
        """The next integer in [low, high), or in [0, low) with one argument."""
        if high is None:
            low, high = 0, low
        return low + int(self.random_sample() * (high - low))

    def choice(self, a: int | Sequence[int], p: Sequence[float] | None = None) -> int:
        """One of ``a`` (or of range(a)), with probabilities ``p``."""
        values = range(a) if isinstance(a, int) else a
        if p is None:
            return values[self.randint(len(values))]
        u, total = self.random_sample(), 0.0
        for value, probability in zip(values, p, strict=True):
            total += probability
            if u < total:
                return value
        return values[-1]

    def shuffle(self, x: list[int]) -> None:
        """Shuffle ``x`` in place (Fisher-Yates)."""
        for i in range(len(x) - 1, 0, -1):
            j = self.randint(i + 1)
            x[i], x[j] = x[j], x[i]


class TransactionStreams:
    """The streams of one transaction, each made when it is first asked for."""

    __slots__ = ("_key", "_streams")

    def __init__(self, key: int) -> None:
        self._key = key
        self._streams: dict[Purpose, Stream] = {}

    def stream(self, purpose: Purpose) -> Stream:
        """The stream for this purpose: the same one each time, so its draws go on where they were."""
        stream = self._streams.get(purpose)
        if stream is None:
            stream = self._streams[purpose] = Stream(derive(self._key, purpose))
        return stream


def class_key(seed: int, class_name: str) -> int:
    """The key of a workload class: it depends on the class's name, never on its place in the file."""
    return derive(run_key(seed), name_key(class_name))


def transaction_streams(class_key: int, client: int, ordinal: int) -> TransactionStreams:
    """The streams of the ``ordinal``-th transaction of a class (of a client of it, if the class is a closed loop)."""
    return TransactionStreams(derive(derive(class_key, client), ordinal))
