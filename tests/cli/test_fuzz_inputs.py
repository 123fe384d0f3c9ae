"""A small, fixed part of ``make fuzz-inputs``, and the fuzzer itself: it finds what it should."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from tests import fuzz_inputs
from tests.fuzz_inputs import KINDS, commands_here, fuzz, try_one


def test_broken_files_do_no_harm() -> None:
    assert fuzz(range(8 * len(KINDS)), seed=7) == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_good_files_are_accepted(kind: fuzz_inputs.Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    with commands_here():
        code, fault = try_one(kind, kind.good[0], folder)
    assert fault is None
    assert code == 0 or kind.name in ("configuration", "sweep")


def test_a_traceback_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = typer.Typer()

    @broken.command()
    def validate(path: str) -> None:
        raise RecursionError(path)

    monkeypatch.setattr(fuzz_inputs, "app", broken)
    _, fault = try_one(fuzz_inputs.Kind("x", "toml", (b"",), lambda path: [str(path)]), b"", tmp_path)
    assert fault is not None
    assert "RecursionError" in fault.what


def test_a_file_outside_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = typer.Typer()
    folder = tmp_path / "work"
    folder.mkdir()

    @broken.command()
    def validate(path: str) -> None:
        (Path(path).parents[1] / "outside").write_text("")

    monkeypatch.setattr(fuzz_inputs, "app", broken)
    _, fault = try_one(fuzz_inputs.Kind("x", "toml", (b"",), lambda path: [str(path)]), b"", folder)
    assert fault is not None
    assert "outside" in fault.what
