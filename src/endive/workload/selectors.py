"""Selection of tables and partitions: weighted sampling without replacement, with one uniform random number per pick."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cache

from endive.arithmetic.costs import insert_pick, pick
from endive.randomness import RandomSource

Selection = tuple[frozenset[int], frozenset[int]]
"""Items that are read, and the subset that is written."""


@cache
def zipf_cumulative(total: int, alpha: float) -> tuple[float, ...]:
    """Return the sums of the first i weights 1/k^alpha for i from 0 to ``total``; an alpha of 0 is uniform."""
    sums = [0.0]
    for k in range(1, total + 1):
        sums.append(sums[-1] + 1.0 / float(k) ** alpha)
    return tuple(sums)


def check_alpha(alpha: float) -> None:
    """Raise ValueError if an exponent of a Zipf distribution is negative or not finite."""
    if not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha}, but must be a finite number of at least 0")


class TableSelector(ABC):
    """Selection of tables. Subclass it for a custom access pattern."""

    @abstractmethod
    def select(self, n_tables: int, total_tables: int, rng: RandomSource) -> Selection:
        """Return the tables read and the tables written, as numbers below ``total_tables``."""


class PartitionSelector(ABC):
    """Selection of partitions of a table. Subclass it for a custom access pattern."""

    @abstractmethod
    def select(self, n_partitions: int, total_partitions: int, rng: RandomSource) -> Selection:
        """Return the partitions read and the partitions written, as numbers below ``total_partitions``."""


class WeightedSelector:
    """Zipf selection: item k (from 1) has weight 1/k^alpha. The first picks are written."""

    def __init__(self, alpha: float = 1.5, write_fraction: float = 1.0) -> None:
        if not 0.0 < write_fraction <= 1.0:
            raise ValueError(f"write_fraction is {write_fraction}, but must be in (0, 1]")
        check_alpha(alpha)
        self.alpha = alpha
        self.write_fraction = write_fraction

    def pick_some(self, n: int, total: int, rng: RandomSource) -> Selection:
        """Return ``n`` of ``total`` items (all items if ``n`` is larger), and the written subset."""
        picks = self.picks(n, total, rng)
        return frozenset(picks), frozenset(picks[: written_count(len(picks), self.write_fraction)])

    def picks(self, n: int, total: int, rng: RandomSource) -> list[int]:
        """Return ``n`` of ``total`` items (all items if ``n`` is larger), in the order of the draws."""
        cumulative = zipf_cumulative(total, self.alpha)
        count = min(n, total)
        chosen, before = [0] * count, [0.0] * count
        picks: list[int] = []
        for number in range(count):
            item = pick(cumulative, total, chosen, before, number, rng.random_sample())
            insert_pick(cumulative, chosen, before, number, item)
            picks.append(item)
        return picks


def written_count(n: int, write_fraction: float) -> int:
    """Return the number of written items among ``n``: the rounded fraction of ``n``, at least 1."""
    return max(1, int(n * write_fraction + 0.5))


class ZipfTableSelector(WeightedSelector, TableSelector):
    """Zipf selection of tables: table k has weight 1/k^alpha."""

    def select(self, n_tables: int, total_tables: int, rng: RandomSource) -> Selection:
        """Return the tables read and the tables written."""
        return self.pick_some(n_tables, total_tables, rng)


class UniformTableSelector(ZipfTableSelector):
    """Uniform selection of tables."""

    def __init__(self, write_fraction: float = 1.0) -> None:
        super().__init__(0.0, write_fraction)


class ZipfPartitionSelector(WeightedSelector, PartitionSelector):
    """Zipf selection of partitions: partition k has weight 1/k^alpha."""

    def select(self, n_partitions: int, total_partitions: int, rng: RandomSource) -> Selection:
        """Return the partitions read and the partitions written."""
        return self.pick_some(n_partitions, total_partitions, rng)


class UniformPartitionSelector(ZipfPartitionSelector):
    """Uniform selection of partitions."""

    def __init__(self, write_fraction: float = 1.0) -> None:
        super().__init__(0.0, write_fraction)
