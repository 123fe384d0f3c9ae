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
    system: Annotated[
        str | None, typer.Option("--for", metavar="SYSTEM", help="Start from a recipe: rest, glue, jdbc, files, ...")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: JsonFlag = False,
) -> None:
    """Write a commented starter configuration: the simple model, or, with --for, a system on Iceberg's own commit path."""
    output = output_for(json)
    with exit_codes(output):
        from endive.config.errors import ConfigError, Problem

        if path.exists() and not force:
            raise ConfigError(str(path), [Problem("", "is there already; --force replaces it")])
        from endive.files import write_text

        write_text(path, _starter() if system is None else _recipe(system))
        output.result({"written": str(path)})
        output.text(f"wrote {path}; now: endive run {path}")
        if system is None:
            output.text("it is the simple model; --for rest|glue|jdbc|files|... starts on Iceberg's own commit path and retries")


def _starter() -> str:
    return resources.files("endive.cli").joinpath("starter.toml").read_text(encoding="utf-8")


def _recipe(system: str) -> str:
    """The recipe for a system; ``files`` alone is S3. Raises ConfigError with the nearest name."""
    from endive.cli.examples import examples_folder
    from endive.config.errors import ConfigError, Problem, nearest

    known = {file.stem: file for file in sorted((examples_folder() / "recipes").glob("*.toml"))}
    name = "files_s3" if system == "files" else system
    if name not in known:
        raise ConfigError("--for", [Problem("", f"there is no recipe {system!r}; {nearest(system, [*known, 'files'])}")])
    return known[name].read_text(encoding="utf-8")
