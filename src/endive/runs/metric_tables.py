"""Write and read the tables of metrics.

All tables are written together under a lock, so that all tables that a reader gets belong to the same measurement.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from endive.input_files import UnreadableError, read_json
from endive.output_files import check_inside, checksum, discard, errors_naming, locked, whole_file, write_text
from endive.runs.layout import LOCK, METRICS_FOLDER, METRICS_STATE, METRICS_TABLES, measured_units, metrics_table
from endive.runs.records import CHECKSUM, is_sealed, seal_record

_ENDINGS = ("parquet", "csv")


def write_tables(root: Path, tables: Mapping[str, pa.Table], state: Mapping[str, Any]) -> None:
    """Write all tables (by view name) as Parquet and CSV, and a record of their checksums and of the state that they describe."""
    check_inside(root / METRICS_FOLDER / METRICS_STATE, root)
    with _hold_lock(root, fcntl.LOCK_EX):
        with ExitStack() as written:  # when the block ends, all files are renamed to their final names
            for view, name in METRICS_TABLES.items():
                csv.write_csv(for_spreadsheets(tables[view]), written.enter_context(whole_file(metrics_table(root, name, "csv"))))
                parquet = written.enter_context(whole_file(metrics_table(root, name, "parquet")))
                pq.write_table(tables[view], parquet, compression="zstd", write_page_checksum=True)
        checksums = {path.name: checksum(path) for path in _table_files(root)}
        write_text(root / METRICS_FOLDER / METRICS_STATE, json.dumps(seal_record({**state, "tables": checksums})) + "\n")


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """Return a table for CSV, with a quote before each text that a spreadsheet would evaluate (starting with =, +, - or @)."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = pc.replace_substring_regex(table.column(number), r"\A([=+@\t\r-])", r"'\1")
            table = table.set_column(number, field, column)
    return table


def read_tables(root: Path) -> dict[str, pa.Table] | None:
    """Read all tables by view name. Return None if a table is missing, damaged, or from a different measurement."""
    paths = {view: metrics_table(root, name, "parquet") for view, name in METRICS_TABLES.items()}
    try:
        with _hold_lock(root, fcntl.LOCK_SH):
            if not all(path.is_file() for path in paths.values()):  # opening a pipe would block
                return None
            checksums = _checksums(_read_record(root))
            if any(checksum(path) != checksums.get(path.name) for path in paths.values()):
                return None
            return {view: pq.read_table(path, page_checksum_verification=True) for view, path in paths.items()}
    except (OSError, pa.ArrowException):
        return None


def read_state(root: Path) -> dict[str, Any] | None:
    """Read the state that the tables describe. Return None if no state is recorded."""
    found = _read_record(root)
    kept = {name: value for name, value in found.items() if name not in ("tables", CHECKSUM)}
    return kept if isinstance(found.get("tables"), dict) else None


def find_damaged_tables(root: Path) -> list[str]:
    """Return the problems of the tables, and of the rows of metrics behind them; empty if there are no tables."""
    with _hold_lock(root, fcntl.LOCK_SH):
        return [f"{METRICS_FOLDER}/{problem}" for problem in (*_damaged_tables(root), *_damaged_units(root))]


def _damaged_tables(root: Path) -> Iterator[str]:
    if not any(path.exists() for path in (root / METRICS_FOLDER / METRICS_STATE, *_table_files(root))):
        return
    found = _read_record(root)
    if not found:
        yield f"{METRICS_STATE} is missing or damaged"
        return
    checksums = _checksums(found)
    for path in _table_files(root):
        if not path.is_file():
            yield f"{path.name} is missing"
        elif path.name in checksums and checksum(path) != checksums[path.name]:
            yield f"{path.name}: corrupt: its checksum does not match"


def _damaged_units(root: Path) -> Iterator[str]:
    folder = measured_units(root)
    for path in sorted(folder.glob("*.parquet")):
        digest = path.stem.partition("-")[2]  # file names of older versions have no checksum
        if digest and not (path.is_file() and checksum(path) == digest):
            yield f"{path.relative_to(root / METRICS_FOLDER)}: corrupt: its checksum does not match"


def write_unit(folder: Path, key: str, rows: pa.Table) -> None:
    """Write the metrics of runs that share a window. The file name contains their key and the checksum of the file."""
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer, compression="zstd")
    content = buffer.getvalue().to_pybytes()
    path = folder / f"{key}-{hashlib.sha256(content).hexdigest()}.parquet"
    with whole_file(path) as temporary, errors_naming(path):
        temporary.write_bytes(content)
    for other in set(folder.glob(f"{key}-*.parquet")) - {path}:
        discard(other)


def read_unit_file(folder: Path, key: str) -> pa.Table | None:
    """Read the metrics that ``write_unit`` wrote. Return None if the file is missing or damaged."""
    for path in folder.glob(f"{key}-*.parquet"):
        try:
            if path.is_file() and checksum(path) == path.stem.partition("-")[2]:
                return pq.read_table(path)
        except (OSError, pa.ArrowException):
            continue
    return None


def _table_files(root: Path) -> list[Path]:
    return [metrics_table(root, name, ending) for name in METRICS_TABLES.values() for ending in _ENDINGS]


def _checksums(record: Mapping[str, Any]) -> dict[str, str]:
    found = record.get("tables")
    return found if isinstance(found, dict) else {}


def _read_record(root: Path) -> dict[str, Any]:
    """Read the record of the tables. Return an empty dict if the record is missing or damaged."""
    try:
        found = read_json(root / METRICS_FOLDER / METRICS_STATE)
    except UnreadableError:
        return {}
    return found if isinstance(found, dict) and is_sealed(found) else {}


@contextmanager
def _hold_lock(root: Path, kind: int) -> Iterator[None]:
    """Hold the lock of the tables, which is released when the process ends."""
    lock = root / METRICS_FOLDER / LOCK
    if kind == fcntl.LOCK_EX:
        lock.parent.mkdir(parents=True, exist_ok=True)
    elif not lock.is_file():
        yield  # the tables are a copy, so no process writes them
        return
    with locked(lock, kind):
        yield
