"""Import of a Delta table from its log."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.calibrate import InputError
from endive.calibrate.sources import open_history
from endive.calibrate.table_history import History
from tests.cli import invoke

RS, SPARK = "delta-rs:py-1.6.6", "Apache-Spark/4.0.0 Delta-Lake/4.0.0"
START_MS = 1_790_000_000_000


def add(name: str, partition: str = "a", **keys: Any) -> dict[str, Any]:
    return {"add": {"path": name, "partitionValues": {"p": partition}, "dataChange": True, **keys}}


def remove(name: str, **keys: Any) -> dict[str, Any]:
    return {"remove": {"path": name, "partitionValues": {"p": "a"}, "dataChange": True, **keys}}


def info(seconds: float, engine: str = RS, **keys: Any) -> dict[str, Any]:
    return {"commitInfo": {"timestamp": START_MS + int(1000 * seconds), "engineInfo": engine, **keys}}


METADATA = {"metaData": {"partitionColumns": ["p"], "configuration": {"delta.checkpointInterval": "20"}}}


def write_log(folder: Path, entries: list[list[dict[str, Any]]], first: int = 0) -> Path:
    log = folder / "table" / "_delta_log"
    log.mkdir(parents=True)
    for number, actions in enumerate(entries, first):
        (log / f"{number:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    return log.parent


def operations(history: History) -> list[str]:
    return [commit.operation for commit in history.commits]


class TestHistory:
    def test_operations_follow_from_files(self, tmp_path: Path) -> None:
        table = write_log(
            tmp_path,
            [
                [METADATA, info(0)],
                [info(1), add("1"), add("2", "b")],
                [info(2), remove("1"), add("3")],
                [info(3), remove("3")],
                [info(4), remove("2", dataChange=False), add("4", dataChange=False)],
                [info(5), add("4", deletionVector={"storageType": "u"}), remove("4")],
            ],
        )
        history = open_history(str(table))
        assert operations(history) == ["append", "overwrite", "delete", "replace", "overwrite"]
        assert [commit.timestamp_ms - START_MS for commit in history.commits] == [1000, 2000, 3000, 4000, 5000]
        assert [commit.count("total-data-files") for commit in history.commits] == [2, 2, 1, 1, 1]
        assert history.commits[0].count("changed-partition-count") == 2
        assert [commit.count("added-dvs") for commit in history.commits] == [None, None, None, None, 1]
        assert (history.partitioned, history.client) == (True, "delta-rs")
        notes = " ".join(history.notes)
        assert "log entries that change no data (creation, properties, VACUUM): 1" in notes
        assert "delta.checkpointInterval is 20" in notes
        assert open_history(str(table / "_delta_log")) == History(**{**vars(history), "source": str(table / "_delta_log")})

    def test_times_never_decrease(self, tmp_path: Path) -> None:
        table = write_log(
            tmp_path, [[info(5), add("1")], [info(3), add("2")], [info(9, inCommitTimestamp=START_MS + 7000), add("3")]]
        )
        history = open_history(str(table))
        assert [commit.timestamp_ms - START_MS for commit in history.commits] == [5000, 5000, 7000]
        assert "log entries older than the previous version: 1" in " ".join(history.notes)

    def test_an_entry_without_a_time_has_that_of_its_file(self, tmp_path: Path) -> None:
        history = open_history(str(write_log(tmp_path, [[add("1")], [add("2")]])))
        assert "log entries without a timestamp: 2" in " ".join(history.notes)
        assert (history.client, history.commits[0].timestamp_ms > START_MS - 10**12) == ("delta-spark", True)

    @pytest.mark.parametrize(("with_checkpoint", "files"), [(True, 5), (False, None)])
    def test_a_log_that_was_cleaned_begins_with_a_checkpoint(
        self, tmp_path: Path, with_checkpoint: bool, files: int | None
    ) -> None:
        table = write_log(tmp_path, [[info(1), add("8")], [info(2), add("9")]], first=11)
        if with_checkpoint:
            rows = [{"path": name} for name in "123"] + [None]
            pq.write_table(pa.table({"add": rows}), table / "_delta_log" / f"{10:020}.checkpoint.parquet")
        history = open_history(str(table))
        assert (len(history.commits), history.state.data_files) == (2, files)

    def test_only_entries_after_a_gap_are_read(self, tmp_path: Path) -> None:
        table = write_log(tmp_path, [[info(1), add("1")], [info(2), add("2")], [info(3), add("3")]])
        (table / "_delta_log" / f"{1:020}.json").unlink()
        assert [commit.snapshot_id for commit in open_history(str(table)).commits] == [2]

    @pytest.mark.parametrize(
        ("content", "message"),
        [("{", "version 0: line 1 is not JSON"), ("[1]", "line 1 is not an action of Delta"), ('{"add": 1}', "is not an action")],
    )
    def test_broken_entries_are_named(self, tmp_path: Path, content: str, message: str) -> None:
        table = write_log(tmp_path, [[]])
        (table / "_delta_log" / f"{0:020}.json").write_text(content)
        with pytest.raises(InputError, match=message):
            open_history(str(table))

    def test_an_empty_log_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="_delta_log has no entries"):
            open_history(str(write_log(tmp_path, [])))


@pytest.mark.parametrize(("engine", "path"), [(RS, "delta-rs"), (SPARK, "delta-spark"), ("Kernel-4.0.0/Flink", "delta-spark")])
def test_the_commit_path_is_that_of_the_writer(tmp_path: Path, engine: str, path: str) -> None:
    table = write_log(tmp_path, [[info(second, engine), add(str(second))] for second in range(1, 30)])
    done = invoke("import", str(table), "-o", str(tmp_path / "mine.toml"), "--no-answer")
    assert done.exit_code == 0, done.stderr
    written = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert written["transaction"] == {"commit_path": path}
    assert written["table"] == {"files": 29}
    (section,) = written["workload"].values()
    assert section["operation"] == "fast_append"


def test_writers_of_both_kinds_keep_their_paths_and_can_be_simulated(tmp_path: Path) -> None:
    entries = [
        [info(second, RS if second % 3 else SPARK), add(str(second)), *([remove(str(second - 1))] if second % 5 == 0 else [])]
        for second in range(1, 61)
    ]
    out = tmp_path / "mine.toml"
    done = invoke("import", str(write_log(tmp_path, entries)), "-o", str(out), "--json")
    assert done.exit_code == 0, done.stderr
    workload = tomllib.loads(out.read_text())["workload"]
    assert {name: (cls["operation"], cls.get("commit_path")) for name, cls in workload.items()} == {
        "delta-rs_append": ("fast_append", None),
        "delta-rs_overwrite": ("overwrite", None),
        "spark_append": ("fast_append", "delta-spark"),
        "spark_overwrite": ("overwrite", "delta-spark"),
    }
    assert {each["class"] for each in json.loads(done.stdout)["answers"]} == set(workload)


def test_an_iceberg_client_is_refused(tmp_path: Path) -> None:
    table = write_log(tmp_path, [[info(second), add(str(second))] for second in range(3)])
    done = invoke("import", str(table), "-o", str(tmp_path / "mine.toml"), "--client", "pyiceberg")
    assert done.exit_code != 0
    assert "but the table is a Delta table" in done.stderr
