"""Describe results in sentences: differences, rankings, paired transactions, abort reasons, and whether a precision was reached."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from endive.analysis.cohort import Pairs
from endive.analysis.conditions import Subject, format_bound, format_metric, kind_of
from endive.analysis.contrasts import Difference, estimate_seeds_needed
from endive.analysis.estimates import Estimate
from endive.analysis.metric import ABORT_REASONS, more_is_better
from endive.analysis.replication_rule import Reached, Width
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import LEAST_SUCCESS
from endive.config.study import Precision
from endive.formatting import (
    capitalize,
    format_count,
    format_estimate,
    format_number,
    format_percent,
    format_percent_range,
    join_names,
)
from endive.report.comparison import Alternatives, Comparison, RankedSide, Ranking, Side

_NAMES = {
    "success_rate": "success",
    "retries_per_txn": "retries per transaction",
    "overhead": "commit overhead",
    "throughput_per_s": "throughput",
    "handovers_per_s": "file batch rate",
    "handovers_per_commit": "file batches per commit",
    "handover_mean_ms": "time from handoff to commit",
    **{f"oldest_handover_p{share}_ms": f"p{share} of the time from handoff to commit" for share in (50, 95, 99)},
}
_PERCENTILE = re.compile(r"(.+) (p\d+)")
_ROUNDING = 1e-9
"""Fraction of the half width below which a difference is a rounding error."""
_VERDICTS = {True: "better", False: "worse", None: "different"}
_SAME = "the same"


def _quote(name: str) -> str:
    """Return the name of a configuration in backquotes, except ``A`` and ``B``."""
    return name if name in ("A", "B") else f"`{name}`"


def name_metric(metric: str) -> str:
    """Return the name of a metric in prose: ``throughput``, ``p95 time to commit``."""
    plain = metric.removesuffix("_ms").removesuffix("_per_txn").removesuffix("_per_s").replace("_", " ")
    name = _NAMES.get(metric, _PERCENTILE.sub(r"\2 \1", plain))
    return f"{name} of committed transactions" if metric.startswith(("commit_latency", "total_latency")) else name


def name_subject(subject: Subject) -> str:
    """Return the name of a metric with its class and operation: ``success of compaction``."""
    group = [name for name in (subject.workload_class, subject.operation) if name != ALL]
    return f"{name_metric(subject.metric)} of {', '.join(group) if group else 'all transactions'}"


def name_in_sentence(subject: Subject) -> str:
    """Return the name of a metric as the subject of a sentence: ``Success of compaction``, ``The p95 time to commit of ingest``."""
    name = name_subject(subject)
    return f"The {name}" if re.match(r"p\d|file batch rate", name) else capitalize(name)


def choose_verb(subject: Subject) -> str:
    """Return the verb after the name of a metric: ``success is``, ``retries per transaction are``."""
    noun = name_metric(subject.metric).partition(" per ")[0]
    return "are" if noun.endswith("s") and not noun.endswith("ss") else "is"


def format_value(metric: str, found: Estimate) -> str:
    """Format an estimate with its unit: a number, a range if transactions are in flight, a bound, or ``aborted``."""
    if found.unfinished > 0.0:
        return format_percent_range(found.mean - found.unfinished, found.mean + found.unfinished)
    return format_bound(metric, found.low) if found.kind == "bound" else format_metric(metric, found.mean)


def format_change(metric: str, found: Difference) -> str:
    """Return the absolute value of a difference with the half width of its 95% interval: ``5.1 ± 1.1 pp``."""
    size = abs(_clean_difference(found))
    unit, factor = _choose_unit(metric, size)
    width = None if found.half_width is None else found.half_width * factor
    return f"{format_estimate(size * factor, width)}{unit}"


def format_signed_change(metric: str, found: Difference | None) -> str:
    """Return a difference with a plus or minus sign; an empty string if the two configurations cannot be subtracted."""
    if found is None:
        return ""
    change = _clean_difference(found)
    return f"{'+' if change > 0.0 else '−' if change < 0.0 else ''}{format_change(metric, found)}"


def _clean_difference(found: Difference) -> float:
    """Return the difference; rounding errors become 0."""
    return 0.0 if found.half_width is not None and abs(found.difference) < _ROUNDING * found.half_width else found.difference


def _choose_unit(metric: str, size: float) -> tuple[str, float]:
    kind = kind_of(metric)
    if kind == "time" and size >= 1000.0:
        return " s", 0.001
    return {"share": (" pp", 100.0), "time": (" ms", 1.0), "rate": ("/s", 1.0), "number": ("", 1.0)}[kind]


def describe_comparison(each: Comparison, name: str = "B") -> str:
    """Return a sentence about the difference of the alternative ``name`` from the baseline in one metric."""
    if each.difference is not None:
        return describe_difference(each.metric, each.difference, name)
    if each.a.kind == each.b.kind == "never":
        return "aborted in both"
    verdict = {True: f"shorter in {name}", False: f"longer in {name}", None: "no significant difference"}[each.better]
    baseline = "A" if name == "B" else "baseline"
    return f"{verdict} ({baseline}: {format_value(each.metric, each.a)}, {name}: {format_value(each.metric, each.b)})"


def describe_difference(metric: str, found: Difference, name: str = "B") -> str:
    """Return a difference as text, with the number of seeds needed to detect the difference if it is not significant."""
    n = min(found.n_a, found.n_b)
    if n < 2:
        return f"{_describe_change(metric, found, name)} (one seed: no interval)"
    if found.is_significant:
        return f"{_describe_change(metric, found, name)}{f' in each of {n} seeds' if found.half_width is None else ''}"
    if found.difference == 0.0:
        unseen = None if found.half_width is None else replace(found, difference=found.half_width, half_width=None)
        limit = "" if unseen is None else f"; the 95% interval includes differences of up to {format_change(metric, unseen)}"
        return f"identical in {'both' if n == 2 else f'all {n}'} seeds{limit}"
    if found.half_width is None:
        return f"{_describe_change(metric, found, name)} ({n} seeds: too few for an interval)"
    seeds = estimate_seeds_needed(found)
    size = format_change(metric, replace(found, half_width=None))
    return "no significant difference" + (
        "" if seeds is None else f"; about {seeds:,} seeds are needed to detect a difference of {size}"
    )


def _describe_change(metric: str, found: Difference, name: str) -> str:
    more = found.difference >= 0.0
    direction = ("longer" if more else "shorter") if kind_of(metric) == "time" else ("higher" if more else "lower")
    percent = "" if found.ratio is None or kind_of(metric) == "share" else f" ({100.0 * (found.ratio - 1.0):+.3g}%)"
    return f"{name_metric(metric)} {format_change(metric, found)} {direction} in {name}{percent}"


def describe_ranked_side(each: RankedSide) -> str:
    """Return the verdict on an alternative of a ranking, with its difference from the baseline: ``better: +5.1 ± 1.1 pp``."""
    compared = each.comparison
    if compared is None:
        return "baseline"
    if not compared.is_significant:
        return "no significant difference"
    verdict = _VERDICTS[compared.better]
    return f"{verdict}: {format_signed_change(compared.metric, compared.difference)}" if compared.difference else verdict


def summarize_comparison(found: Alternatives) -> list[str]:
    """Return the findings of a comparison: all metrics of a single alternative, or the first ranking of several alternatives."""
    if len(found.pairings) == 1 and len(found.rankings) > 1:
        return [_summarize_pair(found)]
    return _summarize_ranking(found, found.rankings[0])


def _summarize_pair(found: Alternatives) -> str:
    """Return a sentence with the metrics of all transactions in which the alternative is better or worse than the baseline."""
    (name,) = found.pairings
    whole = [each for each in found.comparisons if each.workload_class == ALL]
    names = {verdict: [name_metric(each.metric) for each in whole if each.better is verdict] for verdict in (True, False)}
    parts = [
        f"{_VERDICTS[verdict]} than {_quote(found.baseline)} in {join_names(metrics)}"
        for verdict, metrics in names.items()
        if metrics
    ]
    if not parts:
        return f"No significant difference between {_quote(found.baseline)} and {_quote(name)}."
    same = [name_metric(each.metric) for each in whole if not each.is_significant]
    rest = f"; no significant difference in {join_names(same)}" if same else ""
    return f"{_quote(name)} is {', and '.join(parts)}{rest}."


def _summarize_ranking(found: Alternatives, ranking: Ranking) -> list[str]:
    """Return sentences about the alternatives that are better and worse than the baseline, and a recommendation."""
    title, metric = name_in_sentence(ranking.subject), ranking.subject.metric
    if not ranking.sides:
        return [f"{title} could not be measured."]
    verdicts: dict[str, list[str]] = {}
    baseline = ""
    for each in ranking.sides:
        value = format_value(metric, each.estimate)
        if each.comparison is None:
            baseline = f"{'infinite' if value == 'aborted' else value} in {_quote(each.name)}"
        else:
            verdict = _VERDICTS[each.comparison.better] if each.comparison.is_significant else _SAME
            verdicts.setdefault(verdict, []).append(f"{_quote(each.name)} ({value})")
    sentences = [f"{title} {choose_verb(ranking.subject)} {baseline}{_compare_with_baseline(ranking.subject, verdicts)}."]
    if ranking.missing:
        sentences.append(f"{title} could not be measured in {join_names(list(map(_quote, ranking.missing)))}.")
    best = ranking.best
    if best is not None and best.clear:
        verb = "Keep" if best.name == found.baseline else "Choose"
        sentences.append(f"{verb} {_quote(best.name)}, which is significantly better than all others (95%).")
    elif best is not None:
        sentences.append(
            f"No clear winner: {join_names(list(map(_quote, [best.name, *best.rivals])))} do not differ significantly."
        )
    return sentences


def _compare_with_baseline(subject: Subject, verdicts: Mapping[str, Sequence[str]]) -> str:
    """Return the end of a sentence about the baseline: the alternatives by verdict, such as ``; it is shorter in `b` (1.2 s)``."""
    words = dict(zip(("better", "worse", "different"), _directions(subject.metric), strict=True))
    differ = [f"{words[verdict]} in {join_names(verdicts[verdict])}" for verdict in _VERDICTS.values() if verdict in verdicts]
    verb, pronoun = choose_verb(subject), "they" if choose_verb(subject) == "are" else "it"
    clauses = [f"{pronoun} {verb} {' and '.join(differ)}"] if differ else []
    same = verdicts.get(_SAME, ())
    if same:
        clauses.append(f"{join_names(same)} {'does' if len(same) == 1 else 'do'} not differ significantly")
    return f"; {', and '.join(clauses)}" if clauses else ""


def _directions(metric: str) -> tuple[str, str, str]:
    """Return the words for a better, a worse and a different value."""
    more, less = ("longer", "shorter") if kind_of(metric) == "time" else ("higher", "lower")
    return (more, less, "different") if more_is_better(metric) else (less, more, "different")


def describe_pairs(classes: Mapping[str, Pairs | None], a: str = "A", b: str = "B") -> list[str]:
    """Return sentences about the outcomes of paired transactions, and about the classes that cannot be paired."""
    paired = [each for each in classes.values() if each is not None]
    sentences = [_describe_pairs(sum(paired, Pairs()), a, b)] if paired else []
    unpaired = [name for name, each in classes.items() if each is None]
    if unpaired:
        names = ", ".join(unpaired)
        sentences.append(
            f"Transactions of {names} cannot be paired, because {a} and {b} submit them at different times "
            "(closed loop or different rates)."
        )
    return sentences


def _describe_pairs(found: Pairs, a: str, b: str) -> str:
    if not found.pairs:
        return f"No transaction started committing in the measurement window of both {a} and {b}."
    same = found.both - found.faster_b - found.slower_b
    durations = [
        f"{found.faster_b:,} {_be(found.faster_b)} faster in {b}",
        f"{found.slower_b:,} {_be(found.slower_b)} slower in {b}",
    ]
    durations += [f"{same:,} {_be(same)} equally fast"] if same else []
    parts = [f"{found.only_a:,} {_commit(found.only_a)} only in {a}", f"{found.only_b:,} {_commit(found.only_b)} only in {b}"]
    parts += [f"{found.neither:,} {_commit(found.neither)} in neither"] if found.neither else []
    parts += [f"{found.unfinished:,} {_be(found.unfinished)} in flight at the end of a run"] if found.unfinished else []
    both = f"{format_count(found.both, 'transaction')} {_commit(found.both)} in both {a} and {b}"
    compared = f": {join_names(durations)}" if found.both else ""
    return f"{both}{compared}. {capitalize(join_names(parts))}."


def _be(number: int) -> str:
    return "is" if number == 1 else "are"


def _commit(number: int) -> str:
    return "commits" if number == 1 else "commit"


def explain_aborts(sides: Sequence[Side]) -> list[str]:
    """Return a sentence about the abort reasons of each configuration and workload class with success below 99%."""
    sentences = []
    for side in sides:
        classes = sorted(name for name, operation in side.groups if operation == ALL and name != ALL)
        for name in classes if len(classes) > 1 else [ALL]:
            rows = [run.select(name, ALL) for run in side.runs]
            started, aborted = (sum(row[key] for row in rows) for key in ("transactions", "aborted"))
            if not aborted or 1.0 - aborted / started >= LEAST_SUCCESS:
                continue
            counts = {reason: sum(row[f"aborted_{reason}"] for row in rows) for reason in ABORT_REASONS}
            counts["other reasons"] = aborted - sum(counts.values())
            known = {reason.replace("_", " "): count for reason, count in counts.items() if count}
            reasons = [f"{format_percent(count / aborted)} {reason}" for reason, count in known.items()]
            why = f"reason: {next(iter(known))}" if len(known) == 1 else f"reasons: {', '.join(reasons)}"
            who = side.name if name == ALL else f"{side.name}, {name}"
            sentences.append(f"{who}: {format_percent(aborted / started)} of transactions abort ({why}).")
    return sentences


def format_ratio_change(found: Difference) -> str:
    """Return the ratio of an alternative to the baseline with its half width; ``-`` if the baseline is 0."""
    if found.ratio is None:
        return "-"
    return format_number(found.ratio) if found.ratio_half_width is None else format_estimate(found.ratio, found.ratio_half_width)


def describe_precision(precision: Precision, reached: Collection[Reached]) -> str:
    """Return whether all experiments reached the requested precision, with the number of seeds and a remedy."""
    counts = sorted(each.seeds for each in reached)
    several = f" in {format_count(len(counts), 'experiment')}" if len(counts) > 1 else ""
    seeds = format_count(counts[-1], "seed") if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]} seeds"
    wide = [each for each in reached if each.wide]
    if not wide:
        return f"The precision of {precision} is reached with {seeds}{several}."
    stopped = f" in {len(wide)} of {format_count(len(counts), 'experiment')}" if len(counts) > 1 else ""
    return f"The precision of {precision} is not reached{stopped} with {seeds}. {_explain_width(precision, wide)}"


def _explain_width(precision: Precision, wide: Collection[Reached]) -> str:
    """Return a sentence about the metric whose interval is farthest from the precision, with a remedy."""
    widths = [width for each in wide for width in each.wide]
    improvable = [width for width in widths if width.is_improvable]
    if improvable:
        widest = max(improvable, key=_compare_width)
        return (
            f"With the maximum number of seeds, the half width of {widest.name} is {_format_width(precision, widest)}. "
            "Raise --max-seeds or simulation.duration_ms."
        )
    longer = "Raise simulation.duration_ms."
    flying = [width for width in widths if width.half_width is not None]
    if flying:
        return f"{flying[0].name} depends on transactions in flight at the end of the run, so more seeds do not help. {longer}"
    return f"{widths[0].name} is only a bound, or has no value, in some runs, so more seeds do not help. {longer}"


def _compare_width(width: Width) -> float:
    return float("inf") if width.half_width is None or width.wanted <= 0.0 else width.half_width / width.wanted


def _format_width(precision: Precision, width: Width) -> str:
    if width.wanted <= 0.0:
        return format_number(width.half_width or 0.0)
    return f"{format_number(100.0 * precision.value * _compare_width(width))}{'pp' if precision.shares_only else '%'}"


def precision_as_data(precision: Precision, reached: Collection[Reached]) -> dict[str, Any]:
    """Return data for JSON: whether the precision was reached, and the number of seeds."""
    counts = [each.seeds for each in reached]
    return {
        "precision": str(precision),
        "reached": not any(each.wide for each in reached),
        "not_reached": sum(bool(each.wide) for each in reached),
        "fewest_seeds": min(counts),
        "most_seeds": max(counts),
    }
