"""Compare many alternatives with a baseline: rate of false positives, and detection of a better alternative.

Equal alternatives are one configuration with other seeds: with common random numbers, the same seeds would give the same bytes, so
no difference could be reported. Each trial uses the comparison of ``endive compare``.
"""

from __future__ import annotations

from collections.abc import Iterator

from endive.analysis.conditions import Subject
from endive.analysis.run_metrics import ALL
from endive.report.comparison import Alternatives, Side, compare_sides
from endive.studies.measure import RunMetrics
from verification.statistics.coverage import BUSY, CoverageRow, counting
from verification.statistics.studies import COOLDOWN_MS, MEASURED_MS, WARMUP_MS, System, measure

TRIALS, QUICK_TRIALS = 200, 24
ALTERNATIVES = 20
SEEDS = 10
"""Number of seeds, as in ``endive compare``."""
METRICS = ("success_rate", "throughput_per_s", "time_to_commit_p50_ms")
PATIENT = System(5.0, retries=8)
_FIRST = 1_000_000_000
_WINDOW = {
    "duration_ms": WARMUP_MS + MEASURED_MS + COOLDOWN_MS,
    "warmup_ms": WARMUP_MS,
    "window_ms": MEASURED_MS,
    "warmup_by": "given",
    "warmup_settled": True,
    "needed_ms": None,
}


def trial(number: int, metrics: tuple[str, ...], planted: bool, alternatives: int = ALTERNATIVES) -> Alternatives:
    """Compare equal alternatives with a baseline, all with different seeds; ``planted`` makes the first one better."""
    sides = []
    for place in range(alternatives + 1):
        first = _FIRST + (number * (ALTERNATIVES + 1) + place) * SEEDS
        system = PATIENT if planted and place == 1 else BUSY
        found = [measure(system, first + seed) for seed in range(SEEDS)]
        runs = [
            RunMetrics(seed, ({**row, **_WINDOW, "workload_class": ALL, "operation_type": ALL},)) for seed, row in enumerate(found)
        ]
        sides.append(Side(str(place), str(place), tuple(runs), ""))
    return compare_sides(sides, [Subject(metric) for metric in metrics])


def answer(found: Alternatives) -> set[str]:
    """Return the alternatives that differ significantly from the baseline in any ranking."""
    return {
        each.name
        for ranking in found.rankings
        for each in ranking.sides
        if each.comparison is not None and each.comparison.is_significant
    }


def _quiet(metrics: tuple[str, ...], number: int, first: int) -> list[bool]:
    return [not answer(trial(place, metrics, planted=False)) for place in range(first, first + number)]


def _found(metrics: tuple[str, ...], number: int, first: int) -> list[bool]:
    return ["1" in answer(trial(place, metrics, planted=True)) for place in range(first, first + number)]


def compare(quick: bool) -> Iterator[CoverageRow]:
    """Return the fraction of trials without a false positive, for one and three metrics, and with a detected difference."""
    number = QUICK_TRIALS if quick else TRIALS
    with counting(number) as held:
        for metrics in (METRICS[:1], METRICS):
            case = f"no false alarm among {ALTERNATIVES} equal ones, {', '.join(metrics)}"
            yield CoverageRow("alternatives", case, 0.0, number, held(_quiet, metrics), 0.95, 1.0)
        case = f"8 retries for 4 found among {ALTERNATIVES}, {METRICS[0]}"
        yield CoverageRow("alternatives", case, 1.0, number, held(_found, METRICS[:1]), 0.8, 1.0)
