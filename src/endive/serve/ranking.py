"""What would help most: levers ranked by what they do to one metric, with intervals that hold together.

All are measured in one window, with the same seeds, and so the same arrivals, runtimes and latencies. A difference that nobody
would notice is not told, however sure it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from endive.analysis.metric import more_is_better
from endive.analysis.multiple import Best, against_baseline, best_of, confidence_of_each
from endive.analysis.paired import Difference, better, least_rate_width, least_share_width
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import FEWEST_ENTRIES
from endive.analysis.thresholds import kind_of, shown
from endive.report.differences import metric_name, signed_amount
from endive.report.phrases import listed, percent

PRESENT = "as it is"
_NOTICED_SHARE = 0.005
_NOTICED_PART = 0.02
"""Shares that differ by half a point, other values that differ by 2 %: less is not told."""
_GOOD = 0.99
_MOST_NAMED = 3
GOALS = {
    "success_rate": "success",
    "time_to_commit_p50_ms": "time to commit, median",
    "time_to_commit_p95_ms": "time to commit, 95 %",
    "throughput_per_s": "commits per second",
}


@dataclass(frozen=True)
class Goal:
    """The metric, of which class, that levers are ranked by."""

    metric: str
    workload_class: str = ALL

    @property
    def words(self) -> str:
        """What it is about."""
        return GOALS[self.metric] + ("" if self.workload_class == ALL else f" of {self.workload_class}")


def choose_goal(answer: Mapping[str, Any]) -> Goal:
    """Choose what to improve: the success of the worst class, or, if all do well, the time that 95 % of commits take.

    Classes of which there are too few to judge are passed over.
    """
    judged = [row for row in answer["classes"] if row["entered"] >= FEWEST_ENTRIES] or answer["classes"]
    found = [(row["name"], row["metrics"]["success_rate"]) for row in judged]
    shares = [(each["mean"], name) for name, each in found if each is not None and each["mean"] is not None]
    if shares and min(shares)[0] < _GOOD:
        return Goal("success_rate", min(shares)[1])
    whole = next(row for row in answer["classes"] if row["name"] == ALL or len(answer["classes"]) == 1)
    for metric in ("time_to_commit_p95_ms", "time_to_commit_p50_ms"):
        estimate = whole["metrics"][metric]
        if estimate is not None and estimate["kind"] == "number":
            return Goal(metric)
    return Goal("success_rate")


@dataclass(frozen=True)
class Tried:
    """A lever that was tried: its words, and what ``work.measured_values`` found."""

    name: str
    words: str
    note: str
    found: Mapping[str, Any]


def rank(goal: Goal, present: Mapping[str, Any], tried: Sequence[Tried], seconds: float) -> dict[str, Any]:
    """Rank levers against the present state, best first. ``seconds`` is the length of the window."""
    seeds = sorted(present["values"])
    told = [each for each in tried if sorted(each.found["values"]) == seeds] if seeds else []
    others = [each for each in tried if each not in told]
    baseline = [present["values"][seed] for seed in seeds]
    values = {each.name: [each.found["values"][seed] for seed in seeds] for each in told}
    width = _least_width(goal, baseline, [present, *(each.found for each in told)], seconds, len(told))
    differences = against_baseline(baseline, values, least_width=width) if values else {}
    best = best_of({PRESENT: baseline, **values}, goal.metric, least_width=width) if values else None
    sign = 1.0 if more_is_better(goal.metric) else -1.0
    ordered = sorted(told, key=lambda each: -sign * differences[each.name].difference)
    winner = best.name if best is not None and best.clear and best.name != PRESENT else None
    return {
        "goal": {"metric": goal.metric, "workload_class": goal.workload_class, "words": goal.words},
        "present": present["estimate"],
        "seeds": seeds,
        "clear": winner is not None,
        "best": winner,
        "sentence": _sentence(goal, best, differences, {each.name: each for each in tried}, present),
        "rows": [_row(goal, each, differences[each.name]) for each in ordered] + [_row(goal, each, None) for each in others],
    }


def _least_width(goal: Goal, baseline: Sequence[float], found: Sequence[Mapping[str, Any]], seconds: float, number: int) -> float:
    confidence = confidence_of_each(number)
    if kind_of(goal.metric) == "share":
        fewest = min(each["entered"] for each in found)
        return max(_NOTICED_SHARE, least_share_width(max(fewest, 1), confidence))
    noticed = _NOTICED_PART * abs(sum(baseline) / max(1, len(baseline)))
    if kind_of(goal.metric) == "rate":
        return max(noticed, least_rate_width(seconds * len(baseline), confidence))
    return noticed


def _row(goal: Goal, each: Tried, found: Difference | None) -> dict[str, Any]:
    return {
        "name": each.name,
        "words": each.words,
        "note": each.note,
        "value": each.found["estimate"],
        "change": _change(goal, found),
        "difference": None if found is None else {key: value for key, value in asdict(found).items() if key not in ("a", "b")},
        "told": found is not None and found.told,
        "better": None if found is None else better(goal.metric, found),
    }


def _change(goal: Goal, found: Difference | None) -> str:
    if found is not None and kind_of(goal.metric) == "share" and (found.half_width or 0.0) > 1.0:
        return "too few to tell"
    return signed_amount(goal.metric, found)


def _sentence(
    goal: Goal, best: Best | None, differences: Mapping[str, Difference], tried: Mapping[str, Tried], present: Mapping[str, Any]
) -> str:
    if best is None:
        return f"No clear winner: {metric_name(goal.metric)} is no number in every seed, so that nothing can be ranked by it."
    helps = [name for name, found in differences.items() if better(goal.metric, found)]
    if not helps:
        return f"No clear winner: nothing of what was tried helps {goal.words} beyond doubt."
    names = {PRESENT: PRESENT, **{name: each.words for name, each in tried.items()}}
    leader = names[best.name]
    if best.clear and best.name != PRESENT:
        before, after = (_value(goal, each["estimate"]["mean"]) for each in (present, tried[best.name].found))
        return f"{leader[:1].upper()}{leader[1:]} would help most: {goal.words} goes from {before} to {after}."
    rivals = [names[name] for name in best.rivals if name in helps] or [names[name] for name in best.rivals if name != PRESENT]
    more = len(rivals) - _MOST_NAMED
    told = rivals[:_MOST_NAMED] + ([f"{more} more"] if more > 0 else [])
    if not told:
        return f"No clear winner: {leader} leads, but not beyond doubt."
    return f"No clear winner: {leader} leads, but {listed(told)} may help {goal.words} as much."


def _value(goal: Goal, value: float) -> str:
    return percent(value) if kind_of(goal.metric) == "share" else shown(goal.metric, value)
