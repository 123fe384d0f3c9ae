"""Write the runs of a directory of experiments as Iceberg tables, for engines that read Iceberg.

    NAMESPACE.TABLE_transactions   all rows of all runs, partitioned by experiment and seed
    NAMESPACE.TABLE_metrics        metrics of each run, class and operation
    NAMESPACE.TABLE_runs           the runs, with the parameters of their experiment; a run is listed after its rows are committed

Tasks write one Parquet file per run, and the driver adds the files of a table in one commit. Runs are identified by experiment and
seed, which determine their rows, so each run is added only once. Several drivers can write concurrently: a driver that loses the
race reads the list of runs again. PyIceberg's automatic retries are disabled, because they would repeat a commit without reading
the list again. If a driver is killed before its commit, its files belong to no snapshot and can be removed like other orphan files.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from endive.pipeline.jobs import Report, count_tasks, deal, read_specs, run_tasks
from endive.pipeline.metrics import Sessions, current_tables
from endive.runs.contents import structure_problem
from endive.runs.layout import run_directory
from endive.runs.stored import Damage, Inventory, PipelineError, StoredRun, take_inventory
from endive.simulation.columns import RESULT_SCHEMA

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table, Transaction

TABLE_FORMAT = "Iceberg"
RUN_KEY = (pa.field("experiment", pa.string()), pa.field("seed", pa.int64()))
TRANSACTIONS_SCHEMA = pa.schema([*RUN_KEY, *RESULT_SCHEMA])
RUNS_SCHEMA = pa.schema(
    [
        *RUN_KEY,
        ("label", pa.string()),
        ("hash", pa.string()),
        ("code_version", pa.string()),
        ("duration_ms", pa.float64()),
        ("rows", pa.int64()),
        ("results_sha256", pa.string()),
        ("parameters", pa.string()),
    ]
)
_NO_RETRIES = {"commit.retry.num-retries": "0"}
_ATTEMPTS = 50
_ALREADY_EXISTS = "already exists"
"""Error of a driver that creates the tables of a new SQL catalog at the same time as another driver. A second try finds them."""
_WAIT_SECONDS = 0.1
_ROWS_PER_TASK = 2_000_000
_ROWS_PER_FILE = 20_000
_OUTCOME, _OUTCOME_DDL = pa.schema([("outcome", pa.string())]), "outcome string"
Key = tuple[str, int]
"""Experiment and seed of a run."""


@dataclass(frozen=True)
class TableTarget:
    """Catalog, namespace and prefix of the names of the tables."""

    catalog: str
    namespace: str
    name: str

    def table(self, suffix: str) -> str:
        """Return the name of a table in the catalog."""
        return f"{self.namespace}.{self.name}_{suffix}"


@dataclass(frozen=True)
class IcebergExport:
    """Result of an export: names of the tables, numbers of added and existing runs, and damaged runs."""

    tables: tuple[str, ...]
    runs_added: int
    runs_present: int
    rows: int
    unfinished_runs: int
    problems: tuple[Damage, ...]


@dataclass(frozen=True)
class FileSpec:
    """Specification of the file of a run for a task."""

    root: str
    experiment: str
    seed: int
    path: str
    properties: Mapping[str, str]


_SPEC = TypeAdapter(FileSpec)


def parse_target(text: str) -> TableTarget:
    """Parse ``CATALOG.NAMESPACE.TABLE``. A namespace can have several parts.

    Raises:
        PipelineError: If the text has fewer than three parts, or PyIceberg is not installed.
    """
    catalog, _, rest = text.partition(".")
    namespace, _, name = rest.rpartition(".")
    if not (catalog and namespace and name):
        raise PipelineError(f"--to iceberg {text}: expected CATALOG.NAMESPACE.TABLE, such as prod.lab.endive", usage=True)
    return TableTarget(catalog, namespace, name)


def open_catalog(target: TableTarget) -> Catalog:
    """Open the catalog of a target, according to PyIceberg's configuration.

    Raises:
        PipelineError: If PyIceberg is not installed, or the catalog cannot be opened.
    """
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.utils.config import Config
    except ImportError:
        raise PipelineError("--to iceberg needs PyIceberg: `pip install 'endive[iceberg]'`", usage=True) from None
    properties: dict[str, Any] = dict(Config().get_catalog_config(target.catalog) or {})
    try:
        try:
            return load_catalog(target.catalog, **properties)
        except Exception as error:
            if _ALREADY_EXISTS not in str(error):
                raise
            return load_catalog(target.catalog, **properties)
    except Exception as error:  # catalogs raise exceptions of many types
        reason = str(error).partition("\n")[0]
        raise PipelineError(f"catalog {target.catalog!r}: {type(error).__name__}: {reason}", usage=True) from None


def export_study(
    root: Path, target: TableTarget, catalog: Catalog, sessions: Sessions, *, report: Report | None = None
) -> IcebergExport:
    """Update the tables of a directory of experiments.

    Args:
        root: Directory of experiments.
        target: Names of the tables.
        catalog: Catalog of the tables.
        sessions: Factory of the Spark session or the threads that write and measure.
        report: Function that is called with the number of finished tasks and the number of all tasks.

    Raises:
        PipelineError: If there is no finished run, or a table cannot be written.
    """
    inventory = take_inventory(root)
    inventory.require_rows(root)
    catalog.create_namespace_if_not_exists(target.namespace)
    transactions = _open_table(catalog, target.table("transactions"), TRANSACTIONS_SCHEMA, ("experiment", "seed"))
    runs = {(name, run.seed): run.rows for name, each in inventory.experiments.items() for run in each.runs}
    present = list_runs(transactions)
    missing = [key for key, rows in runs.items() if rows and key not in present]
    damaged: dict[Key, str] = {}
    added = 0
    if missing:
        files, damaged = _write_files(root, transactions, {key: runs[key] for key in missing}, sessions, report)
        added = _add_files(catalog, target.table("transactions"), files)
    usable = inventory.without([(name, seed, why) for (name, seed), why in sorted(damaged.items())])
    measured = current_tables(root, sessions).tables["runs"]
    _replace_rows(catalog, target.table("metrics"), measured, ("experiment",))
    _replace_rows(catalog, target.table("runs"), _make_runs_table(usable), ("experiment",))
    return IcebergExport(
        tuple(target.table(each) for each in ("transactions", "metrics", "runs")),
        runs_added=added,
        runs_present=len(runs) - len(damaged) - added,
        rows=sum(rows for key, rows in runs.items() if key not in damaged),
        unfinished_runs=inventory.unfinished,
        problems=usable.problems,
    )


def list_runs(table: Table) -> set[Key]:
    """Return the runs that a table contains, from its partitions."""
    if table.current_snapshot() is None:
        return set()
    return {(row["partition"]["experiment"], row["partition"]["seed"]) for row in table.inspect.partitions().to_pylist()}


def _open_table(catalog: Catalog, name: str, schema: pa.Schema, partitions: Sequence[str]) -> Table:
    """Load a table. Create it if it does not exist, and add missing columns."""
    from pyiceberg.exceptions import TableAlreadyExistsError

    if not catalog.table_exists(name):
        try:
            with (
                catalog.create_table_transaction(name, schema, properties=_NO_RETRIES) as creation,
                creation.update_spec() as spec,
            ):
                for column in partitions:
                    spec.add_identity(column)
        except TableAlreadyExistsError:
            pass

    def prepare(table: Table) -> Callable[[Transaction], None] | None:
        missing = set(schema.names) - {field.name for field in table.schema().fields}
        if not missing and table.properties.get(next(iter(_NO_RETRIES))) == "0":
            return None

        def change(transaction: Transaction) -> None:
            transaction.set_properties(_NO_RETRIES)
            with transaction.update_schema() as update:
                update.union_by_name(schema)

        return change

    return _commit(catalog, name, prepare)


def _commit(catalog: Catalog, name: str, prepare: Callable[[Table], Callable[[Transaction], None] | None]) -> Table:
    """Commit a change to a table. If the commit loses the race, ``prepare`` derives the change again from the table's new state.

    ``prepare`` returns None if no change is needed.
    """
    from pyiceberg.exceptions import CommitFailedException

    for _ in range(_ATTEMPTS):
        table = catalog.load_table(name)
        change = prepare(table)
        if change is None:
            return table
        try:
            with table.transaction() as transaction:
                change(transaction)
        except CommitFailedException:
            time.sleep(_WAIT_SECONDS * random.random())
            continue
        return catalog.load_table(name)
    raise PipelineError(
        f"{name}: {_ATTEMPTS} commit attempts failed because of concurrent commits by other writers; run the command again"
    )


def _add_files(catalog: Catalog, name: str, files: Mapping[Key, str]) -> int:
    """Add the files of runs that the table lacks, delete the other files, and return the number of added runs."""

    def prepare(table: Table) -> Callable[[Transaction], None] | None:
        present = list_runs(table)
        new = [path for key, path in files.items() if key not in present]
        return (lambda transaction: transaction.add_files(new, check_duplicate_files=False)) if new else None

    table = _commit(catalog, name, prepare)
    used = set(table.inspect.data_files().column("file_path").to_pylist()) if files else set()
    others = [path for path in files.values() if path not in used]
    for path in others:
        table.io.delete(path)
    return len(files) - len(others)


def _replace_rows(catalog: Catalog, name: str, rows: pa.Table, partitions: Sequence[str]) -> None:
    """Replace the rows of the experiments in a table, unless they are unchanged."""
    from pyiceberg.expressions import In

    _open_table(catalog, name, rows.schema, partitions)
    order = [(field.name, "ascending") for field in rows.schema if not pa.types.is_floating(field.type)]
    wanted = rows.sort_by(order)
    chosen = In("experiment", set(rows.column("experiment").to_pylist()))  # type: ignore[call-arg]

    def prepare(table: Table) -> Callable[[Transaction], None] | None:
        found = table.scan(row_filter=chosen).to_arrow()
        same = found.num_rows == wanted.num_rows and (
            found.select(wanted.column_names).cast(wanted.schema).sort_by(order).to_pandas().equals(wanted.to_pandas())
        )
        if same:
            return None
        if not found.num_rows:
            return lambda transaction: transaction.append(wanted)
        return lambda transaction: transaction.overwrite(wanted, overwrite_filter=chosen)

    if rows.num_rows:
        _commit(catalog, name, prepare)


def _make_runs_table(inventory: Inventory) -> pa.Table:
    rows = [
        {
            "experiment": name,
            "seed": run.seed,
            "label": each.label,
            "hash": each.hash,
            "code_version": each.code_version,
            "duration_ms": each.duration_ms,
            "rows": run.rows,
            "results_sha256": run.results_sha256,
            "parameters": json.dumps(dict(each.parameters), sort_keys=True),
        }
        for name, each in inventory.experiments.items()
        for run in each.runs
    ]
    return pa.Table.from_pylist(rows, schema=RUNS_SCHEMA)


def _write_files(
    root: Path, table: Table, runs: Mapping[Key, int], sessions: Sessions, report: Report | None
) -> tuple[dict[Key, str], dict[Key, str]]:
    """Write a file for each run in tasks. Return the files, and the reasons why some runs cannot be used."""
    specs = [
        FileSpec(
            str(root.resolve()),
            experiment,
            seed,
            f"{table.location().rstrip('/')}/data/{experiment}-{seed}-{uuid.uuid4()}.parquet",
            {name: str(value) for name, value in table.io.properties.items()},
        )
        for experiment, seed in runs
    ]
    weights = [float(rows + _ROWS_PER_FILE) for rows in runs.values()]
    with sessions() as spark:
        tasks = deal([_SPEC.dump_json(each).decode() for each in specs], weights, count_tasks(spark, sum(weights), _ROWS_PER_TASK))
        done = run_tasks(spark, tasks, write_files, _OUTCOME_DDL, report)
    outcomes = [json.loads(text) for text in done.column("outcome").to_pylist()]
    files = {(each["experiment"], each["seed"]): each["path"] for each in outcomes if each["problem"] is None}
    return files, {(each["experiment"], each["seed"]): each["problem"] for each in outcomes if each["problem"] is not None}


def write_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the files of runs in a Spark task. Each row specifies one run."""
    for text in read_specs(batches):
        spec = _SPEC.validate_json(text)
        outcome = {"experiment": spec.experiment, "seed": spec.seed, "path": spec.path, "problem": _write_file(spec)}
        yield pa.RecordBatch.from_pylist([{"outcome": json.dumps(outcome)}], schema=_OUTCOME)


def _write_file(spec: FileSpec) -> str | None:
    """Copy the rows of a run to a data file. Return the reason if the run cannot be used."""
    from pyiceberg.io import load_file_io

    run = StoredRun(run_directory(Path(spec.root) / spec.experiment, spec.seed))
    problem = structure_problem(run)
    if problem is not None:
        return problem
    output = load_file_io(dict(spec.properties), spec.path).new_output(spec.path)
    with (
        pq.ParquetFile(run.results) as rows,
        output.create(overwrite=True) as stream,
        pq.ParquetWriter(stream, TRANSACTIONS_SCHEMA, compression="zstd", store_schema=False) as writer,
    ):
        for batch in rows.iter_batches(columns=RESULT_SCHEMA.names):
            key = [pa.repeat(pa.scalar(value), len(batch)) for value in (spec.experiment, spec.seed)]
            columns = [batch.column(field.name).cast(field.type) for field in RESULT_SCHEMA]
            writer.write_batch(pa.RecordBatch.from_arrays([*key, *columns], schema=TRANSACTIONS_SCHEMA))
    return None
