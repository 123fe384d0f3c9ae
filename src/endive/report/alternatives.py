"""Several alternatives against a baseline: each of some metrics in order from the best to the worst, with names that users gave.

All comparisons that are told at once are corrected together, so that with 95% confidence every interval holds: of alternatives
that do not differ, one is called different in at most one study of twenty. See ``endive.analysis.multiple``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from endive.analysis.conditions import Subject, kind_of
from endive.analysis.contrasts import best_of, confidence_of_each
from endive.analysis.estimates import Estimate
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import ALL
from endive.formatting import capitalize, join_names
from endive.report.comparison import Comparison, Pairing, Side, all_subjects, compare_metric, estimate_in_words, least_width, pair
from endive.report.differences import amount, metric_name
from endive.studies.frontier import values_of

_KINDS = ("number", "bound", "never")
"""Of what is only known to be longer, and of what never ends, nothing is known that would put it before a number."""
_WHICH = {True: "better", False: "worse", None: "different"}
METRICS = ("success_rate", "throughput_per_s", "time_to_commit_p95_ms")
"""What is compared unless there is a question, or other metrics are asked for."""


@dataclass(frozen=True)
class Standing:
    """A side in the order of a metric. The baseline has no comparison."""

    name: str
    value: str
    comparison: Comparison | None

    @property
    def verdict(self) -> str:
        """Against the baseline, in words."""
        each = self.comparison
        if each is None:
            return "the baseline"
        if not each.told:
            return "no difference can be told"
        better = _WHICH[each.better]
        if each.difference is None:
            return better
        more = each.difference.difference > 0.0
        words = ("longer", "shorter") if kind_of(each.metric) == "time" else ("more", "less")
        return f"{better}: {amount(each.metric, each.difference)} {words[0] if more else words[1]}"


@dataclass(frozen=True)
class Leader:
    """The best of all sides, whether it is so beyond doubt, and which others may be as good."""

    name: str
    clear: bool
    rivals: tuple[str, ...]


@dataclass(frozen=True)
class Ranking:
    """One metric of one class: all sides, the best first, and the best if that can be asked."""

    subject: Subject
    standings: tuple[Standing, ...]
    missing: tuple[str, ...]
    """Sides in which it could not be measured."""
    best: Leader | None

    @property
    def title(self) -> str:
        """What it is of."""
        return subject_in_words(self.subject)


@dataclass(frozen=True)
class Alternatives:
    """The baseline, the rankings in the order of what they are about, and how many comparisons were corrected together."""

    baseline: str
    rankings: tuple[Ranking, ...]
    comparisons: int
    warnings: tuple[str, ...]


def subject_in_words(subject: Subject) -> str:
    """A metric and whose it is: ``success of compaction``."""
    of = [name for name in (subject.workload_class, subject.operation) if name != ALL]
    name = metric_name(subject.metric).removesuffix(" rate")
    return f"{name} of {', '.join(of)}" if of else f"{name} of all transactions"


def subjects_of(sides: Sequence[Side], question: Subject | None, metrics: Sequence[str]) -> list[Subject]:
    """Return what is compared: the question first, then metrics of all transactions and of each class.

    Where there is a question and no metric was asked for, the question alone, so that nothing else widens its intervals.
    """
    if question is not None and not metrics:
        return [question]
    first = [] if question is None else [question]
    return list(dict.fromkeys([*first, *all_subjects(sides, metrics or METRICS)]))


def compare_sides(sides: Sequence[Side], subjects: Sequence[Subject], *, times: int = 1) -> Alternatives:
    """Compare all sides with the first. Raises ValueError if there are fewer than two.

    ``times`` is how many such comparisons, of other points of a study, are told together with this one.
    """
    if len(sides) < 2:
        raise ValueError("an alternative needs a baseline")
    baseline, *others = sides
    pairings = [pair(baseline, side) for side in others]
    comparisons = len(others) * len(subjects) * times
    rankings = [_ranked(sides, pairings, subject, confidence_of_each(comparisons)) for subject in subjects]
    warnings = dict.fromkeys(
        f"{side.name}: {_named(warning, baseline, side)}"
        for side, pairing in zip(others, pairings, strict=True)
        for warning in pairing.warnings
    )
    return Alternatives(baseline.name, tuple(rankings), comparisons, tuple(warnings))


def _named(warning: str, a: Side, b: Side) -> str:
    return warning.replace("A has", f"{a.name} has").replace("B has", f"{b.name} has").replace("A and B", f"{a.name} and {b.name}")


def _ranked(sides: Sequence[Side], pairings: Sequence[Pairing], subject: Subject, confidence: float) -> Ranking:
    baseline, *others = sides
    found = {
        side.name: compare_metric(baseline, side, pairing, subject, confidence)
        for side, pairing in zip(others, pairings, strict=True)
    }
    missing = tuple(name for name, each in found.items() if each is None)
    compared = {name: each for name, each in found.items() if each is not None}
    estimates = {name: each.b for name, each in compared.items()}
    if compared:
        estimates[baseline.name] = next(iter(compared.values())).a
    more = more_is_better(subject.metric)
    sign = 1.0 if more is False else -1.0
    ordered = [name for name in (baseline.name, *compared) if name in estimates]
    ordered.sort(key=lambda name: (_KINDS.index(estimates[name].kind), sign * estimates[name].mean))
    standings = [Standing(name, estimate_in_words(subject.metric, estimates[name]), compared.get(name)) for name in ordered]
    asked = more is not None and not missing and all(pairing.paired for pairing in pairings)
    return Ranking(subject, tuple(standings), missing, _leader(sides, subject, estimates) if asked else None)


def _leader(sides: Sequence[Side], subject: Subject, estimates: Mapping[str, Estimate]) -> Leader | None:
    """Find the best of all sides by their common seeds. Of what is a bound or never, the interval alone tells; None if all are."""
    seeds = sorted(set.intersection(*(set(side.seeds) for side in sides)))
    numbers = [side for side in sides if estimates[side.name].kind == "number"]
    values = {}
    for side in numbers:
        found = values_of(side.runs, subject.metric, subject.workload_class, subject.operation)
        values[side.name] = [found.get(seed, math.inf) for seed in seeds]
    if len(seeds) < 2 or not values or not all(math.isfinite(value) for each in values.values() for value in each):
        return None
    least = least_width(sides, subject, confidence_of_each(len(sides) - 1))
    best = best_of(values, subject.metric, least_width=least)
    open_ = [name for name, each in estimates.items() if each.kind != "number" and each.low <= estimates[best.name].high]
    rivals = (*best.rivals, *open_)
    return Leader(best.name, not rivals and best.clear, rivals)


def in_short(found: Alternatives) -> list[str]:
    """The answer: what the first ranking says of every alternative, and whether one is the best."""
    ranking = found.rankings[0]
    told: dict[str, list[str]] = {}
    for each in ranking.standings:
        if each.comparison is not None:
            which = _WHICH[each.comparison.better] if each.comparison.told else "open"
            told.setdefault(which, []).append(f"{each.name} ({each.value})")
    own = next((each.value for each in ranking.standings if each.comparison is None), None)
    against = found.baseline if own is None else f"{found.baseline} ({own})"
    parts = [
        f"{join_names(told[which])} {'is' if len(told[which]) == 1 else 'are'} {which} than {against}"
        for which in ("better", "worse")
        if which in told
    ]
    parts += (
        [f"{join_names(told['different'])} {'is' if len(told['different']) == 1 else 'are'} different from {against}"]
        if "different" in told
        else []
    )
    parts += [f"no difference from {against} can be told of {join_names(told['open'])}"] if "open" in told else []
    sentences = (
        [f"{capitalize(ranking.title)}: {'; '.join(parts)}."] if parts else [f"{capitalize(ranking.title)} could not be measured."]
    )
    if ranking.missing:
        sentences.append(f"It could not be measured in {join_names(list(ranking.missing))}.")
    best = ranking.best
    if best is not None and best.clear:
        sentences.append(f"The best is {best.name}, beyond doubt.")
    elif best is not None:
        sentences.append(f"There is no clear best: {join_names([best.name, *best.rivals])} cannot be told apart.")
    return sentences
