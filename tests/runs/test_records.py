"""Records of runs: what they must say, and that parameters are those of the experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.runs.records import RecordError, read_provenance
from tests.pipeline.damages import change_record
from tests.pipeline.runs import document, run_all


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run."""
    run_all([document(simulation__duration_ms=1_000.0)], tmp_path, [0])
    return next(tmp_path.iterdir()) / "0"


def test_a_record_is_read_as_it_was_written(run: Path) -> None:
    record = read_provenance(run / "provenance.json")
    assert record["experiment_hash"] == run.parent.name.rpartition("-")[2]


def test_a_record_with_a_wrong_checksum_is_damaged(run: Path) -> None:
    path = run / "provenance.json"
    record = json.loads(path.read_text())
    record["parameters"]["catalog"]["num_tables"] = 7
    path.write_text(json.dumps(record))
    with pytest.raises(RecordError, match=r"`record_sha256` is .* does not match"):
        read_provenance(path)


def test_a_record_of_an_older_version_has_no_checksum_and_is_read(run: Path) -> None:
    path = run / "provenance.json"
    record = json.loads(path.read_text())
    del record["record_sha256"]
    path.write_text(json.dumps(record))
    assert read_provenance(path)["seed"] == 0


@pytest.mark.parametrize("value", [[1], "x", None, {"numpy": {}}, {"numpy": 2}])
def test_versions_of_libraries_are_a_table_of_texts(run: Path, value: Any) -> None:
    change_record(run, dependencies=value)
    with pytest.raises(RecordError, match=r"provenance\.json: `dependencies"):
        read_provenance(run / "provenance.json")


@pytest.mark.parametrize("value", [["a"], 3, "x; rm -rf ~", "$(reboot)", "--all", "a\nb"])
def test_an_invalid_git_commit_is_damage(run: Path, value: Any) -> None:
    """A report tells its reader to check the commit out by a command."""
    change_record(run, git_commit=value)
    with pytest.raises(RecordError, match=r"provenance\.json: `git_commit"):
        read_provenance(run / "provenance.json")
    change_record(run, git_commit=None)
    read_provenance(run / "provenance.json")
