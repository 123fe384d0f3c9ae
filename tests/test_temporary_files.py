"""Temporary files tell their writer: those of the dead are cleared, never those of the living."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from endive.output_files import (
    FOREIGN_SECONDS,
    check_inside,
    find_leftovers,
    remove_leftovers,
    temporary_beside,
    whole_file,
    write_text,
)

KILLED = """
import os, signal, sys
from pathlib import Path
from endive.output_files import whole_file
with whole_file(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "results.parquet"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    (left,) = target.parent.iterdir()
    assert left.name.startswith(".results.parquet.")
    assert remove_leftovers(tmp_path) == [left]
    assert list(target.parent.iterdir()) == []


def test_writing_a_file_removes_leftovers_of_killed_writers(tmp_path: Path) -> None:
    """Reports that were killed left eight tables half-written beside the whole ones, for ever."""
    target = tmp_path / "by_run.csv"
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    other = tmp_path / "by_run.csv.gz"
    subprocess.run([sys.executable, "-c", KILLED, str(other)], check=False)
    living = temporary_beside(target)
    living.touch()
    write_text(target, "whole")
    left = set(tmp_path.iterdir()) - {target, living}
    assert [path.name.startswith(".by_run.csv.gz.") for path in left] == [True]


def test_files_of_a_running_process_are_kept(tmp_path: Path) -> None:
    with whole_file(tmp_path / "results.parquet") as temporary:
        temporary.write_text("half")
        assert remove_leftovers(tmp_path) == []
        temporary.write_text("whole")
    assert (tmp_path / "results.parquet").read_text() == "whole"


def test_a_process_that_has_the_number_of_a_dead_one_is_another(tmp_path: Path) -> None:
    own = temporary_beside(tmp_path / "x")
    machine, pid, started, unique = own.name.split(".")[2].split("-")
    other = tmp_path / f".x.{machine}-{pid}-{int(started) - 1}-{unique}.tmp"
    other.touch()
    own.touch()
    assert list(find_leftovers(tmp_path)) == [other]


def test_only_old_files_of_other_machines_are_leftovers(tmp_path: Path) -> None:
    foreign = tmp_path / ".x.00000000-1-1-0123456789ab.tmp"
    foreign.touch()
    assert list(find_leftovers(tmp_path)) == []
    old = foreign.stat().st_mtime - FOREIGN_SECONDS - 60.0
    os.utime(foreign, (old, old))
    assert list(find_leftovers(tmp_path)) == [foreign]


def test_other_files_are_not_leftovers(tmp_path: Path) -> None:
    for name in (".x.tmp", "x.00000000-1-1-0123456789ab.tmp", ".x.00000000-1-1-0123456789ab.tmp.bak", ".hidden"):
        (tmp_path / name).touch()
    assert list(find_leftovers(tmp_path)) == []


def test_paths_that_lead_out_are_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    check_inside(root / "a" / "b", root)
    for path in (root / ".." / "outside" / "x", root / "link" / "x", outside / "x"):
        with pytest.raises(PermissionError, match="leads out of"):
            check_inside(path, root)
