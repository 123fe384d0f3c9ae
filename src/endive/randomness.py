"""Define random streams in which every random number is a function of a key and an index.

The key of a stream combines the seed of the run, the name of a workload class, the ordinal of a transaction in that class, and the
purpose of the random numbers. A stream returns uniform random numbers in the open interval (0, 1), and each value from a
distribution uses one of them. The only state of a stream is how many numbers it has returned.

No random number depends on other transactions. Therefore, both engines simulate the same arrivals, runtimes and latencies, and so
do two configurations with the same seed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import numpy as np

from endive.arithmetic.draws import GOLDEN, MASK, QUANTILES, derive, keyed_uniform, largest_uniform, normal_quantile

_SINGLE_DRAWS = 8
_BLOCK = 64


class Purpose(IntEnum):
    """Purpose of a random stream. Drawing more numbers for one purpose does not change the numbers of other purposes."""

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
    PHASE = 11
    FAILURE = 12
    CLIENT = 13
    TABLE_START = 14
    NEXT_COMMIT = 15


def name_key(name: str) -> int:
    """Return a 64-bit key for a name. Unlike ``hash``, the key is the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def run_key(seed: int) -> int:
    """Return the key from which all streams of a run are derived."""
    return derive(GOLDEN, seed & MASK)


class RandomSource(Protocol):
    """Random generator that distributions accept: ``np.random.RandomState`` or ``Stream``."""

    def random_sample(self) -> float:
        """Return a uniform random number in [0, 1)."""
        ...


class Stream:
    """Random stream of one transaction for one purpose. Its methods have the names of the methods of ``np.random.RandomState``.

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
        """Number of random numbers drawn so far."""
        return self._index

    def random_sample(self) -> float:
        """Return the next uniform random number in (0, 1)."""
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
        """Return the maximum of the next ``count`` uniform random numbers."""
        index = self._index
        self._index = end = index + count
        if end <= _SINGLE_DRAWS:
            return largest_uniform(self._key, index, count)
        position = index - self._block_start
        if not self._block or position + count > len(self._block):
            position = self._load(index, count)
        return max(self._block[position : position + count])

    def _load(self, index: int, count: int = 1) -> int:
        """Compute the next random numbers as an array, in a tenth of the time of separate calls, and return the position of
        ``index``.
        """
        indices = np.arange(index, index + max(count, _BLOCK), dtype=np.uint64)
        self._block = keyed_uniform(self._key, indices).tolist()  # type: ignore[arg-type, attr-defined]
        self._block_start = index
        return 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        """Return the next uniform random number in (low, high)."""
        return low + (high - low) * self.random_sample()

    def standard_normal(self) -> float:
        """Return the next standard normal random number."""
        return normal_quantile(self.random_sample(), QUANTILES)

    def normal(self, loc: float = 0.0, scale: float = 1.0) -> float:
        """Return the next normal random number with mean ``loc`` and standard deviation ``scale``."""
        return loc + scale * self.standard_normal()

    def lognormal(self, mean: float = 0.0, sigma: float = 1.0) -> float:
        """Return the next lognormal random number; its logarithm has mean ``mean`` and standard deviation ``sigma``."""
        return math.exp(self.normal(mean, sigma))

    def exponential(self, scale: float = 1.0) -> float:
        """Return the next exponential random number with mean ``scale``."""
        return -scale * math.log1p(-self.random_sample())

    def randint(self, low: int, high: int | None = None) -> int:
        """Return the next integer in [low, high), or in [0, low) with one argument."""
        if high is None:
            low, high = 0, low
        return low + int(self.random_sample() * (high - low))

    def choice(self, a: int | Sequence[int], p: Sequence[float] | None = None) -> int:
        """Return a random element of ``a`` (of ``range(a)`` for a number), with probabilities ``p`` or all equally likely."""
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
    """Random streams of one transaction. A stream is created when it is first used."""

    __slots__ = ("_key", "_streams")

    def __init__(self, key: int) -> None:
        self._key = key
        self._streams: dict[Purpose, Stream] = {}

    def stream(self, purpose: Purpose) -> Stream:
        """Return the stream for a purpose. Repeated calls return the same stream, which continues where it stopped."""
        stream = self._streams.get(purpose)
        if stream is None:
            stream = self._streams[purpose] = Stream(derive(self._key, purpose))
        return stream

    def of_commit(self, number: int) -> TransactionStreams:
        """Return the streams of commit ``number`` of a job with several commits.

        The first commit uses the streams of this object.
        """
        return TransactionStreams(derive(derive(self._key, Purpose.NEXT_COMMIT), number))


def class_key(seed: int, class_name: str) -> int:
    """Return the key of a workload class. The key depends on the name of the class and not on its position in the file."""
    return derive(run_key(seed), name_key(class_name))


def transaction_streams(class_key: int, client: int, ordinal: int) -> TransactionStreams:
    """Return the streams of transaction number ``ordinal`` of a class, or of one client of a closed loop."""
    return TransactionStreams(derive(derive(class_key, client), ordinal))
