"""Evaluate ``--fail-if`` conditions, and report the results as text, JSON and JUnit XML."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from endive.analysis.conditions import Condition, Sign, format_metric
from endive.analysis.estimates import Estimate
from endive.formatting import finite, join_ends
from endive.output_files import write_text
from endive.studies.frontier import estimate_subject
from endive.studies.measure import RunMetrics

_RELATIONS: dict[Sign, tuple[str, str]] = {
    "<": ("not below", "below"),
    "<=": ("above", "at or below"),
    ">": ("not above", "above"),
    ">=": ("below", "at or above"),
}
"""Relation of a value to the threshold in words: for a condition that is not met, and for a condition that is met."""
_OF_A = re.compile(r"\s*\bof\s+A$")


@dataclass(frozen=True)
class Judgement:
    """Result of a ``--fail-if`` condition: ``holds`` if the mean meets the condition, ``clear`` if the 95% interval agrees.

    ``holds`` is also True if the metric has no value, or only a bound that leaves the condition undecided. The check then fails.
    """

    condition: Condition
    estimate: Estimate | None
    holds: bool
    clear: bool


def judge_estimate(condition: Condition, found: Estimate | None) -> Judgement:
    """Evaluate a condition on the mean of an estimate. A lower bound meets the condition if any value above the bound does."""
    if found is None:
        return Judgement(condition, None, holds=True, clear=False)
    verdict = condition.verdict(found.low, found.high)
    holds = verdict != "fails" if found.kind == "bound" else condition.holds(found.mean)
    return Judgement(condition, found, holds, clear=verdict != "open")


def judge_runs(condition: Condition, runs: Sequence[RunMetrics]) -> Judgement:
    """Evaluate a condition on the mean of the runs of one configuration."""
    return judge_estimate(condition, estimate_subject(runs, condition.subject))


def describe_judgement(each: Judgement, name: str = "B") -> str:
    """Return PASS or FAIL with the measured value and the threshold: ``PASS: success is 99.9% (99.7–99.98%), not below 99%.``"""
    verdict, condition, found = "FAIL" if each.holds else "PASS", each.condition, each.estimate
    subject, _, threshold = (part.strip() for part in condition.text.partition(condition.sign))
    if found is None:
        return f"{verdict}: {subject} could not be measured in {name}. The check fails if a metric has no value."
    threshold = _OF_A.sub("", threshold)
    relation = _RELATIONS[condition.sign][each.holds]
    if found.kind == "never":
        return f"{verdict}: {subject} is infinite because transactions abort, {relation} {threshold}."
    if found.kind == "bound":
        possibly = "" if each.clear else "possibly "
        return f"{verdict}: {subject} is at least {_format_value(condition, found.low)}, {possibly}{relation} {threshold}."
    mean, low, high, limit = (_format_value(condition, value) for value in (found.mean, found.low, found.high, condition.value))
    has_interval = math.isfinite(found.low)
    just = "just " if mean == limit and relation in ("below", "above") else ""
    value = f"{mean} of the baseline" if condition.relative else mean
    interval = join_ends(low, high) if has_interval else "one seed: no interval"
    more = " The interval includes the threshold." if has_interval and not each.clear else ""
    return f"{verdict}: {subject} is {value} ({interval}), {just}{relation} {threshold}.{more}"


def _format_value(condition: Condition, value: float) -> str:
    return f"{100.0 * value:.4g}%" if condition.relative else format_metric(condition.metric, value)


def judgement_as_data(each: Judgement, name: str = "B") -> dict[str, Any]:
    """Return a judgement for JSON: condition, value, interval, and the sentence about it."""
    found = each.estimate
    return {
        "condition": each.condition.text,
        "holds": each.holds,
        "clear": each.clear,
        "value": None if found is None else finite(found.mean),
        "low": None if found is None else finite(found.low),
        "high": None if found is None else finite(found.high),
        "verdict": describe_judgement(each, name),
    }


def write_junit(path: Path, suite: str, judged: Mapping[str, Sequence[Judgement]]) -> None:
    """Write judgements as JUnit XML: one test case for each condition and configuration, which fails if the condition is met.

    Args:
        path: File to write.
        suite: Name of the test suite, such as the file that was run.
        judged: Judgements by name of the configuration, which becomes the class name of the test cases.
    """
    cases = [(name, each) for name, judgements in judged.items() for each in judgements]
    counts = {"tests": str(len(cases)), "failures": str(sum(each.holds for _, each in cases)), "errors": "0"}
    root = ElementTree.Element("testsuites", {"name": "Endive", **counts})
    parent = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts, "skipped": "0"})
    for name, each in cases:
        case = ElementTree.SubElement(parent, "testcase", {"classname": name, "name": f"fail if {each.condition.text}"})
        sentence = describe_judgement(each, name)
        if each.holds:
            ElementTree.SubElement(case, "failure", {"message": sentence}).text = sentence
        else:
            ElementTree.SubElement(case, "system-out").text = sentence
    ElementTree.indent(root)
    write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n')
