"""Tables of curves over seeds: how latencies are distributed, and what happens over time.

Rows of runs carry lists; the tables have a row for each experiment, class, operation and point of the curve, with the mean over
seeds and the half width of its 95 % interval (``_hw``), or for success both of its ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from endive.analysis.arrays import Floats
from endive.analysis.estimates import half_widths, successes
from endive.analysis.run_metrics import CURVES, SLOWER
from endive.analysis.through_time import COUNTED, MEDIAN, OVER_TIME, TIME_BINS

_KEY = ("experiment", "workload_class", "operation_type")
_KEYS = [(name, pa.string()) for name in _KEY]
_DISTRIBUTIONS = pa.schema(
    [
        *_KEYS,
        ("n_seeds", pa.int64()),
        ("committed", pa.float64()),
        ("slower_share", pa.float64()),
        *((f"{latency}_ms{suffix}", pa.float64()) for latency in CURVES for suffix in ("", "_hw")),
    ]
)
MEASURES_OVER_TIME = ("commits_per_s", "offered_per_s", "committing", "retries_per_txn", MEDIAN)
"""Means over seeds; success, which is a share, is told apart."""
_OVER_TIME = pa.schema(
    [
        *_KEYS,
        ("n_seeds", pa.int64()),
        ("from_ms", pa.float64()),
        ("to_ms", pa.float64()),
        *((f"{name}{suffix}", pa.float64()) for name in MEASURES_OVER_TIME for suffix in ("", "_hw")),
        *((f"success_rate{suffix}", pa.float64()) for suffix in ("", "_low", "_high")),
    ]
)


def distributions_table(rows: pa.Table) -> pa.Table:
    """For each share of transactions the latency that they exceed. Seeds in which nothing was committed are left out of it."""
    parts = []
    for key, group in _groups(rows.select([*_KEY, "committed", *CURVES.values()])):
        lists = {latency: [each for each in group.column(column).to_pylist() if each] for latency, column in CURVES.items()}
        seeds = len(lists["commit_latency"])
        if not seeds:
            continue
        committed = [count for count in group.column("committed").to_pylist() if count]
        columns: dict[str, Any] = {"n_seeds": seeds, "committed": sum(committed) / seeds, "slower_share": np.array(SLOWER)}
        for latency, values in lists.items():
            columns[f"{latency}_ms"], columns[f"{latency}_ms_hw"] = _over_seeds(np.array(values))
        parts.append(_block(_DISTRIBUTIONS, len(SLOWER), {**key, **columns}))
    return pa.concat_tables([_DISTRIBUTIONS.empty_table(), *parts]).combine_chunks()


def over_time_table(rows: pa.Table) -> pa.Table:
    """What happens in equal parts of the whole run, warm-up included. Seeds without a value of a part are left out of it."""
    parts = []
    for key, group in _groups(rows.select([*_KEY, "duration_ms", *OVER_TIME])):
        edges = np.linspace(0.0, group.column("duration_ms")[0].as_py(), TIME_BINS + 1)
        lists = {name: np.array(group.column(name).to_pylist(), np.float64) for name in OVER_TIME}
        counts = {name: lists[f"{name}_over_time"] for name in COUNTED}
        seconds, entered = np.diff(edges) / 1000.0, counts["entered"]
        with np.errstate(divide="ignore", invalid="ignore"):
            retries = counts["retries"] / entered
        values = (counts["commits"] / seconds, entered / seconds, counts["committing"], retries, lists[f"{MEDIAN}_over_time"])
        columns: dict[str, Any] = {"n_seeds": group.num_rows, "from_ms": edges[:-1], "to_ms": edges[1:]}
        for name, of_seeds in zip(MEASURES_OVER_TIME, values, strict=True):
            columns[name], columns[f"{name}_hw"] = _over_seeds(of_seeds)
        success = successes(counts["committed"], counts["unfinished"], entered)
        columns |= dict(zip(("success_rate", "success_rate_low", "success_rate_high"), success, strict=True))
        parts.append(_block(_OVER_TIME, TIME_BINS, {**key, **columns}))
    return pa.concat_tables([_OVER_TIME.empty_table(), *parts]).combine_chunks()


def _groups(rows: pa.Table) -> Iterator[tuple[dict[str, str], pa.Table]]:
    """The rows of each class and operation of an experiment, seeds in order."""
    keys = list(zip(*(rows.column(name).to_pylist() for name in _KEY), strict=True))
    places: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    for key in sorted(places):
        yield dict(zip(_KEY, key, strict=True)), rows.take(places[key])


def _over_seeds(values: Floats) -> tuple[Floats, Floats]:
    """Means over the first axis and their half widths, of the seeds that have a value; NaN where none has."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    filled = np.where(known, values, 0.0)
    means = np.divide(filled.sum(axis=0), counts, out=np.full(values.shape[1], np.nan), where=counts > 0)
    squares = np.where(known, (values - means) ** 2, 0.0).sum(axis=0)
    return means, half_widths(np.sqrt(squares / np.maximum(counts - 1, 1)), counts)


def _block(schema: pa.Schema, length: int, columns: dict[str, Any]) -> pa.Table:
    """Rows of one curve; single values are repeated. What is not a number is null."""

    def column(value: Any, kind: pa.DataType) -> pa.Array:
        is_curve = isinstance(value, np.ndarray)
        return pa.array(value, kind, from_pandas=True) if is_curve else pa.repeat(pa.scalar(value, kind), length)

    return pa.table([column(columns[field.name], field.type) for field in schema], schema=schema)
