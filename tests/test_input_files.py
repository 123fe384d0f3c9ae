from __future__ import annotations

import gzip
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.input_files import (
    DEEPEST,
    UnreadableError,
    check_rows,
    parse_json,
    parse_toml,
    read_json,
    read_text,
    read_toml,
    unpacked,
)


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("x = [1, {y = 2}]")
    (tmp_path / "a.json").write_text('{"x": [1, {"y": null}]}')
    assert read_toml(tmp_path / "a.toml") == {"x": [1, {"y": 2}]}
    assert read_json(tmp_path / "a.json") == {"x": [1, {"y": None}]}
    assert parse_json("3") == 3
    assert parse_json("[]") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = " + "[" * 100_000, "nested more than"),
        ("x = " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested more than"),
        ("[a" + ".a" * 3_000 + "]", "nested more than"),
        ("x = " + "9" * 5_000, "too many digits"),
        ("x = ", "is not TOML"),
    ],
)
def test_toml_that_goes_too_far_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said) as error:
        parse_toml(text)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested more than"),
        ('{"a":' * 100 + "1" + "}" * 100, "nested"),
        ("1" * 5_000, "too many digits"),
        ("{", "is not JSON"),
    ],
)
def test_json_that_goes_too_far_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        parse_json(text)


def test_the_deepest_allowed_nesting_is_read() -> None:
    assert parse_toml("x = " + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1))
    with pytest.raises(UnreadableError, match="nested more than"):
        parse_toml("x = " + "[" * DEEPEST + "]" * DEEPEST)


def test_unreadable_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_bytes(b"#" * 2_000)
    with pytest.raises(UnreadableError, match="no such file") as missing:
        read_toml(tmp_path / "nowhere")
    assert missing.value.missing
    with pytest.raises(UnreadableError, match="not UTF-8"):
        read_toml(tmp_path / "binary")
    with pytest.raises(UnreadableError, match="larger than"):
        read_text(tmp_path / "large", most_bytes=1_000)
    with pytest.raises(UnreadableError, match="cannot be read"):
        read_toml(tmp_path)
    with pytest.raises(UnreadableError, match="cannot be read"):
        read_toml(tmp_path / "a\x00b")


@settings(max_examples=200)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=20,
    )
)
def test_json_round_trips(value: object) -> None:
    assert parse_json(json.dumps(value)) == value


def test_gzip_is_unpacked_up_to_a_limit() -> None:
    packed = gzip.compress(b"x" * 1_000_000)
    assert unpacked(packed, 1_000_000) == b"x" * 1_000_000
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        unpacked(packed, 999_999)
    for broken in (packed[:50], packed[:-3], packed[:20] + b"\xff" * 30 + packed[50:]):
        with pytest.raises(UnreadableError, match="is not valid gzip"):
            unpacked(broken, 1_000_000)


@contextmanager
def fed_pipe(path: Path) -> Iterator[Path]:
    """A pipe that somebody writes to: who reads it after all gets something, and does not wait for ever."""
    os.mkfifo(path)
    feeding = threading.Thread(target=path.write_bytes, args=(b"x",), daemon=True)
    feeding.start()
    yield path
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # which ends its waiting for somebody who reads
    feeding.join()
    os.close(reading)
    path.unlink()


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    with fed_pipe(tmp_path / "pipe") as pipe, pytest.raises(UnreadableError, match="is not a file"):
        read_text(pipe)


def test_a_file_is_read_no_further_than_the_limit(tmp_path: Path) -> None:
    """A file of a terabyte, of which nothing is stored: all of it would be a MemoryError."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UnreadableError, match="larger than 16 MiB"):
        read_text(tmp_path / "large")


def test_gzip_is_unpacked_no_further_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    read = gzip.GzipFile.read

    def counted(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        asked.append(-1 if size is None else size)
        return read(file, size)

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        unpacked(gzip.compress(b"x" * 1_000_000), 1_000)
    assert asked == [1_001]


def _parquet_of(path: Path, rows: int) -> Path:
    values = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([0.0]))
    pq.write_table(pa.table({"time_ms": values}), path)
    return path


def test_small_files_of_more_rows_than_memory_holds_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of some kilobytes can hold any number of equal rows."""
    monkeypatch.setattr("endive.input_files.available_bytes", lambda: 2**20)
    files = [_parquet_of(tmp_path / "a.parquet", 10_000), tmp_path / "a.csv", tmp_path / "a.csv.gz"]
    files[1].write_bytes(b"time_ms\n" + b"0\n" * 10_000)
    files[2].write_bytes(gzip.compress(b"time_ms\n" + b"0\n" * 10_000_000, 1))
    for file in files:
        with pytest.raises(UnreadableError, match=r"rows or more, which need about .* GiB of memory, more than half"):
            check_rows(file, 100)
    check_rows(_parquet_of(tmp_path / "b.parquet", 100), 100)
    pq.write_table(pa.table({"partitions": [list(range(10_000))]}), tmp_path / "c.parquet")
    with pytest.raises(UnreadableError, match="rows or more"):
        check_rows(tmp_path / "c.parquet", 100)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.csv.gz"])
def test_rows_of_an_unreadable_file_are_rejected(name: str, tmp_path: Path) -> None:
    with fed_pipe(tmp_path / name) as pipe, pytest.raises(UnreadableError, match="is not a file"):
        check_rows(pipe, 100)
    with pytest.raises(UnreadableError):
        check_rows(tmp_path / name, 100)
    if name != "x.csv":
        (tmp_path / name).write_bytes(b"\x1f\x8b" + b"x" * 100)
        with pytest.raises(UnreadableError, match="cannot be read"):
            check_rows(tmp_path / name, 100)


@pytest.mark.parametrize("text", [r'{"a": {"b": [1, "\ud800"]}}', r'{"a": {"\uDfff": []}}', r'["\udead"]', r'[{"\ud800": [{}]}]'])
def test_an_unpaired_surrogate_of_json_is_rejected(text: str) -> None:
    with pytest.raises(UnreadableError, match="contains an unpaired surrogate"):
        parse_json(text)
    assert parse_json(r'{"a": "\ud83e\udd6c"}') == {"a": "🥬"}
