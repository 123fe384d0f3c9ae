"""Many alternatives at once: each against the baseline, and the best against all others, with intervals that hold together.

Takes values by seed, the same seeds in the same order for all. Of twenty alternatives that do not differ from the baseline one
would seem to, were each compared by a 95 % interval of its own; so the doubt of 5 % is shared equally among all comparisons
(Bonferroni): with 95 % confidence *all* of the intervals hold, however the alternatives depend on each other. Dunnett's narrower
intervals ask for alternatives that vary equally and apart from the common baseline, which runs with common random numbers do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from endive.analysis.estimates import CONFIDENCE
from endive.analysis.metric import more_is_better
from endive.analysis.paired import Difference, paired_difference, with_least_width


def confidence_of_each(comparisons: int) -> float:
    """Return the confidence that each of so many intervals needs, so that all of them hold together with 95 %."""
    return 1.0 - (1.0 - CONFIDENCE) / max(1, comparisons)


def against_baseline(
    baseline: Sequence[float], alternatives: Mapping[str, Sequence[float]], *, least_width: float = 0.0
) -> dict[str, Difference]:
    """Compare each alternative with the baseline seed by seed; the 95 % intervals hold together.

    ``least_width`` is the half width below which no difference is told, however much the seeds agree (``least_share_width`` of
    shares, ``least_rate_width`` of rates, both with the confidence of ``confidence_of_each``). Raises ValueError if a value is not
    finite, or there are not as many as of the baseline.
    """
    _check(baseline, alternatives)
    confidence = confidence_of_each(len(alternatives))
    return {name: _floored(paired_difference(baseline, values, confidence), least_width) for name, values in alternatives.items()}


@dataclass(frozen=True)
class Best:
    """The leader of some alternatives, and its lead over each other one: value of the leader less that of the other."""

    name: str
    leads: Mapping[str, Difference]
    clear: bool
    """Whether the leader is better than every other one beyond doubt."""

    @property
    def rivals(self) -> tuple[str, ...]:
        """The others that may be as good as the leader."""
        return tuple(name for name, lead in self.leads.items() if not lead.told)


def best_of(alternatives: Mapping[str, Sequence[float]], metric: str, *, least_width: float = 0.0) -> Best:
    """Find the best of alternatives by their means over the same seeds, and tell whether it is so beyond doubt.

    The intervals of its leads hold together with 95 % confidence (multiple comparisons with the best). Of equal means the first
    leads. ``metric`` says whether more or less is better. Raises ValueError if neither is, if a value is not finite, or if there
    are no alternatives or not as many values of each.
    """
    more = more_is_better(metric)
    if more is None:
        raise ValueError(f"neither more nor less of {metric} is better")
    if not alternatives:
        raise ValueError("the best of no alternatives")
    _check(next(iter(alternatives.values())), alternatives)
    sign = 1.0 if more else -1.0
    leader = max(alternatives, key=lambda name: sign * math.fsum(alternatives[name]))
    others = {name: values for name, values in alternatives.items() if name != leader}
    confidence = confidence_of_each(len(others))
    leads = {
        name: _floored(paired_difference(values, alternatives[leader], confidence), least_width) for name, values in others.items()
    }
    return Best(leader, leads, all(lead.told for lead in leads.values()))


def _floored(found: Difference, least_width: float) -> Difference:
    return with_least_width(found, least_width) if least_width > 0.0 else found


def _check(baseline: Sequence[float], alternatives: Mapping[str, Sequence[float]]) -> None:
    for name, values in (("the baseline", baseline), *alternatives.items()):
        if len(values) != len(baseline) or not all(map(math.isfinite, values)):
            raise ValueError(f"{name}: {len(baseline)} finite values are needed, one for each seed")
