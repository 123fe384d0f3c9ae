"""Run the command line and record its phases: ``python -m tests.phases FILE ARGUMENTS`` runs ``endive ARGUMENTS``.

Each line of the file is the name of a phase, written when the function of the phase is called. A test can therefore kill the
process in a given phase.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

SWEEP = {
    "planning": "endive.runs.plan:plan_sweep",
    "running while Spark starts": "endive.pipeline.sweep:run_ahead",
    "running on Spark": "endive.pipeline.sweep:run_sweep",
}
REPORT = {
    "consolidating": "endive.pipeline.refresh:consolidate",
    "measuring": "endive.pipeline.refresh:measure",
    "writing metrics": "endive.pipeline.metrics:write_tables",
    "writing the report": "endive.report.sections:page_of",
}
"""Phases of the two commands in order, and the names of their functions in the calling modules."""


def marked(name: str, function: Callable[..., Any], file: int) -> Callable[..., Any]:
    """Return the function with a record of the start of its phase."""

    def call(*arguments: Any, **options: Any) -> Any:
        os.write(file, f"{name}\n".encode())
        return function(*arguments, **options)

    return call


def main() -> None:
    """Record the phases and run the command."""
    path, *arguments = sys.argv[1:]
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for name, place in (SWEEP if arguments[0] == "sweep" else REPORT).items():
        module, _, attribute = place.partition(":")
        owner = importlib.import_module(module)
        setattr(owner, attribute, marked(name, getattr(owner, attribute), file))
    from endive.main import cli

    sys.argv = ["endive", *arguments]
    cli()


if __name__ == "__main__":
    main()
