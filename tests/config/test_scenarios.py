"""Named alternatives of a study: which is the baseline, what they set, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.config.sweep_file import flat_keys
from endive.runs.plan import plan_sweep
from tests.config.test_sweep import BASE, complaint, planned, reader

SCENARIOS = f"""{BASE}
[sweep]
{{sweep}}
[scenario.more_retries]
set = {{{{ "transaction.retry" = 20 }}}}
[scenario."S3 Express, please".set]
storage.provider = "s3x"
"""


def text(sweep: str = "", more: str = "") -> str:
    return SCENARIOS.format(sweep=sweep) + more


def test_the_base_as_it_is_is_the_baseline_and_comes_first(tmp_path: Path) -> None:
    plan = planned(tmp_path, text())
    assert [point.values for point in plan.points] == [
        {"scenario": name} for name in ("baseline", "more_retries", "S3 Express, please")
    ]
    assert [point.document.experiment.scenario for point in plan.points] == ["baseline", "more_retries", "S3 Express, please"]
    assert [point.document.transaction.retry for point in plan.points] == [10, 20, 10]
    assert [point.document.storage.provider for point in plan.points] == ["instant", "instant", "s3x"]


@pytest.mark.parametrize(
    ("sweep", "more", "expected"),
    [
        ('baseline = "today"', "", ["today", "more_retries", "S3 Express, please"]),
        ('baseline = "more_retries"', "", ["more_retries", "S3 Express, please"]),
        ("", "[scenario.now]\n", ["now", "more_retries", "S3 Express, please"]),
    ],
)
def test_the_baseline_is_named_or_sets_nothing(tmp_path: Path, sweep: str, more: str, expected: list[str]) -> None:
    assert [each.name for each in reader(tmp_path, text(sweep, more)).scenarios] == expected


def test_scenarios_are_a_dimension_beside_axes(tmp_path: Path) -> None:
    more = '[axes]\n"workload.w.rate" = [1, 2]\n[[exclude]]\nscenario = "more_retries"\n"workload.w.rate" = 2\n'
    plan = planned(tmp_path, text(more=more))
    assert [tuple(point.values.values()) for point in plan.points] == [
        ("baseline", 1), ("baseline", 2), ("more_retries", 1), ("S3 Express, please", 1), ("S3 Express, please", 2),
    ]  # fmt: skip


def test_the_name_of_a_scenario_does_not_change_its_experiment(tmp_path: Path) -> None:
    one = plan_sweep(reader(tmp_path, text()))
    other = plan_sweep(reader(tmp_path, text('baseline = "today"').replace("more_retries", "patience")))
    assert [point.experiment for point in one.points] == [point.experiment for point in other.points]
    plain = planned(tmp_path, f"{BASE}\n[sweep]\n")
    assert plain.points[0].experiment == one.points[0].experiment


def test_invalid_scenarios_are_reported(tmp_path: Path) -> None:
    assert "sweep.baseline: unknown scenario; did you mean 'more_retries'?" in complaint(tmp_path, text('baseline = "more_retry"'))
    assert "`sweep.baseline` has no effect without scenarios" in complaint(tmp_path, f'{BASE}\n[sweep]\nbaseline = "x"\n')
    twice = text(more='[axes]\n"transaction.retry" = [1, 2]\n')
    assert "`scenario.more_retries.set.transaction.retry` is also varied by [axes]" in complaint(tmp_path, twice)
    same = text(more="[scenario.patience.set]\ntransaction.retry = 20\n")
    assert "scenario.patience: gives the same configuration as 'more_retries'" in complaint(tmp_path, same)
    unknown = text(more="[scenario.fewer.set]\nworkload.v.rate = 1\n")
    assert "unknown class 'v'" in complaint(tmp_path, unknown)
    assert "scenario.fewer.sets: unknown key; did you mean 'set'?" in complaint(tmp_path, text(more="[scenario.fewer]\nsets = 1\n"))


def test_keys_in_quotes_keep_their_tables() -> None:
    runtime = {"distribution": "fixed", "value": 5}
    assert flat_keys({"transaction.runtime": runtime}) == {"transaction.runtime": runtime}
    assert flat_keys({"transaction": {"retry": 3, "runtime": {"mean": 5}}}) == {
        "transaction.retry": 3,
        "transaction.runtime.mean": 5,
    }
