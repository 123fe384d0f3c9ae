"""Sweep files: axes, seeds, exclusions, and all that can be wrong with them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endive.config import ConfigError
from endive.config.study import Range, parse_seeds
from endive.config.sweep_file import Sweep
from endive.runs.plan import SweepPlan, plan_sweep

BASE = """
[base.simulation]
duration_ms = 1000
[base.storage]
provider = "instant"
[base.workload.w]
rate = 5.0
operation = "fast_append"
"""


def reader(folder: Path, text: str, *, quick: bool = False, seeds: str | None = None) -> Sweep:
    path = folder / "study.toml"
    path.write_text(text)
    return Sweep(path, quick=quick, seeds=seeds)


def planned(folder: Path, text: str, *, quick: bool = False) -> SweepPlan:
    return plan_sweep(reader(folder, text, quick=quick))


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        planned(folder, text)
    return str(caught.value)


def test_points_are_all_combinations_of_axes_and_zipped_keys(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        f"""{BASE}
[sweep]
seeds = [3, 1]
[axes]
"workload.w.rate" = [1, 2]
"storage.provider" = ["s3", "s3x", "gcp"]
[[zip]]
"catalog.num_tables" = [1, 8]
"catalog.num_groups" = [1, 4]
""",
    )
    assert plan.name == "study"
    assert plan.seeds == (3, 1)
    assert (len(plan.points), plan.runs) == (12, 24)
    assert len({point.experiment for point in plan.points}) == 12
    assert plan.points[0].values == {
        "workload.w.rate": 1,
        "storage.provider": "s3",
        "catalog.num_tables": 1,
        "catalog.num_groups": 1,
    }
    assert {(p.document.catalog.num_tables, p.document.catalog.num_groups) for p in plan.points} == {(1, 1), (8, 4)}
    assert all(point.document.experiment.label == "study" for point in plan.points)


def test_combinations_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    text = f"""{BASE}
[sweep]
[axes]
"storage.provider" = ["s3", "s3x"]
"transaction.manifest_list_mode" = ["rewrite", "append"]
"""
    assert "'s3' has none" in complaint(tmp_path, text)
    without = '[[exclude]]\n"storage.provider" = ["s3", "gcp"]\n"transaction.manifest_list_mode" = "append"\n'
    assert len(planned(tmp_path, text + without).points) == 3


def test_quick_replaces_axes_seeds_and_keys(tmp_path: Path) -> None:
    text = f"""{BASE}
[sweep]
seeds = "0-9"
[axes]
"workload.w.rate" = [1, 2, 3]
[quick]
seeds = "0-1"
set = {{ "simulation.duration_ms" = 10 }}
axes = {{ "workload.w.rate" = [7] }}
"""
    assert planned(tmp_path, text).runs == 30
    quick = planned(tmp_path, text, quick=True)
    assert quick.runs == 2
    assert quick.points[0].document.simulation.duration_ms == 10.0
    assert quick.points[0].values == {"workload.w.rate": 7}


def test_the_base_may_be_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE.replace("base.", ""))
    plan = planned(tmp_path, '[sweep]\nbase = "base.toml"\nlabel = "other"\n')
    assert (plan.name, len(plan.points)) == ("other", 1)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"from": 1, "to": 3, "points": 3}, [1, 2, 3]),
        ({"from": 0, "to": 1, "points": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"from": 1, "to": 100, "points": 3, "scale": "log"}, [1, 10, 100]),
        ({"from": 0.1, "to": 0.5, "step": 0.1}, [0.1, 0.2, 0.3, 0.4, 0.5]),
        ({"from": 10, "to": 1, "points": 2}, [10, 1]),
        ({"from": 5, "to": 9, "points": 1}, [5]),
        ({"from": 1, "to": 2, "step": 0.4}, [1, 1.4, 1.8]),
    ],
)
def test_ranges(spec: dict[str, object], values: list[float]) -> None:
    found = Range.model_validate(spec).values()
    assert found == values
    assert [type(value) for value in found] == [int if float(value).is_integer() else float for value in values]


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.integers(2, 50))
def test_a_log_range_has_its_bounds_and_one_ratio(first: float, last: float, points: int) -> None:
    found = Range.model_validate({"from": first, "to": last, "points": points, "scale": "log"}).values()
    assert len(found) == points
    assert found[0] == pytest.approx(first, rel=1e-9)
    assert found[-1] == pytest.approx(last, rel=1e-9)
    ratios = [b / a for a, b in pairwise(found)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-6)


def test_a_number_of_seeds_needs_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('[sweep]\nseeds = 2\n[base.simulation]\nduration_ms = 10\n[axes]\n"storage.provider" = ["s3"]\n')
    assert Sweep(path).seeds == (0, 1)


def test_seeds() -> None:
    assert parse_seeds("4") == (0, 1, 2, 3)
    assert parse_seeds("2-5") == (2, 3, 4, 5)
    assert parse_seeds([5, 5, 1]) == (5, 1)
    for wrong in ("x", "5-2", "", "0"):
        with pytest.raises(ConfigError, match="range"):
            parse_seeds(wrong)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[sweep]\n[axes]\n"storage.provder" = ["s3"]', "storage.provder: unknown key; did you mean 'provider'?"),
        ('[sweep]\n[axes]\n"workload.w.rate" = []', "`axes.workload.w.rate` must have at least one value"),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 5, to = 1, step = 1 }', "must have at least one value"),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 1, to = 5 }', "a range needs points or step"),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 1, to = 5, points = 2, step = 1 }', "cannot be set together"),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 0, to = 5, points = 3, scale = "log" }', "from and to above 0"),
        ('[sweep]\n[axes]\n"workload.w.rate" = [1]\n[[zip]]\n"workload.w.rate" = [1]', "is varied twice"),
        ('[sweep]\n[[zip]]\n"a" = [1]\n"b" = [1, 2]', "needs lists of the same length"),
        ('[sweep]\n[axes]\n"workload.w.rate" = [1]\n[[exclude]]\n"storage.provider" = "s3"', "is not an axis of this sweep"),
        ('[sweep]\n[axes]\n"workload.w.rate" = [1]\n[[exclude]]\n"workload.w.rate" = 1', "excludes every point"),
        ("[sweep]\nseeds = []", "sweep.seeds"),
        ("[sweep]\nseed = 1", "sweep.seed"),
    ],
)
def test_invalid_values_are_reported(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, f"{BASE}\n{text}\n")


def test_a_sweep_needs_exactly_one_base(tmp_path: Path) -> None:
    assert "sweep.base" in complaint(tmp_path, "[sweep]\n")
    assert "sweep.base" in complaint(tmp_path, BASE + '[sweep]\nbase = "x.toml"\n')
    assert "no such file" in complaint(tmp_path, '[sweep]\nbase = "x.toml"\n')


def test_all_that_is_wrong_with_all_points_is_reported_once(tmp_path: Path) -> None:
    text = f'{BASE}\n[sweep]\n[axes]\n"workload.w.rate" = [1, -2, -2.5, 3]\n"transaction.retry" = [1, "x"]\n'
    answer = complaint(tmp_path, text)
    assert answer.count("(got -2)") == 1
    assert answer.count("(got -2.5)") == 1
    assert answer.count("(got 'x')") == 1


def test_a_sweep_is_counted_before_it_is_unfolded(tmp_path: Path) -> None:
    axes = "\n".join(f'"{key}" = {{ from = 1, to = 100, points = 100 }}' for key in ("a", "b", "c", "d", "e"))
    assert reader(tmp_path, f"{BASE}\n[sweep]\n[axes]\n{axes}\n").combinations == 10**10


def test_the_cost_of_a_point_goes_by_its_arrivals(tmp_path: Path) -> None:
    plan = planned(tmp_path, f'{BASE}\n[sweep]\n[axes]\n"workload.w.rate" = [10, 100]\n')
    assert [point.effort.transactions for point in plan.points] == pytest.approx([10.0, 100.0], rel=0.02)


def test_durations_on_axes_are_numbers(tmp_path: Path) -> None:
    text = f"""{BASE}
[sweep]
[axes]
"simulation.duration_ms" = ["1s", "1min", 90_000]
"transaction.runtime.mean" = {{ from = "10ms", to = "1s", points = 3, scale = "log" }}
"""
    points = planned(tmp_path, text).points
    assert sorted({point.values["simulation.duration_ms"] for point in points}) == [1_000, 60_000, 90_000]
    assert sorted({point.values["transaction.runtime.mean"] for point in points}) == [10, 100, 1_000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sweep]\n[axis]\n", "axis: unknown key; did you mean 'axes'?"),
        ("[sweep]\nlable = 'x'\n", "sweep.lable: unknown key; did you mean 'label'?"),
        ("[swep]\n", "swep: unknown key; did you mean 'sweep'?"),
        ("[sweep]\n[scenarios.x]\n", "scenarios: unknown key; did you mean 'scenario'?"),
        ("[sweep]\n[excludes]\n", "excludes: unknown key; did you mean 'exclude'?"),
        ("[sweep]\n[quick]\nsett = {}\n", "quick.sett: unknown key; did you mean 'set'?"),
        (
            '[sweep]\n[axes]\n"workload.w.rate" = { from = 1, too = 5, points = 3 }',
            "w.rate.too: unknown key; did you",
        ),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 1, to = 5, points = 3, scale = "lag" }', "did you mean 'log'?"),
        ('[sweep]\n[axes]\n"workload.w.rate" = 5', "`axes.workload.w.rate` should be a valid list, or should be a table (got 5)"),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 1, to = 2, points = 1_000_000_000 }', "less than or equal to 1000000"),
        ('[sweep]\n[axes]\n"workload.w.rate" = { from = 1, to = 2, step = 1e-300 }', "at most 1,000,000 values"),
        ('[sweep]\nseeds = "0-99999999999"', "is more than 1,000,000 seeds"),
        ('[sweep]\nseeds = "٣"', "`sweep.seeds` should match"),
        ('axes = 3\n[sweep]\nseeds = "0"', "`axes` should be a table (got 3)"),
    ],
)
def test_invalid_keys_and_values_get_suggestions(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, f"{text}\n{BASE}\n" if text.startswith("axes") else f"{BASE}\n{text}\n")
    assert message in str(caught.value)
    assert str(tmp_path / "study.toml") in str(caught.value) or "--seeds" in str(caught.value)
