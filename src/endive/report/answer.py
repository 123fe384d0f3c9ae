"""The answer of a study in words: what a reader would say who had looked at all the figures; and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pandas as pd

from endive.analysis.crossings import crossing
from endive.analysis.estimates import Estimate
from endive.analysis.run_metrics import window_of
from endive.analysis.saturation import LEAST_SUCCESS, LEAST_THROUGHPUT
from endive.report import words
from endive.report.phrases import are, begun, between, count, duration, known, listed, measured, percent, short, times
from endive.report.question import question_answer
from endive.report.study import ALL, Study
from endive.report.windows import overload_in_words, percentile_in_words, success_in_words, window_in_words, window_warning

Row = dict[Any, Any]
_ALIKE = 1.05
"""Numbers that differ by less than this factor are not called different."""
_CANNOT = 0.05
"""A class of which fewer commit than this cannot commit."""
_EVEN = 0.9
"""Of Jain's index: from here on commits count as shared evenly."""
_MEDIAN, _TAIL = "time_to_commit_p50_ms", "time_to_commit_p99_ms"
_FAR_MORE = 10.0
_MOST_TOLD = 6
"""Alternatives that a sentence names; of more it says how many there are."""
_READS = {"manifest_list_reads_per_txn": "manifest lists", "manifest_file_reads_per_txn": "manifests"}
_MOST, _MUCH = f"{100 * LEAST_SUCCESS:g} %", f"{100 * LEAST_THROUGHPUT:g} %"
_PARTS = {**words.TIME_PARTS, "catalog_commit_ms": "commits at the catalog"}


def answer_of(study: Study) -> list[str]:
    """The answer, a sentence each: to the question of the study, and what can be said whatever it is about."""
    totals = _totals(study)
    if len(totals) == 1:
        told = [*_of_one(totals[0]), *_time(study, totals), *_classes(study)]
    elif study.has_load and not study.saturation.empty:
        told = _of_loads(study, totals)
    else:
        told = [*_classes(study), *_of_configurations(study, totals)]
    return [*question_answer(study), *told, *_fairness(study)]


def _fairness(study: Study) -> Iterator[str]:
    """Where writers of a class do not share its commits evenly."""
    several = _configurations(study) > 1
    for name in study.classes:
        yield from fairness_in_words(name, _rows(study, name), lambda row: f" with {_point(study, row)}" if several else "")


def fairness_in_words(name: str, rows: Sequence[Row], where: Callable[[Row], str]) -> Iterator[str]:
    """Tell where the writers of a class share its commits least evenly, if that is far from even.

    ``where`` says which configuration a row is, in words such as `` with 20 clients``; empty if there is only one.
    """
    shared = [row for row in rows if known(row.get("jain_index"))]
    if not shared:
        return
    worst = min(shared, key=lambda row: row["jain_index"])
    if worst["jain_index"] >= _EVEN and not worst["writers_without_commit"]:
        return
    told = f"The writers of {name} do not share its commits evenly{where(worst)}: Jain's index is {short(worst['jain_index'])}"
    if worst["writers_without_commit"] > 0.0:
        told += f", {percent(worst['writers_without_commit'])} of them never commit"
    losses = round(worst["longest_losing_streak"])
    yield f"{told}, and one loses {losses:,} transactions in a row." if losses > 1 else f"{told}."


def _of_one(row: Row) -> Iterator[str]:
    yield (
        f"{_throughput(row)} commits/s of {measured(row['offered_per_s'], row['offered_per_s_hw'])} offered transactions/s"
        + (f"; {_success(row)} of those that entered commit." if known(row["success_high"]) else "; none has entered.")
    )
    if known(row["success_high"]):
        half, most = percentile_in_words(row, _MEDIAN), percentile_in_words(row, _TAIL)
        told = f"Time to commit of all that entered: half {_within(half)}, 99 % {_within(most)}"
        yield f"{told}, after {short(row['retries_per_txn'])} retries on average."


def _within(time: str) -> str:
    """``within 2 s``, ``never``, ``in more than 2 s``."""
    if time in ("never", "-"):
        return {"never": "never", "-": "not known"}[time]
    return f"in more than {time.removeprefix('> ')}" if time.startswith(">") else f"within {time}"


def _throughput(row: Row) -> str:
    return measured(row["throughput_per_s"], row["throughput_per_s_hw"])


def _success(row: Row) -> str:
    return success_in_words(row["success_low"], row["success_high"])


def _of_loads(study: Study, totals: list[Row]) -> list[str]:
    """What curves over a load come to."""
    curves: list[Row] = study.saturation.to_dict("records")
    by_series: dict[str, list[Row]] = {}
    for row in totals:
        by_series.setdefault(row["series"], []).append(row)
    peaks = {name: max(rows, key=lambda row: row["throughput_per_s"]) for name, rows in by_series.items()}
    ordered = sorted((each for each in curves if each["series"] in peaks), key=lambda c: -peaks[c["series"]]["throughput_per_s"])
    if _alike(peaks[ordered[0]["series"]], peaks[ordered[-1]["series"]]):
        ordered.sort(key=lambda curve: -curve["saturation_load"])
    best, worst = ordered[0], ordered[-1]
    chosen = [best] if len(ordered) == 1 else [best, worst]
    if len(ordered) == 1:
        sentences = [_peak(peaks[best["series"]], study), _threshold(best, study, "")]
    else:
        sentences = [_best_and_worst([peaks[curve["series"]] for curve in ordered])]
        if len({(curve["bound"], curve["reason"], curve["saturation_load"]) for curve in ordered}) == 1:
            sentences.append(_threshold(best, study, f"in all {len(ordered)} configurations, "))
        else:
            told = ordered if len(ordered) <= _MOST_TOLD else chosen
            sentences += [_threshold(curve, study, f"with {curve['series']}, ") for curve in told]
            if len(told) < len(ordered):
                sentences.append(f"What the other {len(ordered) - len(told)} configurations carry is in the figures.")
    timed = ordered if len(ordered) <= _MOST_TOLD else chosen
    at = [min(by_series[curve["series"]], key=lambda row: abs(row["x"] - curve["saturation_load"])) for curve in timed]
    return [*sentences, *_latency_over_loads(study, by_series, chosen), *_time(study, at), *_classes(study)]


def _peak(peak: Row, study: Study) -> str:
    told = f"{_throughput(peak)} commits/s"
    if (peak["throughput_ratio"] or 0.0) < LEAST_THROUGHPUT:
        return f"Throughput saturates at {told}."
    return f"Throughput follows the load up to {told}, at {_load(study, peak['x'])}."


def _alike(high: Row, low: Row) -> bool:
    return bool(high["throughput_per_s"] < low["throughput_per_s"] * _ALIKE)


def _best_and_worst(ranked: list[Row]) -> str:
    """Who commits the most and the least, and those between them, in their order."""
    high, low = ranked[0], ranked[-1]
    most, least = high["throughput_per_s"], low["throughput_per_s"]
    if _alike(high, low):
        return f"All configurations reach about {short(most)} commits/s."
    factor = f"{times(most / least)} as much as" if least > 0.0 else "more than"
    others = _those_between([(row["series"], _throughput(row)) for row in ranked[1:-1]])
    told = f"{high['series']} commits the most: up to {_throughput(high)} commits/s, {factor} {low['series']} ({_throughput(low)})"
    return begun(f"{told}{others}.")


def _those_between(others: list[tuple[str, str]]) -> str:
    """The alternatives that are neither first nor last, by name and value; how many, where they are too many to be read."""
    if not others:
        return ""
    if len(others) > _MOST_TOLD - 2:
        return f"; {len(others)} others lie between"
    return f"; between them {listed([f'{name} ({value})' for name, value in others])}"


def _threshold(curve: Row, study: Study, who: str) -> str:
    """Up to which load a configuration carries it."""
    at = curve["saturation_load"]
    if curve["bound"] == "above":
        return begun(f"{who}the load is carried up to {_load(study, at)}, the highest load tried: {_MOST} or more commit.")
    fails = {
        "success": f"fewer than {_MOST} of transactions commit",
        "throughput": f"less than {_MUCH} of the offered load is committed",
        "backlog": "more enter than leave, and the number that is committing grows",
    }[curve["reason"]]
    if curve["bound"] == "at_or_below":
        return begun(f"{who}already at {_load(study, at)}, the lowest load tried, {fails}.")
    return begun(f"{who}above {_load(study, at)}{between(curve['saturation_low'], curve['saturation_high'])} {fails}.")


def _latency_over_loads(study: Study, by_series: dict[str, list[Row]], chosen: list[Row]) -> Iterator[str]:
    timed = {series: [row for row in rows if known(row[_MEDIAN])] for series, rows in by_series.items()}
    if len(chosen) == 1:
        rows = timed[chosen[0]["series"]]
        if len(rows) > 1:
            low, high = min(rows, key=lambda row: row["x"]), max(rows, key=lambda row: row["x"])
            yield (
                f"The median time to commit is {duration(low[_MEDIAN])} at {_load(study, low['x'])} and {duration(high[_MEDIAN])} "
                f"at {_load(study, high['x'])}, where 99 % commit {_within(percentile_in_words(high, _TAIL))}."
            )
        return
    common = set.intersection(*({row["x"] for row in rows} for rows in timed.values()))
    if common:
        at = max(common)
        medians = [(series, row[_MEDIAN]) for series, rows in timed.items() for row in rows if row["x"] == at]
        yield f"At {_load(study, at)}, {_spread(medians)}."


def _spread(medians: list[tuple[str, float]]) -> str:
    """The lowest and the highest median time to commit (ms) of some configurations."""
    ranked = sorted(medians, key=lambda each: each[1])
    (fast, low), (slow, high) = ranked[0], ranked[-1]
    if high < low * _ALIKE:
        return f"the median time to commit is about {duration(high)} in all configurations"
    factor = f", {times(high / low)} as much," if low > 0.0 else ""
    others = _those_between([(label, duration(median)) for label, median in ranked[1:-1]])
    ends = f"lowest with {fast} ({duration(low)}) and highest{factor} with {slow} ({duration(high)})"
    return f"the median time to commit is {ends}{others}"


def _of_configurations(study: Study, totals: list[Row]) -> list[str]:
    """What configurations come to that do not differ in a load."""
    ranked = sorted(totals, key=lambda row: -row["throughput_per_s"])
    best, worst = ranked[0], ranked[-1]
    most, least = best["throughput_per_s"], worst["throughput_per_s"]
    if not _alike(best, worst):
        factor = f", {times(most / least)} as much as with" if least > 0.0 else "; least with"
        others = _those_between([(_point(study, row), _throughput(row)) for row in ranked[1:-1]])
        sentences = [
            f"Throughput is highest with {_point(study, best)}: {_throughput(best)} commits/s{factor} {_point(study, worst)} "
            f"({_throughput(worst)}){others}."
        ]
    else:
        sentences = [f"Throughput is about {short(most)} commits/s in all {len(totals)} configurations."]
    finished = [row for row in totals if known(row["success_high"])]
    failing = [row for row in finished if row["success_high"] < LEAST_SUCCESS]
    if failing:
        lowest = min(failing, key=lambda row: row["success_high"])
        sentences.append(
            f"In {len(failing)} of {len(totals)} configurations fewer than {_MOST} of transactions commit; "
            f"fewest with {_point(study, lowest)}: {_success(lowest)}."
        )
    elif finished:
        sentences.append(f"In all of them {_MOST} of transactions or more commit.")
    timed = [(_point(study, row), row[_MEDIAN]) for row in totals if known(row[_MEDIAN])]
    if timed:
        sentences.append(begun(f"{_spread(timed)}."))
    return [*sentences, *_time(study, ranked if len(ranked) <= _MOST_TOLD else [best, worst])]


def _time(study: Study, rows: list[Row]) -> Iterator[str]:
    """What most of the time beside the work itself goes into."""
    found: dict[str, list[tuple[Row, float]]] = {}
    for row in rows:
        parts = {name: row[f"mean_{name}"] for name in words.TIME_PARTS if name != "t_runtime" and known(row[f"mean_{name}"])}
        if sum(parts.values()) > 0.0:
            largest = max(parts, key=lambda name: parts[name])
            found.setdefault(_PARTS[largest], []).append((row, parts[largest] / sum(parts.values())))
    for part, shares in found.items():
        if _configurations(study) == 1:
            yield f"{percent(shares[0][1])} of the time of a commit goes into {part}."
        elif 2 < len(shares) == len(rows) == _configurations(study) and len({percent(share) for _, share in shares}) == 1:
            yield f"Of the time of a commit, most goes into {part}: {percent(shares[0][1])} in all configurations."
        else:
            told = listed([f"{percent(share)} with {_point(study, row)}" for row, share in shares])
            yield f"Of the time of a commit, most goes into {part}: {told}."


def _classes(study: Study) -> Iterator[str]:
    """Which classes do not get through, the worst first."""
    if len(study.classes) < 2:
        return
    fine: list[str] = []
    failing: list[tuple[float, list[str]]] = []
    for name in study.classes:
        rows = [row for row in _rows(study, name) if known(row["success_high"])]
        lowest = min(rows, key=lambda row: row["success_high"], default=None)
        if lowest is None:
            failing.append((0.0, [f"None of the transactions of {name} has entered."]))
        elif lowest["success_high"] >= LEAST_SUCCESS:
            fine.append(name)
        elif not study.has_load and any(row["success_high"] >= LEAST_SUCCESS for row in rows):
            failing.append((lowest["success_high"], _here_and_not_there(study, name, rows)))
        else:
            failing.append((lowest["success_high"], [_failing(study, name, rows, lowest)]))
    for _, sentences in sorted(failing):
        yield from sentences
    if fine and failing:
        yield f"Of {listed(fine)}, {_MOST} or more commit{'' if _configurations(study) == 1 else ' everywhere'}."


def _here_and_not_there(study: Study, name: str, rows: list[Row]) -> list[str]:
    """A class that commits in some configurations and not in others, and what the difference is."""
    through = [row for row in rows if row["success_high"] >= LEAST_SUCCESS]
    held_up = sorted((row for row in rows if row["success_high"] < LEAST_SUCCESS), key=lambda row: row["success_high"])
    told = f"{begun(name)} commits with {listed([_point(study, row) for row in through])}, but {_fails(study, held_up)}."
    base = {kind: max(row[kind] for row in through) for kind in _READS}
    causes = []
    for row in held_up:
        kind = max(_READS, key=lambda kind: row[kind] - base[kind])
        if row[kind] > _FAR_MORE * (base[kind] + 1.0):
            causes.append(f"{short(row[kind])} {_READS[kind]} with {_point(study, row)} (against {short(base[kind])})")
    asked = study.question is not None and (study.question.metric, study.question.workload_class) == ("success_rate", name)
    first = [] if asked else [told]  # the answer to the question has said it
    return [*first, f"What holds it up is what each of its transactions reads: {listed(causes)}."] if causes else first


def _fails(study: Study, rows: list[Row]) -> str:
    """Where a class does not get through: ``not with A, and only 61 % with B``."""
    none = [_point(study, row) for row in rows if row["success_high"] == 0.0]
    some = [f"{_success(row)} with {_point(study, row)}" for row in rows if row["success_high"] > 0.0]
    parts = [f"not at all with {listed(none)}"] if none else []
    return ", and ".join([*parts, f"only {listed(some)}"] if some else parts)


def _failing(study: Study, name: str, rows: list[Row], lowest: Row) -> str:
    success = _success(lowest)
    where = "" if _configurations(study) == 1 else f" with {_point(study, lowest)}"
    told = f"Of {name}, only {success} commit{where}"
    if lowest["success_high"] < _CANNOT:
        told = f"{begun(name)} cannot commit{where}: {success} of its transactions get through"
    if not study.has_load:
        return f"{told}."
    own = sorted((row for row in rows if row["series"] == lowest["series"]), key=lambda row: row["x"])
    found = crossing([(row["x"], _estimate(row, "success_high")) for row in own], LEAST_SUCCESS, falling=True)
    if found is None or found.bound != "crossed":
        return f"{told}."
    return f"{told}, and fewer than {_MOST} above {_load(study, found.load)}."


def _estimate(row: Row, share: str) -> Estimate:
    return Estimate(row[share], row[f"{share}_low"], row[f"{share}_high"], int(row[f"{share}_n"]))


def window_sentence(study: Study) -> str:
    """What was cut of the runs."""
    windows = {window_in_words(window_of(row)): window_of(row) for row in _totals(study)}
    cuts = sorted(window.start_ms for window in windows.values())
    if duration(cuts[0]) == duration(cuts[-1]):
        return next(iter(windows))
    return f"What is cut as warm-up differs between configurations: from {duration(cuts[0])} to {duration(cuts[-1])}."


def warnings_of(study: Study) -> list[str]:
    """How far the answer is to be trusted."""
    return list(_warnings(study, _totals(study)))


def _warnings(study: Study, totals: list[Row]) -> Iterator[str]:
    if study.problems:
        first = study.problems[0]
        yield f"{count(len(study.problems), 'problem')} with results: what is damaged was left out. {first.where}: {first.message}."
    few = [row for row in totals if row["few_seeds"]]
    if len(few) == len(totals):
        yield f"Only {count(max(row['n_seeds'] for row in few), 'seed')}: intervals need 3 or more to say something."
    elif few:
        yield f"{len(few)} of {len(totals)} experiments have fewer than 3 seeds: their intervals say little."
    yield from _windows(study, totals)
    for bound, state, advice in (
        ("above", "carried the highest load tried", "higher"),
        ("at_or_below", "failed at the lowest load tried already", "lower"),
    ):
        n = int((study.saturation["bound"] == bound).sum()) if not study.saturation.empty else 0
        if n:
            yield f"{count(n, 'configuration')} {state}: where saturation begins, only {advice} loads tell."


def _windows(study: Study, totals: list[Row]) -> Iterator[str]:
    """What is overloaded, and what is too short; a longer run is of no help to an overload."""
    over = [(row, told) for row in totals if (told := overload_in_words(row)) is not None]
    if over and len(totals) == 1:
        yield begun(over[0][1])
    elif over:
        worst = max(over, key=lambda each: each[0]["in_flight"] / each[0]["transactions"])
        yield f"{len(over)} of {len(totals)} experiments {are(over)} overloaded; with {_point(study, worst[0])}, {worst[1]}"
    carried = [row for row in totals if row["saturated"] is None]
    short_runs = [(row, told) for row in carried if (told := window_warning(window_of(row))) is not None]
    if short_runs and len(totals) == 1:
        yield short_runs[0][1]
    elif short_runs:
        longest = max((row for row, _ in short_runs), key=lambda row: row["needed_ms"])
        yield (
            f"{len(short_runs)} of {len(totals)} experiments {are(short_runs)} too short to settle: up to "
            f"{duration(longest['needed_ms'])} are needed, with {_point(study, longest)}."
        )


def _totals(study: Study) -> list[Row]:
    return _rows(study, ALL)


def _configurations(study: Study) -> int:
    """How many configurations there are."""
    return len(_of_class(study, ALL))


def _rows(study: Study, workload_class: str) -> list[Row]:
    chosen = _of_class(study, workload_class)
    return list(chosen.astype(object).where(pd.notna(chosen), None).to_dict("records"))


def _of_class(study: Study, workload_class: str) -> pd.DataFrame:
    table = study.experiments
    return table[(table["workload_class"] == workload_class) & (table["operation_type"] == ALL)]


def _load(study: Study, load: float) -> str:
    """A load with its unit; whose rate it is, where there are several classes."""
    axis = study.axis
    assert axis is not None
    owner = words.class_of_load(axis.column)
    if "/s)" not in axis.title:
        return f"{axis.title} = {short(load)}"
    return f"{short(load)} {owner} transactions/s" if owner is not None and len(study.classes) > 1 else f"{short(load)}/s"


def _point(study: Study, row: Row) -> str:
    """An experiment by what tells it from the others."""
    told = [row["series"]] if len(study.series) > 1 else []
    if study.axis is not None and known(row["x"]) and len(study.axis.values) > 1:
        told.append(_load(study, row["x"]) if study.has_load else words.value(study.axis.column, row["x"]))
    return (" at " if study.has_load else ", ").join(told)
