"""Read and check the options of ``endive frontier``, and estimate the metric at a load."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from endive import __version__
from endive.analysis.conditions import Condition, Subject, parse_condition
from endive.analysis.estimates import CONFIDENCE, Estimate, estimate_metric
from endive.analysis.load_search import Search
from endive.analysis.run_metrics import ALL
from endive.config import ConfigError, Document, Problem
from endive.config.errors import closest, nearest
from endive.config.load import check_document, read_toml, value_at, with_override
from endive.config.resolve import resolve_classes
from endive.config.study import FrontierSettings, check_frontier, parse_precision
from endive.config.values import MOST_MS, plain_value
from endive.studies.measure import RunMetrics
from endive.studies.replicate import Replications
from endive.transaction import OPERATIONS
from endive.version import code_version, get_git_sha
from endive.workload.arrivals import INTER_ARRIVAL, RATE, kind_of

Tree = dict[str, Any]
FARTHEST = 1024.0
"""Ratio between the bounds of the search and the first load, if the user sets no bounds."""
_OWN_RATE = re.compile(r"^workload\.(?P<name>[^.]+)\.rate$")
_COMMON_RATE = f"transaction.{RATE.key}"
_COMMON_SCALE = f"transaction.{INTER_ARRIVAL.key}.scale"


@dataclass(frozen=True)
class VariedFile:
    """Configuration file of a study, with its name, content, directory and overrides."""

    source: str
    tree: Tree
    directory: Path
    overrides: Mapping[str, Any]

    def make_document(self, settings: Mapping[str, Any]) -> Document:
        """Return the configuration with new values for some keys. Raises ConfigError if a value is invalid."""
        return check_document(self.tree, self.source, self.directory, {**self.overrides, **settings})

    def describe_origin(self) -> dict[str, Any]:
        """Return the code version, the file and the overrides, which the record of a result contains."""
        return {
            "endive_version": __version__,
            "code_version": code_version(),
            "git_commit": get_git_sha(),
            "source": self.source,
            "overrides": dict(self.overrides),
            "configuration": self.tree,
        }


@dataclass(frozen=True)
class Question(VariedFile):
    """Configuration, key to vary, condition to search for, and range of the search."""

    vary: str
    condition: Condition
    search: Search

    def document(self, load: float) -> Document:
        """Return the configuration at a load."""
        value = int(load) if load.is_integer() else load
        varied = {self.vary: value}
        if self.vary == _COMMON_RATE:
            varied = {_COMMON_SCALE: 1000.0 / value}
        return self.make_document(varied)


def read_question(
    path: Path, given: FrontierSettings, overrides: Mapping[str, Any], *, quick: bool = False, content: Tree | None = None
) -> Question:
    """Create the question from a file and the command-line options. With ``content``, ``path`` is only used in messages.

    Raises:
        ConfigError: If the file or an option is invalid.
    """
    tree = read_toml(path) if content is None else content
    if "frontier" in tree or "base" in tree or any(closest(key, ["frontier"]) for key in tree):
        tree, settings, quickly = check_frontier(tree, str(path), quick=quick)
        overrides = {**quickly, **overrides}
    elif quick:
        raise ConfigError("--quick", [Problem("", f"{path} has no [frontier] with a [quick] form")])
    else:
        settings = FrontierSettings()
    if given.precision is not None:
        settings = settings.model_copy(update={"tolerance": None, "seeds": None, "max_seeds": None})
    settings = given.over(settings)
    for name in ("vary", "until"):
        if getattr(settings, name) is None:
            raise ConfigError(f"--{name}", [Problem("", f"is required; pass it, or set {name} under [frontier] in the file")])
    assert settings.vary is not None
    assert settings.until is not None
    condition = parse_condition(settings.until, "--until")
    with_override(tree, f"{path}: --vary", settings.vary, settings.lowest or 1.0)
    tree, value = _normalize_rate(tree, settings.vary, overrides)
    question = Question(
        str(path), tree, path.parent, overrides, settings.vary, condition, _make_search(settings, value, settings.vary, path)
    )
    return _check_question(question)


def _normalize_rate(tree: Tree, vary: str, overrides: Mapping[str, Any]) -> tuple[Tree, float | None]:
    """Convert the exponential interval of the varied class to a rate. Return the configuration and the value of the varied key."""
    if vary == _COMMON_RATE:
        _require_common_arrivals(tree)
        tree = _with_scale(tree)
        scale = _read_value(tree, _COMMON_SCALE, overrides)
        return tree, None if scale is None else 1000.0 / scale
    own = _OWN_RATE.match(vary)
    if own is not None:
        section = tree.get("workload", {}).get(own["name"])
        intervals = section.get(INTER_ARRIVAL.key) if isinstance(section, dict) else None
        if isinstance(intervals, dict) and set(intervals) <= {"distribution", "scale", "mean"}:
            mean = intervals.get("scale", intervals.get("mean"))
            if intervals.get("distribution", "exponential") == "exponential" and isinstance(mean, int | float) and mean > 0:
                rest = {key: item for key, item in section.items() if key != INTER_ARRIVAL.key}
                changed = {**rest, RATE.key: 1000.0 / mean}
                tree = {**tree, "workload": {**tree["workload"], own["name"]: changed}}
    return tree, _read_value(tree, vary, overrides)


def _require_common_arrivals(tree: Tree) -> None:
    """Raise ConfigError if every class sets its own arrivals, so that the arrivals of ``[transaction]`` have no effect."""
    classes = {name: section for name, section in tree.get("workload", {}).items() if isinstance(section, dict)}
    if classes and all(kind_of(section) is not None for section in classes.values()):
        rates = [f"workload.{name}.{RATE.key}" for name, section in classes.items() if RATE.key in section]
        hint = f"vary {' or '.join(rates)}" if rates else "vary the load of a class"
        text = f"{_COMMON_RATE} has no effect, because every class of [workload] sets its own arrivals; {hint}"
        raise ConfigError("--vary", [Problem("", text)])


def _with_scale(tree: Tree) -> Tree:
    """Return the configuration with the mean of the exponential interval of ``[transaction]`` under its key ``scale``."""
    intervals = value_at(tree, f"transaction.{INTER_ARRIVAL.key}")
    if not isinstance(intervals, dict) or "mean" not in intervals or intervals.get("distribution", "exponential") != "exponential":
        return tree
    renamed = {"scale" if key == "mean" else key: value for key, value in intervals.items()}
    return {**tree, "transaction": {**tree["transaction"], INTER_ARRIVAL.key: renamed}}


def _read_value(tree: Tree, key: str, overrides: Mapping[str, Any]) -> float | None:
    """Return the number or duration at a key of a configuration, or None if the value is missing or of another type."""
    found = plain_value(key, value_at(tree, key) if overrides.get(key) is None else overrides[key])
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found <= MOST_MS else None


def _make_search(settings: FrontierSettings, value: float | None, vary: str, path: Path) -> Search:
    start = value if settings.lowest is None else settings.lowest
    if start is None:
        raise ConfigError(
            "--from", [Problem("", f"is required, because {path} does not set {vary} to a number between 0 and {MOST_MS:g}")]
        )
    lowest = start / FARTHEST if settings.lowest is None else settings.lowest
    highest = start * FARTHEST if settings.highest is None else settings.highest
    if settings.highest is not None and lowest >= highest:
        text = f"{lowest:g} should be below --to {highest:g}; if the load is a time between arrivals, vary the rate instead"
        raise ConfigError("--from", [Problem("", text)])
    defaults = Search(start, lowest, highest)
    tolerance, seeds = settings.tolerance or defaults.tolerance, settings.seeds or defaults.seeds
    most = settings.max_seeds or max(defaults.max_seeds, seeds)
    if settings.precision is not None:
        tolerance, most = _read_precision(settings)
        seeds = min(seeds, most)
    if seeds > most:
        raise ConfigError("--seeds", [Problem("", f"{seeds} exceeds --max-seeds {most}")])
    return Search(min(start, highest), lowest, highest, tolerance, seeds, most)


def _read_precision(settings: FrontierSettings) -> tuple[float, int]:
    """Return the relative width of the load interval and the maximum number of seeds that correspond to a precision."""
    assert settings.precision is not None
    for name in ("tolerance", "seeds"):
        if getattr(settings, name) is not None:
            raise ConfigError(
                "--precision", [Problem("", f"cannot be combined with --{name}, because it determines the width of the interval")]
            )
    precision = parse_precision(settings.precision, "--precision", settings.max_seeds)
    if precision.shares_only:
        raise ConfigError(
            "--precision",
            [
                Problem(
                    "",
                    f"{precision} is valid only for proportions, and a load is "
                    f"not a proportion; use a relative precision such as 5%",
                )
            ],
        )
    return (1.0 + precision.value) / (1.0 - precision.value) - 1.0, precision.most_seeds


def _check_question(question: Question) -> Question:
    """Check that the configuration is valid at the loads of the search and has the class and operation of the condition.

    If the varied key is an integer, the returned question is restricted to integers.
    """
    search, condition = question.search, question.condition
    document = question.document(search.start)
    whole = False
    try:
        question.document(math.floor(search.start) + 0.5)
    except ConfigError:
        whole = search.start.is_integer()
    check_known("--until", condition, document)
    if whole:
        search = replace(
            search, lowest=float(max(math.ceil(search.lowest), 1)), highest=float(math.floor(search.highest)), whole=True
        )
    return replace(question, search=search)


def check_known(source: str, asked: Condition | Subject, document: Document) -> None:
    """Raise ConfigError if the configuration does not have the class, or if the operation does not exist."""
    for name, known, what in (
        (asked.workload_class, [each.name for each in resolve_classes(document)], "class"),
        (asked.operation, list(OPERATIONS), "operation"),
    ):
        if name not in (ALL, *known):
            raise ConfigError(source, [Problem("", f"unknown {what} {name!r}; {nearest(name, known)}")])


def estimate_at(question: Question, replications: Replications, load: float, seeds: int) -> Estimate | None:
    """Estimate the metric of a question at a load with ``seeds`` seeds; None if there is no measurement."""
    runs = replications.measure(question.document(load), range(seeds))
    return estimate_subject(runs, question.condition.subject)


def list_values(runs: tuple[RunMetrics, ...], metric: str, workload_class: str, operation: str) -> dict[int, float]:
    """Return the values of a metric by seed, for seeds with a value."""
    found = {run.seed: run.select(workload_class, operation).get(metric) for run in runs}
    return {seed: float(value) for seed, value in found.items() if value is not None}


def estimate_subject(runs: Sequence[RunMetrics], subject: Subject, confidence: float = CONFIDENCE) -> Estimate | None:
    """Estimate a metric across the seeds of some runs; None if no run has a value."""
    rows = [run.select(subject.workload_class, subject.operation) for run in runs]
    return estimate_metric(rows, subject.metric, confidence)
