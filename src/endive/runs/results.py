"""Writing the rows of a run as they come."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from endive.output_files import checksum, errors_naming, whole_file


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
        with errors_naming(self.path):
            self._writer.write_batch(batch)

    def finish(self) -> str:
        """Write the end of the file, which appears when the block ends, and return its checksum."""
        with errors_naming(self.path):
            self._writer.close()
            return checksum(self._temporary)

    def __enter__(self) -> ParquetSink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool | None:
        try:
            with errors_naming(self.path):
                self._writer.close()
        except OSError as failure:
            if error is None:
                self._whole.__exit__(type(failure), failure, None)
                raise
        return self._whole.__exit__(kind, error, trace)
