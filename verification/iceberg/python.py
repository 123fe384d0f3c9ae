"""PyIceberg on local files with a SQLite catalog; every access is counted and can be delayed.

Flow: PyIceberg's own code calls `CountingFileIO` (files) and the SQL engine of `CountingCatalog` (pointer). State: files and the
database, in a folder; counts, owned by `Accesses`.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField
from sqlalchemy import event

from verification.iceberg.accesses import CATALOG_READS, CATALOG_SWAPS, Accesses, file_kind

NAME = "db.t"
SCHEMA = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "p", IntegerType(), required=True))
SPEC = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
ARROW_SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.int32(), nullable=False)])
COUNTED_BY = "counted-by"
_counting: WeakValueDictionary[str, Accesses] = WeakValueDictionary()
_ids = itertools.count()


class CountingFile(PyArrowFile):
    """Local file that counts when it is opened or created."""

    def __init__(self, accesses: Accesses, **parts: Any) -> None:
        super().__init__(**parts)
        self._accesses = accesses

    def open(self, seekable: bool = True) -> Any:
        self._accesses.happened(f"{file_kind(self.location)}_reads")
        return super().open(seekable)

    def create(self, overwrite: bool = False) -> Any:
        self._accesses.happened(f"{file_kind(self.location)}_writes")
        return super().create(overwrite)


class CountingFileIO(PyArrowFileIO):
    """PyIceberg's file access through PyArrow, with counted and delayed accesses.

    PyIceberg creates objects of this class from a name and properties, so a property identifies the counter.
    """

    def __init__(self, properties: dict[str, str]) -> None:
        super().__init__(properties)
        self._accesses = _counting[properties[COUNTED_BY]]

    def new_input(self, location: str) -> CountingFile:
        return self._file(location)

    def new_output(self, location: str) -> CountingFile:
        return self._file(location)

    def _file(self, location: str) -> CountingFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        return CountingFile(self._accesses, location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))

    def delete(self, location: Any) -> None:
        self._accesses.happened(f"{file_kind(getattr(location, 'location', location))}_deletes")
        super().delete(location)


def _nothing() -> None:
    pass


def _do_not_wait_for_the_disk(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = OFF")


class CountingCatalog(SqlCatalog):
    """SQL catalog that counts reads and swaps of the pointer, and runs callbacks before a commit and before its swap.

    By default it is a SQLite file in the folder of the table; a database with many tables distinguishes them by the names of their
    folders.
    """

    def __init__(
        self,
        folder: Path,
        accesses: Accesses | None = None,
        before_commit: Callable[[], None] = _nothing,
        before_swap: Callable[[], None] = _nothing,
        uri: str | None = None,
    ) -> None:
        file_io = {PY_IO_IMPL: f"{__name__}.{CountingFileIO.__name__}"}
        name = "catalog" if uri is None else folder.name
        super().__init__(name, uri=uri or f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri(), **file_io)
        self.count_into(accesses or Accesses())
        self._before_commit = before_commit
        self._before_swap = before_swap
        if uri is None:
            event.listen(self.engine, "connect", _do_not_wait_for_the_disk)
        event.listen(self.engine, "before_cursor_execute", self._statement)

    def count_into(self, accesses: Accesses) -> None:
        """Count further accesses in this counter."""
        self._accesses = accesses
        self.properties[COUNTED_BY] = str(id(accesses))
        _counting[str(id(accesses))] = accesses

    def _statement(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        """Count a statement before SQLite locks the database."""
        if statement.startswith("SELECT") and "iceberg_tables" in statement:
            self._accesses.happened(CATALOG_READS)
        elif statement.startswith("UPDATE"):
            self._before_swap()
            self._accesses.happened(CATALOG_SWAPS)

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        self._before_commit()
        try:
            response = super().commit_table(table, requirements, updates)
        except CommitFailedException:
            self._accesses.next_phase(waits=True)
            raise
        self._accesses.next_phase()
        return response

    @contextmanager
    def opened(self) -> Iterator[CountingCatalog]:
        """Return this catalog, and close it at the end of the context."""
        try:
            yield self
        finally:
            self.close()


def make_table(catalog: CountingCatalog, properties: dict[str, str]) -> None:
    """Create a table with the columns id and p, partitioned by p, and close the catalog."""
    with catalog.opened():
        catalog.create_namespace("db")
        catalog.create_table(NAME, SCHEMA, partition_spec=SPEC, properties=properties)


def rows(partition: int) -> pa.Table:
    """Return one row of a partition."""
    return pa.Table.from_pydict({"id": [next(_ids)], "p": [partition]}, schema=ARROW_SCHEMA)


def data_file(partition: int) -> DataFile:
    """Return a data file with one row of a partition, as in manifests; the file itself does not exist."""
    number = next(_ids)
    bounds = {1: struct.pack("<q", number), 2: struct.pack("<i", partition)}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file:///nowhere/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        record_count=1,
        file_size_in_bytes=1_000,
        value_counts={1: 1, 2: 1},
        null_value_counts={1: 0, 2: 0},
        lower_bounds=bounds,
        upper_bounds=bounds,
    )
    file.spec_id = 0
    return file


def append_manifests(transaction: Transaction, partitions: list[int]) -> None:
    """Stage one fast append for each partition, so that each has a separate manifest."""
    for partition in partitions:
        with transaction.update_snapshot().fast_append() as producer:
            producer.append_data_file(data_file(partition))
