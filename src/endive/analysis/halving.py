"""The best of many settings: a design of candidates, successive halving over seeds, and a comparison on seeds of its own.

Candidates are measured with the same seeds. After each round those that are surely worse than the leader are dropped, and of the
others the worse part; the rest gets more seeds. What is left is run again with seeds that had no part in the choice, so that the
winner's luck is not taken for an advantage: its 95 % interval is that of paired differences on these seeds alone. All objectives
are costs: less is better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from endive.analysis.conditions import Verdict
from endive.analysis.contrasts import Difference, paired_difference, with_least_width
from endive.analysis.estimates import CONFIDENCE


@dataclass(frozen=True)
class Dimension:
    """A setting that is searched: any value from ``low`` to ``high``, or one of ``choices``."""

    name: str
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    choices: tuple[Any, ...] = ()

    def value(self, position: float) -> Any:
        """Return the value at a position from 0 to 1, in two digits; ranges over a factor of ten or more are logarithmic."""
        if self.choices:
            return self.choices[min(int(position * len(self.choices)), len(self.choices) - 1)]
        if self.low > 0.0 and self.high >= 10.0 * self.low:
            exact = self.low * (self.high / self.low) ** position
        else:
            exact = self.low + (self.high - self.low) * position
        if self.whole:
            return int(min(max(round(exact), math.ceil(self.low)), math.floor(self.high)))
        return min(max(float(f"{exact:.2g}"), self.low), self.high)


def design(dimensions: Sequence[Dimension], count: int, key: int) -> list[dict[str, Any]]:
    """Spread ``count`` points evenly over all dimensions (an additive recurrence that begins at a place drawn from ``key``)."""
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (len(dimensions) + 1))
    offsets = np.random.default_rng(key).random(len(dimensions))
    steps = root ** -np.arange(1, len(dimensions) + 1)
    points = (offsets + np.outer(np.arange(count), steps)) % 1.0
    return [{each.name: each.value(float(at)) for each, at in zip(dimensions, point, strict=True)} for point in points]


@dataclass(frozen=True)
class Cost:
    """What a run came to, from ``low`` to ``high`` where that is not exactly known; infinity stands for never."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """The middle of both ends; infinite if one of them is."""
        return (self.low + self.high) / 2.0 if math.isfinite(self.low) and math.isfinite(self.high) else math.inf


@dataclass(frozen=True)
class Measured:
    """The costs of a candidate by seed, and whether it keeps the condition: surely (``allowed``) and by its mean (``kept``)."""

    costs: tuple[Cost, ...]
    allowed: Verdict = "holds"
    kept: bool = True
    least_width: float = 0.0
    """Half width below which no difference of such costs can be told, however much the seeds agree."""

    @property
    def condition_rank(self) -> int:
        """0 if the condition is kept, 2 if it is surely broken, 1 between."""
        return 2 if self.allowed == "fails" else 0 if self.kept else 1

    @property
    def mean(self) -> float | None:
        """The mean over seeds; None unless all costs are finite."""
        middles = [cost.middle for cost in self.costs]
        return sum(middles) / len(middles) if middles and all(map(math.isfinite, middles)) else None

    @property
    def never(self) -> int:
        """In how many seeds the cost is surely infinite."""
        return sum(cost.low == math.inf for cost in self.costs)

    @property
    def order(self) -> tuple[int, int, int, float]:
        """Sorts candidates of the same seeds, the best first: by what they keep, what may be infinite and what is, and the mean."""
        finite = [cost.middle for cost in self.costs if math.isfinite(cost.middle)]
        return self.condition_rank, len(self.costs) - len(finite), self.never, sum(finite) / max(len(finite), 1)


Evaluate = Callable[[int, Sequence[int]], Measured]
"""A candidate, by its number, over some seeds."""


@dataclass(frozen=True)
class Advantage:
    """By how much the best costs less than another over the same seeds: a difference, or wins and losses if a cost is infinite."""

    difference: Difference | None
    """The other's cost less that of the best; None unless all costs are finite."""
    wins: int
    losses: int
    seeds: int

    @property
    def clear(self) -> bool:
        """Whether the best costs less beyond doubt: the 95 % interval is above 0, or the sign test says so."""
        if self.difference is not None:
            return self.difference.is_significant and self.difference.difference > 0.0
        return self.wins > self.losses and _sign_test(self.wins, self.losses) <= 1.0 - CONFIDENCE


def advantage_of(best: Measured, other: Measured) -> Advantage:
    """Compare costs seed by seed. Raises ValueError unless there are as many of each."""
    pairs = list(zip(best.costs, other.costs, strict=True))
    wins = sum(mine.high < theirs.low for mine, theirs in pairs)
    losses = sum(mine.low > theirs.high for mine, theirs in pairs)
    if not pairs or not all(math.isfinite(cost.middle) for pair in pairs for cost in pair):
        return Advantage(None, wins, losses, len(pairs))
    found = paired_difference([mine.middle for mine, _ in pairs], [theirs.middle for _, theirs in pairs])
    doubt = sum((cost.high - cost.low) / 2.0 for pair in pairs for cost in pair) / len(pairs)
    least = max(best.least_width, other.least_width)
    if doubt > 0.0 or least > 0.0:
        found = with_least_width(found, max((found.half_width or 0.0) + doubt, least))
    return Advantage(found, wins, losses, len(pairs))


def _sign_test(wins: int, losses: int) -> float:
    """Return the two-sided probability of a split at least as uneven as this, if neither is better."""
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2.0**n
    return min(1.0, 2.0 * tail)


@dataclass(frozen=True)
class Plan:
    """How many seeds candidates get in each round, which part of them is kept after it, and the seeds of the last comparison."""

    rounds: tuple[int, ...] = (2, 4, 8)
    kept_one_in: int = 3
    final_seeds: int = 10
    fewest_left: int = 3
    """So many candidates are kept in any case, but for those that are surely worse than the leader."""

    def sizes(self, candidates: int) -> list[int]:
        """Return how many candidates are in each round, at most, and how many are left after the last."""
        sizes = [candidates]
        for _ in self.rounds:
            sizes.append(min(sizes[-1], max(math.ceil(sizes[-1] / self.kept_one_in), self.fewest_left)))
        return sizes

    def most_runs(self, candidates: int, references: int) -> int:
        """Return how many runs a search takes at most, ``references`` of the candidates being in the last comparison anyway."""
        *sizes, left = self.sizes(candidates)
        new = [seeds - before for before, seeds in zip((0, *self.rounds), self.rounds, strict=False)]
        return sum(size * seeds for size, seeds in zip(sizes, new, strict=True)) + (left + references) * self.final_seeds

    @property
    def fresh(self) -> range:
        """The seeds of the last comparison, none of which had a part in the choice."""
        return range(self.rounds[-1], self.rounds[-1] + self.final_seeds)


@dataclass(frozen=True)
class Tuned:
    """The outcome. ``best`` is the number of a candidate; None if all that were left surely break the condition."""

    best: int | None
    last_round: Mapping[int, int]
    """The round, from 1, in which each candidate was dropped, or the number of rounds if it was in the last comparison."""
    chosen_by: Mapping[int, Measured]
    """What each candidate came to in its last round."""
    finals: Mapping[int, Measured]
    """What those that were left, in their order, and the references came to with seeds of their own."""
    advantages: Mapping[int, Advantage]
    """Of the best over each other one in the last comparison."""

    def clear_over(self, other: int) -> bool:
        """Return whether the best is significantly better: it costs less, or keeps a condition that the other breaks."""
        return other in self.advantages and (self.advantages[other].clear or self.alone_keeps(other))

    def alone_keeps(self, other: int) -> bool:
        """Return whether the best keeps the condition and the other breaks it, both significantly."""
        return self.best is not None and (self.finals[self.best].allowed, self.finals[other].allowed) == ("holds", "fails")


def tune(
    evaluate: Evaluate, candidates: int, references: Sequence[int], plan: Plan, report: Callable[[int, int], None] | None = None
) -> Tuned:
    """Find the best of so many candidates by successive halving, and compare it with ``references``, which are some of them.

    ``report`` is told of each round as it begins, from 1, and how many candidates are in it; 0 is the last comparison.
    """
    tell = report or (lambda number, size: None)
    left = list(range(candidates))
    last_round: dict[int, int] = {}
    chosen_by: dict[int, Measured] = {}
    for number, (seeds, keep) in enumerate(zip(plan.rounds, plan.sizes(candidates)[1:], strict=True), 1):
        tell(number, len(left))
        for candidate in left:
            chosen_by[candidate] = evaluate(candidate, range(seeds))
            last_round[candidate] = number
        left = _survivors(left, chosen_by, keep)
    tell(0, len({*left, *references}))
    finals = {candidate: evaluate(candidate, plan.fresh) for candidate in dict.fromkeys((*left, *references))}
    best = min(left, key=lambda candidate: finals[candidate].condition_rank)
    if finals[best].condition_rank == 2:
        return Tuned(None, last_round, chosen_by, finals, {})
    advantages = {other: advantage_of(finals[best], found) for other, found in finals.items() if other != best}
    return Tuned(best, last_round, chosen_by, finals, advantages)


def _survivors(left: Sequence[int], measured: Mapping[int, Measured], keep: int) -> list[int]:
    """Return the best of the remaining candidates, in order, without those significantly worse than the leader."""
    ranked = sorted(left, key=lambda candidate: (*measured[candidate].order, candidate))
    leader = measured[ranked[0]]
    return [ranked[0], *(each for each in ranked[1:keep] if not advantage_of(leader, measured[each]).clear)]
