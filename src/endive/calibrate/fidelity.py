"""Compare observed commits with the model: attempts, durations, time between commits, and missing commits of periodic jobs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from endive.analysis import Floats
from endive.analysis.estimates import Estimate, mean_estimate, share_estimate
from endive.calibrate.measurements import CommitReport
from endive.calibrate.observed_classes import observe_classes
from endive.calibrate.table_history import History
from endive.transaction.paths import ICEBERG
from endive.workload.arrivals import PERIODIC_JOB

Verdict = Literal["close", "not close", "cannot tell"]

CLOSE = 0.15
"""Maximum relative difference between values that count as close."""
CLOSE_POINTS = 0.05
"""Maximum absolute difference between fractions that count as close."""
_LEAST = 20
"""Minimum number of observations for a comparison."""
_RESAMPLES = 400
SNAPSHOT_OPERATIONS = {
    "fast_append": "append",
    "merge_append": "append",
    "overwrite": "overwrite",
    "validated_overwrite": "overwrite",
    "row_delta": "overwrite",
    "replace_partitions": "overwrite",
    "rewrite_files": "replace",
    "delete": "delete",
}
"""Iceberg's snapshot operation for each operation of the model."""


@dataclass(frozen=True)
class Comparison:
    """Metric of a snapshot operation, with its observed and simulated values."""

    measure: str
    operation: str
    observed: Estimate
    simulated: Estimate
    verdict: Verdict

    @property
    def ratio(self) -> float:
        """Simulated value divided by the observed value."""
        return self.simulated.mean / self.observed.mean if self.observed.mean else math.nan


_ATTEMPTS, _FIRST, _P50, _P95, _GAP, _VARIATION, _FAILED = (
    "attempts per commit",
    "duration of a first attempt, p50",
    "duration of a commit, p50",
    "duration of a commit, p95",
    "time between commits, mean",
    "time between commits, coefficient of variation",
    "fraction of failed operations",
)
_DURATIONS = (_FIRST, _P50, _P95)


def list_start_keys(history: History, table: Mapping[str, object]) -> dict[str, int]:
    """Return the configuration keys that set a table to its state at the start of a history.

    Return no keys if the table in the configuration is not the imported table.
    """
    then = history.manifests_at_start()
    as_imported = all(table.get(key) == getattr(history.state, key) for key in then)
    return {f"table.{key}": value for key, value in then.items()} if as_imported else {}


def compare_reports(reports: Sequence[CommitReport], rows: pd.DataFrame) -> list[Comparison]:
    """Compare attempts and durations in commit reports with simulated rows of several seeds, for each snapshot operation."""
    made = []
    for operation in sorted({report.operation for report in reports}):
        own = [report for report in reports if report.operation == operation]
        simulated = _select_committed(rows, operation)
        if len(own) < _LEAST or len(simulated) < _LEAST:
            continue
        attempts = np.array([report.attempts for report in own], np.float64)
        durations = np.array([report.duration_ms for report in own])
        per_seed = [group for _, group in simulated.groupby("seed")]
        first = [group[group["attempts"] == 1.0] for group in per_seed]
        measures: tuple[tuple[str, Floats, Callable[[Floats], float], str, list[pd.DataFrame], int], ...] = (
            (_ATTEMPTS, attempts, _mean, "attempts", per_seed, _LEAST),
            (_FIRST, durations[attempts == 1.0], _median, "commit_latency", first, _LEAST),
            (_P50, durations, _median, "commit_latency", per_seed, _LEAST),
            (_P95, durations, lambda x: float(np.quantile(x, 0.95)), "commit_latency", per_seed, 100),
        )
        for measure, observed, value, column, groups, least in measures:
            if len(observed) < least or not all(len(group) for group in groups):
                continue
            model = mean_estimate([value(group[column].to_numpy(np.float64)) for group in groups])
            made.append(_comparison(measure, operation, _bootstrap(observed, value), model))
    return made


def compare_history(history: History, rows: pd.DataFrame) -> list[Comparison]:
    """Compare the time between commits with simulated rows, for all commits and for each snapshot operation."""
    made = []
    operations = sorted({commit.operation for commit in history.commits})
    for operation in ["", *(operations if len(operations) > 1 else [])]:
        times = np.array([c.timestamp_ms for c in history.commits if operation in ("", c.operation)], np.float64)
        simulated = rows[rows["status"] == "committed"] if not operation else _select_committed(rows, operation)
        if len(times) <= _LEAST or len(simulated) <= _LEAST:
            continue
        gaps = np.diff(times)
        per_seed = [np.diff(np.sort(group["t_commit"].to_numpy(np.float64))) for _, group in simulated.groupby("seed")]
        per_seed = [each for each in per_seed if len(each) > 1]
        for measure, value in ((_GAP, _mean), (_VARIATION, _variation)):
            model = mean_estimate([value(each) for each in per_seed])
            made.append(_comparison(measure, operation or "all", _bootstrap(gaps, value), model))
    return made


def compare_failures(history: History, rows: pd.DataFrame) -> list[Comparison]:
    """Compare the fraction of scheduled commits that are missing with the fraction of simulated transactions that abort.

    Only operations whose classes are all periodic are compared, because only they have a known number of scheduled commits.
    """
    if len(history.commits) < 2 or history.span_ms <= 0:
        return []
    classes = observe_classes(history, float(history.commits[0].timestamp_ms), ICEBERG.name)
    finished = rows[rows["status"] != "in_flight"]
    kinds = finished["operation_type"].map(SNAPSHOT_OPERATIONS)
    made = []
    for operation in sorted({cls.commits[0].operation for cls in classes}):
        own = [cls for cls in classes if cls.commits[0].operation == operation]
        model = finished[kinds == operation]
        if not all(PERIODIC_JOB.key in cls.process.keys for cls in own) or not len(model):
            continue
        slots = [round(len(cls.commits) / (1.0 - cls.process.missed)) for cls in own]
        if sum(slots) < _LEAST:
            continue
        observed = share_estimate([sum(slots) - sum(len(cls.commits) for cls in own)], [sum(slots)])
        failed = [((group["status"] == "aborted").sum(), len(group)) for _, group in model.groupby("seed")]
        simulated = share_estimate([float(each) for each, _ in failed], [each for _, each in failed])
        made.append(_comparison(_FAILED, operation, observed, simulated))
    return made


def explain(comparisons: Sequence[Comparison]) -> list[str]:
    """Return likely causes of the differences, the most likely first."""
    off = {(each.measure, each.ratio > 1.0) for each in comparisons if each.verdict == "not close"}
    measures = {measure for measure, _ in off}
    found = []
    for longer, word, way in ((False, "shorter", "slower"), (True, "longer", "faster")):
        if any((measure, longer) in off for measure in _DURATIONS):
            text = (
                f"simulated commits are {word} than observed commits: the object store or the catalog is {way} "
                f"than its latency profile"
            )
            found.append(f"{text}; measure latencies with `endive probe` or `endive calibrate`, or import with --reports")
            if (_ATTEMPTS, longer) in off:
                found.append("the number of attempts deviates in the same direction: longer commits overlap with more commits")
    if _ATTEMPTS in measures and not measures.intersection(_DURATIONS):
        number, why = "fewer", "observed arrivals are closer together; check phases and bursts"
        if (_ATTEMPTS, True) in off:
            number, why = "more", "observed arrivals vary less, or the writers form a closed loop (`closed`)"
        found.append(f"the model has {number} attempts per commit than the table, although commits take the same time: {why}")
    if _GAP in measures:
        often = "less" if (_GAP, True) in off else "more"
        found.append(
            f"the model commits {often} often than the table: check the arrival rates of the workload classes, "
            f"and the operations that fail"
        )
    if _FAILED in measures:
        found.append("the fraction of failed operations differs from the model: check retries, timeouts and real conflicts")
    if _VARIATION in measures:
        found.append(
            "the variation of the time between commits differs from the model: check for bursts, a schedule, or aligned writers"
        )
    return found


def correct_verdicts(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Correct the verdicts for multiple comparisons, because one of 20 metrics deviates significantly by chance.

    The correction multiplies the half widths of intervals by a ratio of normal quantiles (Bonferroni).
    """
    if len(comparisons) < 2:
        return list(comparisons)
    wider = float(stats.norm.ppf(1.0 - 0.025 / len(comparisons)) / stats.norm.ppf(0.975))
    return [
        replace(each, verdict=_verdict(each.measure, each.observed, each.simulated, wider)) if each.verdict == "not close" else each
        for each in comparisons
    ]


def combine_verdicts(comparisons: Sequence[Comparison]) -> Verdict:
    """Return the verdict on a model: not close if a metric is not close, otherwise close if at least one metric is close."""
    verdicts = {each.verdict for each in comparisons}
    if "not close" in verdicts:
        return "not close"
    return "close" if "close" in verdicts else "cannot tell"


def _select_committed(rows: pd.DataFrame, operation: str) -> pd.DataFrame:
    kinds = rows["operation_type"].map(SNAPSHOT_OPERATIONS)
    found = rows[(rows["status"] == "committed") & (kinds == operation)]
    return found.assign(attempts=found["n_retries"] + 1.0)


def _mean(x: Floats) -> float:
    return float(x.mean())


def _median(x: Floats) -> float:
    return float(np.median(x))


def _variation(x: Floats) -> float:
    return float(x.std() / max(float(x.mean()), 1e-9))


def _bootstrap(x: Floats, value: Callable[[Floats], float]) -> Estimate:
    """Estimate a statistic with its 95% interval by a block bootstrap, because consecutive commits are correlated."""
    rng = np.random.default_rng(5)
    block = max(1, round(len(x) ** (1.0 / 3.0)))
    starts = rng.integers(0, len(x), (_RESAMPLES, math.ceil(len(x) / block)))
    places = (starts[:, :, None] + np.arange(block)) % len(x)
    values = [value(x[each.ravel()[: len(x)]]) for each in places]
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(value(x), float(low), float(high), 1)


def _comparison(measure: str, operation: str, observed: Estimate, simulated: Estimate) -> Comparison:
    return Comparison(measure, operation, observed, simulated, _verdict(measure, observed, simulated))


def _verdict(measure: str, observed: Estimate, simulated: Estimate, wider: float = 1.0) -> Verdict:
    if measure == _FAILED:
        return judge_estimates(observed, simulated, CLOSE_POINTS, wider, together=operator.add)
    return judge_estimates(observed, simulated, CLOSE * abs(observed.mean), wider)


def judge_estimates(
    observed: Estimate,
    simulated: Estimate,
    close: float,
    wider: float = 1.0,
    together: Callable[[float, float], float] = math.hypot,
) -> Verdict:
    """Return whether two estimates are close, differ significantly, or are too uncertain for a verdict.

    Args:
        observed: Observed value.
        simulated: Simulated value.
        close: Maximum difference of close values.
        wider: Factor on the half widths of both intervals.
        together: Function that combines the two half widths. Half widths of failures are added, because failures are clustered,
            which a single history does not show.
    """
    low, high = sorted((observed, simulated), key=lambda each: each.mean)
    difference = high.mean - low.mean
    if difference <= close:
        return "close"
    chance = together(low.high - low.mean, high.mean - high.low)
    return "not close" if difference > wider * chance else "cannot tell"
