"""The entry point of the command line."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from endive.cli.app import EXIT_INTERRUPTED, leave
from endive.cli.app import app as app
from endive.cli.order import GROUPS, add_examples, keep_command

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Of the garbage collector; with Python's own number, a seventh of the start of a command goes into searches that find nothing."""

for _name in (*(name for names in GROUPS.values() for name in names), "watch"):
    import_module(f"endive.cli.{'import_' if _name == 'import' else _name}")
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
