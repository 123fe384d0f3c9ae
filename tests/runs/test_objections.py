"""Objections to work that is likely to be a mistake."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from endive.runs.effort import free_bytes, objections


def effort(cpu_seconds: float = 1.0, disk_bytes: float = 1.0) -> Any:
    return SimpleNamespace(cpu_seconds=cpu_seconds, disk_bytes=disk_bytes)


def test_small_work_has_no_objection(tmp_path: Path) -> None:
    assert list(objections(effort(), tmp_path, 2)) == []


def test_more_disk_than_is_free_is_objected_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.runs.effort.shutil.disk_usage", lambda _: SimpleNamespace(free=77_000_000_000))
    (answer,) = objections(effort(disk_bytes=409e9), tmp_path / "not" / "there", 2)
    assert answer == f"results would take about 409 GB, and 77 GB are free in {tmp_path / 'not' / 'there'}"
    assert list(objections(effort(disk_bytes=60e9), tmp_path, 2)) == []


def test_days_of_computing_are_objected_to_where_the_cores_are_known(tmp_path: Path) -> None:
    assert list(objections(effort(cpu_seconds=500_000.0), tmp_path, 2)) == ["this would take about 2.89 d on 2 cores"]
    assert list(objections(effort(cpu_seconds=500_000.0), tmp_path, 64)) == []
    assert list(objections(effort(cpu_seconds=500_000.0), tmp_path, None)) == []


def test_the_disk_is_that_of_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") > 0
