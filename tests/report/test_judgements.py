"""Conditions of ``--fail-if``: which estimates meet them, and the sentence about it."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from endive.analysis.conditions import parse_condition
from endive.analysis.estimates import Estimate
from endive.report.judgements import Judgement, describe_judgement, judge_estimate, write_junit

JUNIT = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "time", "classname", "group"},
    "failure": {"type", "message"},
    "system-out": set(),
}
"""Attributes by element in the schema of Jenkins, junit-10.xsd, which is stricter than other readers."""


def judge(text: str, estimate: Estimate | None) -> Judgement:
    return judge_estimate(parse_condition(text, "--fail-if", relative=True), estimate)


@pytest.mark.parametrize(
    ("text", "estimate", "sentence"),
    [
        ("success(ingest) < 99%", (0.9992, 0.997, 0.9998), "PASS: success(ingest) is 99.92% (99.7–99.98%), not below 99%."),
        ("success(ingest) < 99%", (0.981, 0.975, 0.985), "FAIL: success(ingest) is 98.1% (97.5–98.5%), below 99%."),
        ("success<=99%", (0.9992, 0.997, 0.9998), "PASS: success is 99.92% (99.7–99.98%), above 99%."),
        ("success <= 99%", (0.981, 0.975, 0.985), "FAIL: success is 98.1% (97.5–98.5%), at or below 99%."),
        ("p99 > 2s", (640.0, 600.0, 680.0), "PASS: p99 is 640 ms (600–680 ms), not above 2s."),
        ("p99 >= 2s", (640.0, 600.0, 680.0), "PASS: p99 is 640 ms (600–680 ms), below 2s."),
        ("p99 >= 2s", (4800.0, 4100.0, 5200.0), "FAIL: p99 is 4.8 s (4.1–5.2 s), at or above 2s."),
        (
            "success < 99%",
            (0.985, 0.98, 0.993),
            "FAIL: success is 98.5% (98–99.3%), below 99%. The interval includes the threshold.",
        ),
        (
            "success < 99%",
            (0.98996, 0.98, 0.993),
            "FAIL: success is 99% (98–99.3%), just below 99%. The interval includes the threshold.",
        ),
        ("throughput < 2/s", (3.1, -math.inf, math.inf), "PASS: throughput is 3.1/s (one seed: no interval), not below 2/s."),
        ("p95 > 110% of A", (1.305, 1.217, 1.393), "FAIL: p95 is 130.5% of the baseline (121.7–139.3%), above 110%."),
    ],
)
def test_a_sentence_has_the_value_and_its_relation_to_the_threshold(
    text: str, estimate: tuple[float, float, float], sentence: str
) -> None:
    assert describe_judgement(judge(text, Estimate(*estimate, n=5))) == sentence


@pytest.mark.parametrize(
    ("text", "holds", "sentence"),
    [
        ("p99 > 5s", True, "FAIL: p99 is at least 12 s, above 5s."),
        ("p99 > 20s", True, "FAIL: p99 is at least 12 s, possibly above 20s."),
        ("p99 < 5s", False, "PASS: p99 is at least 12 s, not below 5s."),
    ],
)
def test_a_bound_passes_only_if_no_value_beyond_it_meets_the_condition(text: str, holds: bool, sentence: str) -> None:
    judged = judge(text, Estimate(12_000.0, 12_000.0, math.inf, 5, "bound"))
    assert (judged.holds, describe_judgement(judged)) == (holds, sentence)


def test_a_percentile_of_an_aborted_transaction_is_above_every_threshold() -> None:
    judged = judge("p99 > 5s", Estimate(math.inf, math.inf, math.inf, 5, "never"))
    assert (judged.holds, judged.clear) == (True, True)
    assert describe_judgement(judged) == "FAIL: p99 is infinite because transactions abort, above 5s."


def test_a_condition_without_a_measurement_counts_as_met() -> None:
    sentence = "FAIL: p99 could not be measured in B. The check fails if a metric has no value."
    assert describe_judgement(judge("p99 > 5s", None)) == sentence


def test_junit_has_the_elements_and_attributes_of_the_schema(tmp_path: Path) -> None:
    passed, failed = (judge(text, Estimate(0.5, 0.4, 0.6, 5)) for text in ("success < 1%", "success < 99%"))
    write_junit(tmp_path / "out.xml", "endive run", {'a "<&>" b': [passed, failed]})
    root = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert [each.tag for each in root.iter()] == ["testsuites", "testsuite", "testcase", "system-out", "testcase", "failure"]
    assert {each.tag: set(each.keys()) - JUNIT[each.tag] for each in root.iter()} == {name: set() for name in JUNIT}
