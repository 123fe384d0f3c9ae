"""A full disk is named, and ends a command with exit code 1."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.cli import invoke
from tests.cli.test_compare import CONFIG
from tests.pipeline.runs import run_commands_without_spark


def test_run_names_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28] No space left on device")

    (tmp_path / "a.toml").write_text(CONFIG)
    monkeypatch.setattr("endive.runs.execute.execute_run", fail)
    result = invoke("run", str(tmp_path / "a.toml"), "-o", str(tmp_path / "out"))
    assert (result.exit_code, result.stderr) == (1, f"error: {tmp_path / 'out'}: No space left on device\n")


def test_report_names_the_tables_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").write_text(CONFIG)
    out = tmp_path / "out"
    assert invoke("run", str(tmp_path / "a.toml"), "-o", str(out)).exit_code == 0

    def fail(root: Path, *_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(root / "metrics" / "by_run.parquet"))

    run_commands_without_spark(monkeypatch)
    monkeypatch.setattr("endive.pipeline.metrics.write_tables", fail)
    result = invoke("report", str(out))
    assert result.exit_code == 1
    assert result.stderr == f"error: {out / 'metrics' / 'by_run.parquet'}: No space left on device\n"
