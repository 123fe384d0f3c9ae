"""State the findings of a study: the answer to its question, its results, and their limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from endive.analysis.conditions import Subject, format_metric
from endive.analysis.crossings import crossing
from endive.analysis.estimates import FEWEST_SEEDS, Estimate
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import BOUNDED, window_of
from endive.analysis.saturation import LEAST_SUCCESS, LEAST_THROUGHPUT
from endive.analysis.table_growth import day_of_limit
from endive.formatting import (
    capitalize,
    format_count,
    format_duration,
    format_estimate,
    format_interval,
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
from endive.report.figures.time_series import LIMIT
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
from endive.report.study_data import ALL, Study
from endive.report.verdicts import name_subject, summarize_comparison
from endive.runs.parameters import SCENARIO_COLUMN

Row = dict[Any, Any]
_ALIKE = 1.05
"""Factor below which numbers count as equal."""
_EVEN = 0.9
"""Jain's index from which commits count as shared evenly."""
_MEDIAN, _TAIL = "time_to_commit_p50_ms", "time_to_commit_p99_ms"
_FAR_MORE = 10.0
_MOST_NAMED = 6
"""Largest number of configurations in one sentence."""
_MOST_VALUES = 8
"""Largest number of values in the answer to a question; of more, the best and the worst are listed."""
_READS = {"manifest_list_reads_per_txn": "manifest lists", "manifest_file_reads_per_txn": "manifests"}
_SUCCESS, _THROUGHPUT = format_percent(LEAST_SUCCESS), format_percent(LEAST_THROUGHPUT)
_REASONS = {
    "success": f"fewer than {_SUCCESS} of transactions commit",
    "throughput": f"less than {_THROUGHPUT} of the offered load commits",
    "backlog": "transactions start to commit faster than they finish",
}
"""Consequence of a load beyond the maximum sustainable one, by the reason of saturation."""


def answer_study(study: Study) -> list[str]:
    """Return the findings, one sentence each: first the answer to the question of the study, if it has one."""
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
    """Return the answer to the question of a study, one sentence each; nothing if it has none.

    Scenarios are compared with the baseline; other configurations are listed from the best to the worst. If a numeric
    parameter varies, the answer covers its largest and its smallest value.
    """
    if study.question is None:
        return []
    places = _find_places(study)
    return [text for at, names in places for text in _answer_at(study, study.question, at, names, len(places))]


def _find_places(study: Study) -> list[tuple[str, list[str]]]:
    """Return both ends of the axis that all configurations share, by name, with their experiments."""
    if study.axis is None or len(study.axis.values) < 2:
        return [("", list(study.manifest.experiments))]
    by_place: dict[float, list[str]] = {}
    for name, each in study.manifest.experiments.items():
        by_place.setdefault(study.axis.place(each.parameters), []).append(name)
    most = max(map(len, by_place.values()))
    common = sorted(place for place, names in by_place.items() if len(names) == most)
    return [(format_place(study, place, named=True), by_place[place]) for place in dict.fromkeys((common[-1], common[0]))]


def _answer_at(study: Study, question: Subject, at: str, experiments: Sequence[str], times: int) -> list[str]:
    sides = _make_scenario_sides(study, experiments)
    answer = (
        summarize_comparison(compare_sides(sides, [question], times=times))
        if sides
        else [_list_values(study, question, experiments)]
    )
    return [f"At {at}: {answer[0][:1].lower()}{answer[0][1:]}", *answer[1:]] if at else answer


def _make_scenario_sides(study: Study, experiments: Sequence[str]) -> list[Side]:
    """Return the scenarios of these experiments, the baseline first; none unless each has a different scenario."""
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
    """Return every configuration with its value, the best first; ties in the order of figures."""
    rows = [row for row in _select_rows(study, question.workload_class, question.operation) if row["experiment"] in experiments]
    rows = [row for row in rows if _format_value(row, question.metric) != "-"]
    title = capitalize(name_subject(question))
    if not rows:
        return f"{title} could not be measured."
    sign = 1.0 if more_is_better(question.metric) is False else -1.0
    order = {each.label: place for place, each in enumerate(study.series)}
    rows.sort(key=lambda row: order.get(row["series"], -1))
    rows.sort(key=lambda row: math.inf if row[question.metric] is None else sign * row[question.metric])
    values = [_format_value(row, question.metric) + (f" with {row['series']}" if len(study.series) > 1 else "") for row in rows]
    if len(values) > _MOST_VALUES:
        between = f"{len(values) - _MOST_VALUES} configurations in between"
        values = [*values[: _MOST_VALUES // 2], between, *values[-_MOST_VALUES // 2 :]]
    missing = len(experiments) - len(rows)
    return f"{title}: {', '.join(values)}{f'; not measured in {missing} configurations' if missing else ''}."


def _format_value(row: Row, metric: str) -> str:
    """Return a value with its interval; a bound or ``aborted`` for a metric without a value; ``-`` if there is none."""
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
        yield from describe_fairness(
            name, _select_rows(study, name), lambda row: f" with {_name_point(study, row)}" if several else ""
        )


def describe_fairness(name: str, rows: Sequence[Row], where: Callable[[Row], str]) -> Iterator[str]:
    """Yield a sentence about the least even distribution of commits among the writers of a class, if it is far from even.

    ``where`` names the configuration of a row, as in `` with 20 clients``; empty if there is only one.
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
        facts.append(f"longest losing streak {streak:,} transactions")
    yield f"Commits of {name} are not shared evenly among its writers{where(worst)}: {', '.join(facts)}."


def _describe_run(row: Row) -> Iterator[str]:
    if not is_known(row["success_high"]):
        yield "No transaction started committing in the measured window."
        return
    offered = format_estimate(row["offered_per_s"], row["offered_per_s_hw"])
    yield f"{_format_success(row)} of transactions commit: {_format_throughput(row)} commits/s of {offered} offered/s."
    times = ", ".join(f"{name} {format_bounded(row, metric)}" for name, metric in (("p50", _MEDIAN), ("p99", _TAIL)))
    yield f"Time to commit: {times}; {format_bounded(row, 'retries_per_txn')} retries per transaction."


def _describe_loads(study: Study, totals: list[Row]) -> list[str]:
    """Return the findings of curves over a load."""
    by_series: dict[str, list[Row]] = {}
    for row in totals:
        by_series.setdefault(row["series"], []).append(row)
    peaks = {name: max(rows, key=lambda row: row["throughput_per_s"]) for name, rows in by_series.items()}
    curves: list[Row] = [each for each in study.saturation.to_dict("records") if each["series"] in peaks]
    curves.sort(key=lambda curve: -peaks[curve["series"]]["throughput_per_s"])
    if _is_alike(peaks[curves[0]["series"]], peaks[curves[-1]["series"]]):
        curves.sort(key=lambda curve: -curve["saturation_load"])
    ranked = [peaks[curve["series"]] for curve in curves]
    first = _describe_peak(study, ranked[0]) if len(curves) == 1 else _rank_throughput(ranked, lambda row: str(row["series"]))
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
    """Return the configurations with the highest and the lowest commit rate, and those in between."""
    high, low = ranked[0], ranked[-1]
    most, least = high["throughput_per_s"], low["throughput_per_s"]
    if _is_alike(high, low):
        return f"All {len(ranked)} configurations reach about {format_number(most)} commits/s."
    others = _list_others([(name(row), _format_throughput(row)) for row in ranked[1:-1]])
    if least <= 0.0:
        return capitalize(f"{name(high)} commits {_format_throughput(high)}/s, {name(low)} nothing{others}.")
    rates = f"{_format_throughput(high)} against {_format_throughput(low)} commits/s"
    return capitalize(f"{name(high)} reaches {format_ratio(most / least)} the commit rate of {name(low)}: {rates}{others}.")


def _list_others(others: list[tuple[str, str]]) -> str:
    """Return the configurations that are neither first nor last with their values; only their number if they are many."""
    if not others:
        return ""
    if len(others) > _MOST_NAMED - 2:
        return f"; {len(others)} configurations are in between"
    return f"; in between: {', '.join(f'{name} ({value})' for name, value in others)}"


def _describe_limits(study: Study, curves: list[Row], named: list[Row]) -> Iterator[str]:
    """Yield the maximum sustainable load of each named configuration, and the effect of higher loads."""
    several, everywhere = len(curves) > 1, ""
    if several and len({(curve["bound"], curve["reason"], curve["saturation_load"]) for curve in curves}) == 1:
        named, several, everywhere = curves[:1], False, " in all configurations"
    found = [curve for curve in named if curve["bound"] not in ("above", "at_or_below")]
    if found:
        reasons = " or ".join(dict.fromkeys(_REASONS[curve["reason"]] for curve in found))
        limits = [_format_limit(study, curve) + (f" with {curve['series']}" if several else "") for curve in found]
        yield f"Maximum sustainable load{everywhere}: {', '.join(limits)}. Beyond it, {reasons}."
    for bound, verdict in (("above", "sustained"), ("at_or_below", "not sustained")):
        beyond = [curve for curve in named if curve["bound"] == bound]
        for at in dict.fromkeys(curve["saturation_load"] for curve in beyond):
            names = join_names([str(curve["series"]) for curve in beyond if curve["saturation_load"] == at])
            tried = f"The {'highest' if bound == 'above' else 'lowest'} load tried, {_format_load(study, at)},"
            who = f" with {names}" if several else everywhere
            reason = _REASONS[beyond[0]["reason"]] if bound == "at_or_below" else f"at least {_SUCCESS} of transactions commit"
            yield f"{tried} is {verdict}{who}: {reason}."
    if len(named) < len(curves) and several:
        yield f"The figures show the other {len(curves) - len(named)} configurations."


def _format_limit(study: Study, curve: Row) -> str:
    interval = format_interval(curve["saturation_low"], curve["saturation_high"])
    return _format_load(study, curve["saturation_load"]) + (f" ({interval})" if interval else "")


def _describe_latency(study: Study, timed: dict[str, list[Row]]) -> Iterator[str]:
    if len(timed) == 1:
        (rows,) = timed.values()
        if len(rows) > 1:
            low, high = min(rows, key=lambda row: row["x"]), max(rows, key=lambda row: row["x"])
            ends = [f"{format_duration(row[_MEDIAN])} at {_format_load(study, row['x'])}" for row in (low, high)]
            yield f"Time to commit, p50: {ends[0]}, {ends[1]} (p99 {format_bounded(high, _TAIL)})."
        return
    common = set.intersection(*({row["x"] for row in rows} for rows in timed.values()))
    if common:
        at = max(common)
        medians = [(series, row[_MEDIAN]) for series, rows in timed.items() for row in rows if row["x"] == at]
        yield f"At {_format_load(study, at)}, {_rank_medians(medians)}."


def _rank_medians(medians: list[tuple[str, float]]) -> str:
    """Return the configurations with the lowest and the highest p50 of the time to commit (ms)."""
    ranked = sorted(medians, key=lambda each: each[1])
    (fast, low), (slow, high) = ranked[0], ranked[-1]
    if high < low * _ALIKE:
        return f"the p50 of the time to commit is about {format_duration(high)} in all configurations"
    factor = f", {format_ratio(high / low)}" if low > 0.0 else ""
    others = _list_others([(label, format_duration(median)) for label, median in ranked[1:-1]])
    ends = f"lowest with {fast} ({format_duration(low)}) and highest with {slow} ({format_duration(high)}{factor})"
    return f"the p50 of the time to commit is {ends}{others}"


def _describe_configurations(study: Study, totals: list[Row], *, classes_commit: bool) -> list[str]:
    """Return the findings of configurations that do not differ in a load."""
    ranked = sorted(totals, key=lambda row: -row["throughput_per_s"])
    findings = [_rank_throughput(ranked, lambda row: _name_point(study, row))]
    started = [row for row in totals if is_known(row["success_high"])]
    failing = [row for row in started if row["success_high"] < LEAST_SUCCESS]
    if failing:
        lowest = min(failing, key=lambda row: row["success_high"])
        share = f"{len(failing)} of {len(totals)} configurations"
        findings.append(
            f"Success is below {_SUCCESS} in {share}, lowest with {_name_point(study, lowest)} ({_format_success(lowest)})."
        )
    elif started and classes_commit:
        findings.append(f"At least {_SUCCESS} of transactions commit in all configurations.")
    timed = [(_name_point(study, row), row[_MEDIAN]) for row in totals if is_known(row[_MEDIAN])]
    if timed:
        findings.append(capitalize(f"{_rank_medians(timed)}."))
    return [*findings, *_describe_time(study, ranked if len(ranked) <= _MOST_NAMED else [ranked[0], ranked[-1]])]


def _describe_time(study: Study, rows: list[Row]) -> Iterator[str]:
    """Yield the dominant part of the commit time, with the configurations."""
    largest: dict[str, list[tuple[Row, float]]] = {}
    for row in rows:
        parts = {name: row[f"mean_{name}"] for name in phrases.TIME_PARTS if name != "t_runtime" and is_known(row[f"mean_{name}"])}
        if sum(parts.values()) > 0.0:
            name = max(parts, key=lambda part: parts[part])
            largest.setdefault(phrases.TIME_PARTS[name], []).append((row, parts[name] / sum(parts.values())))
    number = len(_select_totals(study))
    for part, shares in largest.items():
        texts = dict.fromkeys(format_percent(share) for _, share in shares)
        if number == 1:
            where = next(iter(texts))
        elif 2 < len(shares) == len(rows) == number and len(texts) == 1:
            where = f"{next(iter(texts))} in all configurations"
        else:
            where = ", ".join(f"{format_percent(share)} with {_name_point(study, row)}" for row, share in shares)
        yield f"{capitalize(part)} {_choose_verb(part, 'dominates', 'dominate')} commit time: {where}."


def _choose_verb(noun: str, singular: str, plural: str) -> str:
    return plural if noun.endswith("s") else singular


def _describe_classes(study: Study) -> Iterator[str]:
    """Yield the workload classes that do not commit, the worst first, if there are several classes."""
    if len(study.classes) < 2:
        return
    committing: list[str] = []
    failing: list[tuple[float, list[str]]] = []
    for name in study.classes:
        rows = [row for row in _select_rows(study, name) if is_known(row["success_high"])]
        lowest = min(rows, key=lambda row: row["success_high"], default=None)
        if lowest is None:
            failing.append((0.0, [f"No transaction of {name} started committing in the measured window."]))
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
    """Return the configurations in which a class commits and does not commit, and the cause if its reads indicate one."""
    committing = [row for row in rows if row["success_high"] >= LEAST_SUCCESS]
    failing = sorted((row for row in rows if row["success_high"] < LEAST_SUCCESS), key=lambda row: row["success_high"])
    if len(rows) > _MOST_NAMED:
        failing = failing[:1]
        where = f"in {len(committing)} of {len(rows)} configurations; lowest: "
    else:
        where = f"with {join_names([_name_point(study, row) for row in committing])}, but only "
    others = ", ".join(f"{_format_success(row)} with {_name_point(study, row)}" for row in failing)
    finding = f"At least {_SUCCESS} of {name} transactions commit {where}{others}."
    base = {kind: max(row[kind] for row in committing) for kind in _READS}
    causes = []
    for row in failing:
        kind = max(_READS, key=lambda kind: row[kind] - base[kind])
        if row[kind] > _FAR_MORE * (base[kind] + 1.0):
            reads = f"{format_number(row[kind])} {_READS[kind]} per transaction with {_name_point(study, row)}"
            causes.append(f"{reads} (otherwise {format_number(base[kind])})")
    asked = study.question is not None and (study.question.metric, study.question.workload_class) == ("success_rate", name)
    first = [] if asked else [finding]  # the answer to the question states it
    return [*first, f"The cause is metadata reads: {', '.join(causes)}."] if causes else first


def _describe_failing(study: Study, name: str, rows: list[Row], lowest: Row) -> str:
    where = "" if len(_select_totals(study)) == 1 else f" with {_name_point(study, lowest)}"
    share = "No transaction" if lowest["success_high"] == 0.0 else f"Only {_format_success(lowest)}"
    finding = f"{share} of {name} {'commits' if lowest['success_high'] == 0.0 else 'transactions commit'}{where}"
    if not study.has_load:
        return f"{finding}."
    own = sorted((row for row in rows if row["series"] == lowest["series"]), key=lambda row: row["x"])
    found = crossing([(row["x"], _read_estimate(row, "success_high")) for row in own], LEAST_SUCCESS, falling=True)
    if found is None or found.bound != "crossed":
        return f"{finding}."
    return f"{finding}; success falls below {_SUCCESS} above {_format_load(study, found.load)}."


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
    """Return the limits of the findings: damaged results, few seeds, overload, short runs, a load range that is too narrow."""
    return list(_list_warnings(study, _select_totals(study)))


def _list_warnings(study: Study, totals: list[Row]) -> Iterator[str]:
    if study.problems:
        first = study.problems[0]
        yield f"{capitalize(format_count(len(study.problems), 'damaged result'))} left out. {first.where}: {first.message}."
    few = [row for row in totals if row["few_seeds"]]
    if len(few) == len(totals):
        seeds = format_count(max(row["n_seeds"] for row in few), "seed")
        yield f"Only {seeds}: intervals need at least {FEWEST_SEEDS}. Run more seeds."
    elif few:
        yield f"{len(few)} of {len(totals)} experiments have fewer than {FEWEST_SEEDS} seeds; their intervals are not reliable."
    yield from _warn_windows(study, totals)
    for bound, verdict, advice in (
        ("above", "The highest load tried is sustained", "higher"),
        ("at_or_below", "The lowest load tried is not sustained", "lower"),
    ):
        n = int((study.saturation["bound"] == bound).sum()) if not study.saturation.empty else 0
        if n:
            yield f"{verdict} in {format_count(n, 'configuration')}. Add {advice} loads to find the limit."


def _warn_windows(study: Study, totals: list[Row]) -> Iterator[str]:
    """Yield the overloaded experiments and those with short runs; a longer run does not help an overloaded system."""
    over = [(row, text) for row in totals if (text := describe_overload(row)) is not None]
    if over and len(totals) == 1:
        yield over[0][1]
    elif over:
        worst, text = max(over, key=lambda each: each[0]["in_flight"] / each[0]["transactions"])
        detail = text.removeprefix("Overloaded: ").removesuffix(" A longer run does not help.")
        verb = "is" if len(over) == 1 else "are"
        yield f"{len(over)} of {len(totals)} experiments {verb} overloaded. With {_name_point(study, worst)}, {detail}"
    yield from _describe_bottlenecks(study, totals)
    sustained = [row for row in totals if row["saturated"] is None]
    if len(totals) == 1:
        drift = describe_drift(totals) if sustained else describe_growth(totals)
        yield from () if drift is None else (drift,)
        return
    growing = [text for row in totals if (text := describe_growth([row])) is not None]
    if growing:
        yield f"Tables grow in {len(growing)} of {len(totals)} experiments. {growing[-1]}"
    short_runs = [(row, text) for row in sustained if (text := describe_short_run(window_of(row))) is not None]
    drifting = sum(window_of(row).is_drifting for row, _ in short_runs)
    if drifting:
        yield f"No steady state in {drifting} of {len(totals)} experiments; the results hold for runs of this duration only."
    if len(short_runs) > drifting:
        longest = max((row for row, _ in short_runs if row["needed_ms"] is not None), key=lambda row: row["needed_ms"])
        needed = f"{format_duration(longest['needed_ms'])}, which {_name_point(study, longest)} needs"
        yield (
            f"{len(short_runs) - drifting} of {len(totals)} experiments have not reached a steady state. "
            f"Set simulation.duration_ms to at least {needed}."
        )


def _describe_bottlenecks(study: Study, totals: list[Row]) -> Iterator[str]:
    """Yield the utilization of the busiest catalog, and the first day on which metadata.json reaches its limit."""
    busy, limited = [], []
    for row in totals:
        parameters = study.manifest.experiments[row["experiment"]].parameters
        workers, limit = parameters.get("param_catalog_workers"), parameters.get(LIMIT)
        text = describe_utilization([row], workers if isinstance(workers, int) else 0)
        if text is not None:
            busy.append((row["catalog_utilization"], row, text))
        if isinstance(limit, int) and (text := describe_limit(row, limit)) is not None:
            limited.append((-day_of_limit(row, limit), row, text))
    for found in filter(None, (busy, limited)):
        _, row, text = max(found, key=lambda each: each[0])
        yield text if len(totals) == 1 else f"With {_name_point(study, row)}, {text.replace('The', 'the', 1)}"


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
    """Return a load with its unit, and the class whose rate it is where there are several classes."""
    axis = study.axis
    assert axis is not None
    owner = phrases.find_load_class(axis.column)
    if "/s)" not in axis.title:
        return f"{axis.title} = {format_number(load)}"
    of_class = owner is not None and len(study.classes) > 1
    return f"{format_number(load)} {owner} transactions/s" if of_class else f"{format_number(load)}/s"


def _name_point(study: Study, row: Row) -> str:
    """Return the name of an experiment: the values that distinguish it from the others."""
    parts = [row["series"]] if len(study.series) > 1 else []
    if study.axis is not None and is_known(row["x"]) and len(study.axis.values) > 1:
        parts.append(_format_load(study, row["x"]) if study.has_load else phrases.name_value(study.axis.column, row["x"]))
    return (" at " if study.has_load else ", ").join(parts)
