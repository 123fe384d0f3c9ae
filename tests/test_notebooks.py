"""The notebooks of the documentation run; ``make numbers`` compares their output with the stored one."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = runpy.run_path(str(ROOT / "docs/run_notebooks.py"))
NOTEBOOKS = TOOLS["list_notebooks"]()


def text_of(notebook: Any) -> list[str]:
    """The text of all outputs, figures aside."""
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return [str(output.get("text") or output.data["text/plain"]) for output in outputs]


@pytest.mark.xdist_group("spark")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[] if path.stem == "ten_minutes" else [pytest.mark.slow]) for path in NOTEBOOKS],
)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    stored = text_of(nbformat.reads(path.read_text(encoding="utf-8"), as_version=4))  # type: ignore[no-untyped-call]
    found = text_of(TOOLS["run_notebook"](path, tmp_path))
    assert len(found) == len(stored) >= 4
    assert all(text.strip() for text in found)


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["own_catalog", "paper_figure", "ten_minutes"]
