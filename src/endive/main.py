"""The entry point of the command line."""

from __future__ import annotations

import gc
import sys

from endive.cli import (
    calibrate,
    compare,
    consolidate,
    examples,
    experiments,
    fidelity,
    frontier,
    import_,
    init,
    metrics,
    plot,
    probe,
    providers,
    replay,
    report,
    run,
    schema,
    serve,
    sweep,
    tune,
    validate,
    watch,
)
from endive.cli.app import EXIT_INTERRUPTED, app, leave
from endive.cli.order import add_examples, keep_command

__all__ = [
    "app",
    "calibrate",
    "cli",
    "compare",
    "consolidate",
    "examples",
    "experiments",
    "fidelity",
    "frontier",
    "import_",
    "init",
    "metrics",
    "plot",
    "probe",
    "providers",
    "replay",
    "report",
    "run",
    "schema",
    "serve",
    "sweep",
    "tune",
    "validate",
    "watch",
]


_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Of the garbage collector; with Python's own number, a seventh of the start of a command goes into searches that find nothing."""

add_examples(app)


def cli() -> None:
    """Run the command line."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    keep_command(app, sys.argv[1] if len(sys.argv) > 1 else "")
    try:
        app()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            leave(EXIT_INTERRUPTED)
        raise


if __name__ == "__main__":
    cli()
