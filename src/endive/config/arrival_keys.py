"""Define the arrival keys of a class, build the arrival processes that they describe, and read traces of submissions."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from endive.config.errors import closest, nearest
from endive.config.values import Interval, NonNegativeMs, PositiveMs, Rate, Section, Writers, duration_ms
from endive.input_files import UnreadableError, check_rows, in_short
from endive.storage import ExponentialLatency
from endive.transaction import OPERATIONS, Transaction
from endive.workload import Submission
from endive.workload import arrivals as processes
from endive.workload.arrivals import ARRIVAL_KINDS, ArrivalKind, Arrivals, kind_of


class Periodic(Section):
    """Periodic job: one transaction at phase, phase + interval, ..."""

    interval_ms: PositiveMs = Field(description="Interval between submissions.")
    phase_ms: NonNegativeMs = Field(0.0, description="Time of the first submission.")


class Closed(Section):
    """Closed loop: each client thinks, submits a transaction, and waits until the transaction ends."""

    clients: Writers = Field(description="Number of clients.")
    think_time: Interval = Field(
        default_factory=lambda: Interval(distribution="fixed", value=0.0),
        description="Think time of a client before each submission.",
    )


class RateStep(Section):
    """Step of a schedule."""

    model_config = ConfigDict(populate_by_name=True)

    from_ms: NonNegativeMs = Field(
        alias="from", description="Start of the step, relative to the start of the run (alias: `from_ms`)."
    )
    rate: Annotated[float, Field(ge=0, le=1e6)] = Field(description="Arrivals per second; 0: no arrivals.")


class ArrivalKeys(Section):
    """Arrivals of a class: at most one arrival kind, and the start and end of the class."""

    rate: Rate | None = Field(None, description="Arrivals per second, as a Poisson process.")
    inter_arrival: Interval | None = Field(None, description="Interval between arrivals; replaces `rate`.")
    periodic: Periodic | None = Field(None, description="Arrivals at fixed intervals.")
    closed: Closed | None = Field(
        None, description="Closed loop: each client waits until its transaction has finished before it submits the next one."
    )
    writers: Writers | None = Field(
        None,
        description="Number of writers. Each submits one transaction per `every_ms`, but not before its previous transaction has "
        "finished.",
    )
    every_ms: PositiveMs | None = Field(None, description="Interval between submissions of a writer (alias: `every`).")
    phase: Literal["random", "aligned", "staggered"] | None = Field(
        None,
        description="Submission times of the writers within the interval. random: a random time per writer. aligned: all at the "
        "start. staggered: evenly spaced.",
    )
    schedule: list[RateStep] | None = Field(
        None, description="Poisson arrivals at a rate that varies over time: a list of steps in chronological order."
    )
    trace: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="File of submissions to replay (*.parquet or *.csv)."
    )
    start_ms: NonNegativeMs | None = Field(None, description="Start of submissions (alias: `start`). Default: 0.")
    end_ms: PositiveMs | None = Field(None, description="End of submissions (alias: `end`). Default: end of the run.")

    @property
    def kind(self) -> ArrivalKind | None:
        """Arrival kind of the class; None if no key selects one."""
        return kind_of(dict(self))

    @model_validator(mode="after")
    def _check_arrivals(self) -> Self:
        given = ARRIVAL_KINDS.keys() & self.model_fields_set
        if len(given) > 1:
            raise ValueError(f"{' and '.join(sorted(given))} cannot be set together; keep one of them")
        for kind in ARRIVAL_KINDS.values():
            for key in kind.companions:
                if getattr(self, kind.key) is None and getattr(self, key) is not None:
                    raise ValueError(f"{key} needs {kind.key}, such as {kind.key} = 1")
        if self.writers is not None and self.every_ms is None:
            raise ValueError('writers needs every, such as every = "10s"')
        self._check_times()
        return self

    def _check_times(self) -> None:
        for key in ("start_ms", "end_ms"):
            if getattr(self, key) is not None and self.kind is not None and self.kind.has_own_times:
                raise ValueError(f"{key} has no effect with {self.kind.key}, which sets the submission times; remove {key}")
        start_ms, end_ms = self.start_ms or 0.0, self.end_ms
        if end_ms is not None and end_ms <= start_ms:
            raise ValueError(f"end_ms {end_ms:.12g} must be later than start_ms {start_ms:.12g}")
        if self.schedule is not None and not self.schedule:
            raise ValueError('schedule must have at least one step, such as schedule = [{ from = "0s", rate = 2.0 }]')
        for before, after in itertools.pairwise(self.schedule or ()):
            if after.from_ms <= before.from_ms:
                raise ValueError(
                    f"the steps of schedule must be in chronological order, but {after.from_ms:.12g} ms follows "
                    f"{before.from_ms:.12g} ms"
                )


def build_arrivals(keys: ArrivalKeys) -> Arrivals:
    """Return the arrival process that the keys describe."""
    if keys.rate is not None:
        return processes.OpenArrivals(ExponentialLatency(1000.0 / keys.rate))
    if keys.periodic is not None:
        return processes.PeriodicArrivals(keys.periodic.interval_ms, keys.periodic.phase_ms)
    if keys.closed is not None:
        return processes.ClosedArrivals(keys.closed.clients, keys.closed.think_time.to_distribution())
    if keys.writers is not None and keys.every_ms is not None:
        return processes.WriterArrivals(keys.writers, keys.every_ms, keys.phase or "random")
    if keys.schedule is not None:
        return processes.ScheduledArrivals(tuple((step.from_ms, step.rate) for step in keys.schedule))
    if keys.trace is not None:
        return processes.TraceArrivals(read_trace(Path(keys.trace)))
    assert keys.inter_arrival is not None
    return processes.OpenArrivals(keys.inter_arrival.to_distribution())


def scale_arrivals(section: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return new values of the keys that set the load of a class, for ``factor`` times the load, by dotted key."""
    kind = kind_of(section)
    changes: dict[str, Any] = {}
    for number in kind.numbers if kind is not None else ():
        first, *rest = number.path.split(".")
        if number.sets_load and rest[:1] == ["*"]:
            changes[first] = [{**item, rest[1]: _scale_value(item[rest[1]], number.quantity, factor)} for item in section[first]]
            continue
        value = section.get(first)
        for part in rest:
            value = value.get(part) if isinstance(value, Mapping) else None
        if number.sets_load and value is not None:
            changes[number.path] = _scale_value(value, number.quantity, factor)
    return changes


def _scale_value(value: Any, quantity: processes.Quantity, factor: float) -> Any:
    if quantity == "rate":
        return value * factor
    return duration_ms(value) / factor if quantity == "interval" else max(1, round(value * factor))


COLUMNS = {
    "time_ms": "time_ms",
    "time": "time_ms",
    "operation": "operation",
    "runtime_ms": "runtime_ms",
    "runtime": "runtime_ms",
    "table": "table",
    "partitions": "partitions",
}
"""Field of a submission by column of a trace."""


_NUMBER = re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")
"""Number as text. PyArrow reads a CSV column that mixes numbers and durations as strings."""


class TraceError(ValueError):
    """Raised if a trace is invalid. The message names the row and the allowed values."""


def read_trace(path: Path) -> tuple[Submission, ...]:
    """Read a trace.

    Raises:
        TraceError: If the content is invalid.
        OSError: If the file does not exist or is not readable.
    """
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


def trace_hash(path: Path) -> str:
    """Return a hash of the content of a trace."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


_BYTES_PER_SUBMISSION = 600
_MOST = 10**6
"""Exclusive upper bound of the numbers of tables and partitions."""


@lru_cache(maxsize=8)
def _read(path: Path, modified_ns: int, size: int) -> tuple[Submission, ...]:
    try:
        check_rows(path, _BYTES_PER_SUBMISSION)
    except UnreadableError as error:
        raise TraceError(str(error)) from None
    columns = _columns(path)
    if not columns["time_ms"]:
        raise TraceError("must have at least one row")
    submissions = []
    before_ms = 0.0
    for number, row in enumerate(zip(*columns.values(), strict=True), start=1):
        submission = _submission(dict(zip(columns, row, strict=True)), number)
        if submission.time_ms < before_ms:
            times = f"row {number} is at {submission.time_ms:.12g} ms and row {number - 1} at {before_ms:.12g} ms"
            raise TraceError(f"{times}; sort the rows by time")
        before_ms = submission.time_ms
        submissions.append(submission)
    return tuple(submissions)


def _columns(path: Path) -> dict[str, list[Any]]:
    """Read the columns of a file by their canonical names."""
    import pyarrow as pa

    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet

            table = pyarrow.parquet.read_table(path)
        elif path.suffix == ".csv":
            import pyarrow.csv

            table = pyarrow.csv.read_csv(path)
        else:
            raise TraceError("must end in .parquet or .csv")
        names = table.column_names
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"cannot be read: {in_short(str(error))}") from error
    except UnicodeDecodeError:
        raise TraceError("is not valid UTF-8") from None
    found: dict[str, list[Any]] = {}
    for name in names:
        if name not in COLUMNS:
            raise TraceError(f"unknown column {in_short(repr(name))}; {nearest(name, COLUMNS)}")
        if names.count(name) > 1:
            raise TraceError(f"duplicate column {in_short(repr(name))}")
        if COLUMNS[name] in found:
            raise TraceError(f"column {in_short(repr(name))} is an alias of {COLUMNS[name]!r}; keep one of them")
        found[COLUMNS[name]] = table.column(name).to_pylist()
    if "time_ms" not in found:
        raise TraceError("must have a column 'time_ms'")
    return found


def _submission(row: dict[str, Any], number: int) -> Submission:
    table = _whole(row.get("table"), f"row {number}: table")
    partitions = _partitions(row.get("partitions"), f"row {number}: partitions")
    if partitions is not None and table is None:
        raise TraceError(f"row {number}: partitions require a table")
    time_ms = _time(row["time_ms"], f"row {number}: time_ms")
    if time_ms is None:
        raise TraceError(f"row {number}: time_ms is missing")
    runtime_ms = _time(row.get("runtime_ms"), f"row {number}: runtime_ms")
    return Submission(time_ms, _operation(row.get("operation"), number), runtime_ms, table, partitions)


def _operation(name: Any, number: int) -> type[Transaction] | None:
    if name is None or name == "":
        return None
    if name not in OPERATIONS:
        allowed = closest(str(name), OPERATIONS) or f"; allowed: {', '.join(sorted(OPERATIONS))}"
        raise TraceError(f"row {number}: unknown operation {in_short(repr(name))}{allowed}")
    return OPERATIONS[name]


def _time(value: Any, where: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        number = float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else duration_ms(value)
    except ValueError as error:
        raise TraceError(f"{where} {error} (got {in_short(repr(value))})") from None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number) or number < 0:
        raise TraceError(f"{where} must be a finite number of milliseconds, at least 0 (got {in_short(repr(value))})")
    return float(number)


def _whole(value: Any, where: str) -> int | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST or value != int(value):
        raise TraceError(f"{where} must be a whole number from 0 to {_MOST - 1:,} (got {in_short(repr(value))})")
    return int(value)


def _partitions(value: Any, where: str) -> frozenset[int] | None:
    """Parse partitions, given as a list or as text such as ``0;3``."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        parts = re.split(r"[;\s]+", value.strip())
        if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
            raise TraceError(f"{where} must be numbers such as '0;3' (got {in_short(repr(value))})")
        value = [int(part) for part in parts]
    items = [_whole(item, where) for item in (value if isinstance(value, list) else [value])]
    if not items:
        raise TraceError(f"{where} must not be empty")
    return frozenset(item for item in items if item is not None)
