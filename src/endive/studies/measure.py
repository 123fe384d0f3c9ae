"""Read the files of runs and reduce every run in them to a few rows of metrics.

A run is measured whole, so nothing depends on how runs are dealt to files or tasks. Columns are read as they are needed. The window
of a configuration depends on all of its runs, so there are two passes: the first reduces a part to the number of committing
transactions over time, from which the window is chosen; the second measures in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.analysis import Floats, run_metrics
from endive.analysis.cohort import Submitted, Transactions, committing
from endive.analysis.run_curves import CURVES, OVER_TIME
from endive.analysis.run_metrics import SUM_COLUMNS, Leaf, run_rows
from endive.analysis.warmup import SERIES_BINS, Window
from endive.runs.parts import Spec
from endive.simulation.columns import TIME_COLUMNS
from endive.version import METRICS_VERSION

KEYS = (("experiment", pa.string()), ("seed", pa.int64()), ("workload_class", pa.string()), ("operation_type", pa.string()))
WINDOW = (
    ("duration_ms", pa.float64()),
    ("warmup_ms", pa.float64()),
    ("warmup_by", pa.string()),
    ("warmup_settled", pa.bool_()),
    ("window_ms", pa.float64()),
    ("needed_ms", pa.float64()),
)
RUN_SCHEMA = pa.schema(
    [
        *KEYS,
        *WINDOW,
        *((name, pa.int64()) for name in (*run_metrics.COUNTS, *SUM_COLUMNS)),
        *((name, pa.float64()) for name in (*run_metrics.RATES, *run_metrics.BOUNDS)),
        (run_metrics.COMMITTING_IN_WINDOW, pa.list_(pa.float64())),
        (run_metrics.ENTERED_IN_WINDOW, pa.list_(pa.int64())),
    ]
)
PLAIN_COLUMNS = tuple(field.name for field in RUN_SCHEMA if not pa.types.is_list(field.type))
"""The columns of runs that tables of runs have; lists are for what is made of them."""
TASK_SCHEMA = pa.schema([*RUN_SCHEMA, *((name, pa.list_(pa.float64())) for name in (*CURVES.values(), *OVER_TIME))])
SERIES_SCHEMA = pa.schema([("experiment", pa.string()), ("part", pa.int64()), ("committing", pa.list_(pa.float64()))])
ROW_COLUMNS = ("t_commit_start", "t_submit", "t_commit", *run_metrics.LATENCIES)
_TEXTS = ["status", "workload_class", "abort_reason"]
KeyColumns = tuple[Transactions, dict[str, npt.NDArray[np.bool_]], dict[str, Floats]]
"""What is known of each row: what became of it, why it was aborted (by reason), and its latencies (by name)."""


def measuring_code() -> str:
    """Return the name of the metrics version; metrics of another version are measured again."""
    return f"metrics-{METRICS_VERSION}"


class OperationRows:
    """The file of one operation of a part, and the leaves that its rows belong to."""

    def __init__(self, operation: str, path: Path) -> None:
        self._file = pq.ParquetFile(path, read_dictionary=_TEXTS, page_checksum_verification=True)
        self.leaves = list(self._split(operation))

    def column(self, name: str) -> npt.NDArray[Any]:
        """A column of numbers."""
        return np.asarray(self._file.read(columns=[name]).column(name).to_numpy())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _split(self, operation: str) -> Iterator[Leaf]:
        """The rows of a seed follow each other; those of its classes are mixed."""
        columns, seeds = self._key_columns(), self.column("seed")
        starts = np.flatnonzero(np.concatenate(([True], seeds[1:] != seeds[:-1]))) if len(seeds) else np.zeros(0, np.int64)
        classes, names = self._codes("workload_class")
        for start, stop in zip(starts, (*starts[1:], len(seeds)), strict=True):
            of_seed = classes[start:stop]
            for code in np.unique(of_seed):
                index = start + np.flatnonzero(of_seed == code)
                yield _leaf(int(seeds[start]), names[code], operation, index, columns)

    def _key_columns(self) -> KeyColumns:
        columns = {name: self.column(name) for name in ROW_COLUMNS}
        committed, aborted = self._flags("status", ("committed", "aborted"))
        rows = Transactions.of_rows(
            columns["t_commit_start"], columns["t_submit"], columns["total_latency"], columns["t_commit"], committed, aborted
        )
        reasons = dict(zip(run_metrics.ABORT_REASONS, self._flags("abort_reason", run_metrics.ABORT_REASONS), strict=True))
        return rows, reasons, {name: columns[name] for name in run_metrics.LATENCIES}

    def _flags(self, name: str, values: Sequence[str]) -> list[npt.NDArray[np.bool_]]:
        codes, names = self._codes(name)
        return [codes == (names.index(value) if value in names else -2) for value in values]

    def _codes(self, name: str) -> tuple[npt.NDArray[np.int64], list[str]]:
        """A column of text as numbers, -1 for null, and what they stand for."""
        column = self._file.read(columns=[name]).column(name).unify_dictionaries().combine_chunks()
        arrays = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if not arrays or not len(arrays[0]):
            return np.zeros(0, np.int64), []
        return np.asarray(pc.fill_null(arrays[0].indices, -1)).astype(np.int64), arrays[0].dictionary.to_pylist()


class RunRows(OperationRows):
    """The file of one run, whose rows of all classes and operations are mixed."""

    def __init__(self, path: Path, seed: int) -> None:
        self._file = pq.ParquetFile(path, read_dictionary=[*_TEXTS, "operation_type"])
        self._seed = seed
        self.leaves = list(self._split(""))

    def _split(self, operation: str) -> Iterator[Leaf]:
        columns = self._key_columns()
        classes, class_names = self._codes("workload_class")
        operations, operation_names = self._codes("operation_type")
        pairs = classes * max(len(operation_names), 1) + operations
        for pair in np.unique(pairs):
            group, place = divmod(int(pair), len(operation_names))
            index = np.flatnonzero(pairs == pair)
            yield _leaf(self._seed, class_names[group], operation_names[place], index, columns)

    def submitted(self) -> dict[str, Submitted]:
        """The transactions of each class in the order of their submission."""
        rows, _, _ = self._key_columns()
        classes, names = self._codes("workload_class")
        numbers, moments = self.column("txn_id"), self.column("t_submit")
        places = {names[code]: np.flatnonzero(classes == code) for code in np.unique(classes)}
        return {name: Submitted.in_order(numbers[index], moments[index], rows.take(index)) for name, index in places.items()}


def _leaf(seed: int, workload_class: str, operation: str, index: npt.NDArray[np.int64], columns: KeyColumns) -> Leaf:
    rows, reasons, latencies = columns
    own = ({name: values[index] for name, values in each.items()} for each in (reasons, latencies))
    return Leaf(seed, workload_class, operation, index, rows.take(index), *own)  # type: ignore[arg-type]


def measured_batch(spec: Spec) -> pa.RecordBatch:
    """The rows of all runs in a part, as a batch."""
    return pa.RecordBatch.from_pylist(list(measure_sources(spec, part_sources(spec))), schema=TASK_SCHEMA)


def series_batch(spec: Spec) -> pa.RecordBatch:
    """How many transactions of a part were committing over time, summed over its runs, as a batch."""
    row = {"experiment": spec["experiment"], "part": spec["part"], "committing": committing_over_time(spec, part_sources(spec))}
    return pa.RecordBatch.from_pylist([row], schema=SERIES_SCHEMA)


def part_sources(spec: Spec) -> list[OperationRows]:
    """The files of a part."""
    return [OperationRows(operation, Path(path)) for operation, path in sorted(spec["files"].items())]


def committing_over_time(spec: Spec, sources: Sequence[OperationRows]) -> Floats:
    """The number of committing transactions in equal parts of a run, up to its cool-down, summed over runs; closes the files."""
    edges = np.linspace(0.0, spec["duration_ms"] - spec["cooldown_ms"], SERIES_BINS + 1)
    whole = np.zeros(SERIES_BINS)
    for source in sources:
        for leaf in source.leaves:
            whole += committing(leaf.rows, edges)
        source.close()
    return whole


def measure_sources(spec: Spec, sources: Sequence[OperationRows]) -> Iterator[dict[str, Any]]:
    """The rows of all runs in some files, which are closed at the end. ``spec`` says their window."""
    window = Window(**spec["window"])
    leaves: dict[int, list[Leaf]] = {seed: [] for seed in spec["seeds"]}
    for source in sources:
        for leaf in source.leaves:
            leaves[leaf.seed].append(leaf)
            leaf.look_through(window)
    for source in sources:
        for name in (*SUM_COLUMNS, *TIME_COLUMNS):
            values = source.column(name)
            for leaf in source.leaves:
                leaf.add(name, values)
        whose = {name: source.column(name) for name in ("n_retries", *run_metrics.WHOSE_COLUMNS)}
        for leaf in source.leaves:
            leaf.see_whose(whose)
        source.close()
    for seed, of_seed in leaves.items():
        key = {"experiment": spec["experiment"], "seed": seed}
        for (workload_class, operation), row in run_rows(of_seed, window).items():
            yield {**key, "workload_class": workload_class, "operation_type": operation, **row}
