"""The entry point of the command line."""

from __future__ import annotations

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
from endive.cli.order import add_examples

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


add_examples(app)


def cli() -> None:
    """Run the command line."""
    try:
        app()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            leave(EXIT_INTERRUPTED)
        raise


if __name__ == "__main__":
    cli()
