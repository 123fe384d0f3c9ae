"""Measure runs from their files: choose the window of their configuration, and reduce each run to a few rows of metrics.

Every command measures this way: ``measure_experiments`` takes runs of one or more configurations that are compared, chooses their
window from all of their seeds, and measures each run in it. It reads one column at a time and depends on nothing but the files, so
Spark tasks, local studies and the live page get the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
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
from endive.analysis.run_metrics import SUM_COLUMNS, Group, group_metrics, measure_run, window_of
from endive.analysis.table_growth import StateRows, growth_per_ms
from endive.analysis.warmup import SERIES_BINS, LoadPattern, Window, common_window, find_window, given_window, load_pattern
from endive.config import ConfigError, Document, Problem, build_simulation_config
from endive.config.load import load_document
from endive.simulation.columns import STATE_COLUMNS
from endive.simulation.rows import RESULT_SCHEMA
from endive.transaction import OPERATIONS
from endive.version import METRICS_VERSION
from endive.workload import WorkloadClass

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
"""Columns of a row of metrics."""
PLAIN_COLUMNS = tuple(field.name for field in RUN_SCHEMA if not pa.types.is_list(field.type))
"""Columns of the table of runs; lists are inputs of other tables."""
MEASURED_SCHEMA = pa.schema([*RUN_SCHEMA, *((name, pa.list_(pa.float64())) for name in (*CURVES.values(), *OVER_TIME))])
"""Columns of a row of metrics with the lists from which distributions and figures over time are made."""
_KEY_COLUMNS = ("t_commit_start", "t_submit", "t_commit", *run_metrics.LATENCIES)
_TEXT_COLUMNS = ["status", "workload_class", "abort_reason", "operation_type"]
Row = Mapping[str, Any]


@dataclass(frozen=True)
class MetricsOptions:
    """Options of measuring.

    Attributes:
        warmup_ms: Warm-up to cut; None to find it from the runtimes and by MSER-5.
        cooldown_ms: Time to cut at the end.
        load: Key of the parameter that is the load; None to take the arrival rate that varies.
    """

    warmup_ms: float | None = None
    cooldown_ms: float = 0.0
    load: str | None = None

    def problem_with(self, duration_ms: float) -> str | None:
        """Return why warm-up and cool-down leave nothing of a run, to be followed by its name; None if they leave something."""
        warmup_ms = self.warmup_ms or 0.0
        if warmup_ms + self.cooldown_ms >= duration_ms:
            return f"a warm-up of {warmup_ms:g} ms and a cool-down of {self.cooldown_ms:g} ms leave nothing of"
        return None


@dataclass(frozen=True)
class RunMetrics:
    """Metrics of one run by workload class and operation, where ``all`` stands for totals."""

    seed: int
    rows: tuple[Row, ...] = field(repr=False)

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """Workload classes and operations of the run."""
        return tuple((row["workload_class"], row["operation_type"]) for row in self.rows)

    @property
    def window(self) -> Window:
        """Window in which the run was measured."""
        return window_of(self.rows[0])

    def select(self, workload_class: str, operation: str) -> Row:
        """Return the metrics of a class and operation; those of no transactions if the run has none."""
        for row in self.rows:
            if (row["workload_class"], row["operation_type"]) == (workload_class, operation):
                return row
        return group_metrics([], self.window)


@dataclass(frozen=True)
class RunFile:
    """Results of one run: the seed and the path of the file."""

    seed: int
    results: Path


@dataclass(frozen=True)
class ExperimentRuns:
    """Runs of one configuration.

    Attributes:
        name: Name of the experiment.
        duration_ms: Duration of its runs.
        pattern: Pattern of its load.
        runs: Its runs, by seed.
    """

    name: str
    duration_ms: float
    pattern: LoadPattern
    runs: tuple[RunFile, ...]


class UnusableRunError(Exception):
    """A run whose results are missing, damaged or not of this version."""

    def __init__(self, experiment: str, seed: int, message: str) -> None:
        super().__init__(message)
        self.experiment, self.seed = experiment, seed


def document_load_pattern(document: Document) -> LoadPattern:
    """Return how the load of a configuration changes over a run."""
    return load_pattern(build_simulation_config(document, seed_override=0).workload.config.workload_classes)


def stored_load_pattern(config: Path) -> LoadPattern:
    """Return the load pattern of a configuration on disk; if it cannot be read, one by which MSER-5 alone decides."""
    try:
        return document_load_pattern(load_document(config))
    except (ConfigError, OSError):
        return LoadPattern(0.0)


def check_window(document: Document, options: MetricsOptions) -> None:
    """Raise ConfigError if warm-up and cool-down leave nothing of the run."""
    duration_ms = document.simulation.duration_ms
    problem = options.problem_with(duration_ms)
    if problem is not None:
        raise ConfigError("--warmup", [Problem("simulation.duration_ms", f"{problem} the run", duration_ms)])


def measure_experiments(
    experiments: Sequence[ExperimentRuns], options: MetricsOptions, window: Window | None = None
) -> Iterator[dict[str, Any]]:
    """Measure the runs of configurations that are compared, in one window: the given one, or that of the options and the runs.

    Yields:
        A row of metrics for each run, class and operation, and for their totals.

    Raises:
        UnusableRunError: The results of a run cannot be used.
    """
    window = window or choose_window(experiments, options)
    for experiment in experiments:
        for run in experiment.runs:
            yield from measure_file(experiment.name, run, window)


def choose_window(experiments: Sequence[ExperimentRuns], options: MetricsOptions) -> Window:
    """Return the window of configurations that are compared: the given one, or the one that suits all of their runs."""
    return common_window([_own_window(each, options) for each in experiments])


def _own_window(experiment: ExperimentRuns, options: MetricsOptions) -> Window:
    def series(end_ms: float) -> Floats:
        whole = np.zeros(SERIES_BINS)
        for run in experiment.runs:
            with open_run(experiment.name, run) as rows:
                whole += rows.committing_over_time(end_ms)
        return whole

    def tables_grow(end_ms: float) -> bool:
        for run in experiment.runs:
            with open_run(experiment.name, run) as rows:
                if not rows.tables_grow(end_ms):
                    return False
        return True

    return _find_window(experiment.duration_ms, experiment.pattern, options, series, tables_grow)


def _find_window(
    duration_ms: float,
    pattern: LoadPattern,
    options: MetricsOptions,
    series: Callable[[float], Floats],
    tables_grow: Callable[[float], bool],
) -> Window:
    """Return the window of a configuration; both functions read rows, and are called only if the window depends on them."""
    end_ms = duration_ms - options.cooldown_ms
    if options.warmup_ms is not None:
        return given_window(duration_ms, options.warmup_ms, options.cooldown_ms)
    depends = pattern.entry_warmup_ms is not None and pattern.entry_warmup_ms <= end_ms / 2.0
    committing_series = series(end_ms) if depends else np.zeros(SERIES_BINS)
    return find_window(duration_ms, options.cooldown_ms, pattern, committing_series, lambda: tables_grow(end_ms))


def measure_file(experiment: str, run: RunFile, window: Window) -> list[dict[str, Any]]:
    """Return the rows of metrics of one run in a window."""
    with open_run(experiment, run) as rows:
        return _metric_rows(experiment, run.seed, rows, window)


def measure_one(run: RunFile, document: Document, classes: Sequence[WorkloadClass], options: MetricsOptions) -> RunMetrics:
    """Return the metrics of one run by itself, from one pass over its file."""
    with open_run("", run) as rows:
        duration_ms, pattern = document.simulation.duration_ms, load_pattern(classes)
        window = _find_window(duration_ms, pattern, options, rows.committing_over_time, rows.tables_grow)
        return RunMetrics(run.seed, tuple(_metric_rows("", run.seed, rows, window)))


def _metric_rows(experiment: str, seed: int, rows: RunRows, window: Window) -> list[dict[str, Any]]:
    return [
        {"experiment": experiment, "seed": seed, "workload_class": workload_class, "operation_type": operation, **row}
        for (workload_class, operation), row in measure_run(rows, window).items()
    ]


def metrics_version() -> str:
    """Return the name of the metrics version; metrics of another version are measured again."""
    return f"metrics-{METRICS_VERSION}"


def open_run(experiment: str, run: RunFile) -> closing[RunRows]:
    """Open the results of a run.

    Raises:
        UnusableRunError: The results are missing, damaged or not of this version.
    """
    try:
        return closing(RunRows(run.results))
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise UnusableRunError(experiment, run.seed, f"results cannot be read: {str(error).splitlines()[0][:200]}") from None


class RunRows:
    """The rows of one run in their Parquet file, column by column, and the groups of workload class and operation."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetFile(path, read_dictionary=_TEXT_COLUMNS)
        missing = set(RESULT_SCHEMA.names) - set(self._file.schema_arrow.names)
        if missing:
            raise ValueError(f"column {sorted(missing)[0]} is missing: the results are not of this version")
        self._transactions = self._read_transactions()
        self.groups: Sequence[Group] = list(self._split())

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column."""
        return np.asarray(self._file.read(columns=[name]).column(name).to_numpy())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def committing_over_time(self, end_ms: float) -> Floats:
        """Return the number of committing transactions in equal parts of ``[0, end_ms]``."""
        edges = np.linspace(0.0, end_ms, SERIES_BINS + 1)
        return sum((committing(group.transactions, edges) for group in self.groups), np.zeros(SERIES_BINS))

    def tables_grow(self, end_ms: float) -> bool:
        """Return whether the metadata or the manifests of tables grow over ``[0, end_ms]``."""
        done = self._transactions.committed & (self._transactions.end_ms <= end_ms)
        state = StateRows.of_commits(self._transactions.end_ms[done], {name: self.column(name)[done] for name in STATE_COLUMNS})
        return any(growth_per_ms(state.times_ms, values, 0.0, end_ms) > 0.0 for values in state.values.values())

    def submitted(self) -> dict[str, Submitted]:
        """Return the transactions of each class in the order of their submission."""
        classes, names = self._codes("workload_class")
        numbers, moments = self.column("txn_id"), self.column("t_submit")
        places = {names[code]: np.flatnonzero(classes == code) for code in np.unique(classes)}
        return {
            name: Submitted.in_order(numbers[index], moments[index], self._transactions.take(index))
            for name, index in places.items()
        }

    def _read_transactions(self) -> Transactions:
        self._columns = {name: self.column(name) for name in _KEY_COLUMNS}
        committed, aborted = self._flags("status", ("committed", "aborted"))
        columns = self._columns
        return Transactions.of_rows(
            columns["t_commit_start"], columns["t_submit"], columns["total_latency"], columns["t_commit"], committed, aborted
        )

    def _split(self) -> Iterator[Group]:
        """Yield the groups in the order of their operations and classes."""
        reasons = dict(zip(run_metrics.ABORT_REASONS, self._flags("abort_reason", run_metrics.ABORT_REASONS), strict=True))
        classes, class_names = self._codes("workload_class")
        operations, operation_names = self._codes("operation_type")
        if np.any(classes < 0) or np.any(operations < 0):
            raise ValueError("workload_class or operation_type is null in some rows")
        if not set(operation_names) <= set(OPERATIONS):
            raise ValueError("operation_type has a value that is not an operation")
        pairs = operations * max(len(class_names), 1) + classes
        found = {divmod(int(pair), len(class_names)): np.flatnonzero(pairs == pair) for pair in np.unique(pairs)}
        for (operation, cls), index in sorted(
            found.items(), key=lambda each: (operation_names[each[0][0]], class_names[each[0][1]])
        ):
            yield Group(
                class_names[cls],
                operation_names[operation],
                index,
                self._transactions.take(index),
                {name: flags[index] for name, flags in reasons.items()},
                {name: self._columns[name][index] for name in run_metrics.LATENCIES},
            )

    def _flags(self, name: str, values: Sequence[str]) -> list[npt.NDArray[np.bool_]]:
        codes, names = self._codes(name)
        return [codes == (names.index(value) if value in names else -2) for value in values]

    def _codes(self, name: str) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return a text column as codes, -1 for null, and the texts that they stand for."""
        column = self._file.read(columns=[name]).column(name).unify_dictionaries().combine_chunks()
        arrays = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if not arrays or not len(arrays[0]):
            return np.zeros(0, np.int64), []
        return np.asarray(pc.fill_null(arrays[0].indices, -1)).astype(np.int64), arrays[0].dictionary.to_pylist()
