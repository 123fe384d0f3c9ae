"""What a careful colleague would say: each warning where it belongs, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.config.load import check_document
from endive.config.warnings import ConfigWarning, each_once, warnings_of
from tests.cli import invoke

BASE: dict[str, Any] = {
    "simulation": {"duration_ms": 3_600_000},
    "storage": {"provider": "s3"},
    "transaction": {"commit_path": "iceberg", "runtime": {"distribution": "fixed", "value": 1000.0}},
    "workload": {"ingest": {"rate": 1.0, "operation": "fast_append"}},
}
PROFILE = "min_latency_ms = 1.0\nread = { fixed_ms = 5.0 }\nwrite = { fixed_ms = 6.0 }\ncas = { fixed_ms = 60.0 }\n"


def answer(directory: Path = Path(), **changes: Any) -> dict[str, str]:
    overrides = {key.replace("__", "."): value for key, value in changes.items()}
    return {each.code: str(each) for each in warnings_of(check_document(BASE, "test", directory, overrides))}


def test_a_plain_configuration_has_no_warnings() -> None:
    assert answer() == {}


@pytest.mark.parametrize(
    ("arrivals", "effect"),
    [
        ({"periodic": {"interval_ms": 900_000.0}}, "4 of them run at the same time and compete"),
        ({"writers": 1, "every_ms": 900_000.0}, "writers miss slots and start late"),
    ],
)
def test_an_hour_of_work_every_quarter_of_an_hour(arrivals: dict[str, Any], effect: str) -> None:
    job = {**arrivals, "operation": "fast_append", "runtime": {"distribution": "fixed", "value": 3_600_000.0}}
    found = answer(workload={"job": job}, simulation__duration_ms=36_000_000.0)
    assert found["overlaps_itself"] == (
        f"workload.job.runtime: each job transaction takes 1 h on average and one starts every 15 min, so {effect}. "
        "Use a longer interval or a shorter runtime."
    )
    job["runtime"] = {"distribution": "fixed", "value": 600_000.0}
    assert answer(workload={"job": job}, simulation__duration_ms=36_000_000.0) == {}


def test_too_few_of_a_class_to_judge_it() -> None:
    found = answer(workload__ingest__rate=0.001)
    assert found["too_few"].startswith("workload.ingest: about 4 ingest transactions are submitted per run")
    assert "simulation.duration_ms to 5.5" in found["too_few"]
    closed = {"loop": {"closed": {"clients": 1, "think_time": {"distribution": "fixed", "value": 1e9}}, "operation": "fast_append"}}
    assert "too_few" not in answer(workload=closed)


def test_a_missing_probability_of_real_conflicts_is_a_warning() -> None:
    found = answer(workload__ingest__operation="row_delta")
    assert found["never_conflicts"].startswith(
        "`workload.ingest.real_conflict_probability` is not set, so overlapping changes never count as real conflicts"
    )
    for meant in ({"transaction__real_conflict_probability": 0.0}, {"transaction__conflict_detector": "partition_overlap"}):
        assert answer(workload__ingest__operation="row_delta", **meant) == {}


def test_the_default_commit_path_is_a_warning() -> None:
    plain = {"runtime": {"distribution": "fixed", "value": 1000.0}}
    assert "not_icebergs_path" in answer(transaction=plain)
    assert answer(transaction={**plain, "commit_path": "endive"}) == {}
    assert "not_icebergs_path" not in answer(transaction=plain, workload__ingest__commit_path="pyiceberg")


def test_a_missing_pyiceberg_release_is_a_warning() -> None:
    """It retries since 0.12 only, and then four times; the default of the key is neither."""
    code = "pyiceberg_retries"
    assert answer(transaction__commit_path="pyiceberg")[code].startswith(
        "`workload.ingest.retry` is not set, so each ingest transaction retries 10 times. PyIceberg retries commits since 0.12: "
    )
    for given in ({"transaction__retry": 0}, {"workload__ingest__retry": 0}, {"transaction__retry_policy": "iceberg"}):
        assert code not in answer(transaction__commit_path="pyiceberg", **given)


def test_one_pointer_for_many_tables() -> None:
    assert "Set it to 8 for one pointer per table" in answer(catalog__num_tables=8)["one_pointer"]
    assert answer(catalog__num_tables=8, catalog__num_groups=1) == {}


def test_a_quick_refusal_that_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(PROFILE + "failed_cas = { fixed_ms = 10.0 }\n")
    found = answer(tmp_path, storage__provider="own.toml")["failed_cas_unused"]
    assert "takes effect only at the end of its 60 ms" in found
    assert answer(tmp_path, storage__provider="own.toml", catalog__linearization=0.5) == {}
    (tmp_path / "own.toml").write_text(PROFILE + "failed_cas = { fixed_ms = 70.0 }\n")
    assert answer(tmp_path, storage__provider="own.toml") == {}


def test_slow_responses_are_for_the_lab() -> None:
    assert "`endive lab` delays responses" in answer(failures__slow_response=0.1)["lab_only"]


def test_several_configurations_are_warned_of_once() -> None:
    one, other, third = ConfigWarning("a", "k", "1"), ConfigWarning("a", "k", "2"), ConfigWarning("a", "l", "3")
    assert each_once([one, other, third]) == [one, third]


def test_validate_run_and_report_print_each_warning_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(
        '[simulation]\nduration_ms = 2000\nseed = 1\nengine = "reference"\n[experiment]\nlabel = "a"\n'
        '[storage]\nprovider = "instant"\n'
        '[catalog]\nnum_tables = 3\n[workload.w]\nrate = 50\noperation = "fast_append"\nruntime = { mean = 10 }\n'
    )
    expected = {"not_icebergs_path", "one_pointer"}
    found = json.loads(invoke("validate", "a.toml", "--json").stdout)["warnings"]
    assert {each["code"] for each in found} == expected
    messages = [f"`{each['key']}` {each['message']}" for each in found]
    run = json.loads(invoke("run", "a.toml", "--json").stdout)["warnings"]
    assert [run.count(message) for message in messages] == [1, 1]
    (experiment,) = Path("experiments").glob("a-*")
    report = json.loads(invoke("report", str(experiment), "--json").stdout)["warnings"]
    assert [report.count(message) for message in messages] == [1, 1]
