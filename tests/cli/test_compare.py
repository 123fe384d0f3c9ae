"""``endive compare``, as a user calls it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import stats

from endive.config import load_document
from endive.runs.execute import run_experiment
from tests.cli import appends, invoke, strict

CONFIG = (
    appends("30_000", retry=4, rate=2)
    + """
[experiment]
label = "mix"

[workload.merge]
rate = 1
operation = "merge_append"
"""
)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text(CONFIG)
    return Path("a.toml")


def data(*arguments: str | Path, code: int = 0) -> Any:
    result = invoke("compare", *map(str, arguments), "--json")
    assert result.exit_code == code, result.output
    return strict(result.stdout)


def run_seeds(config: Path, root: Path, seeds: range, **overrides: Any) -> Path:
    """Finished runs; returns the directory of their experiment."""
    document = load_document(config, {key.replace("__", "."): value for key, value in overrides.items()})
    for seed in seeds:
        files = run_experiment(document, root=root, seed=seed).files
    return files.config.parent


def of(found: Any, metric: str, group: str = "all") -> Any:
    (one,) = [each for each in found["comparisons"] if (each["metric"], each["workload_class"]) == (metric, group)]
    return one


def test_a_faster_store_is_better(config: Path) -> None:
    found = data(config, config, "--set-b", "storage.provider=s3x", "--seeds", "4")
    assert (found["paired_seeds"], found["warnings"]) == ({"B": [0, 1, 2, 3]}, [])
    latency = of(found, "time_to_commit_p50_ms")
    assert latency["better"] is True
    assert latency["difference"] < -latency["half_width"] < 0.0
    assert "p50 time to commit " in latency["verdict"]
    assert latency["verdict"].endswith("%)")
    assert found["answer"][0].startswith("B is better than A in ")
    assert {each["workload_class"] for each in found["comparisons"]} == {"all", "ingest", "merge"}
    assert len({each["metric"] for each in found["comparisons"]}) == 7


def test_identical_configurations_have_no_significant_difference(config: Path) -> None:
    """It said "A and B are equal", with 0 +- 0, from 3 seeds."""
    found = data(config, config, "--seeds", "3")
    for each in found["comparisons"]:
        assert each["difference"] in (0.0, None)
        assert each["half_width"] != 0.0
        assert each["verdict"].startswith(("identical in all 3 seeds", "no significant difference", "aborted in both"))
    assert of(found, "success_rate")["half_width"] > 0.0
    assert "includes differences of up to" in of(found, "throughput_per_s")["verdict"]
    assert found["answer"][0] == "No significant difference between A and B."
    total = sum(each["both"] for each in found["transactions"]["B"].values())
    assert total > 0
    assert found["pairs"][0].startswith(f"{total:,} transactions commit in both A and B: 0 are faster in B, 0 are slower in B")


def test_giving_up_sooner_is_not_better(config: Path) -> None:
    """Survivorship: with fewer retries less is committed, and what is committed was quick."""
    busy = ("--set", "workload.ingest.rate=12", "--set", "simulation.engine=compiled")
    found = data(config, config, *busy, "--set-b", "transaction.retry=1", "--seeds", "4")
    assert of(found, "success_rate")["better"] is False
    for percentile in ("p50", "p95", "p99"):
        assert of(found, f"time_to_commit_{percentile}_ms")["better"] is not True
    back = data(config, config, *busy, "--set", "transaction.retry=1", "--set-b", "transaction.retry=20")
    assert of(back, "success_rate")["better"] is True
    for percentile in ("p50", "p95", "p99"):
        assert of(back, f"time_to_commit_{percentile}_ms")["better"] is not False


def test_results_on_disk_are_those_of_the_configuration(config: Path) -> None:
    a = run_seeds(config, Path("stored"), range(3))
    b = run_seeds(config, Path("stored"), range(3), storage__provider="s3x")
    stored = data(a, f"stored#{b.name}")
    run = data(config, config, "--set-b", "storage.provider=s3x", "--seeds", "3")
    assert stored["comparisons"] == run["comparisons"]


def test_the_interval_is_that_of_paired_seeds(config: Path) -> None:
    """Seed by seed from single runs, against scipy."""
    a = run_seeds(config, Path("stored"), range(3))
    b = run_seeds(config, Path("stored"), range(3), storage__provider="s3x")
    single = [of(data(a / str(seed), b / str(seed)), "time_to_commit_p50_ms") for seed in range(3)]
    expected = stats.ttest_rel([each["b"] for each in single], [each["a"] for each in single]).confidence_interval(0.95)
    found = of(data(a, b), "time_to_commit_p50_ms")
    assert found["difference"] == pytest.approx(np.mean([each["b"] - each["a"] for each in single]))
    assert found["half_width"] == pytest.approx((expected.high - expected.low) / 2.0)
    assert {each["half_width"] for each in single} == {None}


def test_a_configuration_uses_the_seeds_of_stored_results(config: Path) -> None:
    a = run_seeds(config, Path("stored"), range(5, 8))
    found = data(a, config)
    assert found["paired_seeds"] == {"B": [5, 6, 7]}


def test_seeds_that_do_not_pair_are_compared_by_welch(config: Path) -> None:
    a = run_seeds(config, Path("stored"), range(3))
    b = run_seeds(config, Path("other"), range(10, 14), storage__provider="s3x")
    found = data(a, b)
    assert found["paired_seeds"] == {"B": None}
    assert "Welch" in found["warnings"][0]
    assert (of(found, "overhead")["n_a"], of(found, "overhead")["n_b"]) == (3, 4)


def test_common_seeds_are_compared_and_others_are_named(config: Path) -> None:
    a = run_seeds(config, Path("stored"), range(4))
    b = run_seeds(config, Path("other"), range(1, 5))
    found = data(a, b)
    assert found["paired_seeds"] == {"B": [1, 2, 3]}
    assert found["warnings"] == ["The comparison uses the 3 seeds that both configurations have. Other seeds are omitted: 0, 4."]


def test_few_seeds_are_warned_of(config: Path) -> None:
    result = invoke("compare", str(config), str(config), "--seeds", "2")
    assert "Intervals from fewer than 3 seeds are not reliable." in result.stderr


@pytest.mark.parametrize(
    ("condition", "code", "words"),
    [
        ("success < 1%", 0, r"PASS: success is [\d.]+% \([\d.–]+%\), not below 1%\."),
        (
            "throughput(ingest) < 50% of A",
            0,
            r"PASS: throughput\(ingest\) is [\d.]+% of the baseline \([\d.–]+%\), not below 50%\.",
        ),
        ("p50 < 90% of A", 3, r"FAIL: p50 is [\d.]+% of the baseline \([\d.–]+%\), below 90%\."),
    ],
)
def test_conditions_on_b_decide_the_exit_code(config: Path, condition: str, code: int, words: str) -> None:
    arguments = (config, config, "--set-b", "storage.provider=s3x", "--seeds", "3", "--fail-if", condition)
    found = data(*arguments, code=code)
    assert found["conditions"][0]["holds"] is (code == 3)
    assert re.fullmatch(words, found["conditions"][0]["verdict"])
    result = invoke("compare", *map(str, arguments))
    assert (result.exit_code, found["conditions"][0]["verdict"] in result.stdout) == (code, True)


def test_one_condition_of_several_is_enough(config: Path) -> None:
    found = data(config, config, "--seeds", "3", "--fail-if", "success < 1%", "--fail-if", "throughput < 1000/s", code=3)
    assert [each["holds"] for each in found["conditions"]] == [False, True]


def test_conditions_are_written_as_junit(config: Path) -> None:
    arguments = (config, config, "--seeds", "3", "--fail-if", "success < 1%", "--fail-if", "p50 > 50% of A", "--junit", "out.xml")
    found = data(*arguments, code=3)
    (suite,) = ElementTree.parse("out.xml").getroot()
    failures = [None if (failure := case.find("failure")) is None else failure.get("message") for case in suite]
    assert failures == [None, found["conditions"][1]["verdict"]]


def test_a_condition_without_a_measurement_fails(config: Path) -> None:
    """Of a class that commits nothing there is no latency."""
    changes = ("--set", "workload.merge.runtime.mean=60000", "--set", "workload.merge.runtime.sigma=0.0")
    found = data(config, config, *changes, "--seeds", "3", "--fail-if", "p99(merge) > 1s", code=3)
    assert (found["conditions"][0]["value"], found["conditions"][0]["clear"]) == (None, False)
    assert "could not be measured in B" in found["conditions"][0]["verdict"]


def test_metrics_can_be_chosen(config: Path) -> None:
    found = data(config, config, "--seeds", "3", "--metric", "p95", "--metric", "manifest_list_reads")
    assert {each["metric"] for each in found["comparisons"]} == {"time_to_commit_p95_ms", "manifest_list_reads_per_txn"}


def test_people_read_a_table_for_each_class(config: Path) -> None:
    text = invoke("compare", str(config), str(config), "--set-b", "storage.provider=s3x", "--seeds", "3").stdout
    assert "A: a.toml (3 seeds)" in text
    assert "B: a.toml storage.provider=s3x (3 seeds)" in text
    assert all(title in text for title in ("All transactions", "Class ingest", "Class merge", "B / A", "verdict"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.toml", "nowhere.toml"), "nowhere.toml: no such file"),
        (("a.toml", "nowhere"), "nowhere: no such file or directory"),
        (("a.toml", "a.toml", "--fail-if", "sucess < 99%"), "unknown metric 'sucess'; did you mean 'success'?"),
        (("a.toml", "a.toml", "--metric", "speed"), "unknown metric 'speed'; metrics include success, throughput"),
        (("a.toml", "a.toml", "--seeds", "2", "--fail-if", "success(ingst) < 99%"), "B has no ingst; did you mean 'ingest'?"),
        (("a.toml", "stored", "--set-b", "storage.provider=s3x"), "stored contains finished runs"),
    ],
)
def test_wrong_calls_end_with_2(config: Path, arguments: tuple[str, ...], message: str) -> None:
    result = invoke("compare", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_several_experiments_must_be_distinguished(config: Path) -> None:
    run_seeds(config, Path("stored"), range(1))
    run_seeds(config, Path("stored"), range(1), storage__provider="s3x")
    result = invoke("compare", "stored", "a.toml")
    assert result.exit_code == 2
    assert "there are 2 experiments; name one as stored#NAME: mix-" in result.stderr
    assert "there is no experiment 'other'" in invoke("compare", "stored#other", "a.toml").stderr


def test_two_can_be_named_and_new_runs_are_counted(config: Path) -> None:
    config.with_name("b.toml").write_text(CONFIG.replace('"s3"', '"s3x"'))
    command = ("compare", "now=a.toml", "faster=b.toml", "--seeds", "3", "-o", "new")
    first = invoke(*command)
    assert first.exit_code == 0, first.output
    assert first.stderr.count("3 seeds, 3 new runs") == 2
    assert first.stdout.splitlines()[:2] == ["A: now=a.toml (3 seeds)", "B: faster=b.toml (3 seeds)"]
    assert invoke(*command).stderr.count("3 seeds, 0 new runs") == 2
