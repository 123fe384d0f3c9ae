"""Find the best of many candidates by successive halving, and compare it with reference candidates on new seeds.

All candidates are measured with the same seeds. Each round drops the candidates that are significantly worse than the leader and
the worst of the others, and the next round measures the rest with more seeds. Then the leader is compared with its neighbors, which
differ in one setting, until none of them is better. Settings without effect are reset. The final comparison uses seeds that were
not used for the selection, so that its paired 95% intervals are free of selection bias. All objectives are costs: lower is better.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from endive.analysis.conditions import Verdict
from endive.analysis.contrasts import Difference, paired_difference, with_least_width
from endive.analysis.estimates import CONFIDENCE
from endive.analysis.replication_rule import Reached, Width, add_seeds
from endive.config.study import Precision

_STEP = 0.125
"""Distance between neighbors in a range, as a fraction of the range."""
_ADVANTAGE = "the advantage over the current settings or Iceberg's defaults"
_NEGLIGIBLE = 0.01
"""Minimum relative saving for which a setting is recommended."""


@dataclass(frozen=True)
class Dimension:
    """Dimension of a search. A value is any number from ``low`` to ``high``, or one of ``choices``."""

    name: str
    low: float = 0.0
    high: float = 1.0
    whole: bool = False
    choices: tuple[Any, ...] = ()

    def value(self, position: float) -> Any:
        """Return the value at a position from 0 to 1, rounded to two significant digits.

        Ranges that span a factor of ten or more are logarithmic.
        """
        if self.choices:
            return self.choices[min(int(position * len(self.choices)), len(self.choices) - 1)]
        if self.low > 0.0 and self.high >= 10.0 * self.low:
            exact = self.low * (self.high / self.low) ** position
        else:
            exact = self.low + (self.high - self.low) * position
        if self.whole:
            return int(min(max(round(exact), math.ceil(self.low)), math.floor(self.high)))
        return min(max(float(f"{exact:.2g}"), self.low), self.high)

    def neighbours(self, value: Any) -> list[Any]:
        """Return the neighbors of a value. All other values are neighbors in unordered choices, only adjacent values otherwise."""
        if self.choices:
            if value not in self.choices or not all(isinstance(each, int | float) for each in self.choices):
                return [each for each in self.choices if each != value]
            place = self.choices.index(value)
            return [*self.choices[max(place - 1, 0) : place], *self.choices[place + 1 : place + 2]]
        at = self._position(value)
        found = (self.value(min(max(at + step, 0.0), 1.0)) for step in (-_STEP, _STEP))
        return [each for each in dict.fromkeys(found) if each != value]

    def _position(self, value: float) -> float:
        """Return the position of a value in a range, from 0 to 1."""
        if self.low > 0.0 and self.high >= 10.0 * self.low:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def design(dimensions: Sequence[Dimension], count: int, key: int) -> list[dict[str, Any]]:
    """Return all points of the search space if there are at most ``count``, or ``count`` points spread evenly over it.

    The points form an additive recurrence. ``key`` is the random seed of the starting point.
    """
    sizes = [len(each.choices) for each in dimensions]
    if all(sizes) and math.prod(sizes) <= count:
        names = [each.name for each in dimensions]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*(each.choices for each in dimensions))]
    root = 2.0
    for _ in range(64):
        root = (1.0 + root) ** (1.0 / (len(dimensions) + 1))
    offsets = np.random.default_rng(key).random(len(dimensions))
    steps = root ** -np.arange(1, len(dimensions) + 1)
    points = (offsets + np.outer(np.arange(count), steps)) % 1.0
    return [{each.name: each.value(float(at)) for each, at in zip(dimensions, point, strict=True)} for point in points]


@dataclass(frozen=True)
class Cost:
    """Cost of a run, between ``low`` and ``high`` if not known exactly, and infinite if the transactions abort."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        """Middle of the bounds; infinite if a bound is infinite."""
        return (self.low + self.high) / 2.0 if math.isfinite(self.low) and math.isfinite(self.high) else math.inf


@dataclass(frozen=True)
class Measured:
    """Costs of a candidate by seed, and whether it meets all conditions, judged by intervals (``allowed``) and means (``kept``)."""

    costs: tuple[Cost, ...]
    allowed: Verdict = "holds"
    kept: bool = True
    least_width: float = 0.0
    """Minimum half width of a difference between these costs and others, even if all seeds agree."""
    verdicts: tuple[Verdict, ...] = ()
    """Verdict of each condition."""

    @property
    def condition_rank(self) -> int:
        """0 if the means meet the conditions, 2 if a condition is significantly violated, 1 otherwise."""
        return 2 if self.allowed == "fails" else 0 if self.kept else 1

    @property
    def mean(self) -> float | None:
        """Mean over seeds; None unless all costs are finite."""
        middles = [cost.middle for cost in self.costs]
        return sum(middles) / len(middles) if middles and all(map(math.isfinite, middles)) else None

    @property
    def never(self) -> int:
        """Number of seeds for which the lower bound of the cost is infinite."""
        return sum(cost.low == math.inf for cost in self.costs)

    @property
    def order(self) -> tuple[int, int, int, float]:
        """Sort key, best first: rank by conditions, seeds with a possibly infinite cost, seeds with an infinite cost, and mean."""
        finite = [cost.middle for cost in self.costs if math.isfinite(cost.middle)]
        return self.condition_rank, len(self.costs) - len(finite), self.never, sum(finite) / max(len(finite), 1)


Evaluate = Callable[[int, Sequence[int]], Measured]
"""Function that measures a candidate, given by its number, with some seeds."""


@dataclass(frozen=True)
class Advantage:
    """Advantage of the best candidate over another one: a difference or, if a cost is infinite, numbers of wins and losses."""

    difference: Difference | None
    """Cost of the other candidate minus cost of the best; None unless all costs are finite."""
    wins: int
    losses: int
    seeds: int

    @property
    def clear(self) -> bool:
        """True if the best candidate costs significantly less: the 95% interval is above 0, or the sign test rejects equality."""
        if self.difference is not None:
            return self.difference.is_significant and self.difference.difference > 0.0
        return self.wins > self.losses and _sign_test(self.wins, self.losses) <= 1.0 - CONFIDENCE


def advantage_of(best: Measured, other: Measured) -> Advantage:
    """Compare the costs of two candidates seed by seed. Raises ValueError if the numbers of seeds differ."""
    pairs = list(zip(best.costs, other.costs, strict=True))
    wins = sum(mine.high < theirs.low for mine, theirs in pairs)
    losses = sum(mine.low > theirs.high for mine, theirs in pairs)
    if not pairs or not all(math.isfinite(cost.middle) for pair in pairs for cost in pair):
        return Advantage(None, wins, losses, len(pairs))
    found = paired_difference([mine.middle for mine, _ in pairs], [theirs.middle for _, theirs in pairs])
    doubt = sum((cost.high - cost.low) / 2.0 for pair in pairs for cost in pair) / len(pairs)
    least = max(best.least_width, other.least_width)
    if doubt > 0.0 or least > 0.0:
        found = with_least_width(found, max((found.half_width or 0.0) + doubt, least), doubt)
    return Advantage(found, wins, losses, len(pairs))


def _sign_test(wins: int, losses: int) -> float:
    n = wins + losses
    tail = sum(math.comb(n, k) for k in range(max(wins, losses), n + 1)) / 2.0**n
    return min(1.0, 2.0 * tail)


@dataclass(frozen=True)
class Plan:
    """Plan of a search.

    Attributes:
        rounds: Number of seeds per candidate in each round.
        kept_one_in: Number by which each round divides the number of candidates.
        final_seeds: Number of seeds of the final comparison.
        fewest_left: Minimum number of candidates that a round keeps, except candidates significantly worse than the leader.
        refined: Maximum number of further candidates, which differ from the leader in one setting.
        precision: Requested precision of the advantages over the references, which replaces ``final_seeds``; None for a fixed
            number of seeds.
        is_share: True if the costs are proportions, whose precision is in percentage points.
    """

    rounds: tuple[int, ...] = (2, 4, 8)
    kept_one_in: int = 3
    final_seeds: int = 10
    fewest_left: int = 3
    refined: int = 0
    precision: Precision | None = None
    is_share: bool = False

    def sizes(self, candidates: int) -> list[int]:
        """Return the maximum number of candidates at the start of each round and after the last round."""
        sizes = [candidates]
        for _ in self.rounds:
            sizes.append(min(sizes[-1], max(math.ceil(sizes[-1] / self.kept_one_in), self.fewest_left)))
        return sizes

    def most_runs(self, candidates: int, references: int) -> int:
        """Return the maximum number of runs of a search with ``references`` additional candidates in the final comparison."""
        *sizes, left = self.sizes(candidates)
        new = [seeds - before for before, seeds in zip((0, *self.rounds), self.rounds, strict=False)]
        rounds = sum(size * seeds for size, seeds in zip(sizes, new, strict=True)) + self.refined * self.rounds[-1]
        final = self.final_seeds if self.precision is None else self.precision.most_seeds
        return rounds + (left + references) * final

    def fresh(self, count: int) -> range:
        """Return the seeds of the final comparison, which no round uses."""
        return range(self.rounds[-1], self.rounds[-1] + count)


@dataclass(frozen=True)
class Tuned:
    """Result of a search, with candidates by number.

    Attributes:
        best: Best candidate; None if no candidate of the final comparison meets the condition.
        last_round: Last round of each candidate, from 1.
        chosen_by: Measurement of each candidate in its last round.
        finals: Measurements of the final comparison: the remaining candidates in order, then the references.
        advantages: Advantage of the best candidate over each other candidate of the final comparison.
        reached: Seeds and widths of the final comparison if a precision was requested, otherwise None.
    """

    best: int | None
    last_round: Mapping[int, int]
    chosen_by: Mapping[int, Measured]
    finals: Mapping[int, Measured]
    advantages: Mapping[int, Advantage]
    reached: Reached | None = None

    def clear_over(self, other: int) -> bool:
        """Return whether the best is significantly better: it costs less, or it meets a condition that the other violates."""
        return other in self.advantages and (self.advantages[other].clear or self.alone_keeps(other))

    def alone_keeps(self, other: int) -> bool:
        """Return whether the best candidate meets the conditions and the other one violates a condition, both significantly."""
        return self.best is not None and (self.finals[self.best].allowed, self.finals[other].allowed) == ("holds", "fails")


@dataclass(frozen=True)
class Moves:
    """Functions that derive candidates from a candidate. Both return the numbers of candidates.

    Attributes:
        neighbours: Candidates that are not measured yet, with one setting changed to a neighboring value.
        simpler: Candidates with one setting reset to its current value, measured or not.
    """

    neighbours: Callable[[int], Sequence[int]]
    simpler: Callable[[int], Sequence[int]]


def tune(
    evaluate: Evaluate,
    candidates: int,
    references: Sequence[int],
    plan: Plan,
    report: Callable[[int, int], None] | None = None,
    moves: Moves | None = None,
) -> Tuned:
    """Find the best candidate by successive halving, and compare it with references.

    Args:
        evaluate: Function that measures a candidate.
        candidates: Number of candidates.
        references: Candidates that always take part in the final comparison.
        plan: Rounds and seeds.
        report: Function that is called at the start of each round with the number of the round and the number of candidates. Rounds
            are counted from 1; 0 is the final comparison, -1 a comparison with neighbors, -2 a comparison with simpler candidates.
        moves: Functions that derive candidates from a candidate; None to measure only the given candidates.
    """
    search = _Search(evaluate, plan, report or (lambda number, size: None))
    left = search.halve(range(candidates))
    if moves is not None:
        left = search.refine(left, moves)
    search.report(0, len({*left, *references}))
    finals, reached = _compare_finals(evaluate, left, references, plan)
    best = _choose_best([*left, *references], finals)
    if finals[best].condition_rank > 0:
        return Tuned(None, search.last_round, search.chosen_by, finals, {}, reached)
    advantages = {other: advantage_of(finals[best], found) for other, found in finals.items() if other != best}
    return Tuned(best, search.last_round, search.chosen_by, finals, advantages, reached)


def _choose_best(left: Sequence[int], finals: Mapping[int, Measured]) -> int:
    return min(left, key=lambda candidate: finals[candidate].condition_rank)


def _compare_finals(
    evaluate: Evaluate, left: Sequence[int], references: Sequence[int], plan: Plan
) -> tuple[dict[int, Measured], Reached | None]:
    """Measure the remaining candidates and the references on new seeds: a fixed number, or until the precision is reached."""
    everyone = list(dict.fromkeys((*left, *references)))
    if plan.precision is None:
        return {candidate: evaluate(candidate, plan.fresh(plan.final_seeds)) for candidate in everyone}, None
    finals: dict[int, Measured] = {}
    precision = plan.precision

    def measure(seeds: int) -> list[Width]:
        finals.update({candidate: evaluate(candidate, plan.fresh(seeds)) for candidate in everyone})
        best = _choose_best(left, finals)
        found = [advantage_of(finals[best], finals[other]).difference for other in references if other != best]
        return [
            Width(_ADVANTAGE, None, 0.0)
            if each is None
            else Width(_ADVANTAGE, each.half_width or 0.0, precision.width_of(each.b, is_share=plan.is_share), each.unfinished)
            for each in found
        ]

    return finals, add_seeds(measure, precision)


class _Search:
    """State of a search: the last round and the latest measurement of each candidate."""

    def __init__(self, evaluate: Evaluate, plan: Plan, report: Callable[[int, int], None]) -> None:
        self.report = report
        self.last_round: dict[int, int] = {}
        self.chosen_by: dict[int, Measured] = {}
        self._evaluate = evaluate
        self._plan = plan

    def halve(self, candidates: Sequence[int]) -> list[int]:
        """Run all rounds, and return the remaining candidates, the best first."""
        left = list(candidates)
        for number, (seeds, keep) in enumerate(zip(self._plan.rounds, self._plan.sizes(len(left))[1:], strict=True), 1):
            self.report(number, len(left))
            for candidate in left:
                self._measure(candidate, number, seeds)
            left = self._survivors(left, keep)
        return left

    def refine(self, left: Sequence[int], moves: Moves) -> list[int]:
        """Compare the leader with its neighbors and simpler candidates, and return the remaining candidates, the best first."""
        pool, budget = list(left), self._plan.refined
        reserved = budget // 3
        while budget > reserved and (new := self._expand(pool, moves)[: budget - reserved]):
            budget -= len(new)
            self.report(-1, len(new))
            pool = self._join(pool, new)
        best = self.chosen_by[pool[0]]
        while simpler := self._simplify(pool[0], best, moves, budget):
            budget -= simpler[1]
            pool = [simpler[0], *(each for each in pool if each != simpler[0])]
        others = [each for each in self._survivors(pool, self._plan.fewest_left) if each != pool[0]]
        return [pool[0], *others][: self._plan.fewest_left]

    def _expand(self, pool: Sequence[int], moves: Moves) -> list[int]:
        """Return the unmeasured neighbors of the best candidate that has some and is not significantly worse than the leader.

        A better candidate may differ from the leader in two settings, neither of which helps alone: for example, more retries
        together with shorter waits.
        """
        for candidate in self._survivors(pool, len(pool)):
            new = list(moves.neighbours(candidate))
            if new:
                return new
        return []

    def _join(self, pool: Sequence[int], new: Sequence[int]) -> list[int]:
        """Run all rounds with the new candidates, and return the pool with those that remain, the best first."""
        leader, joined = pool[0], list(new)
        for number, seeds in enumerate(self._plan.rounds, 1):
            for candidate in joined:
                self._measure(candidate, number, seeds)
            against = self._evaluate(leader, range(seeds))
            joined = [each for each in joined if not advantage_of(against, self.chosen_by[each]).clear]
            joined = sorted(joined, key=self._rank)[: max(1, math.ceil(len(new) / self._plan.kept_one_in**number))]
        return sorted({*pool, *joined}, key=self._rank)

    def _simplify(self, leader: int, best: Measured, moves: Moves, budget: int) -> tuple[int, int] | None:
        """Find a candidate with one changed setting fewer and nearly the same cost; return it and the number of candidates
        measured.
        """
        measured = 0
        for candidate in moves.simpler(leader):
            if self.last_round.get(candidate) != len(self._plan.rounds):
                measured += 1
                if measured > budget:
                    return None
                if measured == 1:
                    self.report(-2, 1)
                self._measure(candidate, len(self._plan.rounds), self._plan.rounds[-1])
            other = self.chosen_by[candidate]
            if best.mean is None or other.mean is None or other.condition_rank > best.condition_rank:
                continue
            if other.mean - best.mean <= _NEGLIGIBLE * abs(best.mean):
                return candidate, measured
        return None

    def _measure(self, candidate: int, number: int, seeds: int) -> None:
        self.chosen_by[candidate] = self._evaluate(candidate, range(seeds))
        self.last_round[candidate] = number

    def _rank(self, candidate: int) -> tuple[float, ...]:
        return (*self.chosen_by[candidate].order, candidate)

    def _survivors(self, left: Sequence[int], keep: int) -> list[int]:
        """Return the ``keep`` best candidates in order, without those significantly worse than the leader."""
        ranked = sorted(left, key=self._rank)
        leader = self.chosen_by[ranked[0]]
        return [ranked[0], *(each for each in ranked[1:keep] if not advantage_of(leader, self.chosen_by[each]).clear)]
