"""The results of a run in memory, for scripts and notebooks; long runs are streamed to files instead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from endive.simulation.rows import RESULT_SCHEMA, batch_to_results, results_to_batch
from endive.simulation.summary import RunCounters
from endive.transaction import TransactionResult, TransactionStatus

if TYPE_CHECKING:
    import pandas as pd


class Statistics:
    """A sink that keeps all rows, and counts as it goes.

    >>> statistics = Statistics()
    >>> statistics.committed
    0
    """

    def __init__(self) -> None:
        self.transactions: list[TransactionResult] = []
        self.counters = RunCounters({})
        self.committed = 0
        self.aborted = 0
        self.in_flight = 0
        self.total_retries = 0
        self.validation_exceptions = 0
        self.manifest_list_reads = 0
        self.manifest_list_writes = 0
        self.manifest_file_reads = 0
        self.manifest_file_writes = 0

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Record the rows of a batch."""
        for result in batch_to_results(batch):
            self.record_transaction(result)

    def record_transaction(self, result: TransactionResult) -> None:
        """Record one result."""
        self.transactions.append(result)
        self.committed += result.status is TransactionStatus.COMMITTED
        self.aborted += result.status is TransactionStatus.ABORTED
        self.in_flight += result.status is TransactionStatus.IN_FLIGHT
        self.total_retries += result.total_retries
        self.validation_exceptions += result.abort_reason == "validation_exception"
        self.manifest_list_reads += result.manifest_list_reads
        self.manifest_list_writes += result.manifest_list_writes
        self.manifest_file_reads += result.manifest_file_reads
        self.manifest_file_writes += result.manifest_file_writes

    def to_table(self) -> pa.Table:
        """The rows as an Arrow table."""
        rows: Sequence[TransactionResult] = self.transactions
        return pa.Table.from_batches([results_to_batch(rows)] if rows else [], schema=RESULT_SCHEMA)

    def to_dataframe(self) -> pd.DataFrame:
        """The rows as a pandas frame."""
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def export_parquet(self, path: str | Path) -> None:
        """Write the rows to a file, whole or not at all."""
        from endive.files import whole_file

        with whole_file(Path(path)) as temporary:
            pq.write_table(self.to_table(), temporary)
