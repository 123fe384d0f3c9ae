"""Entry point of the command line."""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules

from endive import UNSUPPORTED

if sys.platform == "win32":
    raise SystemExit(UNSUPPORTED)

from endive import cli as cli_package
from endive.cli.app import EXIT_INTERRUPTED, leave
from endive.cli.app import app as app
from endive.cli.usage import lay_out_help

for _module in iter_modules(cli_package.__path__):  # Importing a module registers its commands.
    import_module(f"endive.cli.{_module.name}")
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
