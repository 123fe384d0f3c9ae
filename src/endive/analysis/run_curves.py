"""Compute curves of runs: latency distributions, and counts in equal time bins of the whole run, warm-up included.

A row of a run has its curves as lists. The tables have a row for each experiment, class, operation and point of a curve, with the
mean over seeds and the half width of its 95% interval (``_hw``) or, for success, both ends of its interval. Transactions are
counted in the bin in which they started committing; commits also in the bin of their commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from endive.analysis import Flags, Floats, Ints
from endive.analysis.cohort import Transactions, committing
from endive.analysis.estimates import half_widths, successes
from endive.analysis.warmup import TIME_BINS
from endive.simulation.columns import STATE_COLUMNS

SLOWER = (*(k / 20 for k in range(20, 2, -1)), *(k / 10**tail for tail in (2, 3, 4) for k in range(10, 1, -1)), 1e-4)
"""Shares of transactions at which a latency distribution is tabulated: dense in the tail."""
CURVES = {"commit_latency": "commit_latency_slower_ms", "total_latency": "total_latency_slower_ms"}
"""Columns of a run with the latencies that the shares ``SLOWER`` of its transactions exceed."""
COUNTED = ("entered", "committed", "unfinished", "commits", "retries", "committing", "tracked", *STATE_COLUMNS)
"""Numbers that are summed over classes and operations.

``committing`` is the mean number of committing transactions, ``tracked`` the number of commits with a known table state."""
MEDIAN = "time_to_commit_p50_ms"
OVER_TIME = tuple(f"{name}_over_time" for name in (*COUNTED, MEDIAN))
"""Columns of a run with lists over time."""
_FEWEST = 10
"""Smallest number of transactions of a median."""


@dataclass
class ThroughTime:
    """Transactions of a run by time bin.

    Attributes:
        counts: Counts of each time bin, by name.
        entered: Flags of the transactions that started committing.
        part: Time bin of each transaction that started committing.
        waits: Time to commit of each of them; infinite if it aborted, and the time so far if it is in flight.
        finished: Flags of those that committed or aborted.
    """

    counts: dict[str, Floats]
    entered: Flags
    part: Ints
    waits: Floats
    finished: Flags

    @property
    def bins(self) -> int:
        """Number of time bins."""
        return len(self.counts["entered"])

    def add_retries(self, retries: Ints) -> None:
        """Sum retries, given for all transactions, over the time bins in which the transactions started committing."""
        self.counts["retries"] = _sums(self.part, self.bins, retries[self.entered])

    def add_state(self, rows: Transactions, duration_ms: float, columns: Mapping[str, Ints]) -> None:
        """Sum the state of tables over the commits of each time bin, from columns with a value for each transaction."""
        known = rows.committed & (rows.end_ms <= duration_ms) & (columns[STATE_COLUMNS[0]] >= 0)
        part = _part_of(rows.end_ms[known], np.linspace(0.0, duration_ms, self.bins + 1))
        self.counts["tracked"] = _sums(part, self.bins)
        for name in STATE_COLUMNS:
            self.counts[name] = _sums(part, self.bins, columns[name][known])


def through_time(rows: Transactions, duration_ms: float, bins: int = TIME_BINS) -> ThroughTime:
    """Count some transactions of a run of ``duration_ms`` in equal time bins."""
    edges = np.linspace(0.0, duration_ms, bins + 1)
    entered = rows.entered & (rows.entry_ms <= duration_ms)
    part = _part_of(rows.entry_ms[entered], edges)
    committed, aborted = rows.committed[entered], rows.aborted[entered]
    waits = np.where(aborted, np.inf, (rows.end_ms - rows.entry_ms)[entered])
    counts = {
        "entered": _sums(part, bins),
        "committed": _sums(part[committed], bins),
        "unfinished": _sums(part[~committed & ~aborted], bins),
        "commits": _sums(_part_of(rows.end_ms[rows.committed & (rows.end_ms <= duration_ms)], edges), bins),
        "retries": np.zeros(bins),
        "committing": committing(rows, edges),
        **{name: np.zeros(bins) for name in ("tracked", *STATE_COLUMNS)},
    }
    return ThroughTime(counts, entered, part, waits, committed | aborted)


def over_time_columns(parts: Sequence[ThroughTime]) -> dict[str, Any]:
    """Combine several classes or operations: a list for each name of ``OVER_TIME``."""
    bins = parts[0].bins if parts else TIME_BINS
    found: dict[str, Any] = {f"{name}_over_time": sum((each.counts[name] for each in parts), np.zeros(bins)) for name in COUNTED}
    joined = [np.concatenate([np.zeros(0), *(getattr(each, name) for each in parts)]) for name in ("part", "waits", "finished")]
    return {**found, f"{MEDIAN}_over_time": medians(joined[0].astype(np.int64), joined[1], joined[2].astype(np.bool_), bins)}


def medians(part: Ints, waits: Floats, finished: Flags, bins: int = TIME_BINS) -> Floats:
    """Return the median time to commit of each time bin; NaN if it is infinite or unknown, or of too few transactions.

    It is unknown if it depends on the outcome of transactions in flight at the end of the run.
    """
    least = _medians(part, waits, bins)
    most = _medians(part, np.where(finished, waits, np.inf), bins)
    return np.where((least == most) & np.isfinite(least), least, np.nan)


def _medians(part: Ints, waits: Floats, bins: int) -> Floats:
    counts = np.bincount(part, minlength=bins)
    ordered = np.concatenate((waits[np.lexsort((waits, part))], [np.nan]))
    middle = np.cumsum(counts) - counts + (counts + 1) // 2 - 1
    return np.where(counts >= _FEWEST, ordered[np.where(counts > 0, middle, -1)], np.nan)


def _part_of(moments_ms: Floats, edges_ms: Floats) -> Ints:
    """Return the time bin of each moment; the end of the run belongs to the last bin."""
    return np.minimum(np.searchsorted(edges_ms, moments_ms, side="right") - 1, len(edges_ms) - 2)


def _sums(part: Ints, bins: int, weights: npt.NDArray[Any] | None = None) -> Floats:
    return np.bincount(part, weights=weights, minlength=bins).astype(np.float64)


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
"""Columns of means over seeds. Success is a share and has columns for both ends of its interval instead."""
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
    """Tabulate the latency that each share of the transactions exceeds, over the seeds with commits."""
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
    """Tabulate counts in time bins of the whole run, warm-up included. The mean of a bin is over the seeds with a value."""
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
    """Yield the rows of each class and operation of an experiment, seeds in order."""
    keys = list(zip(*(rows.column(name).to_pylist() for name in _KEY), strict=True))
    places: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    for key in sorted(places):
        yield dict(zip(_KEY, key, strict=True)), rows.take(places[key])


def _over_seeds(values: Floats) -> tuple[Floats, Floats]:
    """Return means over the first axis, the seeds, and their half widths; seeds without a value (NaN) are ignored."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    filled = np.where(known, values, 0.0)
    means = np.divide(filled.sum(axis=0), counts, out=np.full(values.shape[1], np.nan), where=counts > 0)
    squares = np.where(known, (values - means) ** 2, 0.0).sum(axis=0)
    return means, half_widths(np.sqrt(squares / np.maximum(counts - 1, 1)), counts)


def _block(schema: pa.Schema, length: int, columns: dict[str, Any]) -> pa.Table:
    """Return the rows of one curve; single values are repeated, and NaN becomes null."""

    def column(value: Any, kind: pa.DataType) -> pa.Array:
        is_curve = isinstance(value, np.ndarray)
        return pa.array(value, kind, from_pandas=True) if is_curve else pa.repeat(pa.scalar(value, kind), length)

    return pa.table([column(columns[field.name], field.type) for field in schema], schema=schema)
