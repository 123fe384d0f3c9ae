"""State the findings of a study in sentences: the answer to the question of the study, further results, and warnings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd

from endive.analysis.conditions import Subject, format_metric
from endive.analysis.crossings import crossing
from endive.analysis.estimates import FEWEST_SEEDS, Estimate
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import ALL, BOUNDED, window_of
from endive.analysis.saturation import LEAST_SUCCESS, LEAST_THROUGHPUT
from endive.analysis.table_growth import GROWTH, day_of_limit
from endive.formatting import (
    capitalize,
    format_count,
    format_duration,
    format_estimate,
    format_interval,
    format_minimum_duration,
    format_number,
    format_percent,
    format_percent_range,
    format_ratio,
    is_known,
    join_ends,
    join_names,
)
from endive.report import phrases
from endive.report.comparison import Side, compare_sides, group_runs
from endive.report.figures.common import format_place
from endive.report.figures.line_charts import LIMIT
from endive.report.phrases import (
    describe_drift,
    describe_growth,
    describe_limit,
    describe_overload,
    describe_short_run,
    describe_utilization,
    describe_window,
    format_bounded,
)
from endive.report.study_data import Study
from endive.report.verdicts import choose_verb, name_in_sentence, summarize_comparison
from endive.runs.identity import SCENARIO_COLUMN
from endive.simulation.columns import TIME_WORDS

Row = dict[Any, Any]
_ALIKE = 1.05
"""Ratio below which two numbers count as equal."""
_EVEN = 0.9
"""Smallest Jain's fairness index at which commits count as evenly distributed among writers."""
_MEDIAN, _TAIL = "time_to_commit_p50_ms", "time_to_commit_p99_ms"
_FAR_MORE = 10.0
_MOST_NAMED = 6
"""Maximum number of configurations in one sentence."""
_MOST_VALUES = 8
"""Maximum number of values in the answer to a question; longer lists are reduced to the best and the worst values."""
_READS = {"manifest_list_reads_per_txn": "manifest lists", "manifest_file_reads_per_txn": "manifests"}
_SUCCESS, _THROUGHPUT = format_percent(LEAST_SUCCESS), format_percent(LEAST_THROUGHPUT)
_REASONS = {
    "success": f"fewer than {_SUCCESS} of transactions commit",
    "throughput": f"less than {_THROUGHPUT} of the offered load commits",
    "backlog": "transactions start to commit faster than they finish",
}
"""Consequence of exceeding the maximum sustainable load, by saturation criterion."""


def answer_study(study: Study) -> list[str]:
    """Return the findings of a study, one sentence each. The answer to the question of the study comes first."""
    totals = _select_totals(study)
    if len(totals) == 1:
        findings = [*_describe_run(totals[0]), *_describe_time(study, totals), *_describe_classes(study)]
    elif study.has_load and not study.saturation.empty:
        findings = [*_describe_loads(study, totals), *_describe_classes(study)]
    else:
        classes = list(_describe_classes(study))
        findings = [*classes, *_describe_configurations(study, totals, classes_commit=not classes)]
    return [*answer_question(study), *findings, *_describe_fairness(study)]


def answer_question(study: Study) -> list[str]:
    """Return the sentences that answer the question of a study; an empty list if the study has no question.

    Scenarios are compared with the baseline; other configurations are listed from the best to the worst. If a numeric parameter
    varies, the answer covers the largest and the smallest value.
    """
    if study.question is None:
        return []
    places = _find_places(study)
    return [text for at, names in places for text in _answer_at(study, study.question, at, names, len(places))]


def _find_places(study: Study) -> list[tuple[str, list[str]]]:
    """Return the highest and the lowest axis value that all configurations have, in words, with the experiments at that value."""
    if study.axis is None or len(study.axis.values) < 2:
        return [("", list(study.manifest.experiments))]
    by_place: dict[float, list[str]] = {}
    for name, each in study.manifest.experiments.items():
        by_place.setdefault(study.axis.place(each.parameters), []).append(name)
    most = max(map(len, by_place.values()))
    common = sorted(place for place, names in by_place.items() if len(names) == most)
    ends = dict.fromkeys((common[-1], common[0]))
    return [(phrases.phrase_label(format_place(study, place, named=True)), by_place[place]) for place in ends]


def _answer_at(study: Study, question: Subject, at: str, experiments: Sequence[str], times: int) -> list[str]:
    sides = _make_scenario_sides(study, experiments)
    answer = (
        summarize_comparison(compare_sides(sides, [question], times=times))
        if sides
        else [_list_values(study, question, experiments)]
    )
    if not at:
        return answer
    where = f"With {at}" if re.match(r"[\d.,]+ [a-z]", at) else f"At {at}"
    return [f"{where}, {answer[0][:1].lower()}{answer[0][1:]}", *answer[1:]]


def _make_scenario_sides(study: Study, experiments: Sequence[str]) -> list[Side]:
    """Return the scenarios of these experiments, the baseline first; an empty list if experiments share a scenario."""
    named = {str(study.manifest.experiments[name].parameters.get(SCENARIO_COLUMN)): name for name in experiments}
    ordered = [name for name in study.scenarios if name in named]
    if len(ordered) < 2 or len(named) < len(experiments) or study.scenarios[0] not in named:
        return []
    return [_make_side(study, name, named[name]) for name in ordered]


def _make_side(study: Study, name: str, experiment: str) -> Side:
    table = study.runs[study.runs["experiment"] == experiment]
    runs = group_runs(table.astype(object).where(table.notna(), None).to_dict("records"))
    return Side(experiment, name, runs, study.manifest.experiments[experiment].code_version)


def _list_values(study: Study, question: Subject, experiments: Sequence[str]) -> str:
    """List the configurations with their values, the best first; ties keep the order of the figures."""
    rows = [row for row in _select_rows(study, question.workload_class, question.operation) if row["experiment"] in experiments]
    rows = [row for row in rows if _format_value(row, question.metric) != "-"]
    title = name_in_sentence(question)
    if not rows:
        return f"{title} could not be measured."
    sign = 1.0 if more_is_better(question.metric) is False else -1.0
    order = {each.label: place for place, each in enumerate(study.series)}
    rows.sort(key=lambda row: order.get(row["series"], -1))
    rows.sort(key=lambda row: math.inf if row[question.metric] is None else sign * row[question.metric])
    several = len(study.series) > 1
    names = [_name_series(study, row) if several else "" for row in rows]
    word = phrases.choose_preposition(study.scenarios)
    values = [
        _format_value(row, question.metric) + (f" {word} {name}" if name else "") for row, name in zip(rows, names, strict=True)
    ]
    if len(values) > _MOST_VALUES:
        between = f"{format_count(len(values) - _MOST_VALUES, 'configuration')} in between"
        values = [*values[: _MOST_VALUES // 2], between, *values[-_MOST_VALUES // 2 :]]
    missing = len(experiments) - len(rows)
    unmeasured = f"; not measured in {format_count(missing, 'configuration')}" if missing else ""
    return f"{title} {choose_verb(question)} {_join(values, names)}{unmeasured}."


def _format_value(row: Row, metric: str) -> str:
    """Return a value with its 95% interval. A percentile without a value is a bound or ``aborted``; an unknown metric is ``-``."""
    value = row[metric]
    if value is None:
        return format_bounded(row, metric) if metric in BOUNDED else "-"
    low, high, width = row.get(f"{metric}_low"), row.get(f"{metric}_high"), row.get(f"{metric}_hw")
    if (low is None or high is None) and width is not None:
        low, high = value - width, value + width
    text = format_metric(metric, value)
    if low is None or high is None:
        return text
    ends = join_ends(format_metric(metric, max(low, 0.0)), format_metric(metric, high))
    return text if ends == text else f"{text} ({ends})"


def _describe_fairness(study: Study) -> Iterator[str]:
    several = len(_select_totals(study)) > 1
    for name in study.classes:
        yield from describe_fairness(name, _select_rows(study, name), lambda row: _locate(study, row) if several else "")


def describe_fairness(name: str, rows: Sequence[Row], where: Callable[[Row], str]) -> Iterator[str]:
    """Yield a sentence about the configuration with the least even distribution of commits among the writers of a class.

    There is no sentence if Jain's fairness index is at least 0.9.

    ``where`` returns the name of the configuration of a row, such as `` with 20 clients``, or an empty text for a single
    configuration.
    """
    shared = [row for row in rows if is_known(row.get("jain_index"))]
    if not shared:
        return
    worst = min(shared, key=lambda row: row["jain_index"])
    if worst["jain_index"] >= _EVEN and not worst["writers_without_commit"]:
        return
    facts = [f"Jain's index {format_number(worst['jain_index'])}"]
    if worst["writers_without_commit"] > 0.0:
        facts.append(f"{format_percent(worst['writers_without_commit'])} of writers never commit")
    streak = round(worst["longest_losing_streak"])
    if streak > 1:
        facts.append(f"up to {streak:,} consecutive transactions of one writer do not commit")
    yield f"Commits of class {name} are distributed unevenly among its writers{where(worst)} ({'; '.join(facts)})."


def _describe_run(row: Row) -> Iterator[str]:
    if not is_known(row["success_high"]):
        yield "No transaction started committing in the measurement window."
        return
    offered = format_estimate(row["offered_per_s"], row["offered_per_s_hw"])
    yield f"{_format_success(row)} of transactions commit: {_format_throughput(row)} commits/s at an offered load of {offered}/s."
    times = ", ".join(f"{name} {format_bounded(row, metric)}" for name, metric in (("p50", _MEDIAN), ("p99", _TAIL)))
    yield f"Time to commit: {times}; {format_bounded(row, 'retries_per_txn')} retries per transaction."


def _describe_loads(study: Study, totals: list[Row]) -> list[str]:
    """Return the findings for configurations that vary the load."""
    by_series: dict[str, list[Row]] = {}
    for row in totals:
        by_series.setdefault(row["series"], []).append(row)
    peaks = {name: max(rows, key=lambda row: row["throughput_per_s"]) for name, rows in by_series.items()}
    curves: list[Row] = [each for each in study.saturation.to_dict("records") if each["series"] in peaks]
    curves.sort(key=lambda curve: -peaks[curve["series"]]["throughput_per_s"])
    if _is_alike(peaks[curves[0]["series"]], peaks[curves[-1]["series"]]):
        curves.sort(key=lambda curve: -curve["saturation_load"])
    ranked = [peaks[curve["series"]] for curve in curves]
    first = _describe_peak(study, ranked[0]) if len(curves) == 1 else _rank_throughput(ranked, partial(_name_series, study))
    named = curves if len(curves) <= _MOST_NAMED else [curves[0], curves[-1]]
    limits = list(_describe_limits(study, curves, named))
    at = [min(by_series[curve["series"]], key=lambda row: abs(row["x"] - curve["saturation_load"])) for curve in named]
    timed = {series: [row for row in rows if is_known(row[_MEDIAN])] for series, rows in by_series.items()}
    return [first, *limits, *_describe_latency(study, timed), *_describe_time(study, at)]


def _describe_peak(study: Study, peak: Row) -> str:
    if (peak["throughput_ratio"] or 0.0) < LEAST_THROUGHPUT:
        return f"Throughput saturates at {_format_throughput(peak)} commits/s."
    return f"Throughput follows the offered load up to {_format_throughput(peak)} commits/s, at {_format_load(study, peak['x'])}."


def _is_alike(high: Row, low: Row) -> bool:
    return bool(high["throughput_per_s"] < low["throughput_per_s"] * _ALIKE)


def _rank_throughput(ranked: list[Row], name: Callable[[Row], str]) -> str:
    """Compare the highest with the lowest commit rate, and list the configurations in between."""
    high, low = ranked[0], ranked[-1]
    most, least = high["throughput_per_s"], low["throughput_per_s"]
    if _is_alike(high, low):
        every = "Both" if len(ranked) == 2 else f"All {len(ranked)}"
        return f"{every} configurations reach about {format_number(most)} commits/s."
    others = _list_others([(name(row), _format_throughput(row)) for row in ranked[1:-1]])
    best, worst = name(high), name(low)
    if least <= 0.0:
        nothing = f"{worst} {_choose_verb(worst, 'commits', 'commit')} nothing"
        return capitalize(
            f"{best} {_choose_verb(best, 'reaches', 'reach')} {_format_throughput(high)} commits/s; {nothing}{others}."
        )
    rates = f"{_format_throughput(high)} versus {_format_throughput(low)} commits/s"
    ratio = f"{_choose_verb(best, 'reaches', 'reach')} {format_ratio(most / least)} the commit rate of {worst}"
    return capitalize(f"{best} {ratio}: {rates}{others}.")


def _list_others(others: list[tuple[str, str]]) -> str:
    """List the configurations between the first and the last with their values, or give their number if there are many."""
    if not others:
        return ""
    if len(others) > _MOST_NAMED - 2:
        return f"; {len(others)} configurations are in between"
    return f"; in between: {_join([f'{name} ({value})' for name, value in others], [name for name, _ in others])}"


def _join(texts: Sequence[str], names: Sequence[str]) -> str:
    """Join texts that contain names: with semicolons if a name contains a comma."""
    return ("; " if any("," in name for name in names) else ", ").join(texts)


def _describe_limits(study: Study, curves: list[Row], named: list[Row]) -> Iterator[str]:
    """Yield sentences about the maximum sustainable load of each named configuration, and the effect of higher loads."""
    several, everywhere = len(curves) > 1, ""
    if several and len({(curve["bound"], curve["reason"], curve["saturation_load"]) for curve in curves}) == 1:
        named, several, everywhere = curves[:1], False, " in all configurations"
    found = [curve for curve in named if curve["bound"] not in ("above", "at_or_below")]
    if found:
        reasons = " or ".join(dict.fromkeys(_REASONS[curve["reason"]] for curve in found))
        names = [_name_series(study, curve) if several else "" for curve in found]
        word = phrases.choose_preposition(study.scenarios)
        limits = [
            _format_limit(study, curve) + (f" {word} {name}" if name else "") for curve, name in zip(found, names, strict=True)
        ]
        yield f"Maximum sustainable load{everywhere}: {_join(limits, names)}. At higher loads, {reasons}."
    for bound, end, verdict in (("above", "highest", "sustained"), ("at_or_below", "lowest", "not sustained")):
        beyond = [curve for curve in named if curve["bound"] == bound]
        for at in dict.fromkeys(curve["saturation_load"] for curve in beyond):
            names = [_name_series(study, curve) for curve in beyond if curve["saturation_load"] == at]
            who = f" {phrases.choose_preposition(study.scenarios)} {join_names(names)}" if several else everywhere
            reason = _REASONS[beyond[0]["reason"]] if bound == "at_or_below" else f"at least {_SUCCESS} of transactions commit"
            yield f"The {end} simulated load, {_format_load(study, at)}, is {verdict}{who}: {reason}."
    others = len(curves) - len(named)
    if others and several:
        yield f"The figures show the other {format_count(others, 'configuration')}."


def _format_limit(study: Study, curve: Row) -> str:
    interval = format_interval(curve["saturation_low"], curve["saturation_high"])
    return _format_load(study, curve["saturation_load"]) + (f" ({interval})" if interval else "")


def _describe_latency(study: Study, timed: dict[str, list[Row]]) -> Iterator[str]:
    if len(timed) == 1:
        (rows,) = timed.values()
        if len(rows) > 1:
            low, high = min(rows, key=lambda row: row["x"]), max(rows, key=lambda row: row["x"])
            at = _choose_preposition(study)
            ends = [f"{format_duration(row[_MEDIAN])} {at} {_format_load(study, row['x'])}" for row in (low, high)]
            yield f"The p50 of the time to commit is {ends[0]} and {ends[1]} (p99 {format_bounded(high, _TAIL)})."
        return
    common = set.intersection(*({row["x"] for row in rows} for rows in timed.values()))
    if common:
        at = max(common)
        medians = [
            (phrases.phrase_label(series, study.scenarios), row[_MEDIAN])
            for series, rows in timed.items()
            for row in rows
            if row["x"] == at
        ]
        where = f"{_choose_preposition(study)} {_format_load(study, at)}"
        yield capitalize(f"{where}, {_rank_medians(study, medians)}.")


def _rank_medians(study: Study, medians: list[tuple[str, float]]) -> str:
    """Return the configurations with the lowest and the highest p50 of the time to commit (ms)."""
    ranked = sorted(medians, key=lambda each: each[1])
    (fast, low), (slow, high) = ranked[0], ranked[-1]
    if high < low * _ALIKE:
        return f"the p50 of the time to commit is about {format_duration(high)} in all configurations"
    factor = f", {format_ratio(high / low)}" if low > 0.0 else ""
    others = _list_others([(label, format_duration(median)) for label, median in ranked[1:-1]])
    word = phrases.choose_preposition(study.scenarios)
    ends = f"lowest {word} {fast} ({format_duration(low)}) and highest {word} {slow} ({format_duration(high)}{factor})"
    return f"the p50 of the time to commit is {ends}{others}"


def _describe_configurations(study: Study, totals: list[Row], *, classes_commit: bool) -> list[str]:
    """Return the findings for configurations that do not vary the load."""
    ranked = sorted(totals, key=lambda row: -row["throughput_per_s"])
    findings = [_rank_throughput(ranked, lambda row: _name_point(study, row))]
    started = [row for row in totals if is_known(row["success_high"])]
    failing = [row for row in started if row["success_high"] < LEAST_SUCCESS]
    if failing:
        lowest = min(failing, key=lambda row: row["success_high"])
        share = f"{len(failing)} of {len(totals)} configurations"
        findings.append(f"Success is below {_SUCCESS} in {share} and lowest{_locate(study, lowest)} ({_format_success(lowest)}).")
    elif started and classes_commit:
        findings.append(f"At least {_SUCCESS} of transactions commit in all configurations.")
    timed = [(_name_point(study, row), row[_MEDIAN]) for row in totals if is_known(row[_MEDIAN])]
    if timed:
        findings.append(capitalize(f"{_rank_medians(study, timed)}."))
    return [*findings, *_describe_time(study, ranked if len(ranked) <= _MOST_NAMED else [ranked[0], ranked[-1]])]


def _describe_time(study: Study, rows: list[Row]) -> Iterator[str]:
    """Yield sentences about the largest component of the commit time in each configuration."""
    largest: dict[str, list[tuple[Row, float]]] = {}
    for row in rows:
        parts = {name: row[f"mean_{name}"] for name in TIME_WORDS if name != "t_runtime" and is_known(row[f"mean_{name}"])}
        if sum(parts.values()) > 0.0:
            name = max(parts, key=lambda part: parts[part])
            largest.setdefault(TIME_WORDS[name], []).append((row, parts[name] / sum(parts.values())))
    number = len(_select_totals(study))
    for part, shares in largest.items():
        plural = part.endswith("s")
        verb = ("dominate" if plural else "dominates") if min(share for _, share in shares) > 0.5 else None
        finding = f"{capitalize(part)} {verb or ('are' if plural else 'is') + ' the largest component of'} commit time"
        ends = format_percent_range(min(share for _, share in shares), max(share for _, share in shares))
        if number == 1:
            yield f"{finding} ({ends})."
        elif 2 < len(shares) == len(rows) == number:
            yield f"{finding} in all configurations ({ends})."
        elif len(shares) > 2:
            names = [_name_point(study, row) for row, _ in shares]
            listed = "; ".join(names) if any("," in name for name in names) else join_names(names)
            yield f"{finding} {phrases.choose_preposition(study.scenarios)} {listed} ({ends})."
        else:
            yield f"{finding}{' and'.join(f'{_locate(study, row)} ({format_percent(share)})' for row, share in shares)}."


def _choose_verb(name: str, singular: str, plural: str) -> str:
    """Return the verb form that agrees with the name of a configuration: ``16 tables reach``, ``S3 Express reaches``."""
    return plural if re.match(r"(?!1 )[\d.,]+%? [a-z ]*s\b", name) else singular


def _describe_classes(study: Study) -> Iterator[str]:
    """Yield sentences about the classes with low success, the worst first, if the workload has several classes."""
    if len(study.classes) < 2:
        return
    committing: list[str] = []
    failing: list[tuple[float, list[str]]] = []
    for name in study.classes:
        rows = [row for row in _select_rows(study, name) if is_known(row["success_high"])]
        lowest = min(rows, key=lambda row: row["success_high"], default=None)
        if lowest is None:
            failing.append((0.0, [f"No {name} transaction started committing in the measurement window."]))
        elif lowest["success_high"] >= LEAST_SUCCESS:
            committing.append(name)
        elif not study.has_load and any(row["success_high"] >= LEAST_SUCCESS for row in rows):
            failing.append((lowest["success_high"], _contrast_class(study, name, rows)))
        else:
            failing.append((lowest["success_high"], [_describe_failing(study, name, rows, lowest)]))
    for _, sentences in sorted(failing):
        yield from sentences
    if committing and failing:
        where = "" if len(_select_totals(study)) == 1 else " in all configurations"
        yield f"At least {_SUCCESS} of {join_names(committing)} transactions commit{where}."


def _contrast_class(study: Study, name: str, rows: list[Row]) -> list[str]:
    """Return sentences about the configurations in which a class fails to commit, and about metadata reads as the cause."""
    committing = [row for row in rows if row["success_high"] >= LEAST_SUCCESS]
    failing = sorted((row for row in rows if row["success_high"] < LEAST_SUCCESS), key=lambda row: row["success_high"])
    if len(rows) > _MOST_NAMED:
        failing = failing[:1]
        where = f"in {len(committing)} of {len(rows)} configurations; lowest success: "
    else:
        word = phrases.choose_preposition(study.scenarios)
        where = f"{word} {join_names([_name_point(study, row) for row in committing])}, but only "
    others = _join(
        [f"{_format_success(row)}{_locate(study, row)}" for row in failing], [_name_point(study, row) for row in failing]
    )
    finding = f"At least {_SUCCESS} of {name} transactions commit {where}{others}."
    base = {kind: max(row[kind] for row in committing) for kind in _READS}
    causes = []
    for row in failing:
        kind = max(_READS, key=lambda kind: row[kind] - base[kind])
        if row[kind] > _FAR_MORE * (base[kind] + 1.0):
            reads = f"{format_number(row[kind])} {_READS[kind]} per transaction{_locate(study, row)}"
            causes.append(f"{reads} (at most {format_number(base[kind])} in the other configurations)")
    asked = study.question is not None and (study.question.metric, study.question.workload_class) == ("success_rate", name)
    first = [] if asked else [finding]  # the answer to the question states it
    return [*first, f"Metadata reads are the cause: {', '.join(causes)}."] if causes else first


def _describe_failing(study: Study, name: str, rows: list[Row], lowest: Row) -> str:
    where = "" if len(_select_totals(study)) == 1 else _locate(study, lowest)
    share = "No" if lowest["success_high"] == 0.0 else f"Only {_format_success(lowest)} of"
    finding = f"{share} {name} transactions commit{where}"
    if not study.has_load:
        return f"{finding}."
    own = sorted((row for row in rows if row["series"] == lowest["series"]), key=lambda row: row["x"])
    found = crossing([(row["x"], _read_estimate(row, "success_high")) for row in own], LEAST_SUCCESS, falling=True)
    if found is None or found.bound != "crossed":
        return f"{finding}."
    return f"{finding}; success falls below {_SUCCESS} at {_format_load(study, found.load)}."


def _read_estimate(row: Row, share: str) -> Estimate:
    return Estimate(row[share], row[f"{share}_low"], row[f"{share}_high"], int(row[f"{share}_n"]))


def describe_windows(study: Study) -> str:
    """Return a sentence about the measured part of the runs."""
    windows = {describe_window(window_of(row)): window_of(row) for row in _select_totals(study)}
    cuts = sorted(window.start_ms for window in windows.values())
    low, high = format_duration(cuts[0]), format_duration(cuts[-1])
    if low == high:
        return next(iter(windows))
    return f"The first {low} to {high} of the runs are excluded as warm-up, depending on the configuration."


def warn_study(study: Study) -> list[str]:
    """Return warnings about the findings: few seeds, overload, short runs, growing tables, or a too narrow range of loads."""
    return list(_list_warnings(study, _select_totals(study)))


def _list_warnings(study: Study, totals: list[Row]) -> Iterator[str]:
    if study.problems:
        first = study.problems[0]
        verb = "is" if len(study.problems) == 1 else "are"
        yield f"{format_count(len(study.problems), 'damaged result')} {verb} omitted. {first.where}: {first.message}."
    few = [row for row in totals if row["few_seeds"]]
    if len(few) == len(totals):
        seeds = format_count(max(row["n_seeds"] for row in few), "seed")
        yield f"The study has only {seeds}, and intervals need at least {FEWEST_SEEDS} seeds. Run more seeds."
    elif few:
        share = _count_of(len(few), totals, "has", "have")
        pronoun = "its" if len(few) == 1 else "their"
        yield f"{share} fewer than {FEWEST_SEEDS} seeds; {pronoun} intervals are not reliable."
    yield from _warn_windows(study, totals)
    for bound, verdict, advice in (
        ("above", "sustain the highest simulated load", "higher"),
        ("at_or_below", "do not sustain the lowest simulated load", "lower"),
    ):
        n = int((study.saturation["bound"] == bound).sum()) if not study.saturation.empty else 0
        if n:
            agreed = (
                verdict.replace("do not", "does not").replace("sustain the highest", "sustains the highest") if n == 1 else verdict
            )
            yield f"{format_count(n, 'configuration')} {agreed}. Add {advice} loads to find the maximum sustainable load."


def _warn_windows(study: Study, totals: list[Row]) -> Iterator[str]:
    """Yield warnings about overload, growing tables and short runs. Overloaded experiments have no warning about short runs."""
    over = [(row, text) for row in totals if (text := describe_overload(row)) is not None]
    if over and len(totals) == 1:
        yield over[0][1]
    elif over:
        worst, text = max(over, key=lambda each: each[0]["in_flight"] / each[0]["transactions"])
        detail = text.removeprefix("Overloaded: ").removesuffix(" A longer run does not help.").replace(" at this load", "")
        yield f"{_count_of(len(over), totals, 'is', 'are')} overloaded. {capitalize(_locate(study, worst).strip())}, {detail}"
    yield from _describe_bottlenecks(study, totals)
    sustained = [row for row in totals if row["saturated"] is None]
    if len(totals) == 1:
        drift = describe_drift(totals) if sustained else describe_growth(totals)
        yield from () if drift is None else (drift,)
        return
    growing = [(row, text) for row in totals if (text := describe_growth([row])) is not None]
    if growing:
        fastest, text = max(growing, key=lambda each: each[0][GROWTH["table_metadata_bytes"]] or 0.0)
        place = capitalize(_locate(study, fastest).strip())
        yield f"Tables grow in {len(growing)} of {len(totals)} experiments. {place}, {text[:1].lower()}{text[1:]}"
    short_runs = [(row, text) for row in sustained if (text := describe_short_run(window_of(row))) is not None]
    drifting = sum(window_of(row).is_drifting for row, _ in short_runs)
    if drifting:
        verb = _count_of(drifting, totals, "does", "do")
        yield f"{verb} not reach a steady state. The results hold only for runs of the simulated duration."
    if len(short_runs) > drifting:
        longest = max((row for row, _ in short_runs if row["needed_ms"] is not None), key=lambda row: row["needed_ms"])
        needed = f"{format_minimum_duration(longest['needed_ms'])} (required{_locate(study, longest)})"
        yield (
            f"{_count_of(len(short_runs) - drifting, totals, 'has', 'have')} not reached a steady state. "
            f"Set simulation.duration_ms to at least {needed}."
        )


def _count_of(number: int, totals: Sequence[Row], singular: str, plural: str) -> str:
    """Return ``1 of 3 experiments has`` or ``2 of 3 experiments have``."""
    return f"{number} of {len(totals)} experiments {singular if number == 1 else plural}"


def _describe_bottlenecks(study: Study, totals: list[Row]) -> Iterator[str]:
    """Yield sentences about the utilization of the busiest catalog, and the day on which metadata.json reaches its limit."""
    busy, limited = [], []
    for row in totals:
        parameters = study.manifest.experiments[row["experiment"]].parameters
        workers, limit = parameters.get("param_catalog_workers"), parameters.get(LIMIT)
        where = _locate(study, row) if len(totals) > 1 else ""
        text = describe_utilization([row], workers if isinstance(workers, int) else 0, where)
        if text is not None:
            busy.append((row["catalog_utilization"], text))
        if isinstance(limit, int) and (text := describe_limit(row, limit)) is not None:
            limited.append((-day_of_limit(row, limit), f"{capitalize(where.strip())}, {text}" if where else text))
    for found in filter(None, (busy, limited)):
        yield max(found, key=lambda each: each[0])[1]


def _select_totals(study: Study) -> list[Row]:
    return _select_rows(study, ALL)


def _select_rows(study: Study, workload_class: str, operation: str = ALL) -> list[Row]:
    table = study.experiments
    chosen = table[(table["workload_class"] == workload_class) & (table["operation_type"] == operation)]
    return list(chosen.astype(object).where(pd.notna(chosen), None).to_dict("records"))


def _format_throughput(row: Row) -> str:
    return format_estimate(row["throughput_per_s"], row["throughput_per_s_hw"])


def _format_success(row: Row) -> str:
    return format_percent_range(row["success_low"], row["success_high"])


def _format_load(study: Study, load: float) -> str:
    """Return a load as a rate: ``8/s``, or ``8 ingest transactions/s`` if the study has several classes."""
    axis = study.axis
    assert axis is not None
    owner = phrases.find_load_class(axis.column)
    if "/s)" not in axis.title:
        return phrases.phrase_label(format_place(study, load, named=True))
    of_class = owner is not None and len(study.classes) > 1
    number = format_number(load)
    return f"{number} {owner} {'transaction' if number == '1' else 'transactions'}/s" if of_class else f"{number}/s"


def _choose_preposition(study: Study) -> str:
    """Return the preposition before an axis value: ``at`` 8/s, ``with`` 20 clients."""
    return "at" if study.axis is not None and "/s)" in study.axis.title else "with"


def _name_series(study: Study, row: Row) -> str:
    """Return the name of the configuration of a row or curve in prose."""
    return phrases.phrase_label(str(row["series"]), study.scenarios)


def _name_point(study: Study, row: Row) -> str:
    """Return the name of an experiment in prose, from the values that distinguish it: ``S3 at 8/s``, ``S3 with 20 clients``."""
    return f" {_choose_preposition(study)} ".join(_list_places(study, row))


def _list_places(study: Study, row: Row) -> list[str]:
    """Return the configuration and the axis value of an experiment in prose, without those that all experiments share."""
    parts = [_name_series(study, row)] if len(study.series) > 1 else []
    if study.axis is not None and is_known(row["x"]) and len(study.axis.values) > 1:
        value = phrases.phrase_label(phrases.name_value(study.axis.column, row["x"]))
        parts.append(_format_load(study, row["x"]) if study.has_load else value)
    return parts


def _locate(study: Study, row: Row) -> str:
    """Return the name of an experiment after a preposition: `` with S3 at 8/s``, `` at 8/s``, `` with S3 and 20 clients``."""
    parts, word = _list_places(study, row), phrases.choose_preposition(study.scenarios)
    if len(study.series) == 1:
        return f" {_choose_preposition(study)} {parts[0]}"
    joint = "and" if word == _choose_preposition(study) else _choose_preposition(study)
    return f" {word} {f' {joint} '.join(parts)}"
