"""``endive init``: a commented configuration to start from."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from endive.cli.app import JsonFlag, app, command, refuse
from endive.cli.options import ForceFlag, check_new

SIMPLE = "simple"
"""Name of the starter configuration, with most keys as comments."""
DEFAULT_SYSTEM = "rest"
"""Default system, which is used without asking if there is no terminal."""
SHORT_NAMES = {"files": "files_s3"}


@app.command()
def init(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Configuration to write.")] = Path("endive.toml"),
    system: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="SYSTEM",
            help=f"System: rest, glue, jdbc, files, ... or {SIMPLE}. Default: ask on a terminal, otherwise {DEFAULT_SYSTEM}.",
            show_default=False,
        ),
    ] = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Write a commented configuration of a common system, with Iceberg's commit path and retry settings."""
    with command(json) as output:
        check_new(path, force)
        from endive.output_files import write_text

        texts = system_texts()
        asked = system is None and sys.stdin.isatty() and not json
        chosen = _ask(texts) if asked else system or DEFAULT_SYSTEM
        write_text(path, _text_of(chosen, texts))
        output.result({"written": str(path), "system": chosen})
        output.text(f"wrote {path} (system: {chosen}); next: endive run {path}")
        if system is None and not asked:
            output.text(f"Other systems (--for): {', '.join(name for name in texts if name != chosen)}")


def system_texts() -> dict[str, str]:
    """Return the configurations by the name of their system, the default first."""
    from endive.cli.examples import examples_folder

    recipes = {file.stem: file.read_text(encoding="utf-8") for file in sorted((examples_folder() / "recipes").glob("*.toml"))}
    simple = resources.files("endive.cli").joinpath("starter.toml").read_text(encoding="utf-8")
    return {DEFAULT_SYSTEM: recipes.pop(DEFAULT_SYSTEM), **recipes, SIMPLE: simple}


def _ask(texts: dict[str, str]) -> str:
    """Ask for the system on the terminal; an empty answer selects the default."""
    for name, text in texts.items():
        typer.echo(f"  {name:14}{_description(text)}", err=True)
    return str(typer.prompt("Which system is closest to yours?", default=DEFAULT_SYSTEM, err=True)).strip()


def _description(text: str) -> str:
    """Return the first line of a configuration up to the colon."""
    line = text.splitlines()[0].removeprefix("#").strip()
    return line.partition(":")[0].removesuffix(".")


def _text_of(system: str, texts: dict[str, str]) -> str:
    """Return the configuration of a system. Raises ConfigError with the nearest name if there is none."""
    from endive.config.errors import nearest

    name = SHORT_NAMES.get(system, system)
    if name not in texts:
        refuse("--for", f"unknown system {system!r}; {nearest(system, [*texts, *SHORT_NAMES])}")
    return texts[name]
