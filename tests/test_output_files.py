"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from endive.output_files import check_writable, whole_file, write_text
from endive.runs.row_files import ParquetSink

SCHEMA = pa.schema([("x", pa.int64())])


def batch(*values: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": list(values)}, schema=SCHEMA)


def test_text_appears_with_its_directories(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "text.txt"
    write_text(path, "größe\n")
    assert path.read_bytes() == "größe\n".encode()
    assert list(path.parent.iterdir()) == [path]


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with whole_file(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
        assert temporary.parent == path.parent
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_of_a_failure(error: type[BaseException], tmp_path: Path) -> None:
    def half_write() -> None:
        with whole_file(tmp_path / "file") as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        half_write()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_not_replaced_and_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        ParquetSink(tmp_path, SCHEMA)
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_check_writable_creates_no_directory(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        check_writable(tmp_path / "file" / "below")
    with pytest.raises(OSError, match="/proc/nothing"):
        check_writable(Path("/proc/nothing/here"))


def test_the_error_of_a_read_only_mount_names_the_requested_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "write_text", fail)
    monkeypatch.setattr(Path, "unlink", fail)
    with pytest.raises(OSError, match="Read-only") as caught:
        write_text(tmp_path / "endive.toml", "")
    assert caught.value.filename == str(tmp_path / "endive.toml")
