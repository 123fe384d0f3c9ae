"""Figures drawn by several processes: the same bytes as by one, errors as they are, and nothing left running."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from endive.report.drawing import Drawing
from endive.report.errors import ReportError
from endive.report.paper import Size, save
from tests.report.made_up import kinds

FORMATS = ("svg", "png", "pdf")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def drawn_alone(folder: Path) -> dict[str, bytes]:
    for figure in kinds():
        save(figure, folder, FORMATS)
    return bytes_of(folder)


@pytest.mark.parametrize("processes", [0, 2])
def test_files_are_those_of_one_process(tmp_path: Path, processes: int) -> None:
    (alone, together) = (tmp_path / name for name in ("alone", "together"))
    with Drawing(processes) as drawing:
        files = drawing.save(kinds(), together, FORMATS)
    assert [[file.name for file in each] for each in files] == [[f"{fig.name}.{kind}" for kind in FORMATS] for fig in kinds()]
    assert bytes_of(together) == drawn_alone(alone)


def test_what_cannot_be_drawn_is_told_as_it_is(tmp_path: Path) -> None:
    with Drawing(1) as drawing, pytest.raises(ReportError, match=r"it does not fit into 0\.3in"):
        drawing.save(kinds(), tmp_path, ("svg",), Size(0.3))


def test_a_folder_that_cannot_be_made_is_told_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Drawing(2) as drawing, pytest.raises(NotADirectoryError):
        drawing.save(kinds(), tmp_path / "file" / "figures", ("svg",))


def test_what_a_process_leaves_undone_is_drawn_here(tmp_path: Path) -> None:
    with Drawing(2) as drawing:
        drawing.begin()
        for process in drawing._processes:
            process.kill()
        drawing.save(kinds(), tmp_path / "together", FORMATS)
    assert bytes_of(tmp_path / "together") == drawn_alone(tmp_path / "alone")


def test_processes_end_with_the_one_that_started_them() -> None:
    """However it ends: their input ends with it."""
    lines = "import time\nfrom endive.report.drawing import Drawing\ndrawing = Drawing(1)\ndrawing.begin()\n"
    lines += "print(drawing._processes[0].pid, flush=True)\ntime.sleep(600)\n"
    with subprocess.Popen([sys.executable, "-c", lines], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        ended = os.pidfd_open(child)
        os.kill(parent.pid, signal.SIGKILL)
    try:
        assert select.select([ended], [], [], 60.0)[0] == [ended]
    finally:
        os.close(ended)
