"""Predict the success rate, time to commit and attempts of each workload class, with ranges due to uncertain assumptions."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from endive.analysis.estimates import estimate_metric
from endive.analysis.run_metrics import ALL
from endive.calibrate import TooMuchWorkError
from endive.calibrate.observed_classes import STORE_SCALE, Assumption
from endive.calibrate.profile import scaled_profile_text
from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.config.resolve import storage_profile
from endive.config.schema import Document
from endive.input_files import read_toml
from endive.simulation.expected import expected_work
from endive.studies.measure import MetricsOptions, Row
from endive.studies.replicate import Replications
from endive.workload.arrivals import ARRIVAL_KINDS, CLOSED_LOOP

SEEDS = (1, 2, 3, 4, 5)
MOST_TRANSACTIONS = 3_000_000
"""Maximum number of simulated transactions of a prediction, for all seeds together."""
_MOST_CLIENTS = 64


@dataclass(frozen=True)
class Outcome:
    """Metrics of a workload class, as means across seeds. ``docs/explanation/statistics.md`` defines the metrics.

    Attributes:
        success: Success rate.
        success_low: Lower end of the 95% interval of the success rate.
        success_high: Upper end of the 95% interval of the success rate.
        p50_ms: Median time to commit, in ms; infinite if fewer than half of the transactions commit, NaN without an estimate.
        p95_ms: 95th percentile of the time to commit, in ms; infinite if it falls on an aborted transaction, NaN without an
            estimate.
        attempts: Attempts per transaction.
        commits_per_s: Commits per second.
    """

    success: float
    success_low: float
    success_high: float
    p50_ms: float
    p95_ms: float
    attempts: float
    commits_per_s: float


@dataclass(frozen=True)
class Answer:
    """Prediction for a workload class.

    The ranges of success rate, median time to commit and attempts include the results at both ends of the range of each assumption.
    The range of the success rate also includes its 95% interval across seeds.
    """

    name: str
    base: Outcome
    success: tuple[float, float]
    p50_ms: tuple[float, float]
    attempts: tuple[float, float]
    widest: str
    """Assumption with the largest effect on success; empty if no assumption has an effect."""


def simulate(path: Path, overrides: Mapping[str, Any], seeds: Sequence[int] = SEEDS) -> pd.DataFrame:
    """Simulate a configuration once for each seed, and return the rows of all runs with the seed in the column ``seed``.

    Raises:
        TooMuchWorkError: If the runs exceed the maximum number of transactions of a prediction.
    """
    with _replications(path, overrides, len(seeds), keep_rows=True) as (document, replications):
        replications.simulate(document, seeds)
        frames: list[pd.DataFrame] = [
            pq.read_table(replications.rows_file(document, seed)).to_pandas().assign(seed=seed) for seed in seeds
        ]
    return pd.concat(frames, ignore_index=True)


def measure(path: Path, overrides: Mapping[str, Any], seeds: Sequence[int] = SEEDS) -> dict[str, Outcome]:
    """Simulate a configuration once for each seed, and return the metrics of each workload class.

    Raises:
        TooMuchWorkError: If the runs exceed the maximum number of transactions of a prediction.
    """
    with _replications(path, overrides, len(seeds)) as (document, replications):
        runs = replications.measure(document, seeds)
    names = dict.fromkeys(row["workload_class"] for run in runs for row in run.rows if row["workload_class"] != ALL)
    return {name: _outcome([run.select(name, ALL) for run in runs]) for name in names}


@contextmanager
def _replications(
    path: Path, overrides: Mapping[str, Any], seeds: int, *, keep_rows: bool = False
) -> Iterator[tuple[Document, Replications]]:
    with tempfile.TemporaryDirectory(prefix="endive-") as folder:
        document = _load(path, _with_store(path, dict(overrides), Path(folder)))
        _check_work(path, document, seeds)
        yield document, Replications(Path(folder) / "runs", MetricsOptions(), keep_rows=keep_rows)


def _outcome(rows: Sequence[Row]) -> Outcome:
    success = estimate_metric(rows, "success_rate")
    return Outcome(
        math.nan if success is None else success.mean,
        math.nan if success is None else success.low,
        math.nan if success is None else success.high,
        _value(rows, "time_to_commit_p50_ms"),
        _value(rows, "time_to_commit_p95_ms"),
        1.0 + _value(rows, "retries_per_txn"),
        _value(rows, "throughput_per_s"),
    )


def _value(rows: Sequence[Row], metric: str) -> float:
    """Return the mean of a metric across seeds.

    For a percentile that falls on an aborted transaction, the mean is infinite; without an estimate, it is NaN.
    """
    found = estimate_metric(rows, metric)
    if found is None:
        return math.nan
    if found.kind == "number":
        return found.mean
    return math.inf if found.low == math.inf else math.nan


def _check_work(path: Path, document: Document, seeds: int) -> None:
    expected = seeds * expected_work(build_simulation_config(document, seed_override=0)).transactions
    if expected > MOST_TRANSACTIONS:
        days = document.simulation.duration_ms / 86_400_000.0
        raise TooMuchWorkError(
            f"{path}: {seeds} runs of {days:,.3g} days would simulate about {expected:,.0f} transactions, more than the limit of "
            f"{MOST_TRANSACTIONS:,} for a prediction; reduce simulation.duration_ms, or use `endive run`"
        )


def _load(path: Path, overrides: Mapping[str, Any]) -> Document:
    """Load a configuration with overrides.

    If an override sets the arrivals of a workload class, it replaces all arrival keys of the class in the file.
    """
    tree = read_toml(path)
    for key in overrides:
        section, _, rest = key.partition(".")
        name, _, arrival = rest.partition(".")
        own = tree.get("workload", {}).get(name) if section == "workload" else None
        if isinstance(own, dict) and arrival in ARRIVAL_KINDS and arrival not in own:
            tree["workload"][name] = {each: value for each, value in own.items() if each not in ARRIVAL_KINDS}
    return check_document(tree, str(path), path.parent, overrides)


def _with_store(path: Path, overrides: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return overrides in which a latency profile with scaled latencies replaces the latency factor."""
    factor = overrides.pop(STORE_SCALE, None)
    if factor is None:
        return overrides
    profile = storage_profile(_load(path, overrides).storage)
    scaled = folder / "scaled.toml"
    scaled.write_text(scaled_profile_text(profile, float(factor)))
    return {**overrides, "storage.provider": str(scaled)}


def answers(path: Path, assumptions: Sequence[Assumption], overrides: Mapping[str, Any] | None = None) -> list[Answer]:
    """Predict the results of each workload class, and repeat the prediction with each assumption at both ends of its range.

    Args:
        path: Configuration.
        assumptions: Assumptions, which are varied one at a time.
        overrides: Configuration keys with their values in all runs. They take precedence over assumptions.
    """
    given = dict(overrides or {})
    base = measure(path, given)
    moved: dict[str, list[tuple[str, Outcome]]] = {name: [] for name in base}
    for assumption in assumptions:
        for end in (assumption.low, assumption.high):
            changes = {key: value for key, value in end.items() if key not in given}
            if not changes or (STORE_SCALE in changes and "storage.provider" in given):
                continue
            for name, outcome in measure(path, {**given, **changes}, SEEDS[:2]).items():
                moved.setdefault(name, []).append((assumption.about, outcome))
    return [_answer(name, outcome, moved[name]) for name, outcome in base.items()]


def _answer(name: str, base: Outcome, moved: Sequence[tuple[str, Outcome]]) -> Answer:
    all_outcomes = [base, *(outcome for _, outcome in moved)]

    def extent(values: Sequence[float]) -> tuple[float, float]:
        known = [value for value in values if not math.isnan(value)]
        return (min(known), max(known)) if known else (math.nan, math.nan)

    shifts = [(abs(outcome.success - base.success), about) for about, outcome in moved if not math.isnan(outcome.success)]
    widest = max(shifts, default=(0.0, ""))
    return Answer(
        name,
        base,
        extent([base.success_low, base.success_high, *(outcome.success for outcome in all_outcomes)]),
        extent([outcome.p50_ms for outcome in all_outcomes]),
        extent([outcome.attempts for outcome in all_outcomes]),
        widest[1] if widest[0] > 0.001 else "",
    )


def fit_store(path: Path, durations_ms: Sequence[float], then: Mapping[str, Any] | None = None) -> float:
    """Return the factor on the object store's latencies with which the model reproduces the observed commit duration.

    The fit compares medians of commits that succeed at their first attempt.

    Args:
        path: Configuration.
        durations_ms: Observed durations of commits with a single attempt.
        then: Configuration keys with their values at the time of the observation.
    """
    target, factor = float(np.median(durations_ms)), 1.0
    for _ in range(4):
        rows = simulate(path, {**(then or {}), STORE_SCALE: factor}, SEEDS[:1])
        single = rows[(rows["status"] == "committed") & (rows["n_retries"] == 0)]["commit_latency"]
        if not len(single):
            return factor
        factor *= target / float(single.median())
    return factor


def fit_think(path: Path, per_s: Mapping[str, float], then: Mapping[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """Return the ``closed`` section of each closed-loop class with which the model reproduces the observed commit rates.

    The fit changes the think time, and adds clients if the think time reaches 0. It is necessary because the commit duration in the
    model differs from the reported duration.

    Args:
        path: Configuration.
        per_s: Observed commits per second of each class.
        then: Configuration keys with their values at the time of the observation.
    """
    loops: dict[str, dict[str, Any]] = {name: deepcopy(read_toml(path)["workload"][name][CLOSED_LOOP.key]) for name in per_s}
    for _ in range(3 if loops else 0):
        changes = {**(then or {}), **{f"workload.{name}.{CLOSED_LOOP.key}": keys for name, keys in loops.items()}}
        found = measure(path, changes, SEEDS[:2])
        for name, keys in loops.items():
            reached = found[name].commits_per_s if name in found else 0.0
            if reached > 0.0:
                _adjust(keys, 1e3 * keys["clients"] * (1.0 / per_s[name] - 1.0 / reached))
    return loops


def _adjust(closed: dict[str, Any], longer_ms: float) -> None:
    """Increase the think time by ``longer_ms``. If the think time is already 0 and would become negative, add a client instead."""
    think = closed["think_time"]
    key = "value" if "value" in think else "mean"
    now = float(think[key]) + longer_ms
    if now < 0.0 and think[key] == 0.0 and closed["clients"] < _MOST_CLIENTS:
        closed["clients"] += 1
    think[key] = float(f"{max(now, 0.0):.6g}")
    if think[key] == 0.0:
        closed["think_time"] = {"distribution": "fixed", "value": 0.0}
