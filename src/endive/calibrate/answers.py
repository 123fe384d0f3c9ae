"""What a configuration predicts, class by class, with the range that its assumptions leave open."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from endive.analysis import Floats
from endive.analysis.estimates import share_estimate
from endive.calibrate.assumptions import STORE_SCALE, Assumption
from endive.calibrate.errors import TooMuchWorkError
from endive.calibrate.profile import scaled_profile_text
from endive.config import build_simulation_config
from endive.config.load import check_document, load_document
from endive.config.schema import Document
from endive.config.storage import storage_profile
from endive.input_files import read_toml
from endive.simulation import RESULT_SCHEMA
from endive.simulation.expected import expected_work
from endive.simulation.runner import Simulation
from endive.workload.arrivals import ARRIVAL_KINDS, CLOSED_LOOP

SEEDS = (1, 2, 3, 4, 5)
MOST_TRANSACTIONS = 3_000_000
"""So many are simulated for one answer, over all seeds; their rows are held in memory. More is for `endive run` and sweeps."""
_MOST_CLIENTS = 64


@dataclass(frozen=True)
class Outcome:
    """What became of the transactions of a class, over all seeds; percentiles and attempts are those of commits."""

    submitted: int
    committed: int
    attempts: float
    p50_ms: float
    p95_ms: float
    commits_per_s: float

    @property
    def success(self) -> float:
        """The share of finished transactions that committed."""
        return self.committed / self.submitted if self.submitted else math.nan


@dataclass(frozen=True)
class Answer:
    """The prediction for a class, and the least and greatest success, p50 and attempts over the ranges of assumptions.

    The range of success has the 95 % interval over seeds within it.
    """

    name: str
    base: Outcome
    success: tuple[float, float]
    p50_ms: tuple[float, float]
    attempts: tuple[float, float]
    widest: str
    """The assumption that moves success the most; empty if none does."""


def simulate(path: Path, overrides: Mapping[str, Any], seeds: Sequence[int] = SEEDS) -> pd.DataFrame:
    """Run a configuration with each seed and return all rows, with the seed as a column.

    Raises TooMuchWorkError if these are too many: a history may be of a busy second and of decades.
    """
    frames: list[pd.DataFrame] = []
    with tempfile.TemporaryDirectory() as folder:
        changed = _with_store(path, dict(overrides), Path(folder))
        _check_work(path, changed, len(seeds))
        for seed in seeds:
            document = _load(path, {**changed, "simulation.seed": seed})
            batches: list[pa.RecordBatch] = []
            Simulation(build_simulation_config(document), among_many=True).stream(batches.append)
            rows: pd.DataFrame = pa.Table.from_batches(batches, schema=RESULT_SCHEMA).to_pandas()
            frames.append(rows.assign(seed=seed))
    return pd.concat(frames, ignore_index=True)


def _check_work(path: Path, overrides: Mapping[str, Any], seeds: int) -> None:
    document = _load(path, overrides)
    expected = seeds * expected_work(build_simulation_config(document, seed_override=0)).transactions
    if expected > MOST_TRANSACTIONS:
        days = document.simulation.duration_ms / 86_400_000.0
        raise TooMuchWorkError(
            f"{path}: {seeds} runs of {days:,.3g} days are about {expected:,.0f} transactions, and at most {MOST_TRANSACTIONS:,} "
            "are simulated for an answer; a smaller simulation.duration_ms makes it so"
        )


def _load(path: Path, overrides: Mapping[str, Any]) -> Document:
    """Load a configuration with keys changed; another way for a class to arrive takes the place of its own."""
    tree = read_toml(path)
    for key in overrides:
        section, _, rest = key.partition(".")
        name, _, arrival = rest.partition(".")
        own = tree.get("workload", {}).get(name) if section == "workload" else None
        if isinstance(own, dict) and arrival in ARRIVAL_KINDS and arrival not in own:
            tree["workload"][name] = {each: value for each, value in own.items() if each not in ARRIVAL_KINDS}
    return check_document(tree, str(path), path.parent, overrides)


def _with_store(path: Path, overrides: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Replace a factor on latencies by a profile with latencies so many times as long."""
    factor = overrides.pop(STORE_SCALE, None)
    if factor is None:
        return overrides
    profile = storage_profile(_load(path, overrides).storage)
    scaled = folder / "scaled.toml"
    scaled.write_text(scaled_profile_text(profile, float(factor)))
    return {**overrides, "storage.provider": str(scaled)}


def outcomes(rows: pd.DataFrame, duration_ms: float) -> dict[str, Outcome]:
    """What became of each class; transactions in flight at the end are left out."""
    seeds = rows["seed"].nunique()
    made = {}
    for name, own in rows.groupby("workload_class"):
        finished = own[own["status"] != "in_flight"]
        committed = finished[finished["status"] == "committed"]
        latencies = committed["commit_latency"].to_numpy()
        made[str(name)] = Outcome(
            submitted=len(finished),
            committed=len(committed),
            attempts=float(committed["n_retries"].mean() + 1.0) if len(committed) else math.nan,
            p50_ms=_percentile(latencies, 0.5),
            p95_ms=_percentile(latencies, 0.95),
            commits_per_s=1e3 * len(committed) / (duration_ms * seeds),
        )
    return made


def _percentile(values: Floats, p: float) -> float:
    return float(np.quantile(values, p)) if len(values) else math.nan


def answers(path: Path, assumptions: Sequence[Assumption], overrides: Mapping[str, Any] | None = None) -> list[Answer]:
    """Predict each class of a configuration, and again with each assumption at both ends of its range, one at a time.

    ``overrides`` are keys of the configuration that are changed in all of these runs, and win over assumptions.
    """
    given = dict(overrides or {})
    duration = load_document(path, given).simulation.duration_ms
    rows = simulate(path, given)
    base = outcomes(rows, duration)
    by_seed = [outcomes(own, duration) for _, own in rows.groupby("seed")]
    moved: dict[str, list[tuple[str, Outcome]]] = {name: [] for name in base}
    for assumption in assumptions:
        for end in (assumption.low, assumption.high):
            changes = {key: value for key, value in end.items() if key not in given}
            if not changes or (STORE_SCALE in changes and "storage.provider" in given):
                continue
            for name, outcome in outcomes(simulate(path, {**given, **changes}, SEEDS[:2]), duration).items():
                moved.setdefault(name, []).append((assumption.about, outcome))
    return [_answer(name, outcome, [each[name] for each in by_seed if name in each], moved[name]) for name, outcome in base.items()]


def _answer(name: str, base: Outcome, of_seeds: Sequence[Outcome], moved: Sequence[tuple[str, Outcome]]) -> Answer:
    all_outcomes = [base, *(outcome for _, outcome in moved)]

    def extent(values: Sequence[float]) -> tuple[float, float]:
        known = [value for value in values if not math.isnan(value)]
        return (min(known), max(known)) if known else (math.nan, math.nan)

    shifts = [(abs(outcome.success - base.success), about) for about, outcome in moved if not math.isnan(outcome.success)]
    widest = max(shifts, default=(0.0, ""))
    return Answer(
        name,
        base,
        extent([*_by_chance(of_seeds), *(outcome.success for outcome in all_outcomes)]),
        extent([outcome.p50_ms for outcome in all_outcomes]),
        extent([outcome.attempts for outcome in all_outcomes]),
        widest[1] if widest[0] > 0.001 else "",
    )


def _by_chance(of_seeds: Sequence[Outcome]) -> tuple[float, float]:
    """The 95 % interval of success, by what seeds differ."""
    trials = [outcome.submitted for outcome in of_seeds]
    if not sum(trials):
        return math.nan, math.nan
    estimate = share_estimate([outcome.committed for outcome in of_seeds], trials)
    return estimate.low, estimate.high


def fit_store(path: Path, durations_ms: Sequence[float], then: Mapping[str, Any] | None = None) -> float:
    """Find the factor on the store's latencies at which commits of one attempt last, in the median, as long as these did.

    ``then`` are keys of the configuration that were others when they did.
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
    """Find ``closed`` of classes at which they commit so many times a second: another think time, more clients where it is 0.

    The time that a commit takes in the model is not quite that of reports, and without reports it is not known at all. ``then``
    are keys that were others when they did.
    """
    loops: dict[str, dict[str, Any]] = {name: deepcopy(read_toml(path)["workload"][name][CLOSED_LOOP.key]) for name in per_s}
    for _ in range(3 if loops else 0):
        changes = {**(then or {}), **{f"workload.{name}.{CLOSED_LOOP.key}": keys for name, keys in loops.items()}}
        duration = load_document(path).simulation.duration_ms
        found = outcomes(simulate(path, changes, SEEDS[:2]), duration)
        for name, keys in loops.items():
            reached = found[name].commits_per_s if name in found else 0.0
            if reached > 0.0:
                _adjust(keys, 1e3 * keys["clients"] * (1.0 / per_s[name] - 1.0 / reached))
    return loops


def _adjust(closed: dict[str, Any], longer_ms: float) -> None:
    """Let clients think so much longer; where they cannot think less, let there be more of them."""
    think = closed["think_time"]
    key = "value" if "value" in think else "mean"
    now = float(think[key]) + longer_ms
    if now < 0.0 and think[key] == 0.0 and closed["clients"] < _MOST_CLIENTS:
        closed["clients"] += 1
    think[key] = float(f"{max(now, 0.0):.6g}")
    if think[key] == 0.0:
        closed["think_time"] = {"distribution": "fixed", "value": 0.0}
