"""Keep the rows of runs: all rows, a uniform sample of transactions, or none.

A run whose rows are not all kept has its summary and its metrics. The rows are first written to a scratch directory, a separate
directory of experiments, and are removed after they have been measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from endive.arithmetic.draws import GOLDEN, mix64
from endive.config.sweep_file import KeptRows
from endive.output_files import check_inside, discard, write_text
from endive.runs.execute import ParquetSink
from endive.runs.layout import RunFiles, run_directory, scratch_directory
from endive.runs.records import seal_record
from endive.runs.stored import ROWS_KEPT, StoredRun
from endive.simulation.columns import BATCH_ROWS, RESULT_SCHEMA
from endive.simulation.row_invariants import RowError

ONE_IN = 100
"""Number of transactions per sampled transaction."""


def is_sampled(txn_ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Flag the transactions of a sample.

    The sample depends only on transaction ids, so that it is the same in runs of all configurations.
    """
    keys = (txn_ids.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)
    return np.asarray(mix64(keys) < np.uint64(2**64 // ONE_IN))  # type: ignore[arg-type]


class SampledIds:
    """Check of the kept rows of a run with ``transactions`` rows."""

    def __init__(self, transactions: int) -> None:
        self._transactions = transactions
        self._ids: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []

    def check(self, batch: pa.RecordBatch) -> None:
        """Check the next rows. Raises RowError if a row is not in the sample."""
        ids = batch.column("txn_id").to_numpy()
        wrong = ~is_sampled(ids)
        if wrong.any():
            raise RowError(f"transaction {ids[int(np.argmax(wrong))]} is not one of the sample")
        self._ids.append(ids)

    def check_complete(self, rows: KeptRows) -> None:
        """Check that each row of the sample occurred exactly once. Raises RowError."""
        found = np.sort(np.concatenate([np.zeros(0, np.int64), *self._ids]))
        expected = np.arange(self._transactions if rows == "sample" else 0)
        expected = expected[is_sampled(expected)]
        if not np.array_equal(found, expected):
            raise RowError(f"{len(found):,} rows are kept, but not the {len(expected):,} of the sample, each once")


def transfer_run(root: Path, experiment: str, seed: int, rows: KeptRows) -> None:
    """Move a run from the scratch directory to its destination, with the rows to keep, unless they are already there."""
    source = StoredRun(run_directory(scratch_directory(root) / experiment, seed))
    target = StoredRun(run_directory(root / experiment, seed))
    if target.problem() is not None or not target.keeps(rows):
        _write_run(source, RunFiles.in_directory(target.directory), root, rows)
    discard(source.directory)


def _write_run(source: StoredRun, files: RunFiles, root: Path, rows: KeptRows) -> None:
    check_inside(files.results, root)
    with ParquetSink(files.results, _schema(rows)) as sink:
        for batch in _sample(source.results) if rows == "sample" else ():
            sink(batch)
        record = {**source.provenance, "all_rows_sha256": source.provenance["results_sha256"], "results_sha256": sink.finish()}
        for file in source.directory.parent.iterdir():
            if file.is_file():
                write_text(files.config.parent / file.name, file.read_text(encoding="utf-8"))
        write_text(files.summary, RunFiles.in_directory(source.directory).summary.read_text(encoding="utf-8"))
        sealed = seal_record({**record, "rows_kept": rows, "kept": sink.rows})
        write_text(files.provenance, json.dumps(sealed, indent=2) + "\n")


def _sample(results: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a sample, in batches of the same size as the batches of a run."""
    with pq.ParquetFile(results) as file:
        found: list[pa.RecordBatch] = []
        for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
            found.append(batch.filter(pa.array(is_sampled(batch.column("txn_id").to_numpy()))))
            if sum(each.num_rows for each in found) >= BATCH_ROWS:
                yield _join(found)
                found = []
        yield from [_join(found)] if found else []


def _schema(rows: KeptRows) -> pa.Schema:
    return RESULT_SCHEMA.with_metadata({ROWS_KEPT: rows.encode()})


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(pa.concat_batches(batches).columns, schema=_schema("sample"))


def discard_scratch(root: Path) -> None:
    """Remove the scratch directory, unless it contains runs."""
    scratch = scratch_directory(root)
    if scratch.is_dir() and not any(scratch.glob("*/*/")):
        with suppress(OSError):
            discard(scratch)
