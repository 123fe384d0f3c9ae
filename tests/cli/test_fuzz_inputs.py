"""A small, fixed part of ``make fuzz-inputs``, and the fuzzer itself: it finds what it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from endive import main
from tests.fuzz_inputs import KINDS, fuzz, try_one
from tests.fuzz_inputs.attempts import Kind, command
from tests.fuzz_inputs.here import commands_here


def test_broken_files_do_no_harm() -> None:
    assert fuzz(range(2 * len(KINDS)), seed=7) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_good_files_are_accepted(kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with commands_here():
        code, fault = try_one(kind, kind.good[0], folder)
    assert fault is None
    assert code == 0 or kind.name in ("configuration", "sweep", "code of a part", "serve: deep keys")


def test_a_traceback_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = typer.Typer()

    @broken.command()
    def validate(path: str) -> None:
        raise RecursionError(path)

    monkeypatch.setattr(main, "app", broken)
    _, fault = try_one(Kind("x", "toml", (b"",), command(lambda path: [str(path)])), b"x", tmp_path)
    assert fault is not None
    assert "RecursionError" in fault.what


def test_a_file_outside_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = typer.Typer()
    folder = tmp_path / "work"
    folder.mkdir()

    @broken.command()
    def validate(path: str) -> None:
        (Path(path).parents[1] / "outside").write_text("")

    monkeypatch.setattr(main, "app", broken)
    _, fault = try_one(Kind("x", "toml", (b"",), command(lambda path: [str(path)])), b"x", folder)
    assert fault is not None
    assert "outside" in fault.what
