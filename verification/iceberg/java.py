"""Apache Iceberg Java on files in memory, with its FileIO and TableOperations implemented here.

Objects of Java that a callback returns are kept in a field: Py4J lets go of them as soon as Python does, which may be before Java
has got hold of them.

Flow: operations of Iceberg's own code call back into `CountingFileIO` (files) and `CountingOperations` (catalog). State: the
pointer to the current metadata file, owned by `Pointer`; files, owned by Iceberg's InMemoryFileIO; counts, owned by `Accesses`.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from verification.iceberg.accesses import CATALOG_READS, CATALOG_SWAPS, Accesses, file_kind

KEPT = 64
_tables = itertools.count()


class Pointer:
    """In-memory catalog of one table: the location of its current metadata, changed by compare-and-swap."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._lock = threading.Lock()

    def read(self) -> str:
        with self._lock:
            return self._location

    def swap(self, expected: str, new: str) -> bool:
        with self._lock:
            if self._location != expected:
                return False
            self._location = new
            return True


class CountingInputFile:
    """Input file that counts when it is opened. Requests for its length (HEAD) are part of the read and not counted."""

    def __init__(self, file: Any, accesses: Accesses) -> None:
        self._file = file
        self._accesses = accesses
        self._stream: Any = None

    def getLength(self) -> int:  # noqa: N802
        return int(self._file.getLength())

    def newStream(self) -> Any:  # noqa: N802
        self._accesses.happened(f"{file_kind(self._file.location())}_reads")
        self._stream = self._file.newStream()
        return self._stream

    def location(self) -> str:
        return str(self._file.location())

    def exists(self) -> bool:
        return bool(self._file.exists())

    class Java:
        implements = ("org.apache.iceberg.io.InputFile",)


class CountingFileIO:
    """Iceberg's InMemoryFileIO, with counted and delayed accesses."""

    def __init__(self, files: Any, properties: Any, accesses: Accesses) -> None:
        self._files = files
        self._properties = properties
        self._accesses = accesses
        self._written: deque[Any] = deque(maxlen=KEPT)

    def newInputFile(self, file: Any, _length: int | None = None) -> CountingInputFile:  # noqa: N802
        location = file if isinstance(file, str) else file.path()
        return CountingInputFile(self._files.newInputFile(location), self._accesses)

    def newOutputFile(self, location: str) -> Any:  # noqa: N802
        self._accesses.happened(f"{file_kind(location)}_writes")
        file = self._files.newOutputFile(location)
        self._written.append(file)
        return file

    def deleteFile(self, file: Any) -> None:  # noqa: N802
        location = file if isinstance(file, str) else file.location()
        self._accesses.happened(f"{file_kind(location)}_deletes")
        if self._exists(location):
            self._files.deleteFile(location)

    def _exists(self, location: str) -> bool:
        """Return whether a file exists; InMemoryFileIO cannot open missing files."""
        from py4j.protocol import Py4JJavaError

        try:
            return bool(self._files.newInputFile(location).exists())
        except Py4JJavaError as error:
            if "NotFoundException" not in str(error.java_exception):
                raise
            return False

    def properties(self) -> Any:
        return self._properties

    def initialize(self, _properties: Any) -> None:
        pass

    def close(self) -> None:
        pass

    class Java:
        implements = ("org.apache.iceberg.io.FileIO",)


class CountingOperations:
    """Table operations of one handle: the metadata that it last read, and its commits.

    As in Iceberg's catalogs, metadata is written before each swap, and read only if the pointer moved since the last read.
    """

    def __init__(self, table: JavaTable, accesses: Accesses, io: Any, before_swap: Callable[[], None]) -> None:
        self._table = table
        self._jvm = table.gateway.jvm
        self._accesses = accesses
        self._before_swap = before_swap
        self._io = io
        self._location = ""
        self._metadata: Any = None
        self._exception: Any = None
        self._stale = True

    def current(self) -> Any:
        return self.refresh() if self._stale else self._metadata

    def refresh(self) -> Any:
        self._accesses.happened(CATALOG_READS)
        location = self._table.pointer.read()
        if location != self._location:
            self._metadata = self._jvm.org.apache.iceberg.TableMetadataParser.read(self._io, location)
            self._location = location
        self._stale = False
        return self._metadata

    def commit(self, base: Any, metadata: Any) -> None:
        if base.metadataFileLocation() != self._location:
            self._lost("the base is not what this handle read last")
        new = self._table.write_metadata(metadata, self._io)
        self._before_swap()
        self._accesses.happened(CATALOG_SWAPS)
        won = self._table.pointer.swap(self._location, new)
        self._stale = True
        self._accesses.next_phase(waits=not won)
        if not won:
            self._lost("another commit was first")

    def _lost(self, why: str) -> None:
        from py4j.protocol import Py4JJavaError

        no_arguments = self._table.gateway.new_array(self._jvm.java.lang.Object, 0)
        self._exception = self._jvm.org.apache.iceberg.exceptions.CommitFailedException(why, no_arguments)
        raise Py4JJavaError("", self._exception)

    def io(self) -> Any:
        return self._io

    def encryption(self) -> Any:
        return self._table.encryption

    def metadataFileLocation(self, name: str) -> str:  # noqa: N802
        return f"{self._table.location}/metadata/{name}"

    def locationProvider(self) -> Any:  # noqa: N802
        return self._table.locations

    def temp(self, _uncommitted: Any) -> Any:
        raise NotImplementedError("operations within transactions are not measured")

    def newSnapshotId(self) -> int:  # noqa: N802
        return next(self._table.snapshot_ids)

    def requireStrictCleanup(self) -> bool:  # noqa: N802
        return True

    class Java:
        implements = ("org.apache.iceberg.TableOperations",)


def _nothing() -> None:
    pass


@dataclass
class JavaTable:
    """Table of Iceberg Java with the columns id and p, partitioned by p, and its files and catalog."""

    gateway: Any
    properties: dict[str, str] = field(default_factory=dict)
    format_version: int = 2

    def __post_init__(self) -> None:
        iceberg = self.gateway.jvm.org.apache.iceberg
        self.location = f"memory://table-{next(_tables)}"
        self.files = iceberg.inmemory.InMemoryFileIO()
        self._begin()
        schema_json = (
            '{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":true,"type":"long"},'
            '{"id":2,"name":"p","required":true,"type":"int"}]}'
        )
        schema = iceberg.SchemaParser.fromJson(schema_json)
        self.spec = iceberg.PartitionSpec.builderFor(schema).identity("p").build()
        properties = {"format-version": str(self.format_version), **self.properties}
        metadata = iceberg.TableMetadata.newTableMetadata(schema, self.spec, self.location, properties)
        self._describe(metadata)
        self.pointer = Pointer(self.write_metadata(metadata, self.files))

    def _begin(self) -> None:
        self.encryption = self.gateway.jvm.org.apache.iceberg.encryption.PlaintextEncryptionManager.instance()
        self.snapshot_ids = itertools.count(1)
        self._versions = itertools.count()
        self._names = itertools.count()

    def _describe(self, metadata: Any) -> None:
        self.spec = metadata.spec()
        self.locations = self.gateway.jvm.org.apache.iceberg.LocationProviders.locationsFor(self.location, metadata.properties())

    def adopt(self, pointer: Pointer) -> None:
        """Use an existing table that a pointer refers to; ``files`` gives access to its files."""
        self._begin()
        metadata = self.gateway.jvm.org.apache.iceberg.TableMetadataParser.read(self.files, pointer.read())
        self.location = str(metadata.location())
        self._describe(metadata)
        self.pointer = pointer

    def write_metadata(self, metadata: Any, files: Any) -> str:
        """Write a new metadata file and return its location."""
        location = f"{self.location}/metadata/{next(self._versions):05d}.metadata.json"
        parser = self.gateway.jvm.org.apache.iceberg.TableMetadataParser
        parser.overwrite(metadata, files.newOutputFile(location))
        return location

    def handle(self, accesses: Accesses | None = None, before_swap: Callable[[], None] = _nothing, reporter: Any = None) -> Any:
        """Return an Iceberg table object with a separate catalog client, and a metrics reporter.

        Without counting, Python does not handle files.
        """
        no_properties = self.gateway.jvm.java.util.Collections.emptyMap()
        io = self.files if accesses is None else CountingFileIO(self.files, no_properties, accesses)
        operations = CountingOperations(self, accesses or Accesses(), io, before_swap)
        reported = () if reporter is None else (reporter,)
        return self.gateway.jvm.org.apache.iceberg.BaseTable(operations, self.location, *reported)

    def data_file(self, partition: int) -> Any:
        """Return a new data file of one partition; only metadata is written, the file itself does not exist."""
        builder = self.gateway.jvm.org.apache.iceberg.DataFiles.builder(self.spec)
        return self._described(builder, partition).build()

    def equality_deletes(self, partition: int) -> Any:
        """Return a new equality delete file of one partition."""
        fields = self.gateway.new_array(self.gateway.jvm.int, 1)
        fields[0] = 1
        builder = self.gateway.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(self.spec)
        return self._described(builder.ofEqualityDeletes(fields), partition).build()

    def position_deletes(self, partition: int) -> Any:
        """Return a new position delete file of one partition."""
        builder = self.gateway.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(self.spec)
        return self._described(builder.ofPositionDeletes(), partition).build()

    def deletion_vector(self, partition: int, data_file: Any) -> Any:
        """Return a deletion vector (format version 3) for a data file."""
        builder = self.gateway.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(self.spec)
        described = self._described(builder.ofPositionDeletes(), partition, "puffin").withReferencedDataFile(data_file.location())
        return described.withContentOffset(4).withContentSizeInBytes(6).build()

    def _described(self, builder: Any, partition: int, suffix: str = "parquet") -> Any:
        path = f"{self.location}/data/{next(self._names):05d}.{suffix}"
        builder = builder.withPath(path).withPartitionPath(f"p={partition}")
        return builder.withFileSizeInBytes(1_000_000).withRecordCount(1_000)

    def add_manifests(self, partitions: list[list[int]]) -> list[Any]:
        """Append one manifest per list, with a data file per partition, in one commit; return the data files."""
        manifests = self.gateway.jvm.org.apache.iceberg.ManifestFiles
        append = self.handle().newFastAppend()
        data_files = []
        for members in partitions:
            location = f"{self.location}/metadata/prior-{next(self._names)}-m0.avro"
            writer = manifests.write(self.format_version, self.spec, self.files.newOutputFile(location), None)
            for partition in members:
                data_files.append(self.data_file(partition))
                writer.add(data_files[-1])
            writer.close()
            append = append.appendManifest(writer.toManifestFile())
        append.commit()
        return data_files

    def scanned(self, partition: int) -> list[Any]:
        """Return the data files of a partition from a scan, which reference their manifests."""
        filtered = self.handle().newScan().filter(self.gateway.jvm.org.apache.iceberg.expressions.Expressions.equal("p", partition))
        files = [task.file() for task in iter(filtered.planFiles().iterator())]
        return sorted(files, key=lambda file: str(file.location()))
