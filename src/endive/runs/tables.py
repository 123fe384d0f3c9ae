"""The tables of metrics on disk, which belong together: they are written beside their places and appear together, under a lock."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from endive.files import check_inside, locked, whole_file, write_text
from endive.runs.layout import LOCK, METRICS_FOLDER, METRICS_STATE, METRICS_TABLES, metrics_table


def write_tables(root: Path, tables: Mapping[str, pa.Table], state: str) -> None:
    """Write all tables, by the name of their view, as Parquet and CSV, and the state that they are of.

    Who reads them by ``read_tables`` sees those of one measurement, whoever else writes at the same time.
    """
    check_inside(root / METRICS_FOLDER / METRICS_STATE, root)
    with _locked(root, fcntl.LOCK_EX):
        (root / METRICS_FOLDER / METRICS_STATE).unlink(missing_ok=True)  # until all are of one measurement
        with ExitStack() as written:  # when it closes, all of them take their places
            for view, name in METRICS_TABLES.items():
                csv.write_csv(for_spreadsheets(tables[view]), written.enter_context(whole_file(metrics_table(root, name, "csv"))))
                parquet = written.enter_context(whole_file(metrics_table(root, name, "parquet")))
                pq.write_table(tables[view], parquet, compression="zstd", write_page_checksum=True)
        write_text(root / METRICS_FOLDER / METRICS_STATE, state)


def for_spreadsheets(table: pa.Table) -> pa.Table:
    """A table as it is written as CSV: a text that a spreadsheet would compute (it begins with =, +, - or @) has a ' before it."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            column = pc.replace_substring_regex(table.column(number), r"\A([=+@\t\r-])", r"'\1")
            table = table.set_column(number, field, column)
    return table


def read_tables(root: Path) -> dict[str, pa.Table] | None:
    """Read all tables by the name of their view; None if one is missing or damaged, so that they are to be made again."""
    paths = {view: metrics_table(root, name, "parquet") for view, name in METRICS_TABLES.items()}
    try:
        with _locked(root, fcntl.LOCK_SH):
            if not all(path.is_file() for path in paths.values()):
                return None
            return {view: pq.read_table(path, page_checksum_verification=True) for view, path in paths.items()}
    except (OSError, pa.ArrowException):
        return None


@contextmanager
def _locked(root: Path, kind: int) -> Iterator[None]:
    """Wait for the lock of the tables; it goes with the process, however that ends."""
    lock = root / METRICS_FOLDER / LOCK
    if kind == fcntl.LOCK_EX:
        lock.parent.mkdir(parents=True, exist_ok=True)
    elif not lock.is_file():
        yield  # tables that were copied here: nobody writes them
        return
    with locked(lock, kind):
        yield
