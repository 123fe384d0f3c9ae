"""Consolidate the runs of many experiments in one partitioned Parquet dataset, for tools that need a single table.

    ROOT/consolidated/experiment=NAME/operation_type=OPERATION/part-00000.parquet

No command needs the dataset, because metrics are measured from the files of the runs. A part of the dataset contains all rows of
some seeds of one experiment, up to about a million rows, with the parameters of the experiment as columns. Each file records the
digest of its results and parameters, so that a part is written again only if they change. The same runs give the same bytes on
every machine. A lock prevents concurrent consolidations of a directory.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from endive.output_files import check_inside, discard, locked, remove_leftovers, whole_file
from endive.pipeline.jobs import Report, count_tasks, deal, read_specs, run_tasks
from endive.pipeline.metrics import Sessions
from endive.runs.contents import structure_problem
from endive.runs.identity import Value
from endive.runs.layout import LOCK, dataset_folder, part_file, part_files, run_directory
from endive.runs.stored import Damage, Inventory, PipelineError, StoredRun, take_inventory
from endive.simulation.columns import RESULT_SCHEMA, parquet_options
from endive.transaction import OPERATIONS

PART_ROWS = 1_000_000
"""Number of rows above which no further seeds are added to a part."""
ROW_GROUP_ROWS = 131_072
ROW_SCHEMA = pa.schema([pa.field("seed", pa.int64()), *(field for field in RESULT_SCHEMA if field.name != "operation_type")])
"""Columns of a file, except the parameters that follow them. Experiment and operation are in the path."""
_FORMAT = 2
_ROWS_PER_TASK = 2_000_000
_ROWS_PER_FILE = 20_000
"""Number of rows that are copied in the time that it takes to open a file."""
_NOTE_KEY = b"endive.part"
_OUTCOME, _OUTCOME_DDL = pa.schema([("outcome", pa.string())]), "outcome string"


@dataclass(frozen=True, eq=False)
class PartSpec:
    """Specification of a part of the dataset for a task."""

    root: str
    experiment: str
    number: int
    seeds: tuple[int, ...]
    parameters: Mapping[str, Value]
    digest: str

    def path(self, operation: str) -> Path:
        """Return the file of an operation of the part."""
        return part_file(dataset_folder(Path(self.root)), self.experiment, operation, self.number)


@dataclass(frozen=True)
class PartNote:
    """Metadata of every file of a part.

    Attributes:
        digest: Hash of the results and parameters of the runs in the part.
        rows: Rows of the part by operation.
        damaged: Omitted runs, each with the reason.
    """

    digest: str
    rows: dict[str, int]
    damaged: dict[int, str]


@dataclass(frozen=True)
class Consolidation:
    """Result of a consolidation: the numbers of written and reused parts, and the content of the dataset."""

    parts_written: int
    parts_reused: int
    files_removed: int
    experiments: int
    runs: int
    rows: int
    files: int
    unfinished_runs: int
    problems: tuple[Damage, ...]


_SPEC, _NOTE = TypeAdapter(PartSpec), TypeAdapter(PartNote)


def consolidate(root: Path, sessions: Sessions, *, tasks: int | None = None, report: Report | None = None) -> Consolidation:
    """Update the dataset of a directory of experiments.

    Args:
        root: Directory of experiments.
        sessions: Factory of the Spark session, which is created only if something must be written.
        tasks: Number of Spark tasks; by default, determined from the number of rows.
        report: Function that is called with the number of finished tasks and the number of all tasks.

    Raises:
        PipelineError: If there is no finished run, or another consolidation is running.
    """
    inventory = take_inventory(root)
    inventory.require_rows(root)
    with _lock(root):
        specs = plan_parts(root, inventory)
        notes = {spec: note for spec in specs if (note := read_note(spec)) is not None}
        removed = _remove_stale(root, notes)
        missing = [spec for spec in specs if spec not in notes]
        notes |= _write_parts(missing, inventory, sessions, tasks, report) if missing else {}
    damage = [
        Damage(f"{spec.experiment} seed {seed}", why) for spec, note in notes.items() for seed, why in sorted(note.damaged.items())
    ]
    return Consolidation(
        parts_written=len(missing),
        parts_reused=len(specs) - len(missing),
        files_removed=removed,
        experiments=len({spec.experiment for spec in notes}),
        runs=sum(len(spec.seeds) - len(note.damaged) for spec, note in notes.items()),
        rows=sum(sum(note.rows.values()) for note in notes.values()),
        files=sum(len(note.rows) for note in notes.values()),
        unfinished_runs=inventory.unfinished,
        problems=(*inventory.problems, *damage),
    )


def plan_parts(root: Path, inventory: Inventory) -> list[PartSpec]:
    """Divide the runs of each experiment into parts, in the order of their seeds."""
    specs = []
    for name, experiment in inventory.experiments.items():
        parts: list[list[Any]] = [[]]
        rows = 0
        for run in experiment.runs:
            if rows >= PART_ROWS:
                parts.append([])
                rows = 0
            parts[-1].append(run)
            rows += run.rows
        for number, runs in enumerate(parts):
            content = [_FORMAT, dict(experiment.parameters), [(run.seed, run.results_sha256) for run in runs]]
            digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
            seeds = tuple(run.seed for run in runs)
            specs.append(PartSpec(str(root.resolve()), name, number, seeds, experiment.parameters, digest))
    return specs


def read_note(spec: PartSpec) -> PartNote | None:
    """Return the metadata of a part, or None if the part is missing, incomplete or outdated."""
    for operation in OPERATIONS:
        note = _note_of(spec.path(operation))
        if note is None or note.digest != spec.digest or note.damaged:
            continue
        if all((found := _note_of(spec.path(each))) is not None and found.digest == spec.digest for each in note.rows):
            return note
    return None


def _note_of(path: Path) -> PartNote | None:
    if not path.is_file():  # opening a pipe would block
        return None
    try:
        return _NOTE.validate_json((pq.read_metadata(path).metadata or {})[_NOTE_KEY])
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return None


def _remove_stale(root: Path, notes: Mapping[PartSpec, PartNote]) -> int:
    """Remove files of outdated parts before new parts are written, so that no row exists twice."""
    place = dataset_folder(root)
    current = {spec.path(operation) for spec, note in notes.items() for operation in note.rows}
    stale = [path for path in part_files(place.resolve()) if path not in current]
    for path in stale:
        discard(path)
    remove_leftovers(place)
    for folder in (*place.glob("experiment=*/operation_type=*"), *place.glob("experiment=*")):
        with suppress(OSError):
            folder.rmdir()  # fails unless the directory is empty
    return len(stale)


def _write_parts(
    specs: list[PartSpec], inventory: Inventory, sessions: Sessions, tasks: int | None, report: Report | None
) -> dict[PartSpec, PartNote]:
    rows = {(name, run.seed): run.rows for name, each in inventory.experiments.items() for run in each.runs}
    weights = [float(sum(rows[spec.experiment, seed] + _ROWS_PER_FILE for seed in spec.seeds)) for spec in specs]
    with sessions() as spark:
        wanted = tasks or count_tasks(spark, sum(weights), _ROWS_PER_TASK)
        texts = [_SPEC.dump_json(spec).decode() for spec in specs]
        written = run_tasks(spark, deal(texts, weights, wanted), write_parts, _OUTCOME_DDL, report)
    outcomes = [json.loads(text) for text in written.column("outcome").to_pylist()]
    errors = [outcome["error"] for outcome in outcomes if outcome["error"] is not None]
    if errors:
        raise PipelineError(sorted(errors)[0])
    by_key = {(outcome["experiment"], outcome["number"]): _NOTE.validate_python(outcome["note"]) for outcome in outcomes}
    return {spec: by_key[spec.experiment, spec.number] for spec in specs}


def write_parts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write parts of the dataset in a Spark task. Each row specifies one part."""
    for text in read_specs(batches):
        spec = _SPEC.validate_json(text)
        outcome: dict[str, Any] = {"experiment": spec.experiment, "number": spec.number, "note": None, "error": None}
        try:
            outcome["note"] = asdict(write_part(spec))
        except OSError as error:
            outcome["error"] = f"{dataset_folder(Path(spec.root))}: the dataset cannot be written: {error}"
        yield pa.RecordBatch.from_pylist([{"outcome": json.dumps(outcome)}], schema=_OUTCOME)


def write_part(spec: PartSpec) -> PartNote:
    """Write the files of a part, one for each operation. Damaged runs are skipped."""
    runs = {seed: StoredRun(run_directory(Path(spec.root) / spec.experiment, seed)) for seed in spec.seeds}
    damaged = {seed: problem for seed, run in runs.items() if (problem := structure_problem(run)) is not None}
    while True:
        try:
            return _write_files(spec, {seed: run for seed, run in runs.items() if seed not in damaged}, damaged)
        except _UnreadableRunError as error:
            damaged[error.seed] = str(error)


class _UnreadableRunError(Exception):
    def __init__(self, seed: int, message: str) -> None:
        super().__init__(message)
        self.seed = seed


def _write_files(spec: PartSpec, runs: Mapping[int, StoredRun], damaged: dict[int, str]) -> PartNote:
    writers: dict[str, _PartWriter] = {}
    with ExitStack() as stack:
        for run in runs.values():
            for operation, rows in _read_rows(run):
                if operation not in writers:
                    path = spec.path(operation)
                    check_inside(path, Path(spec.root))
                    temporary = stack.enter_context(whole_file(path))
                    writers[operation] = stack.enter_context(_PartWriter(temporary, spec.parameters))
                writers[operation].add(rows)
        note = PartNote(spec.digest, {operation: writer.rows for operation, writer in sorted(writers.items())}, damaged)
        for writer in writers.values():
            writer.finish(note)
    return note


def _read_rows(run: StoredRun) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of a run by operation, with the columns of the dataset."""
    try:
        with pq.ParquetFile(run.results) as file:
            for batch in file.iter_batches(batch_size=ROW_GROUP_ROWS, columns=RESULT_SCHEMA.names):
                operations = batch.column("operation_type")
                if batch.column("workload_class").null_count:
                    raise _UnreadableRunError(run.seed, "its column workload_class is null in some rows")
                names = pc.unique(operations).to_pylist()
                if not set(names) <= set(OPERATIONS):
                    raise _UnreadableRunError(run.seed, "its column operation_type has a value that is not an operation")
                for operation in sorted(names):
                    rows = batch.filter(pc.equal(operations, operation))
                    columns = [rows.column(field.name).cast(field.type) for field in ROW_SCHEMA if field.name != "seed"]
                    seeds = pa.repeat(pa.scalar(run.seed, pa.int64()), rows.num_rows)
                    yield operation, pa.RecordBatch.from_arrays([seeds, *columns], schema=ROW_SCHEMA)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise _UnreadableRunError(run.seed, f"results cannot be read: {str(error).splitlines()[0][:200]}") from None


class _PartWriter:
    """Writer of full row groups, which adds the parameters of the experiment as columns."""

    def __init__(self, path: Path, parameters: Mapping[str, Value]) -> None:
        self.rows = 0
        self._parameters = parameters
        fields = [pa.field(name, _repeat(value, 0).type) for name, value in parameters.items()]
        schema = pa.schema([*ROW_SCHEMA, *fields])
        self._writer = pq.ParquetWriter(path, schema, **parquet_options(schema), store_schema=False, write_page_checksum=True)
        self._buffer: list[pa.RecordBatch] = []
        self._buffered = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        self._buffer.append(rows)
        self._buffered += rows.num_rows
        self.rows += rows.num_rows
        if self._buffered >= ROW_GROUP_ROWS:
            self._flush()

    def finish(self, note: PartNote) -> None:
        """Write the remaining rows and the metadata of the part."""
        self._flush()
        self._writer.add_key_value_metadata({_NOTE_KEY: json.dumps(asdict(note)).encode()})
        self._writer.close()

    def _flush(self) -> None:
        if not self._buffer:
            return
        table = pa.Table.from_batches(self._buffer, ROW_SCHEMA)
        columns = [*table.columns, *(_repeat(value, table.num_rows) for value in self._parameters.values())]
        whole = pa.Table.from_arrays(columns, [*table.column_names, *self._parameters])
        self._writer.write_table(whole, row_group_size=table.num_rows)
        self._buffer, self._buffered = [], 0

    def __enter__(self) -> _PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


def _repeat(value: Value, rows: int) -> pa.Array:
    """Return a dictionary-encoded column that repeats a value. Writing it to Parquet takes half the time of a plain column."""
    if isinstance(value, bool):
        return pa.repeat(pa.scalar(value), rows)
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value]))


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    """Hold the lock of the dataset, which the operating system releases when the process ends."""
    place = dataset_folder(root)
    check_inside(place, root)
    place.mkdir(exist_ok=True)
    with ExitStack() as held:
        try:
            held.enter_context(locked(place / LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB))
        except BlockingIOError:
            raise PipelineError(f"{root}: another `endive consolidate` is running in this directory") from None
        yield
