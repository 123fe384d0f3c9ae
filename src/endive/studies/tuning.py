"""Read and check the options of ``endive tune``, and measure the costs of candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from endive.analysis.conditions import Condition, Subject, Verdict, parse_condition, parse_subject
from endive.analysis.contrasts import least_rate_width, least_share_width
from endive.analysis.estimates import SHARES, at_least, at_most
from endive.analysis.halving import Cost, Dimension, Measured, design
from endive.analysis.metric import more_is_better
from endive.analysis.percentiles import PERCENTS, fewest
from endive.analysis.replication_rule import choose_subjects
from endive.analysis.run_metrics import ALL
from endive.analysis.warmup import Window, common_window
from endive.config import ConfigError, Document, Problem, compute_experiment_hash
from endive.config.errors import nearest
from endive.config.load import ICEBERG_RETRY, check_document, parse_assignment, read_toml
from endive.config.resolve import ResolvedClass, resolve_classes
from endive.config.study import Precision
from endive.config.values import plain_value
from endive.formatting import format_minimum_duration
from endive.studies.frontier import VariedFile, check_known, estimate_subject
from endive.studies.measure import RunMetrics
from endive.studies.replicate import WINDOW_SEEDS, Replications
from endive.studies.settings import CLASS_SETTINGS, GROUPS, ICEBERG_RETRY_SETTINGS, RETRIES, Scope, current_value, default_groups
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
"""Retry settings of the simplified commit path, which uses exponential backoff with proportional jitter."""
_BACKOFF: Mapping[str, Any] = {"retry_backoff": {"enabled": True}}
_ICEBERG_BACKOFF: Mapping[str, Any] = {"retry_backoff": ICEBERG_RETRY["retry_backoff"]}
"""Backoff of a tuned class to which the values of a candidate are applied, independent of the file."""
_BACKOFF_KEY = "retry_backoff."


@dataclass(frozen=True)
class Candidate:
    """Candidate of a search: settings in the order in which they are applied, and the resulting configuration.

    Attributes:
        name: Name of the candidate in results.
        point: Values of the searched dimensions that differ from the current settings.
        settings: Values by key of the configuration.
        document: Configuration with these settings.
        identity: Hash of the configuration.
    """

    name: str
    point: Mapping[str, Any]
    settings: Mapping[str, Any]
    document: Document
    identity: str


@dataclass(frozen=True)
class Space:
    """Settings to search.

    Attributes:
        retries: Retry settings that all sections in ``tuned`` share. Their keys do not contain the section.
        others: Other settings. Their keys contain the section.
        today: Current values of settings, as far as they are known.
        tuned: Sections whose retry settings are searched.
        backoff: Backoff of these sections to which the values of a candidate are applied.
    """

    retries: tuple[Dimension, ...]
    others: tuple[Dimension, ...]
    today: Mapping[str, Any]
    tuned: tuple[str, ...]
    backoff: Mapping[str, Any]

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """All dimensions."""
        return (*self.retries, *self.others)

    def reduce(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a point that differ from the current settings."""
        return {name: value for name, value in point.items() if name not in self.today or self.today[name] != value}

    def settings(self, point: Mapping[str, Any]) -> Tree:
        """Return the settings of a candidate by dotted key: the retry settings of each tuned section, and the other settings."""
        retries = {each.name for each in self.retries}
        changed = {name: value for name, value in point.items() if name in retries}
        known = {name: value for name, value in self.today.items() if _BACKOFF_KEY in name and value is not None}
        if not any(_BACKOFF_KEY in name for name in point):
            known = {}
        else:
            shared = {name: value for name, value in known.items() if name.startswith(_BACKOFF_KEY)}
            changed = {**self.backoff, **shared, **changed}
        settings = _set_in_sections(self.tuned, changed)
        own = {name: value for name, value in known.items() if not name.startswith(_BACKOFF_KEY)}
        settings |= own | {name: value for name, value in point.items() if name not in retries}
        for section in self.tuned:
            for name in UNUSED_BY_KIND.get(settings.get(f"{section}.retry_backoff.kind", ""), frozenset()):
                settings.pop(f"{section}.retry_backoff.{name}", None)
        return settings

    def neighbours(self, point: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the points that differ from a point by one step in one setting."""
        found = []
        for each in self.dimensions:
            now = point.get(each.name, self.today.get(each.name))
            near = each.neighbours(now) if now is not None else [each.value(0.5)]
            found += [self.reduce({**point, each.name: value}) for value in near]
        return found


@dataclass(frozen=True)
class TuningQuestion(VariedFile):
    """Configuration, metric to optimize, conditions to meet, and candidates."""

    objective: Subject
    conditions: tuple[Condition, ...]
    space: Space
    candidates: list[Candidate]
    """Current settings, Iceberg's defaults and the initial candidates. A search adds further candidates."""

    @property
    def same_references(self) -> bool:
        """True if the current settings are Iceberg's defaults."""
        today, iceberg = (
            [each.settings.model_dump(include=set(ICEBERG_RETRY)) for each in resolve_classes(self.candidates[place].document)]
            for place in (TODAY, ICEBERG)
        )
        return today == iceberg

    @property
    def asked(self) -> tuple[tuple[str, Condition | Subject], ...]:
        """Conditions and metric of the question, each with its command-line option."""
        return (("--for", self.objective), *(("--subject-to", each) for each in self.conditions))

    def add(self, point: Mapping[str, Any]) -> int | None:
        """Add the candidate at a point, and return its number, or None if a candidate with the same configuration exists."""
        count = len(self.candidates)
        return count if self.find(point) == count else None

    def find(self, point: Mapping[str, Any]) -> int:
        """Return the number of the candidate at a point. Add the candidate if it does not exist."""
        settings = self.space.settings(point)
        made = self.make_document(settings)
        identity = compute_experiment_hash(made)
        for number, each in enumerate(self.candidates):
            if each.identity == identity:
                return number
        self.candidates.append(Candidate(f"candidate {len(self.candidates) - ICEBERG}", point, settings, made, identity))
        return len(self.candidates) - 1

    def neighbours(self, candidate: int) -> list[int]:
        """Return the numbers of new, valid candidates that differ from a candidate in one setting."""
        near, found = self.space.neighbours(self.candidates[candidate].point), []
        for point in near:
            with suppress(ConfigError):
                found.append(self.add(point))
        return [each for each in found if each is not None]

    def simpler(self, candidate: int) -> list[int]:
        """Return the numbers of the candidates in which one setting of a candidate is reset to its value in the file."""
        point = self.candidates[candidate].point
        found = []
        for dropped in point:
            with suppress(ConfigError):
                found.append(self.find({name: value for name, value in point.items() if name != dropped}))
        return [each for each in found if len(self.candidates[each].point) < len(point)]


def read_tuning(
    path: Path,
    goal: str,
    subject_to: Sequence[str],
    vary: Sequence[str],
    overrides: Mapping[str, Any],
    count: int,
    key: int,
    *,
    search: Sequence[str] = (),
    content: Tree | None = None,
) -> TuningQuestion:
    """Read the question from a file and the command line. With ``content``, ``path`` is only used in messages.

    Args:
        path: File of the configuration.
        goal: Metric to optimize.
        subject_to: Conditions to meet.
        vary: Further keys to search, with their values.
        overrides: Keys to override in the file.
        count: Number of initial candidates.
        key: Random seed with which the initial candidates are chosen.
        search: Groups of settings to search; by default, all that apply.
        content: Content of the file, if it has already been read.

    Raises:
        ConfigError: If the question or the configuration of a candidate is invalid.
    """
    objective = parse_subject(goal, "--for")
    if more_is_better(objective.metric) is None:
        raise ConfigError(
            "--for",
            [
                Problem(
                    "",
                    f"{objective.metric} cannot be optimized, because neither higher nor lower values are better; choose a "
                    "different metric",
                )
            ],
        )
    conditions = tuple(parse_condition(text, "--subject-to") for text in subject_to)
    tree = read_toml(path) if content is None else content
    today = check_document(tree, str(path), path.parent, overrides)
    asked: list[Condition | Subject] = [objective, *conditions]
    for source, each in zip(("--for", *("--subject-to" for _ in conditions)), asked, strict=True):
        check_known(source, each, today)
    for group in search:
        if group not in GROUPS:
            raise ConfigError("--search", [Problem("", f"unknown settings {group!r}; {nearest(group, GROUPS)}")])
    space = _make_space(today, asked, search or default_groups(constrained=bool(conditions)))
    question = TuningQuestion(str(path), tree, path.parent, overrides, objective, conditions, space, [])
    space = _add_varied(space, [parse_dimension(text, partial(_make_backed, question), "--vary") for text in vary], today)
    question = replace(question, space=space)
    for label, settings in (("today", {}), ("Iceberg's defaults", _set_in_sections(space.tuned, ICEBERG_RETRY))):
        made = question.make_document(settings)
        searched = {each.name for each in space.retries}
        defaults = {name: value for name, value in flatten_iceberg_retry().items() if settings and name in searched}
        point = space.reduce(defaults)
        question.candidates.append(Candidate(label, point, settings, made, compute_experiment_hash(made)))
    for point in design(space.dimensions, count, key):
        question.add(space.reduce(point))
    return question


def check_precision(question: TuningQuestion, precision: Precision | None, source: str) -> None:
    """Raise ConfigError if a precision in percentage points is requested for an objective that is not a proportion."""
    if precision is not None:
        choose_subjects([question.objective], precision, source)


def flatten_iceberg_retry() -> dict[str, Any]:
    """Return Iceberg's default retry settings by key."""
    backoff = {name: value for name, value in ICEBERG_RETRY["retry_backoff"].items() if name != "enabled"}
    return {
        "retry": ICEBERG_RETRY["retry"],
        **{f"{_BACKOFF_KEY}{name}": value for name, value in backoff.items()},
        "total_timeout_ms": ICEBERG_RETRY["total_timeout_ms"],
    }


def _make_backed(question: TuningQuestion, settings: Mapping[str, Any]) -> Document:
    """Return the configuration with the settings of a candidate and backoff enabled."""
    space = question.space
    return question.make_document({**_set_in_sections(space.tuned, space.backoff), **settings})


def _make_space(today: Document, asked: Sequence[Condition | Subject], groups: Sequence[str]) -> Space:
    """Return the settings to search, which depend on the clients, arrival kinds and operations of the tuned classes.

    Args:
        today: Current configuration.
        asked: Objective, which determines the classes to tune, and conditions.
        groups: Groups of settings.
    """
    classes = resolve_classes(today)
    chosen = [each for each in classes if asked[0].workload_class in (ALL, each.name)]
    iceberg = [each for each in chosen if each.path.is_iceberg]
    if iceberg:  # the properties of a table apply to all its writers
        iceberg = [each for each in classes if each.path.is_iceberg and any(_share_table(each, other) for other in iceberg)]
    tuned = iceberg or chosen
    sections = tuple(Scope(today, each).section for each in tuned)
    values: dict[str, Any] = {}
    retries = []
    for setting in ICEBERG_RETRY_SETTINGS if iceberg else ():
        choices = setting.choices(Scope(today, tuned[0]))
        retries.append(Dimension(setting.key, choices=tuple(each for each in choices if each is not None)))
    for each in retries or RETRY_SETTINGS:
        now = {current_value(each.name, resolved) for resolved in tuned}
        values[each.name] = now.pop() if len(now) == 1 else None
    others = []
    for resolved in chosen:
        needed = max(_count_needed(each, resolved.name) for each in asked)
        scope = Scope(today, resolved, needed)
        for setting in CLASS_SETTINGS:
            if setting.group in groups and setting.applies(scope) and len(choices := setting.choices(scope)) > 1:
                name = f"{scope.section}.{setting.key}"
                values[name] = current_value(setting.key, resolved)
                others.append(Dimension(name, choices=choices))
    base = _ICEBERG_BACKOFF if iceberg else _BACKOFF
    return Space(tuple(retries or RETRY_SETTINGS) if RETRIES in groups else (), tuple(others), values, sections, base)


def _share_table(one: ResolvedClass, other: ResolvedClass) -> bool:
    """Return whether two classes can write to the same table."""
    tables = [None if each.own is None else each.own.tables for each in (one, other)]
    return None in tables or bool(set(tables[0] or ()) & set(tables[1] or ()))


def _count_needed(asked: Condition | Subject, name: str) -> int:
    """Return the minimum number of transactions for the percentiles of a class; 0 for other metrics and classes."""
    percent = next((each for each in PERCENTS if asked.metric.endswith(f"_p{each}_ms")), None)
    return fewest(percent / 100.0) if percent is not None and asked.workload_class == name else 0


def _add_varied(space: Space, varied: Sequence[Dimension], today: Document) -> Space:
    """Return a search space with further keys, which replace existing keys of the same name."""
    given = {each.name for each in varied}
    retries = tuple(each for each in space.retries if not all(f"{section}.{each.name}" in given for section in space.tuned))
    others = (*(each for each in space.others if each.name not in given), *varied)
    return replace(space, retries=retries, others=others, today={**space.today, **_read_current(today, given)})


def _read_current(today: Document, keys: Iterable[str]) -> dict[str, Any]:
    """Return the known values of keys in the current configuration."""
    classes = {Scope(today, each).section: each for each in resolve_classes(today)}
    values: dict[str, Any] = {}
    for key in keys:
        section = next((each for each in classes if key.startswith(f"{each}.")), None)
        value: Any = today
        if section is not None:
            value = current_value(key.removeprefix(f"{section}."), classes[section])
        else:
            for name in key.split("."):
                value = getattr(value, name, None)
        values[key] = value
    return values


def _set_in_sections(tuned: Sequence[str], values: Mapping[str, Any]) -> Tree:
    return {f"{section}.{name}": value for section in tuned for name, value in values.items()}


def parse_dimension(text: str, document: Callable[[Mapping[str, Any]], Document], source: str) -> Dimension:
    """Parse a key and its values from ``KEY=LOW..HIGH`` or ``KEY=a,b,c``. Raises ConfigError, which names the source."""
    key, equals, values = text.partition("=")
    key = key.strip()
    if not equals or not key or not values.strip():
        raise ConfigError(source, [Problem("", f"{text!r} must have the form KEY=LOW..HIGH or KEY=a,b,c")])
    low, dots, high = values.partition("..")
    if not dots:
        choices = tuple(parse_assignment(f"{key}={value}")[1] for value in values.split(","))
        for choice in choices:
            document({key: choice})
        return Dimension(key, choices=choices)
    ends = [plain_value(key, parse_assignment(f"{key}={end}")[1]) for end in (low, high)]
    if not all(isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in ends):
        raise ConfigError(source, [Problem("", f"{text!r}: both ends of a range should be numbers, such as {key}=1..10")])
    if not ends[0] < ends[1]:
        raise ConfigError(source, [Problem("", f"{text!r}: {ends[0]:g} should be below {ends[1]:g}")])
    for end in ends:
        document({key: end})
    try:
        document({key: math.floor(ends[0]) + 0.5})
        whole = False
    except ConfigError:
        whole = all(float(end).is_integer() for end in ends)
    return Dimension(key, float(ends[0]), float(ends[1]), whole)


class CostEvaluator:
    """Evaluator that measures all candidates with the same seeds and in one window."""

    def __init__(self, question: TuningQuestion, replications: Replications) -> None:
        self._question = question
        self._replications = replications
        references = [question.candidates[each].document for each in (TODAY, ICEBERG)]
        try:
            self.window: Window = common_window([replications.window(each, range(WINDOW_SEEDS)) for each in references])
        except ValueError as error:
            raise ConfigError("--warmup", [Problem("", f"the candidates have no common window: {error}")]) from None
        for each in references:
            runs = replications.measure(each, range(WINDOW_SEEDS), self.window)
            for source, asked in question.asked:
                _check_transactions(source, asked, runs)

    def runs(self, candidate: int, seeds: Sequence[int]) -> tuple[RunMetrics, ...]:
        """Return the metrics of a candidate for some seeds. Run missing seeds."""
        return self._replications.measure(self._question.candidates[candidate].document, seeds, self.window)

    def __call__(self, candidate: int, seeds: Sequence[int]) -> Measured:
        """Measure the costs of a candidate with these seeds."""
        runs = self.runs(candidate, seeds)
        objective, conditions = self._question.objective, self._question.conditions
        rows = [run.select(objective.workload_class, objective.operation) for run in runs]
        costs = tuple(compute_cost(row, objective.metric) for row in rows)
        least = 0.0
        if objective.metric in SHARES:
            least = least_share_width(sum(row["transactions"] for row in rows))
        elif objective.metric.endswith("_per_s"):
            least = least_rate_width(self.window.length_ms / 1000.0 * len(rows))
        verdicts: list[Verdict] = []
        kept = True
        for condition in conditions:
            found = estimate_subject(runs, condition.subject)
            verdicts.append("open" if found is None else condition.verdict(found.low, found.high))
            kept = kept and found is not None and condition.holds(found.mean)
        return Measured(costs, _combine(verdicts), kept, least, tuple(verdicts))


def _combine(verdicts: Sequence[Verdict]) -> Verdict:
    if "fails" in verdicts:
        return "fails"
    return "open" if "open" in verdicts else "holds"


def _check_transactions(source: str, objective: Condition | Subject, runs: Sequence[RunMetrics]) -> None:
    """Raise ConfigError if runs have too few transactions for the percentile of the objective."""
    percent = next((each for each in PERCENTS if objective.metric.endswith(f"_p{each}_ms")), None)
    if percent is None:
        return
    needed = fewest(percent / 100.0)
    found = min(int(run.select(objective.workload_class, objective.operation)["transactions"]) for run in runs)
    if found < needed:
        longer = runs[0].window.duration_ms * needed / max(found, 1)
        message = (
            f"{objective.metric} needs at least {needed} transactions per run, and a run has {found} in the window. Set "
            f"simulation.duration_ms to at least {format_minimum_duration(longer)}, or choose a lower percentile."
        )
        raise ConfigError(source, [Problem("", message)])


def compute_cost(row: Mapping[str, Any], metric: str) -> Cost:
    """Return the bounds of the cost of a run, which is the metric, or its negative if higher values are better."""
    if metric == "success_rate" and row.get("success_low") is not None:
        return Cost(-row["success_high"], -row["success_low"])
    value = row.get(metric)
    if value is not None:
        cost = -float(value) if more_is_better(metric) else float(value)
        return Cost(cost, cost)
    low, high = row.get(at_least(metric)), row.get(at_most(metric))
    return Cost(-math.inf if low is None else float(low), math.inf if high is None else float(high))
