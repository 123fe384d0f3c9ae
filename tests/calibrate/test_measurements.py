"""Files of measurements: what is guessed is said, what cannot be read is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from endive.calibrate import InputError
from endive.calibrate.measurements import Measurements, read_measurements, read_rows

ROWS = [
    {"op": "GET", "latency_ms": 12.5, "bytes": 100, "status": "200"},
    {"op": "GET", "latency_ms": 15.0, "bytes": 200, "status": "200"},
    {"op": "PUT", "latency_ms": 30.0, "bytes": 100, "status": "200"},
    {"op": "put_if_match", "latency_ms": 40.0, "bytes": 50, "status": "200"},
    {"op": "put_if_match", "latency_ms": 45.0, "bytes": 50, "status": "412"},
    {"op": "PUT", "latency_ms": 999.0, "bytes": 100, "status": "503"},
]


def saved(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(".parquet"):
        pa.parquet.write_table(pa.Table.from_pylist(ROWS), path)
    elif name.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        path.write_text("\n".join([",".join(ROWS[0]), *(",".join(map(str, row.values())) for row in ROWS)]) + "\n")
    return path


def by_operation(measured: Measurements) -> dict[str, list[float]]:
    return {sample.operation: sample.latencies_ms.tolist() for sample in measured.samples}


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.jsonl"])
def test_formats_are_read_alike(tmp_path: Path, name: str) -> None:
    measured = read_measurements([saved(tmp_path, name)])
    assert by_operation(measured) == {"read": [12.5, 15.0], "write": [30.0], "cas": [40.0], "failed_cas": [45.0]}
    assert any("column 'latency_ms' contains the latency in ms" in note for note in measured.notes)
    assert any("ignored rows: 1 (" in note for note in measured.notes)


def test_columns_and_units_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("what,t,n\nfetch,0.5,10\nfetch,0.25,20\n")
    given = {"operation": "what", "latency": "t", "size": "n", "status": None, "unit": "s"}
    measured = read_measurements([path], columns=given, renamed={"fetch": "read.manifest_list"})
    assert by_operation(measured) == {"read.manifest_list": [500.0, 250.0]}
    assert measured.notes == ()


def test_an_operation_can_be_set_for_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("elapsed_us\n1000\n2000\n")
    assert by_operation(read_measurements([path], operation="cas")) == {"cas": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("op,latency\nget,1\n", "has no known unit"),
        ("op,foo\nget,1\n", "no column looks like a latency"),
        ("latency_ms\n1\n", "no column contains the operation"),
        ("op,latency_ms\nreed,1\n", "did you mean 'read'"),
        ("op,latency_ms\nget,fast\n", "row 1: latency_ms is 'fast'"),
        ("op,latency_ms\nget,-1\n", "no latencies"),
        ("op,latency_ms\nget,1,2,3\n", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_unusable_measurements_are_rejected(tmp_path: Path, text: str, hint: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=hint):
        read_measurements([path])


@pytest.mark.parametrize("size", ["-1e308", "-1", "1e308", "inf"])
def test_a_row_with_an_invalid_size_is_skipped(tmp_path: Path, size: str) -> None:
    """A line through such sizes is no number anywhere."""
    path = tmp_path / "x.csv"
    path.write_text(f"op,latency_ms,bytes\nget,1,10\nget,2,{size}\nget,3,30\n")
    assert by_operation(read_measurements([path])) == {"read": [1.0, 3.0]}


def test_a_huge_value_is_reported_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("op,latency_ms\nget," + "x" * 900_000 + "\n")
    with pytest.raises(InputError, match="row 1: latency_ms is 'xxx") as caught:
        read_measurements([path])
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("name", ["nowhere.csv", "nowhere.parquet", "nowhere.jsonl", "what.xlsx"])
def test_missing_files_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=name):
        read_measurements([tmp_path / name])


def test_names_of_columns_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(b"operation,lat\xe9ncy_ms\nread,1.0\n")
    with pytest.raises(InputError, match="not valid UTF-8"):
        read_rows(tmp_path / "latin.csv")
