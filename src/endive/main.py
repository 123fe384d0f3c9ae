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
)
from endive.cli.app import app

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
]


def cli() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    cli()
