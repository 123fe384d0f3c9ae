"""Read and check the question of ``endive tune``, and measure the costs of its candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.analysis.conditions import Condition, Subject, parse_condition, parse_subject
from endive.analysis.contrasts import least_rate_width, least_share_width
from endive.analysis.estimates import SHARES, at_least, at_most
from endive.analysis.halving import Cost, Dimension, Measured, design
from endive.analysis.metric import more_is_better
from endive.analysis.percentiles import PERCENTS, fewest
from endive.analysis.run_metrics import ALL, RATES
from endive.analysis.warmup import Window, common_window
from endive.config import ConfigError, Document, Problem, compute_experiment_hash
from endive.config.aliases import ICEBERG_RETRY
from endive.config.load import check_document, parse_assignment, read_toml
from endive.config.resolve import resolve_classes
from endive.config.values import plain_value
from endive.studies.frontier import check_known, estimate_condition
from endive.studies.measure import RunMetrics
from endive.studies.replicate import WINDOW_SEEDS, Replications
from endive.transaction.policy import UNUSED_BY_KIND

Tree = dict[str, Any]
TODAY, ICEBERG = 0, 1
"""Indices of the reference candidates."""
RETRY_SETTINGS = (
    Dimension("retry", 2, 64, whole=True),
    Dimension("retry_backoff.base_ms", 1.0, 5_000.0),
    Dimension("retry_backoff.multiplier", 1.0, 4.0),
    Dimension("retry_backoff.max_ms", 5_000.0, 60_000.0),
    Dimension("retry_backoff.jitter", 0.0, 1.0),
)
"""Retry settings of the simplified commit path: exponential backoff with proportional jitter."""
ICEBERG_SETTINGS = (
    Dimension("retry", 2, 64, whole=True),
    Dimension("retry_backoff.base_ms", 1, 5_000, whole=True),
    Dimension("retry_backoff.max_ms", 5_000, 60_000, whole=True),
)
"""Retry settings of Iceberg's clients: the table properties that exist. Multiplier and jitter are those of the client."""
_BACKOFF: Mapping[str, Any] = {"retry_backoff": {"enabled": True}}
_ICEBERG_BACKOFF: Mapping[str, Any] = {"retry_backoff": ICEBERG_RETRY["retry_backoff"]}
"""Backoff of a tuned class before the values of a candidate, whatever the file gives it."""


@dataclass(frozen=True)
class Candidate:
    """Settings by key, in the order in which they are applied, and the configuration with them."""

    name: str
    settings: Mapping[str, Any]
    document: Document


@dataclass(frozen=True)
class TuningQuestion:
    """A configuration, the metric to improve, the condition to meet, and the candidates."""

    source: str
    tree: Tree
    overrides: Mapping[str, Any]
    objective: Subject
    condition: Condition | None
    tuned: tuple[str, ...]
    """Sections whose retry settings are searched."""
    candidates: tuple[Candidate, ...]

    @property
    def same_references(self) -> bool:
        """True if the current settings are Iceberg's defaults."""
        today, iceberg = (_list_retry_settings(self.candidates[each].document) for each in (TODAY, ICEBERG))
        return today == iceberg


def _list_retry_settings(document: Document) -> list[Tree]:
    """Return the settings that Iceberg's defaults determine, by class."""
    return [each.settings.model_dump(include=set(ICEBERG_RETRY)) for each in resolve_classes(document)]


def read_tuning(
    path: Path,
    goal: str,
    subject_to: str | None,
    vary: Sequence[str],
    overrides: Mapping[str, Any],
    count: int,
    key: int,
    *,
    content: Tree | None = None,
) -> TuningQuestion:
    """Read the question of a file, or of content that ``path`` only names, and of a command line.

    Raises:
        ConfigError: The question or the configuration of a candidate is invalid.
    """
    objective = parse_subject(goal, RATES, "--for")
    if more_is_better(objective.metric) is None:
        raise ConfigError("--for", [Problem("", f"{objective.metric} has no direction that is better; choose another metric")])
    condition = None if subject_to is None else parse_condition(subject_to, RATES, "--subject-to")
    tree = read_toml(path) if content is None else content

    def document(settings: Mapping[str, Any]) -> Document:
        return check_document(tree, str(path), path.parent, {**overrides, **settings})

    today = document({})
    for source, asked in (("--for", objective), ("--subject-to", condition)):
        if asked is not None:
            check_known(source, asked, today)
    tuned = tuple(f"workload.{name}" for name in sorted(today.workload) if objective.workload_class in (ALL, name)) or (
        "transaction",
    )
    is_iceberg = any(each.path.is_iceberg for each in resolve_classes(today) if objective.workload_class in (ALL, each.name))
    base, searched = (_ICEBERG_BACKOFF, ICEBERG_SETTINGS) if is_iceberg else (_BACKOFF, RETRY_SETTINGS)
    own = [_parse_dimension(text, lambda settings: document({**_set_in_sections(tuned, base), **settings})) for text in vary]
    given = {each.name for each in own}
    retry = [each for each in searched if not all(f"{section}.{each.name}" in given for section in tuned)]
    points = design([*retry, *own], count, key)
    settings = [{}, _set_in_sections(tuned, ICEBERG_RETRY), *(_make_settings(tuned, base, retry, point) for point in points)]
    labels = ["today", "Iceberg's defaults", *(f"candidate {number}" for number in range(1, count + 1))]
    candidates: dict[str, Candidate] = {}
    for place, (label, each) in enumerate(zip(labels, settings, strict=True)):
        made = document(each)
        identity = compute_experiment_hash(made) if place > ICEBERG else label
        if identity not in candidates:
            candidates[identity] = Candidate(label, each, made)
    return TuningQuestion(str(path), tree, overrides, objective, condition, tuned, tuple(candidates.values()))


def _set_in_sections(tuned: Sequence[str], values: Mapping[str, Any]) -> Tree:
    return {f"{section}.{name}": value for section in tuned for name, value in values.items()}


def _make_settings(tuned: Sequence[str], base: Mapping[str, Any], retry: Sequence[Dimension], point: Mapping[str, Any]) -> Tree:
    """Return the keys of a candidate: the backoff of each tuned class, and the other keys."""
    searched = {each.name for each in retry}
    settings = _set_in_sections(tuned, base)
    settings |= _set_in_sections(tuned, {name: value for name, value in point.items() if name in searched})
    settings |= {name: value for name, value in point.items() if name not in searched}
    for section in tuned:
        for name in UNUSED_BY_KIND.get(settings.get(f"{section}.retry_backoff.kind", ""), frozenset()):
            settings.pop(f"{section}.retry_backoff.{name}", None)
    return settings


def _parse_dimension(text: str, document: Callable[[Mapping[str, Any]], Document]) -> Dimension:
    """Parse a key and its values from ``KEY=LOW..HIGH`` or ``KEY=a,b,c``."""
    key, equals, values = text.partition("=")
    key = key.strip()
    if not equals or not key or not values.strip():
        raise ConfigError("--vary", [Problem("", f"{text!r} is not of the form KEY=LOW..HIGH or KEY=a,b,c")])
    low, dots, high = values.partition("..")
    if not dots:
        choices = tuple(parse_assignment(f"{key}={value}")[1] for value in values.split(","))
        for choice in choices:
            document({key: choice})
        return Dimension(key, choices=choices)
    ends = [plain_value(key, parse_assignment(f"{key}={end}")[1]) for end in (low, high)]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in ends):
        raise ConfigError("--vary", [Problem("", f"{text!r}: both ends of a range should be numbers, such as {key}=1..10")])
    if not ends[0] < ends[1]:
        raise ConfigError("--vary", [Problem("", f"{text!r}: {ends[0]:g} should be below {ends[1]:g}")])
    for end in ends:
        document({key: end})
    try:
        document({key: math.floor(ends[0]) + 0.5})
        whole = False
    except ConfigError:
        whole = all(float(end).is_integer() for end in ends)
    return Dimension(key, float(ends[0]), float(ends[1]), whole)


class CostEvaluator:
    """Measures candidates by running them, all with the same seeds and in one window."""

    def __init__(self, question: TuningQuestion, replications: Replications) -> None:
        self._question = question
        self._replications = replications
        references = [question.candidates[each].document for each in (TODAY, ICEBERG)]
        try:
            self.window: Window = common_window([replications.window(each, range(WINDOW_SEEDS)) for each in references])
        except ValueError as error:
            raise ConfigError("--warmup", [Problem("", f"the candidates have no common window: {error}")]) from None
        for each in references:
            _check_transactions(question.objective, replications.measure(each, range(WINDOW_SEEDS), self.window))

    def runs(self, candidate: int, seeds: Sequence[int]) -> tuple[RunMetrics, ...]:
        """Return the metrics of a candidate; run missing seeds."""
        return self._replications.measure(self._question.candidates[candidate].document, seeds, self.window)

    def __call__(self, candidate: int, seeds: Sequence[int]) -> Measured:
        """Measure the costs of a candidate with these seeds."""
        runs = self.runs(candidate, seeds)
        objective, condition = self._question.objective, self._question.condition
        rows = [run.select(objective.workload_class, objective.operation) for run in runs]
        costs = tuple(compute_cost(row, objective.metric) for row in rows)
        least = 0.0
        if objective.metric in SHARES:
            least = least_share_width(sum(row["transactions"] for row in rows))
        elif objective.metric.endswith("_per_s"):
            least = least_rate_width(self.window.length_ms / 1000.0 * len(rows))
        if condition is None:
            return Measured(costs, least_width=least)
        found = estimate_condition(runs, condition, 0.95)
        if found is None:
            return Measured(costs, "open", False, least)
        return Measured(costs, condition.verdict(found.low, found.high), condition.holds(found.mean), least)


def _check_transactions(objective: Subject, runs: Sequence[RunMetrics]) -> None:
    """Raise ConfigError if runs have too few transactions for the percentile that is to be improved."""
    percent = next((each for each in PERCENTS if objective.metric.endswith(f"_p{each}_ms")), None)
    if percent is None:
        return
    needed = fewest(percent / 100.0)
    found = min(int(run.select(objective.workload_class, objective.operation)["transactions"]) for run in runs)
    if found < needed:
        longer = runs[0].window.duration_ms * needed / max(found, 1)
        message = (
            f"{objective.metric} needs at least {needed} transactions per run, and a run has {found} in the window. "
            f"Set simulation.duration_ms to {longer:,.0f} or more, or choose a lower percentile."
        )
        raise ConfigError("--for", [Problem("", message)])


def compute_cost(row: Mapping[str, Any], metric: str) -> Cost:
    """Return the bounds of the cost of a run: the metric, negated if more of it is better."""
    if metric == "success_rate" and row.get("success_low") is not None:
        return Cost(-row["success_high"], -row["success_low"])
    value = row.get(metric)
    if value is not None:
        cost = -float(value) if more_is_better(metric) else float(value)
        return Cost(cost, cost)
    low, high = row.get(at_least(metric)), row.get(at_most(metric))
    return Cost(-math.inf if low is None else float(low), math.inf if high is None else float(high))
