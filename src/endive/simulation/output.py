"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A temporary path beside ``path``; what is written there takes its place when the block ends well, and vanishes otherwise."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        with _naming(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    with whole_file(path) as temporary, _naming(path):
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let errors of writing name the file that was to be: by themselves they name a temporary one, or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ParquetSink:
    """A sink that streams batches to a Parquet file, one row group each, whole or not at all."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.rows = 0
        self._whole = whole_file(path)
        self._temporary = self._whole.__enter__()
        self._writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Write a batch."""
        self.rows += batch.num_rows
        with _naming(self.path):
            self._writer.write_batch(batch)

    def finish(self) -> str:
        """Write the end of the file, which appears when the block ends, and return its checksum."""
        with _naming(self.path):
            self._writer.close()
            return checksum(self._temporary)

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        try:
            with _naming(self.path):
                self._writer.close()
        except OSError as failure:
            if error is None:
                self._whole.__exit__(type(failure), failure, None)
                raise
        return self._whole.__exit__(kind, error, trace)
