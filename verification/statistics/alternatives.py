"""Many alternatives against a baseline: how often equal ones are reported apart, and a better one is found.

Alternatives are equal where they are one configuration with other seeds: under common random numbers the same seeds would give the
same bytes, and nothing could be reported apart. Each trial goes through the comparison that ``endive compare`` makes.
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
"""As many as ``endive compare`` runs."""
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
    """Compare as many equal alternatives with a baseline, all with seeds of their own; ``planted`` makes the first a better one."""
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
    """Return the alternatives that any ranking tells from the baseline."""
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
    """Trials without a false alarm, by one metric and by three; and trials in which a planted difference is found."""
    number = QUICK_TRIALS if quick else TRIALS
    with counting(number) as held:
        for metrics in (METRICS[:1], METRICS):
            case = f"no false alarm among {ALTERNATIVES} equal ones, {', '.join(metrics)}"
            yield CoverageRow("alternatives", case, 0.0, number, held(_quiet, metrics), 0.95, 1.0)
        case = f"8 retries for 4 found among {ALTERNATIVES}, {METRICS[0]}"
        yield CoverageRow("alternatives", case, 1.0, number, held(_found, METRICS[:1]), 0.8, 1.0)
