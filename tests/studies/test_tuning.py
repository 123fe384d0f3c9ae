"""The candidates of ``endive tune``: settings that the client of the configuration has."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from endive.analysis.halving import Cost, Measured
from endive.config import ConfigError
from endive.config.load import ICEBERG_RETRY
from endive.report.tuning_answer import describe_outcome, list_snippets
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import WINDOW_SEEDS, Replications
from endive.studies.settings import cron_line
from endive.studies.tuning import ICEBERG, TODAY, CostEvaluator, TuningQuestion, read_tuning
from endive.transaction.paths import ICEBERG_RETRY_PROPERTIES

CONFIG = """
[simulation]
duration_ms = 60_000

[storage]
provider = "s3"

[transaction]
commit_path = "{path}"

[workload.ingest]
rate = 2
operation = "fast_append"
"""


def searched(path: str, folder: Path) -> list[dict[str, object]]:
    """Return the retry settings of each candidate, by key."""
    (folder / "run.toml").write_text(CONFIG.format(path=path))
    question = read_tuning(folder / "run.toml", "success", [], [], {}, 8, 0)
    return [
        {key.removeprefix("workload.ingest."): value for key, value in each.settings.items()}
        for each in question.candidates[ICEBERG + 1 :]
    ]


@pytest.mark.parametrize("path", ["iceberg", "pyiceberg"])
def test_iceberg_clients_are_tuned_by_the_properties_that_exist(path: str, tmp_path: Path) -> None:
    """Iceberg has no property for the multiplier or the jitter, and its waits are whole milliseconds."""
    candidates = searched(path, tmp_path)
    assert {key for settings in candidates for key in settings} - {"retry_backoff"} == set(ICEBERG_RETRY_PROPERTIES.values())
    waits = [value for settings in candidates for key, value in settings.items() if key.endswith("_ms")]
    assert all(isinstance(value, int) or value.is_integer() for value in waits)  # type: ignore[attr-defined]


def test_the_simplified_path_is_tuned_by_all_settings_of_the_backoff(tmp_path: Path) -> None:
    assert {"retry", "retry_backoff.multiplier", "retry_backoff.jitter"} <= set(searched("endive", tmp_path)[0])


FLEET = """
[simulation]
duration_ms = "1h"

[storage]
provider = "s3"

[transaction]
commit_path = "iceberg"
retry_policy = "iceberg"
runtime = { mean = 500, sigma = 0.5 }

[workload.ingest]
operation = "fast_append"
writers = 8
every = "10s"
phase = "aligned"

[workload.sink]
operation = "merge_append"
writers = 4
every = "60s"
phase = "aligned"
committer = { max_batch = 4, interval_ms = "10min" }

[workload.compaction]
operation = "rewrite_files"
periodic = { interval_ms = "10min" }

[workload.expiry]
operation = "expire_snapshots"
periodic = { interval_ms = "15min", phase_ms = "3min" }

[workload.adhoc]
rate = 0.1
operation = "row_delta"
"""


def ask(folder: Path, goal: str, *conditions: str, **options: Any) -> TuningQuestion:
    (folder / "fleet.toml").write_text(FLEET)
    return read_tuning(folder / "fleet.toml", goal, conditions, options.pop("vary", []), {}, 4, 0, **options)


def test_a_class_has_the_settings_of_its_arrivals_and_operation(tmp_path: Path) -> None:
    found = {each.name for each in ask(tmp_path, "success", "success(compaction) >= 99%").space.others}
    assert {name for name in found if not name.endswith("commits_per_job")} == {
        "workload.ingest.every_ms",
        "workload.ingest.phase",
        "workload.sink.every_ms",
        "workload.compaction.periodic.interval_ms",
        "workload.compaction.periodic.phase_ms",
        "workload.expiry.periodic.interval_ms",
        "workload.expiry.periodic.phase_ms",
        "workload.expiry.max_snapshot_age_ms",
        "workload.expiry.min_snapshots_to_keep",
    }


def test_without_a_condition_nothing_is_done_less_often(tmp_path: Path) -> None:
    """Committing rarely would be the best for nearly every metric."""
    found = {each.name for each in ask(tmp_path, "success").space.others}
    assert not any(name.endswith(("every_ms", "interval_ms")) for name in found)


def test_settings_can_be_chosen(tmp_path: Path) -> None:
    space = ask(tmp_path, "success(ingest)", search=["writers"]).space
    assert [(each.name, each.choices) for each in space.dimensions] == [("workload.ingest.writers", (1, 2, 4, 8))]
    with pytest.raises(ConfigError, match=r"unknown settings 'retry'; did you mean 'retries'"):
        ask(tmp_path, "success", search=["retry"])


def test_table_properties_hold_for_all_writers_of_the_table(tmp_path: Path) -> None:
    space = ask(tmp_path, "success(compaction)", search=["retries"]).space
    assert space.tuned == tuple(f"workload.{name}" for name in ("adhoc", "compaction", "expiry", "ingest", "sink"))


def test_intervals_leave_enough_transactions_for_a_percentile(tmp_path: Path) -> None:
    """A p95 needs 100 commits, and an hour has 45 min of window: one commit every 27 s."""
    few = ask(tmp_path, "success(sink)", "p95(sink) < 60s", search=["interval"]).space.others
    assert few[0].choices == (10_000, 15_000, 60_000.0)  # the last one is the current interval


def test_a_setting_as_in_the_file_is_no_setting(tmp_path: Path) -> None:
    question = ask(tmp_path, "success(ingest)", search=["phase"])
    assert [each.settings for each in question.candidates] == [
        {},
        {f"{section}.{name}": value for section in question.space.tuned for name, value in ICEBERG_RETRY.items()},
        {"workload.ingest.phase": "staggered"},
    ]


def test_neighbours_differ_in_one_setting(tmp_path: Path) -> None:
    question = ask(tmp_path, "success(ingest)", "success(ingest) > 5%", search=["interval", "phase"])
    first = question.find({"workload.ingest.every_ms": 30_000})
    points = [question.candidates[each].point for each in question.neighbours(first)]
    assert {"workload.ingest.every_ms": 30_000, "workload.ingest.phase": "staggered"} in points
    assert {"workload.ingest.every_ms": 60_000} in points or {"workload.ingest.every_ms": 15_000} in points
    assert question.neighbours(first) == [], "all are known now"
    assert question.simpler(first) == [TODAY]


def test_settings_are_formatted_for_their_destination(tmp_path: Path) -> None:
    question = ask(tmp_path, "success", "success(compaction) >= 99%")
    point = {
        "retry": 16,
        "retry_backoff.base_ms": 500,
        "workload.sink.every_ms": 120_000,
        "workload.ingest.phase": "staggered",
        "workload.compaction.periodic.interval_ms": 3_600_000,
        "workload.expiry.periodic.phase_ms": 450_000.0,
        "workload.expiry.max_snapshot_age_ms": 86_400_000,
    }
    found = {each.where: each.text for each in list_snippets(question, question.find(point))}
    shared = "each table of adhoc, compaction, expiry, ingest, sink"
    sql = "ALTER TABLE db.table SET TBLPROPERTIES ('commit.retry.num-retries' = '16', 'commit.retry.min-wait-ms' = '500');"
    assert found[f"Spark SQL, {shared}"] == sql
    properties = '{"commit.retry.num-retries": "16", "commit.retry.min-wait-ms": "500"}'
    assert found[f"PyIceberg, {shared}"] == f"with table.transaction() as tx: tx.set_properties({properties})"
    assert "'history.expire.max-snapshot-age-ms' = '86400000'" in found["Spark SQL, each table of expiry"]
    assert found["Flink, sink"] == "SET 'execution.checkpointing.interval' = '120000 ms';"
    assert found["Kafka Connect, sink"] == "iceberg.control.commit.interval-ms=120000"
    assert found["scheduler, ingest"] == "start each of the 8 writers of ingest 1.25 s after the previous one"
    assert (found["cron, compaction"], found["cron, expiry"]) == ("0 * * * *", "8-59/15 * * * *")
    assert "--set-b workload.sink.every_ms=120000" in found["Check"]


@pytest.mark.parametrize(
    ("interval_min", "phase_min", "line"),
    [
        (1, 0, "* * * * *"),
        (15, 0, "*/15 * * * *"),
        (15, 20, "5-59/15 * * * *"),
        (60, 30, "30 * * * *"),
        (120, 75, "15 1-23/2 * * *"),
        (24 * 60, 150, "30 2 * * *"),
        (7, 0, None),
        (90, 0, None),
        (0.5, 0, None),
        (48 * 60, 0, None),
    ],
)
def test_cron_lines(interval_min: float, phase_min: float, line: str | None) -> None:
    assert cron_line(interval_min * 60_000, phase_min * 60_000) == line


@pytest.mark.parametrize(
    ("costs", "text"),
    [
        (((620.0, 620.0), (660.0, 660.0)), "640 ms"),
        (((620.0, 620.0), (620.0, math.inf)), "only a bound in 1 of 2 seeds"),
        (((math.inf, math.inf), (620.0, math.inf)), "infinite in 1 of 2 seeds, because transactions abort"),
    ],
)
def test_outcomes_of_candidates(costs: tuple[tuple[float, float], ...], text: str, tmp_path: Path) -> None:
    question = ask(tmp_path, "p50(ingest)")
    assert describe_outcome(question, Measured(tuple(Cost(*each) for each in costs))) == text


def test_a_percentile_of_too_few_transactions_ends_the_search_before_its_first_round(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.format(path="endive").replace("rate = 2", "rate = 1"))
    question = read_tuning(tmp_path / "run.toml", "time_to_commit_p99_ms", [], [], {"simulation.engine": "reference"}, 8, 0)
    replications = Replications(tmp_path / "runs", MetricsOptions(warmup_ms=1_000.0))
    with pytest.raises(ConfigError, match=r"needs at least 500 transactions per run.*Set simulation\.duration_ms to"):
        CostEvaluator(question, replications)
    assert replications.runs <= 2 * WINDOW_SEEDS
