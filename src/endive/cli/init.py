"""``endive init``: a commented configuration to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from endive.cli.app import JsonFlag, app, exit_codes
from endive.cli.output import output_for


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("endive.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write a commented starter configuration."""
    output = output_for(json)
    with exit_codes(output):
        from endive.config.errors import ConfigError, Problem

        if path.exists() and not force:
            raise ConfigError(str(path), [Problem("", "is there already; --force replaces it")])
        from endive.files import write_text

        write_text(path, resources.files("endive.cli").joinpath("starter.toml").read_text(encoding="utf-8"))
        output.result({"written": str(path)})
        output.text(f"wrote {path}; now: endive run {path}")
