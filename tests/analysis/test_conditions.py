"""Conditions as people write them."""

from __future__ import annotations

import pytest

from endive.analysis.conditions import (
    ALIASES,
    Condition,
    Subject,
    find_metric,
    format_metric,
    kind_of,
    parse_condition,
    parse_subject,
)
from endive.analysis.run_metrics import RATES
from endive.config import ConfigError


def parse(text: str, *, relative: bool = False) -> Condition:
    return parse_condition(text, "--until", relative=relative)


@pytest.mark.parametrize(
    ("text", "metric", "sign", "value", "group", "operation"),
    [
        ("success < 99%", "success_rate", "<", 0.99, "all", "all"),
        ("success(compaction) < 95%", "success_rate", "<", 0.95, "compaction", "all"),
        ("success_rate ( compaction , validated_overwrite )<=.95", "success_rate", "<=", 0.95, "compaction", "validated_overwrite"),
        ("commit_latency_p99_ms > 2s", "commit_latency_p99_ms", ">", 2000.0, "all", "all"),
        ("commit_latency_p99 > 2_000", "commit_latency_p99_ms", ">", 2000.0, "all", "all"),
        ("throughput < 5/s", "throughput_per_s", "<", 5.0, "all", "all"),
        ("throughput < 30/min", "throughput_per_s", "<", 0.5, "all", "all"),
        ("p99(ingest) > 500ms", "time_to_commit_p99_ms", ">", 500.0, "ingest", "all"),
        ("total_p95(a-b_1) >= 1.5 min", "total_latency_p95_ms", ">=", 90_000.0, "a-b_1", "all"),
        ("retries > 3", "retries_per_txn", ">", 3.0, "all", "all"),
        ("overhead > 12.5%", "overhead", ">", 0.125, "all", "all"),
        ("mean_t_backoff > 1e3ms", "mean_t_backoff", ">", 1000.0, "all", "all"),
        ("manifest_list_reads > 10", "manifest_list_reads_per_txn", ">", 10.0, "all", "all"),
    ],
)
def test_conditions_are_read(text: str, metric: str, sign: str, value: float, group: str, operation: str) -> None:
    found = parse(text)
    assert (found.metric, found.sign, found.workload_class, found.operation) == (metric, sign, group, operation)
    assert found.value == pytest.approx(value)
    assert not found.relative


def test_a_condition_may_be_relative_to_a() -> None:
    found = parse("throughput < 95% of A", relative=True)
    assert (found.metric, found.value, found.relative) == ("throughput_per_s", 0.95, True)
    assert parse("p99(ingest) > 1.1 of A", relative=True).value == 1.1
    assert parse("p99 > 150% of A", relative=True).value == 1.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a condition is METRIC"),
        ("success", "a condition is METRIC"),
        ("success = 99%", "a condition is METRIC"),
        ("success < ", "a condition is METRIC"),
        ("success < 99% and p99 > 2s", "a condition is METRIC"),
        ("success() < 99%", "a condition is METRIC"),
        ("success < -1", "a condition is METRIC"),
        ("success < 99", "add a % sign to the threshold"),
        ("success < 99 ms", "success_rate cannot have the unit 'ms'; allowed: %"),
        ("p99 > 2 sec", "time_to_commit_p99_ms cannot have the unit 'sec'; allowed: ms, s, min, h"),
        ("throughput < 95%", "throughput_per_s cannot have the unit '%'; allowed: /s, /min"),
        ("retries > 3 s", "allowed: plain numbers"),
        ("sucess < 99%", "unknown metric 'sucess'; did you mean 'success'?"),
        ("sum < 9", "unknown metric 'sum'; metrics include success, throughput, p50, p95, p99"),
        ("throughput < 95% of A", "there is no baseline A"),
        ("throughput < 5/s of A", "there is no baseline A"),
    ],
)
def test_invalid_values_are_reported(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert str(error.value).startswith("--until: ")
    assert message in str(error.value)


def test_an_unknown_metric_lists_short_names_and_the_page_of_all_metrics() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown metric 'nonsense'; metrics include success, .*p99, .*\. See docs/explanation/"
    ) as error:
        find_metric("nonsense", "--metric")
    assert all(metric in str(error.value) for metric in ALIASES)


@pytest.mark.parametrize(
    ("sign", "value", "held"), [("<", 1.0, False), ("<", 0.9, True), ("<=", 1.0, True), (">", 1.0, False), (">=", 1.0, True)]
)
def test_comparisons(sign: str, value: float, held: bool) -> None:
    assert parse(f"retries {sign} 1").holds(value) is held


def test_an_interval_holds_fails_or_is_open() -> None:
    below = parse("success < 95%")
    assert (below.verdict(0.90, 0.94), below.verdict(0.94, 0.96), below.verdict(0.96, 0.99)) == ("holds", "open", "fails")
    above = parse("p99 > 2s")
    assert (above.verdict(2001, 3000), above.verdict(1000, 3000), above.verdict(100, 2000)) == ("holds", "open", "fails")


def test_every_metric_has_a_kind_and_can_be_shown() -> None:
    kinds = {metric: kind_of(metric) for metric in RATES}
    assert kinds["success_rate"] == kinds["overhead"] == kinds["throughput_ratio"] == "share"
    assert kinds["mean_t_runtime"] == kinds["total_latency_mean_ms"] == "time"
    assert kinds["offered_per_s"] == "rate"
    assert kinds["metadata_reads_per_txn"] == "number"
    assert format_metric("success_rate", 0.9512) == "95.1%"
    assert format_metric("success_rate", 1.0) == "100%"
    assert format_metric("success_rate", 0.99998) == "99.998%"
    assert format_metric("commit_latency_p99_ms", 1840.0) == "1.84 s"
    assert format_metric("commit_latency_p50_ms", 464.1) == "464 ms"
    assert format_metric("throughput_per_s", 5.0834) == "5.08/s"
    assert format_metric("retries_per_txn", None) == format_metric("retries_per_txn", float("inf")) == "-"


@pytest.mark.parametrize("number", ["9" * 400, "9" * 5_000, "1e400", "1e999999999", "0." + "3" * 60, "1e16"])
def test_a_number_without_end_is_refused_in_a_line(number: str) -> None:
    """They ended in a traceback, or in a power that is never computed."""
    with pytest.raises(ConfigError, match="the number must be 0, or between 1e-15 and 1e\\+15") as caught:
        parse(f"p99 > {number}")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "value"), [("p99 > 0", 0.0), ("p99 > 1e-999999999", 0.0), ("p99 > 1e15", 1e15), ("success < 1e-13%", 1e-15)]
)
def test_numbers_at_the_bounds_are_taken(text: str, value: float) -> None:
    assert parse(text).value == value


def test_the_subject_names_what_is_measured() -> None:
    assert str(parse("success(compaction, validated_overwrite) < 95%").subject) == "success_rate(compaction, validated_overwrite)"
    assert str(parse("p99 > 2s").subject) == "time_to_commit_p99_ms"


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("p99", Subject("time_to_commit_p99_ms")),
        (" success (compaction) ", Subject("success_rate", "compaction")),
        ("time_to_commit_p99(ingest, merge_append)", Subject("time_to_commit_p99_ms", "ingest", "merge_append")),
    ],
)
def test_a_subject_is_a_metric_of_something(text: str, subject: Subject) -> None:
    assert parse_subject(text, "--for") == subject


@pytest.mark.parametrize("text", ["", "p99 > 2s", "p99()", "p99(a, b, c)"])
def test_what_is_no_subject_is_reported_its_form(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--for: .* is not a metric; expected METRIC"):
        parse_subject(text, "--for")
