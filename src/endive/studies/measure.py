"""Measure runs from their files: choose the window of their configuration, and reduce each run to a few rows of metrics.

All commands use ``measure_experiments``. This function takes the runs of one configuration, or of several configurations to
compare, determines one window from all seeds, and measures each run in this window. It reads the rows in chunks and depends only on
the files, so Spark tasks, local studies and the live page get the same numbers.
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

from endive.analysis import Floats, Ints, run_metrics
from endive.analysis.cohort import CommittingCounts, Submitted, Transactions, take_chosen
from endive.analysis.metric import ABORT_REASONS
from endive.analysis.run_curves import CURVES, OVER_TIME
from endive.analysis.run_metrics import empty_metrics, measure_run, window_of
from endive.analysis.run_totals import SUM_COLUMNS, Rows
from endive.analysis.table_growth import TableStates
from endive.analysis.warmup import SERIES_BINS, LoadPattern, Window, common_window, find_window, given_window, load_pattern
from endive.config import ConfigError, Document, Problem, build_simulation_config
from endive.config.load import load_document
from endive.runs.row_files import RowChunk, open_rows
from endive.simulation.columns import STATE_COLUMNS
from endive.studies.request_cost import add_configured, facts_of, read_facts
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
"""Columns of the table of runs, which excludes lists, because only other tables are computed from them."""
MEASURED_SCHEMA = pa.schema([*RUN_SCHEMA, *((name, pa.list_(pa.float64())) for name in (*CURVES.values(), *OVER_TIME))])
"""Columns of a row of metrics, including the lists for distributions and figures over time."""
_KEY_COLUMNS = ("t_commit_start", "t_submit", "total_latency", "t_commit")
"""Columns of the arguments of ``Transactions.of_rows``, in order."""
_TEXT_COLUMNS = ("status", "workload_class", "abort_reason", "operation_type")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class MetricsOptions:
    """Options of a measurement.

    Attributes:
        warmup_ms: Length of the warm-up to exclude; None to determine it from the runtimes and by MSER-5.
        cooldown_ms: Time to exclude at the end of the run.
        load: Key of the parameter that sets the load; None selects the arrival rate that varies.
    """

    warmup_ms: float | None = None
    cooldown_ms: float = 0.0
    load: str | None = None

    def problem_with(self, duration_ms: float) -> str | None:
        """Return a message, which a run's name follows, if warm-up and cool-down exclude the whole run, otherwise None."""
        warmup_ms = self.warmup_ms or 0.0
        if warmup_ms + self.cooldown_ms >= duration_ms:
            return f"a warm-up of {warmup_ms:g} ms and a cool-down of {self.cooldown_ms:g} ms leave nothing of"
        return None


@dataclass(frozen=True)
class RunMetrics:
    """Metrics of one run by workload class and operation; ``all`` denotes totals."""

    seed: int
    rows: tuple[Row, ...] = field(repr=False)

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """Workload classes and operations of the run."""
        return tuple((row["workload_class"], row["operation_type"]) for row in self.rows)

    @property
    def window(self) -> Window:
        """Measurement window of the run."""
        return window_of(self.rows[0])

    def select(self, workload_class: str, operation: str) -> Row:
        """Return the metrics of a class and operation, or those of an empty set if the run has no such transactions."""
        for row in self.rows:
            if (row["workload_class"], row["operation_type"]) == (workload_class, operation):
                return row
        return empty_metrics(self.window)


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
        duration_ms: Duration of the runs.
        pattern: Load over time.
        runs: Runs by seed.
    """

    name: str
    duration_ms: float
    pattern: LoadPattern
    runs: tuple[RunFile, ...]


class UnusableRunError(Exception):
    """Raised if the results of a run are missing, damaged or from a different version."""

    def __init__(self, experiment: str, seed: int, message: str) -> None:
        super().__init__(message)
        self.experiment, self.seed = experiment, seed


def document_load_pattern(document: Document) -> LoadPattern:
    """Return the load of a configuration over time."""
    return load_pattern(build_simulation_config(document, seed_override=0).workload.config.workload_classes)


def stored_load_pattern(config: Path) -> LoadPattern:
    """Return the load pattern of a configuration file. If it cannot be read, return a pattern that leaves the warm-up to MSER-5."""
    try:
        return document_load_pattern(load_document(config))
    except (ConfigError, OSError):
        return LoadPattern(0.0)


def check_window(document: Document, options: MetricsOptions) -> None:
    """Raise ConfigError if warm-up and cool-down exclude the whole run."""
    duration_ms = document.simulation.duration_ms
    problem = options.problem_with(duration_ms)
    if problem is not None:
        raise ConfigError("--warmup", [Problem("simulation.duration_ms", f"{problem} the run", duration_ms)])


def measure_experiments(
    experiments: Sequence[ExperimentRuns], options: MetricsOptions, window: Window | None = None
) -> Iterator[dict[str, Any]]:
    """Measure the runs of configurations to compare, in the given window or a window determined from the options and the runs.

    Yields:
        A row of metrics for each run, class and operation, and for totals.

    Raises:
        UnusableRunError: If the results of a run cannot be used.
    """
    window = window or choose_window(experiments, options)
    for experiment in experiments:
        for run in experiment.runs:
            yield from measure_file(experiment.name, run, window)


def choose_window(experiments: Sequence[ExperimentRuns], options: MetricsOptions) -> Window:
    """Return the window that the options set, or the common window of all runs of configurations to compare."""
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
    """Return the window of a configuration.

    ``series`` and ``tables_grow`` read rows, and are called only if the window depends on their results.
    """
    end_ms = duration_ms - options.cooldown_ms
    if options.warmup_ms is not None:
        return given_window(duration_ms, options.warmup_ms, options.cooldown_ms)
    depends = pattern.entry_warmup_ms is not None and pattern.entry_warmup_ms <= end_ms / 2.0
    committing_series = series(end_ms) if depends else np.zeros(SERIES_BINS)
    return find_window(duration_ms, options.cooldown_ms, pattern, committing_series, lambda: tables_grow(end_ms))


def measure_file(experiment: str, run: RunFile, window: Window) -> list[dict[str, Any]]:
    """Return the rows of metrics of one run in a window."""
    with open_run(experiment, run) as rows:
        measured = measure_run(rows, window)
    return _metric_rows(experiment, run, add_configured(measured, read_facts(run.results)))


def measure_one(run: RunFile, document: Document, classes: Sequence[WorkloadClass], options: MetricsOptions) -> RunMetrics:
    """Measure a single run in a window determined from this run alone."""
    with open_run("", run) as rows:
        duration_ms, pattern = document.simulation.duration_ms, load_pattern(classes)
        window = _find_window(duration_ms, pattern, options, rows.committing_over_time, rows.tables_grow)
        measured = measure_run(rows, window)
    return RunMetrics(run.seed, tuple(_metric_rows("", run, add_configured(measured, facts_of(document, run.results)))))


def _metric_rows(experiment: str, run: RunFile, measured: Mapping[tuple[str, str], Row]) -> list[dict[str, Any]]:
    return [
        {"experiment": experiment, "seed": run.seed, "workload_class": workload_class, "operation_type": operation, **row}
        for (workload_class, operation), row in measured.items()
    ]


def metrics_version() -> str:
    """Return the name of the metrics version. Runs with metrics of a different version are measured again."""
    return f"metrics-{METRICS_VERSION}"


def open_run(experiment: str, run: RunFile) -> closing[RunRows]:
    """Open the results of a run. Raises UnusableRunError if the results are missing, damaged or from a different version."""
    try:
        return closing(RunRows(run.results))
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise UnusableRunError(experiment, run.seed, f"results cannot be read: {str(error).splitlines()[0][:200]}") from None


class RunRows:
    """Rows of one run, read from a file chunk by chunk. Columns that are constant in a row group are not read."""

    def __init__(self, path: Path) -> None:
        self._file = open_rows(path)
        self._codes: dict[tuple[str, str], int] = {}
        self._with_in_flight: set[int] = set()
        self.groups: Sequence[tuple[str, str]] = self._find_groups()

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._file.rows

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column of all rows."""
        chunks = (chunk for group in self._row_groups for chunk in self._file.read(group, [name]))
        return np.concatenate([np.zeros(0), *(chunk.numbers(name) for chunk in chunks)])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def chunks(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Yield the rows of each chunk with these columns."""
        for group in self._row_groups:
            yield from self._chunks(group, columns)

    def in_flight(self, end_ms: float) -> Rows:
        """Return the transactions in flight at the end of arrivals. The rows of a run are ordered by end time."""
        chosen = set(self._with_in_flight)
        for group in reversed(self._row_groups):
            if not any(np.any(rows.transactions.end_ms > end_ms) for rows in self._chunks(group, ())):
                break
            chosen.add(group)
        found = [_take_in_flight(rows.until(end_ms)) for group in sorted(chosen) for rows in self._chunks(group, ())]
        groups = np.concatenate([np.zeros(0, np.int64), *(rows.groups for rows in found)])
        return Rows(groups, Transactions.join([rows.transactions for rows in found]), np.full(len(groups), -1), {})

    def is_zero(self, column: str) -> bool:
        """Return whether a column is 0 in all rows, according to the statistics of the file."""
        return all(constants.get(column) == 0 for constants in self._file.constants)

    def committing_over_time(self, end_ms: float) -> Floats:
        """Return the number of committing transactions in equal parts of ``[0, end_ms]``."""
        counts = CommittingCounts(1, np.linspace(0.0, end_ms, SERIES_BINS + 1))
        for group in self._row_groups:
            for _, transactions in self._read(group, ("status",)):
                entries, ends = take_chosen(transactions.entered, transactions.entry_ms, transactions.end_ms)
                counts.add(np.broadcast_to(np.int64(0), len(entries)), entries, ends)
        return np.asarray(counts.mean[0])

    def tables_grow(self, end_ms: float) -> bool:
        """Return whether the metadata or the manifests of tables grow during ``[0, end_ms]``."""
        states = TableStates(1, 0.0, end_ms)
        for rows in self.chunks(STATE_COLUMNS):
            done = rows.transactions.committed & (rows.transactions.end_ms <= end_ms)
            states.add(np.zeros(len(done), np.int64), rows.transactions.end_ms, rows.columns, done)
        return states.grow()

    def submitted(self) -> dict[str, Submitted]:
        """Return the transactions of each class in the order of submission."""
        chunks = list(self.chunks(("txn_id", "t_submit")))
        classes = sorted({workload_class for workload_class, _ in self.groups})
        class_of = np.array([classes.index(workload_class) for workload_class, _ in self.groups], np.int64)
        numbers, moments, own = (
            np.concatenate([np.zeros(0, np.int64), *arrays])
            for arrays in (
                [rows.columns["txn_id"] for rows in chunks],
                [rows.columns["t_submit"] for rows in chunks],
                [class_of[rows.groups] for rows in chunks],
            )
        )
        transactions = Transactions.join([rows.transactions for rows in chunks])
        places = {name: np.flatnonzero(own == number) for number, name in enumerate(classes)}
        return {
            name: Submitted.in_order(numbers[index], moments[index], transactions.take(index)) for name, index in places.items()
        }

    def _chunks(self, group: int, columns: Sequence[str]) -> Iterator[Rows]:
        for chunk, transactions in self._read(group, (*columns, *_TEXT_COLUMNS)):
            found = {name: chunk.numbers(name) for name in columns}
            yield Rows(self._groups_of(chunk), transactions, chunk.text_codes("abort_reason", ABORT_REASONS), found)

    @property
    def _row_groups(self) -> range:
        """Numbers of the row groups."""
        return range(len(self._file.constants))

    def _read(self, group: int, columns: Sequence[str]) -> Iterator[tuple[RowChunk, Transactions]]:
        """Read some columns of a row group, and yield each chunk and its transactions."""
        if self._file.constants[group].get("status") == "committed":
            for chunk in self._file.read(group, (*columns, "t_commit_start", "t_commit")):
                yield chunk, Transactions.of_commits(chunk.numbers("t_commit_start"), chunk.numbers("t_commit"))
            return
        for chunk in self._file.read(group, (*columns, *_KEY_COLUMNS)):
            committed, aborted = (chunk.text_codes("status", [name]) == 0 for name in ("committed", "aborted"))
            start, submit, total, commit = (chunk.numbers(name) for name in _KEY_COLUMNS)
            yield chunk, Transactions.of_rows(start, submit, total, commit, committed, aborted)

    def _find_groups(self) -> list[tuple[str, str]]:
        """Find the groups, ordered by operation and class, and the row groups that contain transactions in flight."""
        present: set[tuple[str, str]] = set()
        for number in self._row_groups:
            for chunk in self._file.read(number, ("workload_class", "operation_type", "status")):
                pairs, classes, operations = chunk.pairs()
                if np.any(pairs < 0):
                    raise ValueError("workload_class or operation_type is null in some rows")
                if not set(operations) <= set(OPERATIONS):
                    raise ValueError("operation_type has a value that is not an operation")
                used = np.flatnonzero(np.bincount(pairs, minlength=len(classes) * len(operations)))
                present |= {(classes[pair % len(classes)], operations[pair // len(classes)]) for pair in used.tolist()}
                if number not in self._with_in_flight and np.any(chunk.text_codes("status", ["committed", "aborted"]) < 0):
                    self._with_in_flight.add(number)
        groups = sorted(present, key=lambda group: (group[1], group[0]))
        self._codes = {group: number for number, group in enumerate(groups)}
        return groups

    def _groups_of(self, chunk: RowChunk) -> Ints:
        """Return the group number of each row."""
        if len(self._codes) == 1:
            return np.broadcast_to(np.int64(0), len(chunk))
        pairs, classes, operations = chunk.pairs()
        numbers = [self._codes.get((workload_class, operation), -1) for operation in operations for workload_class in classes]
        return np.array(numbers, np.int64)[pairs]


def _take_in_flight(rows: Rows) -> Rows:
    places = np.flatnonzero(~(rows.transactions.committed | rows.transactions.aborted))
    return Rows(rows.groups[places], rows.transactions.take(places), rows.reasons[places], {})
