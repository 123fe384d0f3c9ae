"""Run the command line with ``python -m endive``."""

from endive.main import cli

cli()
