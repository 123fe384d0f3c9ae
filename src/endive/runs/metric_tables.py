"""Tables of metrics on disk: written together, under a lock, so that readers see those of one measurement."""

from __future__ import annotations

import fcntl
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
from endive.output_files import check_inside, checksum, locked, whole_file, write_text
from endive.runs.layout import LOCK, METRICS_FOLDER, METRICS_STATE, METRICS_TABLES, metrics_table


def write_tables(root: Path, tables: Mapping[str, pa.Table], state: Mapping[str, Any]) -> None:
    """Write all tables, by the name of their view, as Parquet and CSV, and the state that they describe, with their checksums."""
    check_inside(root / METRICS_FOLDER / METRICS_STATE, root)
    with _locked(root, fcntl.LOCK_EX):
        with ExitStack() as written:  # when it closes, all of them take their places
            for view, name in METRICS_TABLES.items():
                csv.write_csv(for_spreadsheets(tables[view]), written.enter_context(whole_file(metrics_table(root, name, "csv"))))
                parquet = written.enter_context(whole_file(metrics_table(root, name, "parquet")))
                pq.write_table(tables[view], parquet, compression="zstd", write_page_checksum=True)
        record = {**state, "tables": {name: checksum(metrics_table(root, name, "parquet")) for name in METRICS_TABLES.values()}}
        write_text(root / METRICS_FOLDER / METRICS_STATE, json.dumps(record) + "\n")


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """Return a table for CSV, with a quote before texts that a spreadsheet would compute (they begin with =, +, - or @)."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = pc.replace_substring_regex(table.column(number), r"\A([=+@\t\r-])", r"'\1")
            table = table.set_column(number, field, column)
    return table


def read_tables(root: Path) -> dict[str, pa.Table] | None:
    """Read all tables by the name of their view; None if one is missing, damaged or of another measurement."""
    paths = {view: metrics_table(root, name, "parquet") for view, name in METRICS_TABLES.items()}
    try:
        with _locked(root, fcntl.LOCK_SH):
            if not all(path.is_file() for path in paths.values()):  # a pipe would be waited for
                return None
            if {METRICS_TABLES[view]: checksum(path) for view, path in paths.items()} != _read_record(root).get("tables"):
                return None
            return {view: pq.read_table(path, page_checksum_verification=True) for view, path in paths.items()}
    except (OSError, pa.ArrowException):
        return None


def read_state(root: Path) -> dict[str, Any] | None:
    """Read the state that the tables describe, as it was given; None if there is none."""
    found = _read_record(root)
    return {name: value for name, value in found.items() if name != "tables"} if isinstance(found.get("tables"), dict) else None


def _read_record(root: Path) -> dict[str, Any]:
    try:
        found = read_json(root / METRICS_FOLDER / METRICS_STATE)
    except UnreadableError:
        return {}
    return found if isinstance(found, dict) else {}


@contextmanager
def _locked(root: Path, kind: int) -> Iterator[None]:
    """Wait for the lock of the tables; it is released with the process."""
    lock = root / METRICS_FOLDER / LOCK
    if kind == fcntl.LOCK_EX:
        lock.parent.mkdir(parents=True, exist_ok=True)
    elif not lock.is_file():
        yield  # tables that were copied here have no writer
        return
    with locked(lock, kind):
        yield
