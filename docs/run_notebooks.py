"""Run the notebooks of the documentation, and store their output.

    python docs/run_notebooks.py [NAME...]
    python docs/run_notebooks.py --check [NAME...]     # compare instead, and exit with 1 if an output differs

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
    done.metadata.pop("widgets", None)  # progress bars; a page would load their scripts
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
    check, wanted = "--check" in sys.argv, [word for word in sys.argv[1:] if word != "--check"]
    different = []
    for path in list_notebooks():
        if wanted and path.stem not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            text = nbformat.writes(run_notebook(path, Path(folder))) + "\n"
        if check and text.strip() != path.read_text(encoding="utf-8").strip():
            different.append(path.name)
        elif not check:
            path.write_text(text, encoding="utf-8")
        print(path.relative_to(FOLDER.parent))
    if different:
        sys.exit(f"another output than the stored one: {', '.join(different)}; `make notebooks` stores it")


if __name__ == "__main__":
    main()
