"""``endive init``: a commented configuration to start from."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from endive.cli.app import EXIT_USAGE, JsonFlag, app, exit_codes
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
        if path.exists() and not force:
            output.error(f"{path}: is there already; --force replaces it")
            raise typer.Exit(EXIT_USAGE)
        from endive.simulation.output import write_text

        write_text(path, resources.files("endive.cli").joinpath("starter.toml").read_text())
        output.result({"written": str(path)})
        output.text(f"wrote {path}; now: endive run {path}")
