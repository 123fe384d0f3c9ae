"""A full disk is named, and ends a command with exit code 1."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from endive.pipeline.consolidate import Damage
from tests.cli import invoke
from tests.cli.test_compare import CONFIG


def test_run_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    (tmp_path / "a.toml").write_text(CONFIG)
    monkeypatch.setattr("endive.runs.execute.run_experiment", fail)
    result = invoke("run", str(tmp_path / "a.toml"), "-o", str(tmp_path / "out"))
    assert (result.exit_code, result.stderr) == (1, f"error: {tmp_path / 'out'}: No space left on device\n")


@pytest.mark.xdist_group("spark")
def test_report_names_the_dataset_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text(CONFIG)
    out = tmp_path / "out"
    assert invoke("run", str(tmp_path / "a.toml"), "-o", str(out)).exit_code == 0
    monkeypatch.setattr("endive.pipeline.refresh.consolidate", lambda *_: Consolidated())
    result = invoke("report", str(out))
    told = f"error: {out / 'consolidated'}: cannot be written: No space left on device; free disk space or use another directory\n"
    assert (result.exit_code, result.stderr) == (1, told)


class Consolidated:
    problems = (Damage("mix-0", "cannot be written: No space left on device"),)
