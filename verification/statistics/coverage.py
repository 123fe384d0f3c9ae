"""Measure the coverage of each kind of interval over replicated studies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from os import cpu_count
from typing import Any

from endive.analysis.conditions import Subject, parse_condition
from endive.analysis.contrasts import paired_difference
from endive.analysis.crossings import crossing
from endive.analysis.estimates import Estimate, estimate_metric
from endive.analysis.load_search import Search, find_frontier
from endive.analysis.replication_rule import Width, add_seeds, measure_widths
from endive.config.study import Precision, parse_precision
from verification.statistics.studies import System, measure, studies, true_crossing, truth

STUDIES, QUICK_STUDIES = 500, 60
SEEDS = 5
BUSY, NEARLY_ALL, PATIENT = System(5.0), System(1.5), System(5.0, retries=6)
CLIENTS = System(1.0, retries=1000, clients=12, measured_ms=590_000.0, cooldown_ms=0.0)
"""Closed loop with transactions in flight at the end and many retries per transaction."""
NEAR_SATURATION = System(4.0, retries=1000, measured_ms=590_000.0, cooldown_ms=0.0)
BY_DEFAULT = (
    ("retries_per_txn", "12 clients", replace(CLIENTS, finds_window=True)),
    ("time_to_commit_p95_ms", "4/s, near saturation", replace(NEAR_SATURATION, finds_window=True)),
)
"""The same systems, measured in the default window of the commands."""
LOADS = (2.0, 3.0, 4.0, 5.5, 8.0)
THRESHOLD = 0.9
LOW, HIGH = 0.93, 0.975
"""Accepted range of the coverage of a 95% interval; near 0 and 1 the coverage of a share may be higher."""
SEARCHES = {"10 %, 5 to 20 seeds": Search(start=3.0, lowest=0.5, highest=32.0, tolerance=0.1, seeds=SEEDS, max_seeds=20)}
"""Load searches by precision. With a tolerance that is wide compared with the noise, the distance of the loads dominates."""
PRECISE = (
    ("success_rate", "5/s", BUSY, "1.5pp"),
    ("throughput_per_s", "3/s", System(3.0), "3%"),
    ("time_to_commit_p50_ms", "5/s", BUSY, "4%"),
)
"""Studies whose number of seeds follows from a precision. Most need more seeds than the pilot: 10 to 20."""
PRECISE_STUDIES, QUICK_PRECISE_STUDIES = 1_000, 60
_CHUNKS = 20
_FIRST_OF_CROSSINGS, _FIRST_OF_FRONTIERS, _FIRST_OF_PRECISE = 10_000_000, 100_000_000, 500_000_000


_MODES = {"precise": "precision", "crossing": "crossings", "frontier": "crossings", "alternatives": "alternatives"}


@dataclass(frozen=True)
class CoverageRow:
    """Kind of interval, and the fraction of studies in which it contains the true value."""

    interval: str
    case: str
    truth: float
    studies: int
    held: float
    low: float
    high: float

    @property
    def within(self) -> bool:
        """True if the coverage is within the range of a 95% interval."""
        return self.low <= self.held <= self.high

    def document(self) -> dict[str, Any]:
        """Return the row as it is written to a file."""
        return {"mode": _MODES.get(self.interval, "coverage"), **asdict(self), "within": self.within}


def _holds(found: Estimate | None, true: float) -> bool:
    return found is not None and found.low <= true <= found.high


def _metric(system: System, metric: str, number: int, first: int) -> list[bool]:
    true = truth(system)[metric]
    return [_holds(estimate_metric(rows, metric), true) for rows in studies(system, number, SEEDS, first)]


def _difference(metric: str, number: int, first: int) -> list[bool]:
    true = truth(PATIENT)[metric] - truth(BUSY)[metric]
    held = []
    for a, b in zip(studies(BUSY, number, SEEDS, first), studies(PATIENT, number, SEEDS, first), strict=True):
        found = paired_difference([row[metric] for row in a], [row[metric] for row in b])
        held.append(found.half_width is not None and abs(found.difference - true) <= found.half_width)
    return held


def _crossings(true: float, number: int, first: int) -> list[bool]:
    held = []
    for study in range(first, first + number):
        points = []
        for place, load in enumerate(LOADS):
            seeds = range(_FIRST_OF_CROSSINGS + (study * len(LOADS) + place) * SEEDS, 10**12)
            rows = [measure(System(load), seed) for seed, _ in zip(seeds, range(SEEDS), strict=False)]
            found = estimate_metric(rows, "success_rate")
            assert found is not None
            points.append((load, found))
        answer = crossing(points, THRESHOLD, falling=True)
        assert answer is not None
        held.append((answer.low or 0.0) <= true <= (answer.high or float("inf")))
    return held


def _frontiers(true: float, search: Search, number: int, first: int) -> list[bool]:
    condition = parse_condition(f"success_rate < {THRESHOLD:.0%}", "coverage")
    held = []
    for study in range(first, first + number):
        base = _FIRST_OF_FRONTIERS + 1_000 * study

        def evaluate(load: float, seeds: int, base: int = base) -> Estimate | None:
            rows = [measure(System(load), base + place) for place in range(seeds)]
            return estimate_metric(rows, "success_rate")

        answer = find_frontier(evaluate, condition, search)
        held.append((answer.low or 0.0) <= true <= (answer.high or float("inf")))
    return held


def _precise(system: System, metric: str, precision: Precision, number: int, first: int) -> list[bool]:
    true, held = truth(system)[metric], []
    for study in range(first, first + number):
        rows: list[dict[str, Any]] = []

        def widths(seeds: int, rows: list[dict[str, Any]] = rows, study: int = study) -> list[Width]:
            start = _FIRST_OF_PRECISE + 1_000 * study
            rows += [measure(system, start + seed) for seed in range(len(rows), seeds)]
            return measure_widths(lambda *_: rows, [Subject(metric)], precision)

        add_seeds(widths, precision)
        held.append(_holds(estimate_metric(rows, metric), true))
    return held


Held = Callable[..., float]
"""Function that returns the fraction of studies in which a kind of interval contains the true value."""


@contextmanager
def counting(number: int) -> Iterator[Held]:
    """Open a pool of processes that run this number of studies."""
    with ProcessPoolExecutor(cpu_count()) as pool:

        def held(kind: Callable[..., list[bool]], *arguments: Any) -> float:
            size = -(-number // _CHUNKS)
            parts = [pool.submit(kind, *arguments, min(size, number - first), first) for first in range(0, number, size)]
            found = [each for part in parts for each in part.result()]
            return sum(found) / len(found)

        yield held


def compare(quick: bool) -> Iterator[CoverageRow]:
    """Measure intervals of shares, means, quantiles and differences, each with separate studies."""
    number = QUICK_STUDIES if quick else STUDIES
    with counting(number) as held:
        for system, name in ((BUSY, "5/s"), (NEARLY_ALL, "1.5/s, nearly all commit")):
            high = HIGH if system is BUSY else 1.0
            true = truth(system)["success_rate"]
            yield CoverageRow("share", f"success, {name}", true, number, held(_metric, system, "success_rate"), LOW, high)
        for metric in ("throughput_per_s", "time_to_commit_p50_ms"):
            kind = "mean" if metric == "throughput_per_s" else "quantile"
            true = truth(BUSY)[metric]
            yield CoverageRow(kind, f"{metric}, 5/s", true, number, held(_metric, BUSY, metric), LOW, HIGH)
        true = truth(NEARLY_ALL)["time_to_commit_p95_ms"]
        case = "time_to_commit_p95_ms, 1.5/s"
        yield CoverageRow("quantile", case, true, number, held(_metric, NEARLY_ALL, "time_to_commit_p95_ms"), LOW, HIGH)
        true = truth(CLIENTS)["retries_per_txn"]
        yield CoverageRow("mean", "retries_per_txn, 12 clients", true, number, held(_metric, CLIENTS, "retries_per_txn"), LOW, HIGH)
        true = truth(NEAR_SATURATION)["time_to_commit_p95_ms"]
        case = "time_to_commit_p95_ms, 4/s, near saturation"
        yield CoverageRow("quantile", case, true, number, held(_metric, NEAR_SATURATION, "time_to_commit_p95_ms"), LOW, HIGH)
        for metric, name, system in BY_DEFAULT:
            kind, case = "mean" if metric == "retries_per_txn" else "quantile", f"{metric}, {name}, default window"
            yield CoverageRow(kind, case, truth(system)[metric], number, held(_metric, system, metric), LOW, HIGH)
        for metric in ("throughput_per_s", "success_rate"):
            true = truth(PATIENT)[metric] - truth(BUSY)[metric]
            yield CoverageRow("difference", f"{metric}, 6 retries - 4", true, number, held(_difference, metric), LOW, HIGH)


def compare_crossings(quick: bool) -> Iterator[CoverageRow]:
    """Measure intervals of the load at which a share falls below a threshold, at given loads and by search."""
    number = QUICK_STUDIES if quick else STUDIES
    true = true_crossing(THRESHOLD, LOADS[0], LOADS[-1])
    case = f"load at which success falls below {THRESHOLD:.0%}"
    with counting(number) as held:
        yield CoverageRow("crossing", case, true, number, held(_crossings, true), LOW, HIGH)
        for asked, search in SEARCHES.items():
            yield CoverageRow("frontier", f"{case}, to {asked}", true, number, held(_frontiers, true, search), LOW, HIGH)


def compare_precise(quick: bool) -> Iterator[CoverageRow]:
    """Measure intervals of studies whose number of seeds follows from a precision."""
    number = QUICK_PRECISE_STUDIES if quick else PRECISE_STUDIES
    with counting(number) as held:
        for metric, name, system, text in PRECISE:
            share = held(_precise, system, metric, parse_precision(text, "coverage"))
            yield CoverageRow("precise", f"{metric}, {name}, to ±{text}", truth(system)[metric], number, share, LOW, HIGH)
