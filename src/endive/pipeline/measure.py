"""What runs on executors for metrics: read the parts of a task and reduce every run in them to a few rows.

What flows in: specifications of parts. What flows out: for each run a row for each class and operation and for their totals, where
``all`` stands for any; lists in it tell the distributions of latencies and the commits over time. A run is measured whole inside
one task, so nothing depends on how the runs are dealt to tasks, and percentiles are exact (as those of ``numpy.percentile``, linear
between order statistics). Columns are read as they are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.analysis.warmup import Warmup, run_warmup
from endive.pipeline.ddl import ddl
from endive.pipeline.jobs import Spec, specs_of
from endive.simulation.columns import COUNT_COLUMNS, IO_COLUMNS, TIME_COLUMNS
from endive.simulation.summary import PERCENTILES
from endive.transaction.types import COMMIT_TIMEOUT, MAX_RETRIES_EXCEEDED, VALIDATION_EXCEPTION

ALL = "all"
ABORT_REASONS = (MAX_RETRIES_EXCEEDED, COMMIT_TIMEOUT, VALIDATION_EXCEPTION)
SUM_COLUMNS = (*COUNT_COLUMNS, *IO_COLUMNS)
LATENCIES = ("commit_latency", "total_latency")

KEYS = (("experiment", pa.string()), ("seed", pa.int64()), ("workload_class", pa.string()), ("operation_type", pa.string()))
WINDOW = (
    ("duration_ms", pa.float64()),
    ("warmup_ms", pa.float64()),
    ("warmup_by", pa.string()),
    ("warmup_settled", pa.bool_()),
    ("window_ms", pa.float64()),
)
COUNTS = ("transactions", "committed", "aborted", "in_flight", "commits_in_window", *(f"aborted_{r}" for r in ABORT_REASONS))
RATES = (
    "offered_per_s",
    "throughput_per_s",
    "throughput_ratio",
    "success_rate",
    "retries_per_txn",
    "overhead",
    *(f"{latency}_{measure}_ms" for latency in LATENCIES for measure in ("mean", *(f"p{p}" for p in PERCENTILES))),
    *(f"mean_{name}" for name in TIME_COLUMNS),
    *(f"{name}_per_txn" for name in IO_COLUMNS),
)
METRICS = (*COUNTS, *SUM_COLUMNS, *RATES)
RUN_SCHEMA = pa.schema(
    [*KEYS, *WINDOW, *((name, pa.int64()) for name in (*COUNTS, *SUM_COLUMNS)), *((name, pa.float64()) for name in RATES)]
)

SLOWER = (*(k / 20 for k in range(20, 2, -1)), *(k / 10**tail for tail in (2, 3, 4) for k in range(10, 1, -1)), 1e-4)
"""The shares of transactions for which a distribution tells how slow they are at least: dense where the tail is."""
TIME_BINS = 60
"""Equal parts of a run's duration in which commits are counted."""
CURVES = {"commit_latency": "commit_latency_slower_ms", "total_latency": "total_latency_slower_ms"}
"""Columns of lists that a row carries beside its numbers; tables of their own are made of them."""
COMMITS_OVER_TIME = "commits_over_time"
TASK_SCHEMA = pa.schema(
    [*RUN_SCHEMA, *((name, pa.list_(pa.float64())) for name in CURVES.values()), (COMMITS_OVER_TIME, pa.list_(pa.int64()))]
)

TASK_DDL = ddl(TASK_SCHEMA)
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """The part of a run that is measured: transactions submitted from ``warmup.ms`` to ``end_ms``, both included."""

    duration_ms: float
    warmup: Warmup
    warmup_by: str
    end_ms: float

    @property
    def length_ms(self) -> float:
        """Its length."""
        return self.end_ms - self.warmup.ms

    def columns(self) -> dict[str, Any]:
        """What a row says of it."""
        return {
            "duration_ms": self.duration_ms,
            "warmup_ms": self.warmup.ms,
            "warmup_by": self.warmup_by,
            "warmup_settled": self.warmup.settled,
            "window_ms": self.length_ms,
        }


@dataclass
class Leaf:
    """The rows of one run, class and operation, and what they come to once their window is known."""

    seed: int
    workload_class: str
    operation: str
    index: slice | npt.NDArray[np.int64]
    columns: dict[str, npt.NDArray[Any]]
    counts: dict[str, int] = field(default_factory=dict)
    sums: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, Floats] = field(default_factory=dict)
    over_time: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(TIME_BINS, np.int64))
    inside: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    done: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def look_through(self, window: Window) -> None:
        """Count what is in the window, and keep the latencies of what was committed."""
        rows = self.columns
        self.inside = (rows["t_submit"] >= window.warmup.ms) & (rows["t_submit"] <= window.end_ms)
        self.done = self.inside & rows["committed"]
        in_time = rows["committed"] & (rows["t_commit"] >= window.warmup.ms) & (rows["t_commit"] <= window.end_ms)
        self.counts = {
            "transactions": int(self.inside.sum()),
            "committed": int(self.done.sum()),
            "aborted": int((self.inside & rows["aborted"]).sum()),
            "commits_in_window": int(in_time.sum()),
            **{f"aborted_{reason}": int((self.inside & rows[reason]).sum()) for reason in ABORT_REASONS},
        }
        self.counts["in_flight"] = self.counts["transactions"] - self.counts["committed"] - self.counts["aborted"]
        self.latencies = {name: rows[name][self.done] for name in LATENCIES}
        self.over_time, _ = np.histogram(rows["t_commit"][rows["committed"]], bins=TIME_BINS, range=(0.0, window.duration_ms))
        commit, total = self.latencies["commit_latency"], self.latencies["total_latency"]
        self.sums["overhead"] = float(np.divide(commit, total, out=np.zeros_like(commit), where=total > 0.0).sum())
        self.columns = {}

    def add(self, name: str, values: npt.NDArray[Any]) -> None:
        """Sum a column: times over what was committed, counts over all of the window."""
        chosen = self.done if name in TIME_COLUMNS else self.inside
        self.sums[name] = values[self.index][chosen].sum().item()


class OperationRows:
    """The file of one operation of a part, and the leaves that its rows belong to."""

    def __init__(self, operation: str, path: Path) -> None:
        self._file = pq.ParquetFile(path, read_dictionary=["status", "workload_class", "abort_reason"])
        self.leaves = list(self._split(operation))

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers."""
        return np.asarray(self._file.read(columns=[name]).column(name).to_numpy())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _split(self, operation: str) -> Iterator[Leaf]:
        """The rows of a seed follow each other; those of its classes are mixed."""
        keys = self._key_columns()
        seeds = self.column("seed")
        starts = np.flatnonzero(np.concatenate(([True], seeds[1:] != seeds[:-1]))) if len(seeds) else np.zeros(0, np.int64)
        classes, names = self._codes("workload_class")
        for start, stop in zip(starts, (*starts[1:], len(seeds)), strict=True):
            of_seed = classes[start:stop]
            present = np.unique(of_seed)
            for code in present:
                index = slice(start, stop) if len(present) == 1 else start + np.flatnonzero(of_seed == code)
                columns = {name: values[index] for name, values in keys.items()}
                yield Leaf(int(seeds[start]), names[code], operation, index, columns)

    def _key_columns(self) -> dict[str, npt.NDArray[Any]]:
        columns = {name: self.column(name) for name in ("t_submit", "t_commit", *LATENCIES)}
        status, names = self._codes("status")
        for name in ("committed", "aborted"):
            columns[name] = status == (names.index(name) if name in names else -2)
        reasons, names = self._codes("abort_reason")
        for name in ABORT_REASONS:
            columns[name] = reasons == (names.index(name) if name in names else -2)
        return columns

    def _codes(self, name: str) -> tuple[npt.NDArray[np.int64], list[str]]:
        """A column of text as numbers, -1 for null, and what they stand for."""
        column = self._file.read(columns=[name]).column(name).unify_dictionaries().combine_chunks()
        arrays = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if not arrays or not len(arrays[0]):
            return np.zeros(0, np.int64), []
        return np.asarray(pc.fill_null(arrays[0].indices, -1)).astype(np.int64), arrays[0].dictionary.to_pylist()


def measure_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The metrics of the runs in the parts that the rows describe."""
    for spec in specs_of(batches):
        yield measured_batch(spec)


def measured_batch(spec: Spec) -> pa.RecordBatch:
    """The rows of all runs in a part, as a batch."""
    return pa.RecordBatch.from_pylist(list(measure_part(spec)), schema=TASK_SCHEMA)


def measure_part(spec: Spec) -> Iterator[dict[str, Any]]:
    """The rows of all runs in a part."""
    yield from measure_sources(spec, [OperationRows(operation, Path(path)) for operation, path in sorted(spec["files"].items())])


def measure_sources(spec: Spec, sources: Sequence[OperationRows]) -> Iterator[dict[str, Any]]:
    """The rows of all runs in some files, which are closed at the end."""
    leaves: dict[int, list[Leaf]] = {seed: [] for seed in spec["seeds"]}
    for source in sources:
        for leaf in source.leaves:
            leaves[leaf.seed].append(leaf)
    windows = {seed: _window(spec, of_seed) for seed, of_seed in leaves.items()}
    for leaf in (leaf for of_seed in leaves.values() for leaf in of_seed):
        leaf.look_through(windows[leaf.seed])
    for source in sources:
        for name in (*SUM_COLUMNS, *TIME_COLUMNS):
            values = source.column(name)
            for leaf in source.leaves:
                leaf.add(name, values)
        source.close()
    for seed, of_seed in leaves.items():
        key = {"experiment": spec["experiment"], "seed": seed}
        for (workload_class, operation), row in run_rows(of_seed, windows[seed]).items():
            yield {**key, "workload_class": workload_class, "operation_type": operation, **row}


def _window(spec: Spec, leaves: Sequence[Leaf]) -> Window:
    """The window that was asked for, or that MSER-5 finds."""
    end = spec["duration_ms"] - spec["cooldown_ms"]
    if spec["warmup_ms"] is not None:
        return Window(spec["duration_ms"], Warmup(spec["warmup_ms"], settled=True), "given", end)

    def committed(name: str) -> Floats:
        return np.concatenate([np.zeros(0), *(leaf.columns[name][leaf.columns["committed"]] for leaf in leaves)])

    found = run_warmup(committed("t_submit"), committed("t_commit"), committed("commit_latency"), end)
    return Window(spec["duration_ms"], found, "mser5", end)


def run_rows(leaves: Sequence[Leaf], window: Window) -> dict[tuple[str, str], dict[str, Any]]:
    """The metrics of a run by class and operation, with totals."""
    groups: dict[tuple[str, str], set[int]] = {(ALL, ALL): set()}
    for number, leaf in enumerate(leaves):
        for key in product((leaf.workload_class, ALL), (leaf.operation, ALL)):
            groups.setdefault(key, set()).add(number)
    by_members: dict[tuple[int, ...], dict[str, Any]] = {}
    rows = {}
    for key, members in sorted(groups.items()):
        numbers = tuple(sorted(members))
        if numbers not in by_members:
            by_members[numbers] = group_metrics([leaves[number] for number in numbers], window)
        rows[key] = {**window.columns(), **by_members[numbers]}
    return rows


def group_metrics(leaves: Sequence[Leaf], window: Window) -> dict[str, Any]:
    """The metrics of some leaves of a run together; None where there is nothing to measure."""
    counts = {name: sum(leaf.counts[name] for leaf in leaves) for name in COUNTS}
    sums = {name: sum(leaf.sums[name] for leaf in leaves) for name in (*SUM_COLUMNS, *TIME_COLUMNS, "overhead")}
    transactions, committed = counts["transactions"], counts["committed"]
    seconds = window.length_ms / 1000.0
    return {
        **counts,
        **{name: sums[name] for name in SUM_COLUMNS},
        "offered_per_s": transactions / seconds,
        "throughput_per_s": counts["commits_in_window"] / seconds,
        "throughput_ratio": _ratio(counts["commits_in_window"], transactions),
        "success_rate": _ratio(committed, committed + counts["aborted"]),
        "retries_per_txn": _ratio(sums["n_retries"], transactions),
        "overhead": _ratio(sums["overhead"], committed),
        **_latencies(leaves),
        **{f"mean_{name}": _ratio(sums[name], committed) for name in TIME_COLUMNS},
        **{f"{name}_per_txn": _ratio(sums[name], transactions) for name in IO_COLUMNS},
        COMMITS_OVER_TIME: sum((leaf.over_time for leaf in leaves), np.zeros(TIME_BINS, np.int64)),
    }


def _latencies(leaves: Sequence[Leaf]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in LATENCIES:
        values = np.concatenate([np.zeros(0), *(leaf.latencies[name] for leaf in leaves)])
        if len(values):
            found[f"{name}_mean_ms"] = float(values.mean())
            values.sort()
            percentiles = quantiles(values, [p / 100.0 for p in PERCENTILES])
            found |= {f"{name}_p{p}_ms": float(v) for p, v in zip(PERCENTILES, percentiles, strict=True)}
            found[CURVES[name]] = quantiles(values, [1.0 - share for share in SLOWER])
    return found


def quantiles(in_order: Floats, shares: Sequence[float]) -> Floats:
    """What ``numpy.quantile`` says of sorted values: it would sort them once more, and for each call."""
    place = np.asarray(shares) * (len(in_order) - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, len(in_order) - 1)
    return np.asarray(in_order[below] + (in_order[above] - in_order[below]) * (place - below))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
