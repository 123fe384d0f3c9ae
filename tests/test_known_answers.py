"""Known answers are right, and every way to ask gives the same number: run, import, the live page, the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tomli_w

from endive.analysis.estimates import estimate_metric
from endive.analysis.run_metrics import ALL
from endive.calibrate.answers import Outcome
from endive.calibrate.answers import measure as measure_imported
from endive.config.load import check_document
from endive.runs.execute import run_experiment
from endive.runs.stored import take_inventory
from endive.serve.messages import Summarize
from endive.serve.worker import Worker, perform
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import Replications
from endive.studies.tables import make_tables, measure_unit, plan_measuring
from tests.known_answers import KNOWN_ANSWERS, KnownAnswer

SEEDS = (0, 1)
IN_IMPORT: dict[str, Callable[[Outcome], float]] = {
    "success_rate": lambda outcome: outcome.success,
    "time_to_commit_p50_ms": lambda outcome: outcome.p50_ms,
    "time_to_commit_p95_ms": lambda outcome: outcome.p95_ms,
    "retries_per_txn": lambda outcome: outcome.attempts - 1.0,
    "throughput_per_s": lambda outcome: outcome.commits_per_s,
}
"""Metrics that ``import`` prints."""


def test_there_are_enough_known_answers() -> None:
    assert len({each.name for each in KNOWN_ANSWERS}) == len(KNOWN_ANSWERS) >= 30


QUICK = {
    "one writer, Iceberg's Java library",
    "one writer needs no retry",
    "a closed loop without contention",
    "two aligned writers, no retries, PyIceberg",
    "the backoff of the loser",
    "two tables with a pointer each",
    "clients that crash",
    "group commit of aligned appends",
}
"""Systems of which `make test` compares the report, the live page and the import, too. `make verify` does so for all."""


def cases() -> list[Any]:
    return [pytest.param(each, marks=[] if each.name in QUICK else [pytest.mark.slow], id=each.name) for each in KNOWN_ANSWERS]


def test_quick_known_answers_exist() -> None:
    assert {each.name for each in KNOWN_ANSWERS} >= QUICK


@pytest.mark.parametrize("known", [each for each in KNOWN_ANSWERS if each.name not in QUICK], ids=lambda known: known.name)
def test_a_run_gives_the_known_answer(tmp_path: Path, known: KnownAnswer) -> None:
    assert ask_run(known, tmp_path) == pytest.approx(known.value, rel=0, abs=known.within), known.why


@pytest.mark.parametrize("known", cases())
def test_run_report_page_and_import_give_the_known_answer(tmp_path: Path, known: KnownAnswer) -> None:
    found = ask_run(known, tmp_path)
    assert found == pytest.approx(known.value, rel=0, abs=known.within), known.why
    assert ask_report(known, tmp_path) == pytest.approx(found, rel=1e-12)
    assert ask_page(known, tmp_path) in (None, pytest.approx(found, rel=1e-12))
    assert ask_import(known, tmp_path) in (None, pytest.approx(found, rel=1e-12))


def ask_run(known: KnownAnswer, folder: Path) -> float:
    runs = Replications(folder / "runs", MetricsOptions()).measure(check_document(known.tree, "test"), SEEDS)
    estimate = estimate_metric([run.select(known.workload_class, ALL) for run in runs], known.metric)
    assert estimate is not None
    assert estimate.kind == "number"
    return estimate.mean


def ask_report(known: KnownAnswer, folder: Path) -> float:
    """The number in the table of experiments, of which a report is made."""
    document = check_document(known.tree, "test", overrides={"experiment.label": "known"})
    for seed in SEEDS:
        run_experiment(document, root=folder / "study", seed=seed)
    inventory, options = take_inventory(folder / "study"), MetricsOptions()
    rows = [measure_unit(unit).rows for unit in plan_measuring(folder / "study", inventory, options)]
    table = make_tables(pa.Table.from_batches(rows), inventory, options).experiments
    (row,) = (row for row in table.to_pylist() if (row["workload_class"], row["operation_type"]) == (known.workload_class, ALL))
    return float(row[known.metric])


def ask_page(known: KnownAnswer, folder: Path) -> float | None:
    """The number on the live page, if it shows the metric."""
    document = check_document(known.tree, "test")
    answer = perform(Summarize(document, SEEDS), Worker(folder / "page", lambda: False))
    (value,) = [row.metrics.get(known.metric) for row in answer.classes if row.name == known.workload_class] or [None]
    return None if value is None else value.mean


def ask_import(known: KnownAnswer, folder: Path) -> float | None:
    """The number that ``import`` prints for a configuration, if it prints the metric."""
    path = folder / "known.toml"
    path.write_text(tomli_w.dumps(known.tree))
    if known.metric not in IN_IMPORT:
        return None
    return IN_IMPORT[known.metric](measure_imported(path, {}, SEEDS)[known.workload_class])
