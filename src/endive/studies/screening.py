"""Screen parameters: rank them by their effects on a metric, with the method of Morris (SALib).

Trajectories through the ranges of the parameters change one parameter at a time. Parameters are ranked by the mean of the absolute
changes of the metric, scaled to the whole range. A large standard deviation of the changes indicates effects that are not linear or
that depend on other parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from endive.analysis import Floats
from endive.analysis.conditions import Subject, parse_subject
from endive.analysis.estimates import CONFIDENCE, estimate_metric
from endive.analysis.halving import Dimension
from endive.config import ConfigError, Document, Problem
from endive.config.load import read_toml, value_at
from endive.config.values import plain_value
from endive.studies.frontier import VariedFile, check_known
from endive.studies.replicate import Replications
from endive.studies.tuning import parse_dimension

Tree = dict[str, Any]
LEVELS = 4
"""Number of values of each parameter."""
_FEWEST_TRAJECTORIES = 2
_SECTIONS = ("storage", "catalog", "table", "transaction", "workload", "failures")
"""Sections whose numbers are screened by default."""


@dataclass(frozen=True)
class ScreeningQuestion(VariedFile):
    """Configuration, metric, and the parameters to screen, with their ranges."""

    objective: Subject
    parameters: tuple[Dimension, ...]


@dataclass(frozen=True)
class Effect:
    """Effect of a parameter on the metric over its whole range, in the unit of the metric.

    Attributes:
        parameter: Parameter and its range.
        mean: Mean of the signed changes: positive if the metric increases with the parameter.
        size: Mean of the absolute changes, by which parameters are ranked.
        half_width: Half width of the 95% interval of ``size``.
        deviation: Standard deviation of the changes.
    """

    parameter: Dimension
    mean: float
    size: float
    half_width: float
    deviation: float

    @property
    def is_significant(self) -> bool:
        """True if the interval of the effect excludes 0."""
        return self.size > self.half_width


@dataclass(frozen=True)
class Screening:
    """Effects of all parameters, the largest first, and the trajectories that were measured."""

    effects: tuple[Effect, ...]
    trajectories: int
    dropped: int


def read_screening(path: Path, goal: str, parameters: Sequence[str], overrides: Mapping[str, Any]) -> ScreeningQuestion:
    """Read the question from a file and the command line.

    Args:
        path: File of the configuration.
        goal: Metric.
        parameters: ``KEY=LOW..HIGH``, ``KEY=a,b,c``, or ``KEY`` for half to twice its value; by default, all numbers in the file.
        overrides: Keys to override in the file.

    Raises:
        ConfigError: If the question is invalid, or there are no parameters.
    """
    objective = parse_subject(goal, "--for")
    tree = read_toml(path)
    document = VariedFile(str(path), tree, path.parent, overrides).make_document
    check_known("--for", objective, document({}))
    found = [_parse_parameter(text, tree, document) for text in parameters] or list(_list_numbers(tree, document))
    if not found:
        raise ConfigError("--parameters", [Problem("", f"is missing, and {path} has no numbers to vary")])
    return ScreeningQuestion(str(path), tree, path.parent, overrides, objective, tuple(found))


def _parse_parameter(text: str, tree: Tree, document: Callable[[Mapping[str, Any]], Document]) -> Dimension:
    if "=" in text:
        return parse_dimension(text, document, "--parameters")
    value = plain_value(text, value_at(tree, text))
    if not isinstance(value, int | float) or isinstance(value, bool) or value <= 0:
        message = f"{text!r} is not a positive number in the file; give a range: {text}=LOW..HIGH"
        raise ConfigError("--parameters", [Problem("", message)])
    return _vary_around(text, value, document)


def _vary_around(key: str, value: float, document: Callable[[Mapping[str, Any]], Document]) -> Dimension:
    """Return the dimension of a key from half to twice its value."""
    low, high = (value // 2 or 1, 2 * value) if isinstance(value, int) else (value / 2.0, 2.0 * value)
    return parse_dimension(f"{key}={low}..{high}", document, "--parameters")


def _list_numbers(tree: Tree, document: Callable[[Mapping[str, Any]], Document]) -> Iterator[Dimension]:
    """Yield the keys of a file whose values are positive numbers that can be halved and doubled."""
    for key, value in _leaves({name: tree[name] for name in _SECTIONS if name in tree}, ""):
        number = plain_value(key, value)
        if isinstance(number, int | float) and not isinstance(number, bool) and number > 0:
            try:
                yield _vary_around(key, number, document)
            except ConfigError:
                continue


def _leaves(node: Tree, prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def screen(
    question: ScreeningQuestion,
    replications: Replications,
    trajectories: int,
    seeds: int,
    key: int,
    report: Callable[[int, int], None] | None = None,
) -> Screening:
    """Measure the effect of each parameter.

    Args:
        question: Configuration, metric and parameters.
        replications: Runs on this machine.
        trajectories: Number of trajectories. The number of points of a trajectory is the number of parameters plus 1.
        seeds: Number of seeds of each point. All points use the same seeds.
        key: Random seed of the trajectories.
        report: Function that is called after each point with its number and the number of points.

    Raises:
        ConfigError: If SALib is not installed, or the metric has no value on too many trajectories.
    """
    analyze, sample = _load_salib()
    names = [each.name for each in question.parameters]
    problem = {"num_vars": len(names), "names": names, "bounds": [[0.0, 1.0]] * len(names)}
    points: Floats = sample(problem, N=trajectories, num_levels=LEVELS, seed=key)
    values = np.full(len(points), math.nan)
    for place, point in enumerate(points):
        settings = {each.name: each.value(float(at)) for each, at in zip(question.parameters, point, strict=True)}
        values[place] = _measure(question, replications, settings, seeds)
        if report is not None:
            report(place + 1, len(points))
    whole = np.repeat(np.isfinite(values.reshape(trajectories, -1)).all(axis=1), len(names) + 1)
    kept = int(whole.sum()) // (len(names) + 1)
    if kept < _FEWEST_TRAJECTORIES:
        message = f"{question.objective.metric} has no value in {trajectories - kept} of {trajectories} trajectories"
        raise ConfigError("--for", [Problem("", f"{message}; use narrower ranges, longer runs, or a metric such as success")])
    found = analyze(problem, points[whole], values[whole], conf_level=CONFIDENCE, num_levels=LEVELS, seed=key)
    effects = [
        Effect(each, float(mean), float(size), float(width), float(deviation))
        for each, mean, size, width, deviation in zip(
            question.parameters, found["mu"], found["mu_star"], found["mu_star_conf"], found["sigma"], strict=True
        )
    ]
    return Screening(tuple(sorted(effects, key=lambda each: -each.size)), kept, trajectories - kept)


def _load_salib() -> tuple[Callable[..., Mapping[str, Any]], Callable[..., Any]]:
    try:
        from SALib.analyze import morris as analysis
        from SALib.sample import morris as sampling
    except ImportError:
        raise ConfigError("endive screen", [Problem("", "needs SALib: `pip install 'endive[screen]'`")]) from None
    return analysis.analyze, sampling.sample


def _measure(question: ScreeningQuestion, replications: Replications, settings: Mapping[str, Any], seeds: int) -> float:
    """Return the mean of the metric at a point, or NaN if the metric has no value."""
    runs = replications.measure(question.make_document(settings), range(seeds))
    rows = [run.select(question.objective.workload_class, question.objective.operation) for run in runs]
    found = estimate_metric(rows, question.objective.metric)
    return found.mean if found is not None and found.kind == "number" else math.nan
