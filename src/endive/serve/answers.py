"""What runs come to, for the page: a sentence, a row for each class with intervals, differences between A and B.

Numbers are those of ``endive run`` (one seed) and ``endive compare`` (several): the same functions make them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from endive.analysis.estimates import FEWEST_SEEDS, Estimate
from endive.analysis.metric import TABLES
from endive.analysis.over_seeds import SHARES, estimate_metric
from endive.analysis.run_metrics import ALL
from endive.analysis.tables import load_point
from endive.analysis.thresholds import shown
from endive.config.parts import own_parts
from endive.config.resolve import resolve_classes
from endive.config.schema import Document
from endive.report import words
from endive.report.comparison import Comparison, Side, compare, estimate_in_words, in_short, pair, pair_transactions
from endive.report.differences import metric_name, pairs_in_words, signed_amount
from endive.report.phrases import duration, known, percent
from endive.report.windows import overload_in_words, window_in_words, window_warning
from endive.studies.frontier import values_of
from endive.studies.replications import RunMetrics

METRICS = TABLES["page"]
"""The columns of the page's table."""
_PARTS = {"provider": "store", "catalog": "catalog", "transaction": "transaction"}
_NOTICEABLE = 0.005
"""A class that is so much less successful than the whole is named."""


def answer_of(runs: Sequence[RunMetrics]) -> dict[str, Any]:
    """Say what the runs of a configuration come to."""
    classes = _classes(runs)
    window = runs[0].window
    warnings = [text for text in (_overload(runs), window_warning(window)) if text]
    return {
        "seeds": [run.seed for run in runs],
        "sentence": sentence_of(runs),
        "window": window_in_words(window),
        "window_ms": [window.start_ms, window.end_ms, window.duration_ms],
        "warnings": warnings[:1] if len(runs) < FEWEST_SEEDS else warnings,
        "classes": [_class_row(runs, name) for name in (*classes, *((ALL,) if len(classes) > 1 else ()))],
    }


def _classes(runs: Sequence[RunMetrics]) -> list[str]:
    names = {name for run in runs for name, operation in run.groups if operation == ALL and name != ALL}
    return sorted(names) or [ALL]


def _rows(runs: Sequence[RunMetrics], name: str) -> list[Mapping[str, Any]]:
    return [run.of(name, ALL) for run in runs]


def _class_row(runs: Sequence[RunMetrics], name: str) -> dict[str, Any]:
    rows = _rows(runs, name)
    operations = sorted({operation for run in runs for cls, operation in run.groups if cls == name and operation != ALL})
    return {
        "name": name,
        "operations": [words.operation(operation) for operation in operations] if name != ALL else [],
        "entered": sum(row["transactions"] for row in rows),
        "metrics": {metric: plain_estimate(metric, estimate_metric(rows, metric)) for metric in METRICS},
    }


def plain_estimate(metric: str, found: Estimate | None) -> dict[str, Any] | None:
    """An estimate as JSON has it, with its words."""
    if found is None:
        return None
    interval = ""
    if found.kind == "number" and known(found.low) and known(found.high):
        word = percent if metric in SHARES else partial(shown, metric)
        interval = f"{word(found.low)} to {word(found.high)}"
    return {
        "mean": _finite(found.mean),
        "low": _finite(found.low),
        "high": _finite(found.high),
        "kind": found.kind,
        "n": found.n,
        "text": estimate_in_words(metric, found),
        "interval": interval,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def sentence_of(runs: Sequence[RunMetrics]) -> str:
    """The answer in a sentence or two: how many commit, how fast, and which class does worst."""
    rows = _rows(runs, ALL)
    success = estimate_metric(rows, "success_rate")
    if success is None:
        return "No transaction began to commit in the part of the run that is measured."
    told = f"{percent(success.mean)} of transactions commit{_times(rows)}."
    worst = _worst_class(runs, success.mean)
    return f"{told} {worst}" if worst else told


def _times(rows: Sequence[Mapping[str, Any]]) -> str:
    found = [(words_, estimate_metric(rows, f"time_to_commit_p{p}_ms")) for p, words_ in ((50, "half"), (95, "95 %"))]
    parts = [f"{words_} within {duration(each.mean)}" for words_, each in found if each is not None and each.kind == "number"]
    return f", {' and '.join(parts)}" if parts else ""


def _worst_class(runs: Sequence[RunMetrics], whole: float) -> str:
    names = _classes(runs)
    found = {name: estimate_metric(_rows(runs, name), "success_rate") for name in names}
    told = {name: each for name, each in found.items() if each is not None}
    if len(told) < 2:
        return ""
    name, worst = min(told.items(), key=lambda item: item[1].mean)
    if worst.mean > whole - _NOTICEABLE:
        return ""
    return f"Of {name}, {percent(worst.mean)} commit." if worst.mean > 0.0 else f"Of {name}, nothing commits."


def _overload(runs: Sequence[RunMetrics]) -> str | None:
    rows = _rows(runs, ALL)
    reason = load_point(0.0, rows).reason
    entered = [row["transactions"] for row in rows]
    means = {name: sum(row[name] or 0 for row in rows) / len(rows) for name in ("in_flight", "aborted", "throughput_ratio")}
    found = overload_in_words({"saturated": reason, "transactions": sum(entered) / len(entered), **means})
    return None if found is None else found[:1].upper() + found[1:]


def assumptions(document: Document) -> Iterator[str]:
    """Say what a configuration takes for granted, and what a reader may want to doubt."""
    store = document.storage.provider
    name = "a store of your own" if store is None or store.endswith(".toml") else words.value("storage_provider", store)
    if document.parts.provider is None:
        yield f"Latencies of {name}" + (f" as measured ({document.storage.profile})." if name != "a store of your own" else ".")
    for kind, part in own_parts(document).items():
        file, _, name = part.code.rpartition(":")
        yield f"The {_PARTS[kind]} is yours: {name} of {Path(file).name}, on the reference engine."
    classes = resolve_classes(document)
    clients = {cls.path.name: cls.path.client for cls in classes}
    yield f"Clients commit as {' and '.join(clients[name] for name in sorted(clients))}."
    doubtful = [cls for cls in classes if cls.settings.conflict_detector == "probabilistic"]
    if doubtful and all(cls.settings.real_conflict_probability == 0.0 for cls in doubtful):
        yield "No two writers change the same rows: conflicts are never real."
    yield "Latencies do not depend on the load of the store."


def comparison_of(a: Side, b: Side) -> dict[str, Any]:
    """Compare B with A, metric by metric, as ``endive compare`` does."""
    pairing = pair(a, b)
    comparisons = list(compare(a, b, pairing))
    pairs = pair_transactions(a, b, pairing) or {}
    return {
        "sentence": in_short(comparisons),
        "pairs": pairs_in_words(pairs),
        "warnings": list(pairing.warnings),
        "seeds": list(pairing.seeds or ()),
        "window": window_in_words(a.window),
        "rows": [_compared(each) for each in comparisons],
    }


def _compared(each: Comparison) -> dict[str, Any]:
    found = each.difference
    return {
        "metric": each.metric,
        "name": metric_name(each.metric),
        "workload_class": each.workload_class,
        "a": plain_estimate(each.metric, each.a),
        "b": plain_estimate(each.metric, each.b),
        "difference": None if found is None else {k: v for k, v in asdict(found).items() if k not in ("a", "b")},
        "change": signed_amount(each.metric, found),
        "told": each.told,
        "better": each.better,
        "verdict": each.verdict,
    }


def values_for_ranking(runs: Sequence[RunMetrics], metric: str, workload_class: str) -> dict[str, Any]:
    """The values of a metric by seed, and its estimate; a seed whose percentile is no number has none."""
    values = values_of(tuple(runs), metric, workload_class, ALL)
    estimate = estimate_metric(_rows(runs, workload_class), metric)
    entered = sum(row["transactions"] for row in _rows(runs, workload_class))
    return {"values": values, "estimate": plain_estimate(metric, estimate), "entered": entered}
