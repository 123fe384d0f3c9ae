"""Entry point of the command line."""

from __future__ import annotations

import sys
from importlib import import_module

from endive import UNSUPPORTED

if sys.platform == "win32":
    raise SystemExit(UNSUPPORTED)

from endive.cli.app import EXIT_INTERRUPTED, leave
from endive.cli.app import app as app
from endive.cli.usage import GROUPS, lay_out_help

for _name in (name for names in GROUPS.values() for name in names):
    import_module(f"endive.cli.{'import_' if _name == 'import' else _name}")
lay_out_help(app)


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
