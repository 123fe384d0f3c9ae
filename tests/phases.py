"""The command line with marks: ``python -m tests.phases FILE ARGUMENTS`` runs ``endive ARGUMENTS`` and notes its phases.

Each line of the file is the name of a phase, written when the function that does its work is called; nothing else is changed. Who
kills the process can so choose the phase in which it strikes.
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
"""Phases of the two commands, in their order, and the names by which their callers know what does the work."""


def marked(name: str, function: Callable[..., Any], file: int) -> Callable[..., Any]:
    """The function, which first says that its phase begins."""

    def call(*arguments: Any, **options: Any) -> Any:
        os.write(file, f"{name}\n".encode())
        return function(*arguments, **options)

    return call


def main() -> None:
    """Mark the phases and run the command."""
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
