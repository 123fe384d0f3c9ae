"""``python -m endive``."""

from endive.main import cli

cli()
