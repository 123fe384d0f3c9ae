"""The question of a frontier: what files and command lines say, checked before anything is run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from endive.analysis.conditions import Condition
from endive.config import ConfigError
from endive.config.study import frontier_options
from endive.studies.frontier import Question, estimate_at, estimate_subject, read_question
from endive.studies.measure import MetricsOptions, RunMetrics
from endive.studies.replicate import Replications

CONFIG = """
[simulation]
duration_ms = 20_000
engine = "reference"

[storage]
provider = "s3x"

[workload.ingest]
rate = 4
operation = "fast_append"

[workload.maintenance]
closed = { clients = 2 }
operation = "validated_overwrite"
"""
STUDY = """
[frontier]
vary = "workload.ingest.rate"
until = "success(maintenance) < 95%"
from = 10
to = 500
seeds = 3

[base]
simulation = { duration_ms = 20_000 }
storage = { provider = "s3x" }
workload.ingest = { rate = 4.0, operation = "fast_append" }
workload.maintenance = { periodic = { interval_ms = 5_000 }, operation = "validated_overwrite" }

[quick]
tolerance = 0.5
to = 50
set = { "simulation.duration_ms" = 1_000 }
"""
ASKED = {"vary": "workload.ingest.rate", "until": "success(maintenance) < 95%"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def ask(path: Path, overrides: dict[str, Any] | None = None, **asked: Any) -> Question:
    """``from`` is a word of Python, so it is ``lowest`` here."""
    named = {{"lowest": "from", "highest": "to"}.get(name, name): value for name, value in asked.items()}
    return read_question(path, frontier_options({**ASKED, **named}), overrides or {})


def test_a_search_starts_at_the_configured_value(config: Path) -> None:
    search = ask(config).search
    assert (search.start, search.lowest, search.highest) == (4.0, 4.0 / 1024.0, 4096.0)
    assert (search.tolerance, search.seeds, search.max_seeds, search.whole) == (0.05, 5, 40, False)
    assert ask(config, {"workload.ingest.rate": 8}).search.start == 8.0
    assert ask(config, lowest=10.0, highest=500.0).search.start == 10.0
    assert ask(config, seeds=50).search.max_seeds == 50


def test_the_configuration_at_a_load(config: Path) -> None:
    question = ask(config, {"storage.provider": "s3"})
    document = question.document(12.5)
    assert (document.workload["ingest"].rate, document.storage.provider) == (12.5, "s3")


def test_exponential_intervals_are_varied_by_their_rate(config: Path) -> None:
    config.write_text(CONFIG.replace("rate = 4", "inter_arrival = { scale = 250.0 }"))
    question = ask(config)
    assert question.search.start == 4.0
    assert question.document(8.0).workload["ingest"].rate == 8.0


def test_arrivals_of_another_kind_are_not_replaced(config: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be set together; keep one of them"):
        ask(config, vary="workload.maintenance.rate", lowest=1.0)


def test_the_rate_of_all_transactions(config: Path) -> None:
    one_class = CONFIG.partition("[workload.ingest]")[0] + "[transaction]\ninter_arrival.scale = 500.0\n"
    for key, value in (("scale", "500.0"), ("mean", "500.0"), ("mean", "'500ms'")):
        config.write_text(one_class.replace("scale = 500.0", f"{key} = {value}"))
        question = ask(config, vary="transaction.rate", until="success < 95%")
        assert question.search.start == 2.0
        interval = question.document(4.0).transaction.inter_arrival
        assert interval is not None
        assert interval.scale == 250.0


def test_a_search_starts_at_a_configured_duration(config: Path) -> None:
    config.write_text(CONFIG.replace("closed = { clients = 2 }", 'periodic = { interval_ms = "5s" }'))
    assert ask(config, vary="workload.maintenance.periodic.interval_ms").search.start == 5_000.0


def test_keys_of_whole_numbers_stay_whole(config: Path) -> None:
    search = ask(config, vary="workload.maintenance.closed.clients").search
    assert (search.start, search.lowest, search.whole) == (2.0, 1.0, True)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"vary": "workload.ingest.rte", "from": 1.0}, "unknown key; did you mean 'rate'?"),
        ({"vary": "workload.ingest.operation", "from": 1.0}, "workload.ingest.operation"),
        ({"vary": "workload.absent.rate"}, "unknown class 'absent', and an override cannot add a class"),
        ({"vary": "storage.provider"}, "--from is required"),
        ({"vary": "transaction.rate"}, "every class of [workload] sets its own arrivals; vary workload.ingest.rate"),
        ({"until": "success(maintenence) < 95%"}, "unknown class 'maintenence'; did you mean 'maintenance'?"),
        ({"until": "success(ingest, fast_apend) < 95%"}, "unknown operation 'fast_apend'; did you mean 'fast_append'?"),
        ({"until": "sucess < 95%"}, "unknown metric 'sucess'"),
        ({"until": "throughput < 95% of A"}, "there is no baseline A"),
        ({"from": 10.0, "to": 10.0}, "10 should be below --to 10"),
        ({"from": -1.0}, "--from should be greater than 0 (got -1.0)"),
        ({"seeds": 1}, "--seeds should be greater than or equal to 2"),
        ({"seeds": 9, "max_seeds": 8}, "9 exceeds --max-seeds 8"),
        ({"vary": None}, "--vary is required"),
        ({"until": None}, "--until is required"),
    ],
)
def test_invalid_values_are_reported(config: Path, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        ask(config, **asked)
    assert message in str(error.value)


def test_a_load_beyond_all_numbers_is_refused(config: Path) -> None:
    config.write_text(CONFIG.replace("rate = 4", f"rate = 1{'0' * 400}"))
    with pytest.raises(ConfigError, match=r"does not set workload\.ingest\.rate to a number between 0 and 1e"):
        ask(config)


def test_a_study_holds_its_question(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    question = read_question(path, frontier_options({}), {})
    assert (question.vary, question.condition.value) == ("workload.ingest.rate", 0.95)
    assert (question.search.lowest, question.search.highest, question.search.seeds) == (10.0, 500.0, 3)
    other = read_question(path, frontier_options({"to": 20.0, "until": "success < 50%"}), {})
    assert (other.search.highest, other.search.lowest, other.condition.value) == (20.0, 10.0, 0.5)


def test_a_quick_study(tmp_path: Path, config: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    question = read_question(path, frontier_options({}), {}, quick=True)
    assert (question.search.tolerance, question.search.highest, question.search.seeds) == (0.5, 50.0, 3)
    assert question.document(1.0).simulation.duration_ms == 1_000
    with pytest.raises(ConfigError, match=r"has no \[frontier\]"):
        read_question(config, frontier_options(ASKED), {}, quick=True)


def test_an_invalid_study_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.replace("seeds = 3", "seed = 3"))
    with pytest.raises(ConfigError, match=r"frontier\.seed: unknown key; did you mean .seeds"):
        read_question(path, frontier_options({}), {})


def run_of(seed: int, success: float | None, committed: int, aborted: int) -> RunMetrics:
    counts = {"transactions": committed + aborted, "committed": committed, "aborted": aborted, "in_flight": 0}
    return RunMetrics(seed, ({"workload_class": "all", "operation_type": "all", "success_rate": success, **counts},))


def test_shares_are_estimated_with_their_counts() -> None:
    condition = Condition("success < 95%", "success_rate", "<", 0.95)
    found = estimate_subject((run_of(0, 1.0, 12, 0), run_of(1, 1.0, 12, 0), run_of(2, None, 0, 0)), condition.subject)
    assert found is not None
    assert (found.mean, found.n) == (1.0, 2)
    assert found.low == pytest.approx(24.0 / (24.0 + 1.959964**2), rel=1e-6)
    assert estimate_subject((run_of(0, None, 0, 0),), condition.subject) is None


def test_a_load_is_estimated_with_the_same_seeds(config: Path, tmp_path: Path) -> None:
    question = ask(config, until="p50(ingest) > 1s")
    evaluate = partial(estimate_at, question, Replications(tmp_path / "runs", MetricsOptions()))
    few, more = evaluate(4.0, 2), evaluate(4.0, 3)
    assert few is not None
    assert more is not None
    assert (few.n, more.n) == (2, 3)
    assert len(list((tmp_path / "runs").rglob("metrics.json"))) == 3


def test_a_run_too_short_for_the_class_has_no_estimate(config: Path, tmp_path: Path) -> None:
    config.write_text(CONFIG.replace("closed = { clients = 2 }", "periodic = { interval_ms = 50_000, phase_ms = 50_000 }"))
    evaluate = partial(estimate_at, ask(config), Replications(tmp_path / "runs", MetricsOptions()))
    assert evaluate(4.0, 2) is None
