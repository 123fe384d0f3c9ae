"""Results of absurd structure: named as damage, without the memory that they would unpack to."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.runs.contents import UnsoundError, sound_batches
from tests.pipeline.runs import document, run_all

_ROWS = 4_000
_LITTLE = 64 * 2**20


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """Rows of a run, some thousand of them."""
    folder = tmp_path_factory.mktemp("rows")
    run_all([document(simulation__duration_ms=1_000.0)], folder, [0])
    (path,) = folder.rglob("results.parquet")
    table = pq.read_table(path)
    return table.take(pa.array(np.arange(_ROWS) % table.num_rows))


@pytest.fixture
def used() -> Iterator[Callable[[], int]]:
    """The most memory that Arrow had in use since the test began."""
    before = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(before)
    pa.set_memory_pool(counted)
    yield counted.max_memory
    pa.set_memory_pool(before)


def all_of(path: Path, rows: int = _ROWS) -> int:
    return sum(batch.num_rows for batch in sound_batches(path, rows, 131_072))


def with_text(rows: pa.Table, name: str, text: str) -> pa.Table:
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(_ROWS, np.int32)), pa.array([text]))
    return rows.set_column(rows.schema.get_field_index(name), name, column)


def test_rows_as_they_are_written_are_sound(rows: pa.Table, tmp_path: Path) -> None:
    pq.write_table(rows, tmp_path / "x.parquet")
    (batch,) = sound_batches(tmp_path / "x.parquet", _ROWS, 131_072)
    assert batch.schema.field("status").type == pa.string()
    assert pa.Table.from_batches([batch]).equals(rows.combine_chunks())


@pytest.mark.parametrize("name", ["status", "workload_class", "abort_reason", "operation_type"])
def test_a_text_that_is_stored_once_is_not_unpacked_for_every_row(
    rows: pa.Table, tmp_path: Path, used: Callable[[], int], name: str
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(with_text(rows, name, "a" * 100_000), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 100_000
    with pytest.raises(UnsoundError, match=rf"its column {name} has a text of 100,000 bytes"):
        all_of(path)
    assert used() < _LITTLE


def test_a_list_that_needs_more_memory_than_there_is_is_refused_before_it_is_read(
    rows: pa.Table, tmp_path: Path, used: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 2**22
    offsets = pa.array([0, *([many] * _ROWS)], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(np.zeros(many, np.int64)))
    path = tmp_path / "x.parquet"
    pq.write_table(rows.set_column(rows.schema.get_field_index("tables_written"), "tables_written", lists), path)
    monkeypatch.setattr("endive.runs.contents.available_bytes", lambda: _LITTLE)
    before = used()
    with pytest.raises(UnsoundError, match=r"its column tables_written has 4,19\d,\d\d\d values in one group of rows, which need"):
        all_of(path)
    assert used() - before < _LITTLE / 8


def test_rows_that_are_claimed_and_not_there_are_missed(rows: pa.Table, tmp_path: Path) -> None:
    path, claimed = tmp_path / "x.parquet", 2**40
    pq.write_table(rows, path)
    content = path.read_bytes()
    (length,) = struct.unpack("<I", content[-8:-4])
    footer = content[-8 - length : -8].replace(_varint(_ROWS), _varint(claimed))
    path.write_bytes(content[: -8 - length] + footer + struct.pack("<I", len(footer)) + b"PAR1")
    assert pq.read_metadata(path).num_rows == claimed
    with pytest.raises(UnsoundError, match=rf"it has {_ROWS} rows, but {claimed} were recorded|cannot be read"):
        all_of(path, claimed)


def _varint(number: int) -> bytes:
    """A whole number as Parquet's footer has it."""
    left, made = number << 1, []
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


@pytest.mark.parametrize("kind", ["columns", "nested", "groups"])
def test_other_absurd_structures_cost_little(rows: pa.Table, tmp_path: Path, used: Callable[[], int], kind: str) -> None:
    path = tmp_path / "x.parquet"
    few = rows.slice(0, 300)
    if kind == "columns":
        few = pa.table({**{name: few.column(name) for name in few.column_names}, **{f"c{n}": few["txn_id"] for n in range(3_000)}})
    if kind == "nested":
        deep: pa.DataType = pa.int64()
        for _ in range(50):
            deep = pa.struct([("a", deep)])
        few = few.append_column("deep", pa.nulls(300, deep))
    pq.write_table(few, path, row_group_size=1 if kind == "groups" else None)
    before = used()
    if kind == "groups":
        assert all_of(path, 300) == 300
    else:
        with pytest.raises(UnsoundError, match="its columns are not those of this version"):
            all_of(path, 300)
    assert used() - before < _LITTLE
