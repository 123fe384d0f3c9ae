"""Compute curves of runs: latency distributions, and counts in equal time bins over the whole run, including the warm-up.

In a row of metrics of a run, a curve is a list. The tables have a row for each experiment, class, operation and point of a curve,
with the mean across seeds and the half width of its 95% interval (``_hw``) or, for success, both ends of the interval. A
transaction is counted in the bin in which it started committing. A commit is also counted in the bin in which it took place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from endive.analysis import Flags, Floats, Ints
from endive.analysis.cohort import CommittingCounts, TimeCounts, Transactions, take_chosen, time_places
from endive.analysis.estimates import half_widths, successes
from endive.analysis.warmup import TIME_BINS
from endive.simulation.columns import STATE_COLUMNS

SLOWER = (*(k / 20 for k in range(20, 2, -1)), *(k / 10**tail for tail in (2, 3, 4) for k in range(10, 1, -1)), 1e-4)
"""Fractions of slower transactions at which a latency distribution is tabulated, with more points in the tail."""
CURVES = {"commit_latency": "commit_latency_slower_ms", "total_latency": "total_latency_slower_ms"}
"""Columns of a run, by latency: the values that the fractions ``SLOWER`` of its transactions exceed."""
COUNTED = ("entered", "committed", "unfinished", "commits", "retries", "committing", "tracked", *STATE_COLUMNS)
"""Quantities that are summed over classes and operations.

``committing`` is the mean number of committing transactions. ``tracked`` is the number of commits with a known table state."""
MEDIAN = "time_to_commit_p50_ms"
OVER_TIME = tuple(f"{name}_over_time" for name in (*COUNTED, MEDIAN))
"""Columns of a run with lists over time."""
_FEWEST = 10
"""Minimum number of transactions for a median."""


class OverTime:
    """Quantities over time of each group of a run, in equal time bins."""

    def __init__(self, groups: int, duration_ms: float, bins: int = TIME_BINS) -> None:
        self._edges = np.linspace(0.0, duration_ms, bins + 1)
        self._counts = {name: TimeCounts(groups, self._edges) for name in COUNTED if name not in ("entered", "committing")}
        self._committing = CommittingCounts(groups, self._edges)
        self.bins = bins

    def add(self, groups: Ints, rows: Transactions, columns: Mapping[str, Ints]) -> tuple[Flags, Ints]:
        """Add transactions. Return flags of the transactions that started committing in the run, and their time bins.

        Args:
            groups: Group number of each transaction.
            rows: The transactions.
            columns: Columns of the transactions: ``n_retries`` and ``STATE_COLUMNS``.
        """
        entered = self._flag_entered(rows)
        own, retries, entry_ms, end_ms, committed, aborted = take_chosen(
            entered, groups, columns["n_retries"], rows.entry_ms, rows.end_ms, rows.committed, rows.aborted
        )
        places = self._committing.add(own, entry_ms, end_ms)
        self._counts["committed"].add(*take_chosen(committed, own, places))
        self._counts["unfinished"].add(*take_chosen(~(committed | aborted), own, places))
        self._counts["retries"].add(own, places, retries)
        ended = rows.committed & (rows.end_ms <= self._edges[-1])
        own, end_ms, *states = take_chosen(ended, groups, rows.end_ms, *(columns[name] for name in STATE_COLUMNS))
        places_of_ends = time_places(end_ms, self._edges)
        self._counts["commits"].add(own, places_of_ends)
        known = states[0] >= 0
        if known.any():
            own, at, *states = take_chosen(known, own, places_of_ends, *states)
            self._counts["tracked"].add(own, at)
            for name, values in zip(STATE_COLUMNS, states, strict=True):
                self._counts[name].add(own, at, values)
        return entered, places - 1

    def place(self, rows: Transactions) -> tuple[Flags, Ints]:
        """Return the flags of the transactions that started committing in the run, and their time bins."""
        entered = self._flag_entered(rows)
        (entry_ms,) = take_chosen(entered, rows.entry_ms)
        return entered, time_places(entry_ms, self._edges) - 1

    def _flag_entered(self, rows: Transactions) -> Flags:
        return np.asarray(rows.entered & (rows.entry_ms <= self._edges[-1]))

    def columns(self, members: Sequence[int], median_of: Callable[[int, int], float]) -> dict[str, Any]:
        """Return the curves of the union of some groups, by column name (``OVER_TIME``).

        Args:
            members: Numbers of the groups.
            median_of: Function that returns the median time to commit in a time bin, given the bin and the number of transactions
                that started committing in it.
        """
        chosen = list(members)
        tables = {name: counts.bins for name, counts in self._counts.items()}
        tables |= {"entered": self._committing.starts.bins, "committing": self._committing.mean}
        found = {f"{name}_over_time": tables[name][chosen].sum(axis=0) for name in COUNTED}
        entered = found["entered_over_time"]
        medians = [median_of(bin_, int(count)) if count >= _FEWEST else math.nan for bin_, count in enumerate(entered)]
        return {**found, f"{MEDIAN}_over_time": np.array(medians)}


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
MEASURES_OVER_TIME = ("commits_per_s", "offered_per_s", "committing", "retries_per_txn", MEDIAN, *STATE_COLUMNS)
"""Columns of means across seeds. Success is a proportion and has columns for both ends of its interval."""
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
    """Tabulate the latency that each fraction of transactions exceeds, as the mean across the seeds with commits."""
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
    """Tabulate counts by time bin over the whole run, including the warm-up. Means are across the seeds with a value."""
    parts = []
    for key, group in _groups(rows.select([*_KEY, "duration_ms", *OVER_TIME])):
        lists = {name: np.array(group.column(name).to_pylist(), np.float64) for name in OVER_TIME}
        counts = {name: lists[f"{name}_over_time"] for name in COUNTED}
        bins = counts["entered"].shape[1]
        edges = np.linspace(0.0, group.column("duration_ms")[0].as_py(), bins + 1)
        seconds, entered = np.diff(edges) / 1000.0, counts["entered"]
        with np.errstate(divide="ignore", invalid="ignore"):
            retries = counts["retries"] / entered
            state = [counts[name] / counts["tracked"] for name in STATE_COLUMNS]
        rates = (counts["commits"] / seconds, entered / seconds)
        values = (*rates, counts["committing"], retries, lists[f"{MEDIAN}_over_time"], *state)
        columns: dict[str, Any] = {"n_seeds": group.num_rows, "from_ms": edges[:-1], "to_ms": edges[1:]}
        for name, of_seeds in zip(MEASURES_OVER_TIME, values, strict=True):
            columns[name], columns[f"{name}_hw"] = _over_seeds(of_seeds)
        success = successes(counts["committed"], counts["unfinished"], entered)
        columns |= dict(zip(("success_rate", "success_rate_low", "success_rate_high"), success, strict=True))
        parts.append(_block(_OVER_TIME, bins, {**key, **columns}))
    return pa.concat_tables([_OVER_TIME.empty_table(), *parts]).combine_chunks()


def _groups(rows: pa.Table) -> Iterator[tuple[dict[str, str], pa.Table]]:
    """Yield the rows of each class and operation of an experiment, ordered by seed."""
    keys = list(zip(*(rows.column(name).to_pylist() for name in _KEY), strict=True))
    places: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    for key in sorted(places):
        yield dict(zip(_KEY, key, strict=True)), rows.take(places[key])


def _over_seeds(values: Floats) -> tuple[Floats, Floats]:
    """Return means across seeds (first axis) and the half widths of their intervals. Seeds without a value (NaN) are ignored."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    filled = np.where(known, values, 0.0)
    means = np.divide(filled.sum(axis=0), counts, out=np.full(values.shape[1], np.nan), where=counts > 0)
    squares = np.where(known, (values - means) ** 2, 0.0).sum(axis=0)
    return means, half_widths(np.sqrt(squares / np.maximum(counts - 1, 1)), counts)


def _block(schema: pa.Schema, length: int, columns: dict[str, Any]) -> pa.Table:
    """Return the rows of one curve. A single value is repeated in all rows, and NaN becomes null."""

    def column(value: Any, kind: pa.DataType) -> pa.Array:
        is_curve = isinstance(value, np.ndarray)
        return pa.array(value, kind, from_pandas=True) if is_curve else pa.repeat(pa.scalar(value, kind), length)

    return pa.table([column(columns[field.name], field.type) for field in schema], schema=schema)
