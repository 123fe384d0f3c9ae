"""How far a study is, from its files alone."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from endive.output_files import this_writer
from endive.runs.plan import PlannedExperiment, StudyRecord, progress_of

STARTED = 1_700_000_000.0


def study(writer: str) -> StudyRecord:
    """Two experiments of two seeds; a run of the second costs three times as much."""
    planned = {f"s-{name}": PlannedExperiment(values={}, cpu_seconds=cost) for name, cost in (("a", 1.0), ("b", 3.0))}
    started = datetime.fromtimestamp(STARTED, UTC).isoformat()
    return StudyRecord(label="s", seeds=[0, 1], experiments=planned, started=started, writer=writer)


def finish(root: Path, name: str, seed: int, after: float) -> None:
    path = root / name / str(seed) / "results.parquet"
    path.parent.mkdir(parents=True)
    path.touch()
    os.utime(path, (STARTED + after, STARTED + after))


def test_time_that_is_left_goes_by_the_effort_since_the_start(tmp_path: Path) -> None:
    record = study(this_writer())
    nothing = progress_of(tmp_path, record, STARTED + 5.0)
    assert (nothing.done, nothing.total, nothing.share, nothing.seconds_left, nothing.state) == (0, 4, 0.0, None, "running")
    finish(tmp_path, "s-a", 0, -1_000.0)
    assert progress_of(tmp_path, record, STARTED + 5.0).seconds_left is None, "that was done before"
    finish(tmp_path, "s-b", 0, 9.0)
    found = progress_of(tmp_path, record, STARTED + 12.0)
    assert (found.done, found.share, found.elapsed_seconds) == (2, 0.5, 12.0)
    assert found.seconds_left == pytest.approx(12.0 * 4.0 / 3.0)


@pytest.mark.parametrize(("writer", "state"), [("", "running"), ("00000000-1-1", "running")])
def test_progress_of_another_machine_is_unknown(tmp_path: Path, writer: str, state: str) -> None:
    assert progress_of(tmp_path, study(writer), STARTED).state == state


def test_a_dead_process_has_stopped_and_a_whole_study_is_finished(tmp_path: Path) -> None:
    machine = this_writer().partition("-")[0]
    dead = study(f"{machine}-{2**22 + 1}-1")
    assert progress_of(tmp_path, dead, STARTED).state == "stopped"
    for name in ("s-a", "s-b"):
        for seed in (0, 1):
            finish(tmp_path, name, seed, 4.0)
    found = progress_of(tmp_path, dead, STARTED + 99.0)
    assert (found.state, found.share, found.elapsed_seconds, found.seconds_left) == ("finished", 1.0, 4.0, None)
