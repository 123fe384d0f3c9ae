"""Judge conditions of ``--fail-if``, and state the outcome in words, as data and as JUnit XML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from endive.analysis.conditions import Condition, format_metric
from endive.analysis.estimates import CONFIDENCE, Estimate
from endive.formatting import finite, join_ends
from endive.output_files import write_text
from endive.studies.frontier import estimate_condition
from endive.studies.measure import RunMetrics


@dataclass(frozen=True)
class Judgement:
    """Evaluated condition on an alternative: whether the mean meets it, and whether the interval excludes the opposite.

    Without an estimate ``holds`` is True, so that a check without a measurement fails.
    """

    condition: Condition
    estimate: Estimate | None
    holds: bool
    clear: bool


def judge_estimate(condition: Condition, found: Estimate | None) -> Judgement:
    """Judge a condition by the mean of an estimate."""
    if found is None:
        return Judgement(condition, None, holds=True, clear=False)
    return Judgement(condition, found, condition.holds(found.mean), clear=condition.verdict(found.low, found.high) != "open")


def judge_runs(condition: Condition, runs: Sequence[RunMetrics]) -> Judgement:
    """Judge a condition by its mean over runs of one configuration."""
    return judge_estimate(condition, estimate_condition(tuple(runs), condition, CONFIDENCE))


def describe_judgement(each: Judgement, name: str = "B") -> str:
    """Return PASS or FAIL, the condition, and the measured value."""
    verdict, condition = "FAIL" if each.holds else "PASS", each.condition
    if each.estimate is None:
        return f"{verdict}: fail if {condition.text}; could not be measured in {name}"
    values = (each.estimate.mean, each.estimate.low, each.estimate.high)
    if condition.relative:
        mean, low, high = (f"{100.0 * value:.4g}%" for value in values)
        mean += " of the baseline"
    else:
        mean, low, high = (format_metric(condition.metric, value) for value in values)
    measured = f"{verdict}: fail if {condition.text}; measured {mean}"
    if low == "-":
        return f"{measured} (one seed: no interval)"
    return f"{measured} ({join_ends(low, high)}){'' if each.clear else '; the interval includes the threshold'}"


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
        judged: Judgements by the name of the configuration, which is the class name of its test cases.
    """
    cases = [(name, each) for name, judgements in judged.items() for each in judgements]
    counts = {"tests": str(len(cases)), "failures": str(sum(each.holds for _, each in cases)), "errors": "0", "skipped": "0"}
    root = ElementTree.Element("testsuites", {"name": "Endive", **counts})
    parent = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
    for name, each in cases:
        case = ElementTree.SubElement(parent, "testcase", {"classname": name, "name": f"fail if {each.condition.text}"})
        sentence = describe_judgement(each, name)
        if each.holds:
            ElementTree.SubElement(case, "failure", {"message": sentence}).text = sentence
        else:
            ElementTree.SubElement(case, "system-out").text = sentence
    ElementTree.indent(root)
    write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n')
