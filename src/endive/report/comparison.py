"""Compare each alternative with the baseline, metric by metric and seed by seed.

Runs of the same seed are paired; see ``endive.analysis.contrasts``. Intervals that are reported together are simultaneous 95%
intervals (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.analysis import contrasts
from endive.analysis.cohort import Pairs, Submitted, pair_run
from endive.analysis.conditions import Condition, Subject
from endive.analysis.estimates import CONFIDENCE, FEWEST_SEEDS, Estimate, estimate_metric
from endive.analysis.metric import TABLES, more_is_better
from endive.analysis.run_metrics import ALL, BOUNDED
from endive.analysis.warmup import Window
from endive.config import ConfigError, Problem
from endive.config.errors import nearest
from endive.formatting import format_count
from endive.report.judgements import Judgement, judge_estimate
from endive.report.study_data import find_place
from endive.runs.stored import find_experiments
from endive.studies.frontier import estimate_subject, list_values
from endive.studies.measure import MetricsOptions, RunFile, RunMetrics, open_run
from endive.studies.tables import measure_locally

METRICS = TABLES["compare"]
"""Default metrics of a comparison of two configurations."""
RANKED_METRICS = ("success_rate", "throughput_per_s", "time_to_commit_p95_ms")
"""Default metrics of a comparison of more than two configurations."""
_KINDS = ("number", "bound", "never")
"""Rank of each kind of estimate: numbers before bounds, and bounds before aborts."""


@dataclass(frozen=True)
class Side:
    """Configuration in a comparison (the baseline or an alternative): source, name, runs ordered by seed, and code version.

    ``submitted`` returns the transactions of a seed by class, in the order of submission.
    """

    source: str
    name: str
    runs: tuple[RunMetrics, ...]
    code_version: str
    submitted: Callable[[int], Mapping[str, Submitted]] | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def groups(self) -> frozenset[tuple[str, str]]:
        """Classes and operations of the runs."""
        return frozenset(group for run in self.runs for group in run.groups)

    @property
    def window(self) -> Window:
        """Measured window of the runs."""
        return self.runs[0].window


def load_side(source: str, options: MetricsOptions, window: Window | None = None) -> Side:
    """Return the finished runs of an experiment on disk, measured in a window, by default the window of the experiment.

    ``source`` is the directory of the experiment, a directory that contains no other experiment, ``ROOT#NAME`` (a prefix of the
    name is sufficient), or a run.
    """
    root, _, name = source.partition("#")
    place = find_place(Path(root))
    if name and place.kind != "sweep":
        raise ConfigError(source, [Problem("", f"{root} is not a directory of experiments; it has no experiment {name!r}")])
    if place.kind == "sweep":
        place = find_place(_find_experiment(source, Path(root), name))
    if place.damaged:
        raise ConfigError(source, [Problem("", f"{where}: {message}") for where, message in place.damaged])
    label = place.name.replace(", ", "-").replace(" ", "-")
    measured, _ = measure_locally(place.experiment(label), place.experiment_runs(label), options, window)
    files = {run.seed: run.results for run in place.runs}
    runs, version = group_runs(measured.runs.to_pylist()), str(place.runs[0].record.get("code_version", ""))
    return Side(source, place.name, runs, version, lambda seed: _read_submitted(files[seed], seed))


def group_runs(rows: Iterable[Mapping[Any, Any]]) -> tuple[RunMetrics, ...]:
    """Return the metrics of runs from a table, ordered by seed."""
    by_seed: dict[int, list[Mapping[Any, Any]]] = {}
    for row in rows:
        by_seed.setdefault(int(row["seed"]), []).append(row)
    return tuple(RunMetrics(seed, tuple(by_seed[seed])) for seed in sorted(by_seed))


def _read_submitted(results: Path, seed: int) -> Mapping[str, Submitted]:
    with open_run("", RunFile(seed, results)) as rows:
        return rows.submitted()


def _find_experiment(source: str, root: Path, name: str) -> Path:
    found = [each for each in find_experiments(root) if each.name.startswith(name)]
    if len(found) == 1:
        return found[0].directory
    listed = ", ".join(each.name for each in (found or list(find_experiments(root)))[:20])
    several = f"there are {len(found)} experiments" + (f" {name}..." if name else "")
    problem = several if found else f"there is no experiment {name!r}"
    raise ConfigError(source, [Problem("", f"{problem}; name one as {root}#NAME: {listed}")])


@dataclass(frozen=True)
class Pairing:
    """Seeds by which the runs of two configurations are paired (None if they are not paired), and warnings."""

    seeds: tuple[int, ...] | None
    warnings: tuple[str, ...]

    @property
    def paired(self) -> bool:
        """True if the runs are paired."""
        return self.seeds is not None


def pair_seeds(a: Side, b: Side) -> Pairing:
    """Pair the runs of two configurations by seed. Runs are not paired if the configurations have too few common seeds."""
    warnings = []
    common = tuple(sorted(set(a.seeds) & set(b.seeds)))
    alone = sorted(set(a.seeds) ^ set(b.seeds))
    paired_up = bool(common) and (not alone or len(common) >= FEWEST_SEEDS)
    if not paired_up:
        warnings.append(
            f"The runs cannot be paired by seed ({a.name}: {_list_seeds(a.seeds)}; {b.name}: {_list_seeds(b.seeds)}). "
            "The intervals of differences are Welch intervals, which are wider than intervals of paired runs."
        )
    elif alone:
        warnings.append(
            f"The comparison uses the {format_count(len(common), 'seed')} that both configurations have. "
            f"Other seeds are omitted: {_list_seeds(alone)}."
        )
    fewest = len(common) if paired_up else min(len(a.seeds), len(b.seeds))
    if fewest < FEWEST_SEEDS:
        warnings.append(f"Intervals from fewer than {FEWEST_SEEDS} seeds are not reliable. Run more seeds.")
    if a.code_version != b.code_version:
        warnings.append(f"{a.name} and {b.name} were simulated by different code versions ({a.code_version} and {b.code_version}).")
    return Pairing(common if paired_up else None, tuple(warnings))


def _list_seeds(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds[:10])) + (", ..." if len(seeds) > 10 else "")


@dataclass(frozen=True)
class Comparison:
    """Comparison of one metric of one workload class and operation in the baseline (a) and an alternative (b).

    ``difference`` is None if a percentile of ``a`` or ``b`` is a bound or infinite.
    """

    metric: str
    workload_class: str
    operation: str
    a: Estimate
    b: Estimate
    difference: contrasts.Difference | None

    @property
    def better(self) -> bool | None:
        """True if the alternative is better, False if it is worse, None if the difference is not significant."""
        if self.difference is not None:
            return contrasts.better(self.metric, self.difference)
        if self.a.low > self.b.high:
            return True
        return False if self.b.low > self.a.high else None

    @property
    def is_significant(self) -> bool:
        """True if the difference is significant."""
        return self.better is not None if self.difference is None else self.difference.is_significant


@dataclass(frozen=True)
class RankedSide:
    """Baseline or alternative in the ranking of a metric; the baseline has no comparison."""

    name: str
    estimate: Estimate
    comparison: Comparison | None


@dataclass(frozen=True)
class Leader:
    """Best configuration, whether its lead over all others is significant, and the configurations that tie with it."""

    name: str
    clear: bool
    rivals: tuple[str, ...]


@dataclass(frozen=True)
class Ranking:
    """Ranking by one metric of one class, the best first; ``best`` is None if neither higher nor lower values are better."""

    subject: Subject
    sides: tuple[RankedSide, ...]
    missing: tuple[str, ...]
    """Configurations without a measurement of the metric."""
    best: Leader | None


@dataclass(frozen=True)
class Alternatives:
    """Rankings by all metrics, the pairing of each alternative with the baseline, and the number of simultaneous comparisons."""

    baseline: str
    rankings: tuple[Ranking, ...]
    pairings: Mapping[str, Pairing]
    corrected: int

    @property
    def named_comparisons(self) -> list[tuple[str, Comparison]]:
        """Every comparison with the baseline, with the name of the alternative, in the order of the metrics."""
        entries = (each for ranking in self.rankings for each in ranking.sides)
        return [(each.name, each.comparison) for each in entries if each.comparison is not None]

    @property
    def comparisons(self) -> list[Comparison]:
        """Every comparison with the baseline, in the order of the metrics."""
        return [each for _, each in self.named_comparisons]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of all pairings; with several alternatives, each warning starts with the name of the alternative."""
        if len(self.pairings) == 1:
            return next(iter(self.pairings.values())).warnings
        return tuple(dict.fromkeys(f"{name}: {text}" for name, each in self.pairings.items() for text in each.warnings))


def compare_sides(
    sides: Sequence[Side], subjects: Sequence[Subject], *, times: int = 1, corrected: int | None = None
) -> Alternatives:
    """Compare all alternatives with the baseline.

    Args:
        sides: The baseline and its alternatives.
        subjects: Metrics to compare.
        times: Number of values on the axis of the study whose comparisons are reported together.
        corrected: Number of simultaneous intervals (Bonferroni). Default: all comparisons.

    Raises:
        ValueError: If there is no alternative.
    """
    if len(sides) < 2:
        raise ValueError("an alternative needs a baseline")
    baseline, *others = sides
    pairings = {side.name: pair_seeds(baseline, side) for side in others}
    corrected = len(others) * len(subjects) * times if corrected is None else corrected
    rankings = [_rank(sides, pairings, subject, contrasts.confidence_of_each(corrected)) for subject in subjects]
    return Alternatives(baseline.name, tuple(rankings), pairings, corrected)


def compare_all(sides: Sequence[Side], question: Subject | None, metrics: Sequence[str]) -> Alternatives:
    """Compare alternatives with the baseline in the metric of the question and in ``metrics``.

    Without a question, ``metrics`` defaults to ``METRICS`` for one alternative and to ``RANKED_METRICS`` for several alternatives.

    The comparison of a single alternative without a question has 95% intervals; other comparisons have simultaneous 95% intervals.
    With a question and no ``metrics``, only the metric of the question is compared, because more comparisons widen the intervals.
    """
    if len(sides) == 2 and question is None:
        return compare_sides(sides, list_subjects(sides, metrics or METRICS), corrected=1)
    if question is None:
        return compare_sides(sides, list_subjects(sides, metrics or RANKED_METRICS))
    return compare_sides(sides, list(dict.fromkeys([question, *list_subjects(sides, metrics)])))


def _rank(sides: Sequence[Side], pairings: Mapping[str, Pairing], subject: Subject, confidence: float) -> Ranking:
    baseline, *others = sides
    found = {side.name: compare_metric(baseline, side, pairings[side.name], subject, confidence) for side in others}
    missing = tuple(name for name, each in found.items() if each is None)
    compared = {name: each for name, each in found.items() if each is not None}
    estimates = {name: each.b for name, each in compared.items()}
    if compared:
        estimates[baseline.name] = next(iter(compared.values())).a
    more = more_is_better(subject.metric)
    sign = 1.0 if more is False else -1.0
    ordered = [name for name in (baseline.name, *compared) if name in estimates]
    ordered.sort(key=lambda name: (_KINDS.index(estimates[name].kind), sign * estimates[name].mean))
    ranked = tuple(RankedSide(name, estimates[name], compared.get(name)) for name in ordered)
    comparable = more is not None and not missing and all(pairing.paired for pairing in pairings.values())
    return Ranking(subject, ranked, missing, _find_leader(sides, subject, estimates) if comparable else None)


def _find_leader(sides: Sequence[Side], subject: Subject, estimates: Mapping[str, Estimate]) -> Leader | None:
    """Return the best configuration over the common seeds; None if no configuration has a number for every seed."""
    seeds = sorted(set.intersection(*(set(side.seeds) for side in sides)))
    numbers = [side for side in sides if estimates[side.name].kind == "number"]
    values = {}
    for side in numbers:
        found = list_values(side.runs, subject.metric, subject.workload_class, subject.operation)
        values[side.name] = [found.get(seed, math.inf) for seed in seeds]
    if len(seeds) < 2 or not values or not all(math.isfinite(value) for each in values.values() for value in each):
        return None
    by_name = {side.name: side for side in numbers}

    def compare(name: str, leader: str, confidence: float) -> contrasts.Difference:
        side, best = by_name[name], by_name[leader]
        found = _estimate_difference(side, best, pair_seeds(side, best), subject, confidence)
        assert found is not None  # every seed has a value
        return found

    best = contrasts.best_of(values, subject.metric, compare)
    bounds = [name for name, each in estimates.items() if each.kind != "number" and each.low <= estimates[best.name].high]
    return Leader(best.name, best.clear and not bounds, (*best.rivals, *bounds))


def list_subjects(sides: Sequence[Side], metrics: Sequence[str]) -> list[Subject]:
    """Return the metrics of all transactions and, if there are several classes, of each class that all configurations have."""
    groups = frozenset.intersection(*(side.groups for side in sides))
    classes = sorted(name for name, operation in groups if operation == ALL and name != ALL)
    return [Subject(metric, name) for name in (ALL, *(classes if len(classes) > 1 else ())) for metric in metrics]


def compare_metric(a: Side, b: Side, pairing: Pairing, subject: Subject, confidence: float = CONFIDENCE) -> Comparison | None:
    """Compare one metric of a class and operation. Return None if the baseline or the alternative has no value."""
    of_a, of_b = (estimate_metric(_select_rows(side, subject, pairing.seeds), subject.metric, confidence) for side in (a, b))
    if of_a is None or of_b is None:
        return None
    found = _estimate_difference(a, b, pairing, subject, confidence) if of_a.kind == of_b.kind == "number" else None
    whole = found is not None or subject.metric in BOUNDED
    return Comparison(subject.metric, subject.workload_class, subject.operation, of_a, of_b, found) if whole else None


def _select_rows(side: Side, subject: Subject, seeds: Sequence[int] | None = None) -> list[Mapping[str, Any]]:
    """Return the metrics of the runs with these seeds, or of all runs."""
    return [run.select(subject.workload_class, subject.operation) for run in side.runs if seeds is None or run.seed in seeds]


def _estimate_difference(
    a: Side, b: Side, pairing: Pairing, subject: Subject, confidence: float = CONFIDENCE
) -> contrasts.Difference | None:
    of_a, of_b = (list_values(side.runs, subject.metric, subject.workload_class, subject.operation) for side in (a, b))
    if pairing.seeds is None:
        estimate, values_a, values_b = contrasts.unpaired_difference, list(of_a.values()), list(of_b.values())
    else:
        seeds = [seed for seed in pairing.seeds if seed in of_a and seed in of_b]
        estimate, values_a, values_b = contrasts.paired_difference, [of_a[seed] for seed in seeds], [of_b[seed] for seed in seeds]
    if not values_a or not values_b:
        return None
    found = estimate(values_a, values_b, confidence)
    counts_a, counts_b = (_count_runs(_select_rows(side, subject, pairing.seeds), a.window) for side in (a, b))
    return contrasts.widen_difference(found, subject.metric, counts_a, counts_b, confidence)


def _count_runs(rows: Sequence[Mapping[str, Any]], window: Window) -> contrasts.RunCounts:
    entered, unfinished = (sum(row[name] for row in rows) for name in ("transactions", "in_flight"))
    return contrasts.RunCounts(entered, unfinished, window.length_ms / 1000.0 * len(rows))


def pair_transactions(a: Side, b: Side, pairing: Pairing) -> dict[str, Pairs | None] | None:
    """Return the outcomes of paired transactions by class, summed across seeds; None if the seeds cannot be paired.

    The outcome of a class is None if its transactions cannot be paired in some seed.
    """
    if pairing.seeds is None or a.submitted is None or b.submitted is None:
        return None
    found: dict[str, Pairs | None] = {}
    for seed in pairing.seeds:
        for name, pairs in pair_run(a.submitted(seed), b.submitted(seed), a.window).items():
            before = found.get(name, Pairs())
            found[name] = None if before is None or pairs is None else before + pairs
    return found


def judge_condition(condition: Condition, a: Side, b: Side, pairing: Pairing) -> Judgement:
    """Evaluate a condition on the mean of B across seeds. Raises ConfigError if B has no such class or operation."""
    group = (condition.workload_class, condition.operation)
    if group not in b.groups:
        known = sorted({f"{name}, {operation}" if operation != ALL else name for name, operation in b.groups})
        problem = f"{condition.text!r}: {b.name} has no {', '.join(each for each in group if each != ALL)}"
        raise ConfigError("--fail-if", [Problem("", f"{problem}; {nearest(group[0], known)}")])
    found = _estimate_ratio(condition, a, b, pairing) if condition.relative else estimate_subject(b.runs, condition.subject)
    return judge_estimate(condition, found)


def _estimate_ratio(condition: Condition, a: Side, b: Side, pairing: Pairing) -> Estimate | None:
    """Estimate the ratio of B to A."""
    found = _estimate_difference(a, b, pairing, condition.subject)
    if found is None or found.ratio is None:
        return None
    width = float("inf") if found.ratio_half_width is None else found.ratio_half_width
    return Estimate(found.ratio, found.ratio - width, found.ratio + width, found.n_b)
