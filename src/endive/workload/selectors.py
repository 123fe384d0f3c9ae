"""Which tables and partitions a transaction touches: weighted picks without replacement, one uniform for each pick."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import insort
from functools import cache

from endive.arithmetic.costs import pick
from endive.randomness import RandomSource

Selection = tuple[frozenset[int], frozenset[int]]
"""What is read, and the part of it that is written."""


@cache
def zipf_cumulative(total: int, alpha: float) -> tuple[float, ...]:
    """Return the sums of the first i weights 1/k^alpha, for i from 0 to ``total``; alpha 0 is uniform."""
    sums = [0.0]
    for k in range(1, total + 1):
        sums.append(sums[-1] + 1.0 / float(k) ** alpha)
    return tuple(sums)


def check_alpha(alpha: float) -> None:
    """Raise ValueError if this can be no exponent of Zipf's law: a negative one, NaN or infinity."""
    if not 0.0 <= alpha < math.inf:
        raise ValueError(f"alpha is {alpha}, but must be a number that is not negative")


class TableSelector(ABC):
    """Chooses tables; subclass it for a pattern of your own."""

    @abstractmethod
    def select(self, n_tables: int, total_tables: int, rng: RandomSource) -> Selection:
        """(tables read, tables written), as numbers below ``total_tables``; what is written is read too."""


class PartitionSelector(ABC):
    """Chooses partitions of a table; subclass it for a pattern of your own."""

    @abstractmethod
    def select(self, n_partitions: int, total_partitions: int, rng: RandomSource) -> Selection:
        """(partitions read, partitions written), as numbers below ``total_partitions``."""


class WeightedSelector:
    """Item k (from 1) has weight 1/k^alpha. The first picks are the written ones."""

    def __init__(self, alpha: float = 1.5, write_fraction: float = 1.0) -> None:
        if not 0.0 < write_fraction <= 1.0:
            raise ValueError(f"write_fraction is {write_fraction}, but must lie in (0, 1]")
        check_alpha(alpha)
        self.alpha = alpha
        self.write_fraction = write_fraction

    def pick_some(self, n: int, total: int, rng: RandomSource) -> Selection:
        """Return ``n`` of ``total`` items (all of them, if there are fewer), and those of them that are written."""
        picks = self.picks(n, total, rng)
        return frozenset(picks), frozenset(picks[: written_count(len(picks), self.write_fraction)])

    def picks(self, n: int, total: int, rng: RandomSource) -> list[int]:
        """``n`` of ``total`` items (all of them, if there are fewer), in the order in which they were drawn."""
        cumulative = zipf_cumulative(total, self.alpha)
        chosen: list[int] = []
        picks: list[int] = []
        for _ in range(min(n, total)):
            item = pick(cumulative, total, chosen, len(chosen), rng.random_sample())
            insort(chosen, item)
            picks.append(item)
        return picks


def written_count(n: int, write_fraction: float) -> int:
    """Return how many of ``n`` picked items are written: the nearest whole number to the fraction, but at least one."""
    return max(1, int(n * write_fraction + 0.5))


class ZipfTableSelector(WeightedSelector, TableSelector):
    """A few hot tables: the k-th has weight 1/k^alpha."""

    def select(self, n_tables: int, total_tables: int, rng: RandomSource) -> Selection:
        """Return the tables read and the tables written."""
        return self.pick_some(n_tables, total_tables, rng)


class UniformTableSelector(ZipfTableSelector):
    """Every table alike."""

    def __init__(self, write_fraction: float = 1.0) -> None:
        super().__init__(0.0, write_fraction)


class ZipfPartitionSelector(WeightedSelector, PartitionSelector):
    """A few hot partitions: the k-th has weight 1/k^alpha."""

    def select(self, n_partitions: int, total_partitions: int, rng: RandomSource) -> Selection:
        """Return the partitions read and the partitions written."""
        return self.pick_some(n_partitions, total_partitions, rng)


class UniformPartitionSelector(ZipfPartitionSelector):
    """Every partition alike."""

    def __init__(self, write_fraction: float = 1.0) -> None:
        super().__init__(0.0, write_fraction)
