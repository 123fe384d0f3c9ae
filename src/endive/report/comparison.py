"""A against B: the same metrics of both in one window, seed by seed, and transaction by transaction; and conditions on B.

Runs of the same seed are paired; see ``endive.analysis.contrasts`` and ``endive.analysis.cohort``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.analysis import contrasts
from endive.analysis.cohort import Pairs, Submitted, pair_run
from endive.analysis.conditions import Condition, Subject, Verdict, format_metric
from endive.analysis.estimates import CONFIDENCE, FEWEST_SEEDS, SHARES, Estimate, estimate_metric
from endive.analysis.metric import TABLES
from endive.analysis.run_metrics import ALL, PERCENTILES
from endive.analysis.warmup import Window
from endive.config import ConfigError, Problem
from endive.config.errors import nearest
from endive.formatting import format_percent_range
from endive.report.differences import metric_name, verdict
from endive.report.places import find_place
from endive.runs.stored import find_experiments
from endive.studies.frontier import estimate_of, values_of
from endive.studies.measure import MetricsOptions, RunFile, RunMetrics, open_run
from endive.studies.tables import measure_locally

METRICS = TABLES["compare"]
"""What is compared unless other metrics are asked for."""


@dataclass(frozen=True)
class Side:
    """A or B: what it is, its runs in order of their seeds, and the code that made them.

    ``submitted`` gives the transactions of a seed by class, in the order of their submission.
    """

    source: str
    name: str
    runs: tuple[RunMetrics, ...]
    code_version: str
    submitted: Callable[[int], Mapping[str, Submitted]] | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of its runs."""
        return tuple(run.seed for run in self.runs)

    @property
    def groups(self) -> frozenset[tuple[str, str]]:
        """The classes and operations that any of its runs has."""
        return frozenset(group for run in self.runs for group in run.groups)

    @property
    def window(self) -> Window:
        """The part of its runs that was measured."""
        return self.runs[0].window


def stored_side(source: str, options: MetricsOptions, window: Window | None = None) -> Side:
    """The finished runs of an experiment on disk, measured in a window, by default that of its own.

    ``source`` is its directory, a directory that holds it alone, ``ROOT#NAME`` (the beginning of a name is enough), or a run.
    """
    root, _, name = source.partition("#")
    place = find_place(Path(root))
    if name and place.kind != "sweep":
        raise ConfigError(source, [Problem("", f"{root} is no directory of experiments, so there is no {name!r} in it")])
    if place.kind == "sweep":
        place = find_place(_experiment(source, Path(root), name))
    if place.damaged:
        raise ConfigError(source, [Problem("", f"{where}: {message}") for where, message in place.damaged])
    label = place.name.replace(", ", "-").replace(" ", "-")
    measured, _ = measure_locally(place.experiment(label), place.experiment_runs(label), options, window)
    files = {run.seed: run.results for run in place.runs}
    runs, version = runs_of(measured.runs.to_pylist()), str(place.runs[0].record.get("code_version", ""))
    return Side(source, place.name, runs, version, lambda seed: _submitted(files[seed], seed))


def runs_of(rows: Iterable[Mapping[Any, Any]]) -> tuple[RunMetrics, ...]:
    """The metrics of runs from a table of them, in order of their seeds."""
    by_seed: dict[int, list[Mapping[Any, Any]]] = {}
    for row in rows:
        by_seed.setdefault(int(row["seed"]), []).append(row)
    return tuple(RunMetrics(seed, tuple(by_seed[seed])) for seed in sorted(by_seed))


def _submitted(results: Path, seed: int) -> Mapping[str, Submitted]:
    with open_run("", RunFile(seed, results)) as rows:
        return rows.submitted()


def _experiment(source: str, root: Path, name: str) -> Path:
    found = [each for each in find_experiments(root) if each.name.startswith(name)]
    if len(found) == 1:
        return found[0].directory
    listed = ", ".join(each.name for each in (found or list(find_experiments(root)))[:20])
    several = f"there are {len(found)} experiments" + (f" {name}..." if name else "")
    problem = several if found else f"there is no experiment {name!r}"
    raise ConfigError(source, [Problem("", f"{problem}; say which, as {root}#NAME: {listed}")])


@dataclass(frozen=True)
class Comparison:
    """One metric of one class and operation. A percentile that is no number on a side has no ``difference``."""

    metric: str
    workload_class: str
    operation: str
    a: Estimate
    b: Estimate
    difference: contrasts.Difference | None

    @property
    def better(self) -> bool | None:
        """Whether B is better; None if that cannot be told."""
        if self.difference is not None:
            return contrasts.better(self.metric, self.difference)
        if self.a.low > self.b.high:
            return True
        return False if self.b.low > self.a.high else None

    @property
    def told(self) -> bool:
        """Whether there is a difference beyond doubt."""
        return self.better is not None if self.difference is None else self.difference.told

    @property
    def verdict(self) -> str:
        """In words."""
        if self.difference is not None:
            return verdict(self.metric, self.difference)
        if self.a.kind == self.b.kind == "never":
            return "never, in A and in B"
        sides = f"A {estimate_in_words(self.metric, self.a)}, B {estimate_in_words(self.metric, self.b)}"
        which = {True: "shorter in B", False: "longer in B", None: "no difference can be told"}[self.better]
        return f"{which}: {sides}"


def estimate_in_words(metric: str, found: Estimate) -> str:
    """A value with its unit: as a range where it depends on the unfinished, as a bound or as never where it is no number."""
    if found.unfinished > 0.0:
        return format_percent_range(found.mean - found.unfinished, found.mean + found.unfinished)
    return f"> {format_metric(metric, found.low)}" if found.kind == "bound" else format_metric(metric, found.mean)


@dataclass(frozen=True)
class Judgement:
    """A condition on B: whether it holds for the mean, and what the interval says.

    Without an estimate nothing is known, and a gate that knows nothing does not open: ``holds`` is true.
    """

    condition: Condition
    estimate: Estimate | None
    holds: bool
    clear: bool

    @property
    def words(self) -> str:
        """In a sentence."""
        text = self.condition.text
        if self.estimate is None:
            return f"{text}: nothing of it could be measured in B, so that it is not met"
        told = "holds" if self.holds else "does not hold"
        metric, found = self.condition.metric, self.estimate
        if self.condition.relative:
            middle, low, high = (f"{100.0 * value:.4g}%" for value in (found.mean, found.low, found.high))
            middle += " of A"
        else:
            middle, low, high = (format_metric(metric, value) for value in (found.mean, found.low, found.high))
        if low == "-":
            return f"{text}: {told}, at {middle}; one seed has no interval"
        clear = "the interval is clear of the threshold" if self.clear else "but the interval is not clear of the threshold"
        return f"{text}: {told}, at {middle} ({low} to {high}); {clear}"


@dataclass(frozen=True)
class Pairing:
    """How the runs of A and B go together: by these seeds, or not at all."""

    seeds: tuple[int, ...] | None
    warnings: tuple[str, ...]

    @property
    def paired(self) -> bool:
        """Whether they do."""
        return self.seeds is not None


def pair(a: Side, b: Side) -> Pairing:
    """Pair by common seeds, if there are enough of them or all are common; say what is left out and what to mistrust."""
    warnings = []
    common = tuple(sorted(set(a.seeds) & set(b.seeds)))
    alone = sorted(set(a.seeds) ^ set(b.seeds))
    paired_up = bool(common) and (not alone or len(common) >= FEWEST_SEEDS)
    if not paired_up:
        warnings.append(
            f"the seeds do not pair (A has {_listed(a.seeds)}, B has {_listed(b.seeds)}): compared by Welch's interval of unpaired "
            f"runs, which is wider"
        )
    elif alone:
        warnings.append(f"compared by the {len(common)} seeds that both have; left out: {_listed(alone)}")
    fewest = len(common) if paired_up else min(len(a.seeds), len(b.seeds))
    if fewest < FEWEST_SEEDS:
        warnings.append(f"fewer than {FEWEST_SEEDS} seeds: the intervals say little")
    if a.code_version != b.code_version:
        warnings.append(f"A and B were made by different code ({a.code_version} and {b.code_version})")
    return Pairing(common if paired_up else None, tuple(warnings))


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds[:10])) + (", ..." if len(seeds) > 10 else "")


def compare(a: Side, b: Side, pairing: Pairing, metrics: Sequence[str] = METRICS) -> Iterator[Comparison]:
    """Every metric, of all transactions and of each class that both have, where it could be measured in both."""
    for subject in all_subjects((a, b), metrics):
        found = compare_metric(a, b, pairing, subject)
        if found is not None:
            yield found


def all_subjects(sides: Sequence[Side], metrics: Sequence[str]) -> list[Subject]:
    """Metrics of all transactions and, if there are several, of each class that all sides have."""
    groups = frozenset.intersection(*(side.groups for side in sides))
    classes = sorted(name for name, operation in groups if operation == ALL and name != ALL)
    return [Subject(metric, name) for name in (ALL, *(classes if len(classes) > 1 else ())) for metric in metrics]


def compare_metric(a: Side, b: Side, pairing: Pairing, of: Subject, confidence: float = CONFIDENCE) -> Comparison | None:
    """One metric of a class and operation, with intervals of a confidence; None if it could not be measured in both."""
    of_a, of_b = (estimate_metric(_rows(side, of, pairing.seeds), of.metric, confidence) for side in (a, b))
    if of_a is None or of_b is None:
        return None
    found = _difference(a, b, pairing, of, confidence) if of_a.kind == of_b.kind == "number" else None
    whole = found is not None or of.metric in PERCENTILES
    return Comparison(of.metric, of.workload_class, of.operation, of_a, of_b, found) if whole else None


def _rows(side: Side, of: Subject, seeds: Sequence[int] | None = None) -> list[Mapping[str, Any]]:
    """The metrics of the runs that are compared: those of these seeds, or all."""
    return [run.of(of.workload_class, of.operation) for run in side.runs if seeds is None or run.seed in seeds]


def _difference(a: Side, b: Side, pairing: Pairing, of: Subject, confidence: float = CONFIDENCE) -> contrasts.Difference | None:
    of_a, of_b = (values_of(side.runs, of.metric, of.workload_class, of.operation) for side in (a, b))
    if pairing.seeds is None:
        tell, values_a, values_b = contrasts.unpaired_difference, list(of_a.values()), list(of_b.values())
    else:
        seeds = [seed for seed in pairing.seeds if seed in of_a and seed in of_b]
        tell, values_a, values_b = contrasts.paired_difference, [of_a[seed] for seed in seeds], [of_b[seed] for seed in seeds]
    if not values_a or not values_b:
        return None
    found = tell(values_a, values_b, confidence)
    rows = [_rows(side, of, pairing.seeds) for side in (a, b)]
    least = _least_width(of.metric, rows, a.window, confidence)
    unfinished = sum(map(_doubt, rows)) if of.metric == "success_rate" else 0.0
    if of.metric == "success_rate":
        least = max(least, (found.half_width or 0.0) + unfinished)
    return contrasts.with_least_width(found, least, unfinished) if least > 0.0 else found


def _least_width(metric: str, sides: Sequence[Sequence[Mapping[str, Any]]], window: Window, confidence: float) -> float:
    """Half width below which no difference of a metric can be told, however much the seeds agree; 0 if it is not counted."""
    if metric in SHARES:
        return contrasts.least_share_width(min(sum(row["transactions"] for row in side) for side in sides), confidence)
    if metric.endswith("_per_s"):
        return contrasts.least_rate_width(window.length_ms / 1000.0 * min(len(side) for side in sides), confidence)
    return 0.0


def least_width(sides: Sequence[Side], of: Subject, confidence: float = CONFIDENCE) -> float:
    """Half width below which no difference among sides can be told, however much their seeds agree."""
    return _least_width(of.metric, [_rows(side, of) for side in sides], sides[0].window, confidence)


def _doubt(rows: Sequence[Mapping[str, Any]]) -> float:
    """Half the range that the unfinished leave for success."""
    unfinished, entered = (float(sum(row[name] for row in rows)) for name in ("in_flight", "transactions"))
    return unfinished / max(1.0, entered) / 2.0


def pair_transactions(a: Side, b: Side, pairing: Pairing) -> dict[str, Pairs | None] | None:
    """Pairs of the same transactions by class, summed over seeds; None of a class that cannot be paired in some seed.

    None if the seeds do not pair either.
    """
    if pairing.seeds is None or a.submitted is None or b.submitted is None:
        return None
    found: dict[str, Pairs | None] = {}
    for seed in pairing.seeds:
        for name, pairs in pair_run(a.submitted(seed), b.submitted(seed), a.window).items():
            before = found.get(name, Pairs())
            found[name] = None if before is None or pairs is None else before + pairs
    return found


def judge(condition: Condition, a: Side, b: Side, pairing: Pairing) -> Judgement:
    """A condition on B, by its mean over seeds. Raises ConfigError if B has no such class or operation."""
    group = (condition.workload_class, condition.operation)
    if group not in b.groups:
        known = sorted({f"{name}, {operation}" if operation != ALL else name for name, operation in b.groups})
        problem = f"{condition.text!r}: B has no {', '.join(each for each in group if each != ALL)}"
        raise ConfigError("--fail-if", [Problem("", f"{problem}; {nearest(group[0], known)}")])
    found = _relative(condition, a, b, pairing) if condition.relative else estimate_of(b.runs, condition, CONFIDENCE)
    if found is None:
        return Judgement(condition, None, holds=True, clear=False)
    told: Verdict = condition.verdict(found.low, found.high)
    return Judgement(condition, found, condition.holds(found.mean), clear=told != "open")


def _relative(condition: Condition, a: Side, b: Side, pairing: Pairing) -> Estimate | None:
    """B as a part of A."""
    found = _difference(a, b, pairing, Subject(condition.metric, condition.workload_class, condition.operation))
    if found is None or found.ratio is None:
        return None
    width = float("inf") if found.ratio_half_width is None else found.ratio_half_width
    return Estimate(found.ratio, found.ratio - width, found.ratio + width, found.n_b)


def in_short(comparisons: Sequence[Comparison]) -> str:
    """Which is better, in a sentence."""
    whole = [each for each in comparisons if each.workload_class == ALL]
    parts = []
    for which, words in {True: "better in", False: "worse in"}.items():
        metrics = [metric_name(each.metric).removesuffix(" rate") for each in whole if each.better is which]
        if metrics:
            parts.append(f"{words} {', '.join(metrics)}")
    if not parts:
        return "No difference between A and B can be told."
    same = [metric_name(each.metric).removesuffix(" rate") for each in whole if not each.told]
    rest = f"; no difference can be told in {', '.join(same)}" if same else ""
    return f"B is {' and '.join(parts)}{rest}."
