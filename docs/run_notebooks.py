"""Run the notebooks of the documentation, and store their output.

    python docs/run_notebooks.py [NAME...]

Notebooks run in a temporary directory. The same code gives the same output, so a notebook changes only if results do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent / "notebooks"
_KEPT = ("image/svg+xml", "text/html", "text/plain")
"""Kinds of output that are stored; Vega-Lite repeats what SVG shows."""

_WIDGET = "application/vnd.jupyter.widget-view+json"


def list_notebooks() -> list[Path]:
    """Return the notebooks, by name."""
    return sorted(FOLDER.glob("*.ipynb"))


def run_notebook(path: Path, directory: Path) -> Any:
    """Return a notebook with the output of its cells, run in a directory."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(directory)}})
    done = client.execute()
    for cell in done.cells:
        cell.get("metadata", {}).pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [each for each in map(_keep, cell.outputs) if each is not None]
    return done


def _keep(output: Any) -> Any:
    """Return an output without what differs from run to run; None for progress bars."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    if "data" not in output:
        return output
    if _WIDGET in output.data or not output.data.get("text/plain", "").strip():
        return None
    output.data = {kind: value for kind, value in output.data.items() if kind in _KEPT}
    return output


def main() -> None:
    """Run the notebooks that are named, or all."""
    wanted = sys.argv[1:]
    for path in list_notebooks():
        if not wanted or path.stem in wanted:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run_notebook(path, Path(folder)), path)
            print(path.relative_to(FOLDER.parent))


if __name__ == "__main__":
    main()
