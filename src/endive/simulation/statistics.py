"""Keep the results of a run in memory, for scripts and notebooks. Stream long runs to files instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from endive.simulation.columns import BY_ATTRIBUTE
from endive.simulation.rows import RESULT_SCHEMA, batch_to_results, results_to_batch
from endive.simulation.summary import RunCounters, counts_of
from endive.transaction import TransactionResult
from endive.transaction.types import VALIDATION_EXCEPTION

if TYPE_CHECKING:
    import pandas as pd


class _MadeWhenAsked:
    """List of results of a ``Statistics``, created from its batches when it is read."""

    @overload
    def __get__(self, owner: None, kind: type) -> tuple[()]: ...
    @overload
    def __get__(self, owner: Statistics, kind: type) -> list[TransactionResult]: ...
    def __get__(self, owner: Statistics | None, kind: type) -> tuple[()] | list[TransactionResult]:
        if owner is None:
            return ()  # the default of the dataclass
        for batch in owner._batches[owner._converted :]:
            owner._results += batch_to_results(batch)
        owner._converted = len(owner._batches)
        return owner._results

    def __set__(self, owner: Statistics, results: Sequence[TransactionResult]) -> None:
        owner._batches = [results_to_batch(results)] if results else []
        owner._results, owner._converted = [], 0


@dataclass
class Statistics:
    """Sink that keeps all rows as Arrow batches, and counts them.

    ``transactions`` returns the rows as objects; reading it takes about 30 µs per row. To add a result, call
    ``record_transaction``.

    >>> statistics = Statistics()
    >>> statistics.committed
    0
    """

    transactions: _MadeWhenAsked = _MadeWhenAsked()
    committed: int = 0
    aborted: int = 0
    in_flight: int = 0
    total_retries: int = 0
    validation_exceptions: int = 0
    manifest_list_reads: int = 0
    manifest_list_writes: int = 0
    manifest_file_reads: int = 0
    manifest_file_writes: int = 0
    counters: RunCounters = field(default_factory=lambda: RunCounters({}))
    _batches: list[pa.RecordBatch] = field(init=False, repr=False, compare=False)
    _results: list[TransactionResult] = field(init=False, repr=False, compare=False)
    _converted: int = field(init=False, repr=False, compare=False)
    """Number of batches that were converted to ``_results``."""

    def __repr__(self) -> str:
        """Return the counts, without the rows."""
        counts = f"{self.committed:,} committed, {self.aborted:,} aborted, {self.in_flight:,} in flight"
        return f"Statistics({self.total:,} transactions: {counts})"

    @property
    def total(self) -> int:
        """Number of transactions."""
        return self.committed + self.aborted + self.in_flight

    @property
    def success_rate(self) -> float:
        """Fraction of the ended transactions that committed; NaN if none ended."""
        ended = self.committed + self.aborted
        return self.committed / ended if ended else math.nan

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Record the rows of a batch."""
        self._batches.append(batch)
        statuses = counts_of(batch, "status")
        self.committed += statuses["committed"]
        self.aborted += statuses["aborted"]
        self.in_flight += statuses["in_flight"]
        self.validation_exceptions += counts_of(batch, "abort_reason")[VALIDATION_EXCEPTION]
        for counter in fields(self):
            if counter.name in BY_ATTRIBUTE:
                rows = batch.column(BY_ATTRIBUTE[counter.name].name)
                setattr(self, counter.name, getattr(self, counter.name) + (pc.sum(rows).as_py() or 0))

    def record_transaction(self, result: TransactionResult) -> None:
        """Record one result."""
        self(results_to_batch([result]))

    def to_table(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return pa.Table.from_batches(self._batches, schema=RESULT_SCHEMA)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def export_parquet(self, path: str | Path) -> None:
        """Write the rows to a file atomically."""
        from endive.output_files import whole_file

        with whole_file(Path(path)) as temporary:
            pq.write_table(self.to_table().combine_chunks(), temporary)
