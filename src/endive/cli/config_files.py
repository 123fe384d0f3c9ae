"""``endive init``, ``validate``, ``schema``, ``providers`` and ``protocols``: write and check configurations."""

from __future__ import annotations

import json as json_module
import sys
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import typer

from endive.cli.app import JsonFlag, app, command, refuse
from endive.cli.options import ConfigArgument, ForceFlag, SetOption, check_new, overrides_of

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
    """Write a commented configuration of a typical system, with Iceberg's commit path and retry settings."""
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
    """Return the first sentence of a configuration, up to its colon."""
    sentence = text.splitlines()[0].removeprefix("#").strip().partition(". ")[0]
    return sentence.partition(":")[0].removesuffix(".")


def _text_of(system: str, texts: dict[str, str]) -> str:
    """Return the configuration of a system. Raises ConfigError with the nearest name if there is none."""
    from endive.config.errors import nearest

    name = SHORT_NAMES.get(system, system)
    if name not in texts:
        refuse("--for", f"unknown system {system!r}; {nearest(system, [*texts, *SHORT_NAMES])}")
    return texts[name]


@app.command()
def validate(
    config: ConfigArgument,
    set_: SetOption = [],  # noqa: B006
    json: JsonFlag = False,
) -> None:
    """Check a configuration without running it, and report all problems at once."""
    with command(json) as output:
        from dataclasses import asdict

        from endive.config import compute_experiment_hash
        from endive.config.load import load_document
        from endive.config.warnings import warnings_of
        from endive.runs.identity import parameters

        document = load_document(config, overrides_of(set_))
        experiment, warnings = compute_experiment_hash(document), warnings_of(document)
        result = {"valid": True, "experiment_hash": experiment, "parameters": parameters(document)}
        output.result({**result, "warnings": [asdict(each) for each in warnings]})
        output.text(f"{config}: valid, experiment {experiment}")
        output.text(*(f"warning: {warning}" for warning in warnings))


@app.command()
def schema(json: JsonFlag = True) -> None:
    """Print the JSON Schema of configuration files, for editors that validate and complete TOML."""
    from endive.config import json_schema

    print(json_module.dumps(json_schema(), indent=2))


@app.command()
def providers(
    profile: Annotated[Literal["2025-06", "2025-12", "2026-01"], typer.Option(help="Version of the latency profiles.")] = "2026-01",
    json: JsonFlag = False,
) -> None:
    """List the built-in object stores, with their latencies, the commit rate of one writer, and the source of these numbers.

    Latencies are p50 and p99 in ms, for objects of 8 KiB.
    """
    from endive.formatting import format_number
    from endive.storage import builtin_profiles
    from endive.storage.profiles import Drawn, cas_rate_per_s, drawn_latencies

    def brief(drawn: Drawn | None) -> str:
        return "-" if drawn is None else f"{format_number(drawn.median_ms)} / {format_number(drawn.p99_ms)}"

    result, rows = [], []
    for item in builtin_profiles(profile).values():
        latencies, rate = drawn_latencies(item), cas_rate_per_s(item)
        drawn = {access: None if each is None else asdict(each) for access, each in latencies.items()}
        result.append({**asdict(item), "drawn": drawn, "cas_rate_per_s": rate})
        rows.append((item.name, *map(brief, latencies.values()), "-" if rate is None else format_number(rate), item.description))
    with command(json) as output:
        output.result(result)
        header = ("provider", "read", "write", "CAS", "failed CAS", "append", "failed append", "CAS/s", "object store")
        title = f"Latency profiles {profile}: p50 / p99 in ms; CAS/s is the rate of one writer"
        output.table(title, header, rows)
        output.table("\nSources", ("provider", "source"), [(each["name"], each["source"]) for each in result])


protocol_commands = typer.Typer(help="List the commit protocols of table formats, or show one.", invoke_without_command=True)
app.add_typer(protocol_commands, name="protocols")


@protocol_commands.callback()
def protocols(context: typer.Context, json: JsonFlag = False) -> None:
    """List the built-in commit protocols with their version, source and date; use one with commit_path = NAME."""
    if context.invoked_subcommand is not None:
        return
    with command(json) as output:
        from endive.protocols.reader import builtin_names, find_protocol

        found = [find_protocol(name) for name in builtin_names()]
        rows = [
            {
                "name": each.protocol.name,
                "client": each.protocol.client,
                "version": each.document.version,
                "date": each.date,
                "status": each.document.status,
                "commit_point": each.protocol.commit_point,
                "scope": each.protocol.scope,
                "retries": each.document.retries.limit,
                "source": each.document.source,
            }
            for each in found
        ]
        output.result(rows)
        header = ("protocol", "client", "version", "date", "status", "commit point", "scope", "retries")
        output.table(
            "Commit protocols", header, [[str(row[key.replace(" ", "_")]) for key in ("name", *header[1:])] for row in rows]
        )
        output.table("\nSources", ("protocol", "source"), [(str(row["name"]), str(row["source"])) for row in rows])


@protocol_commands.command("show")
def show(name: Annotated[str, typer.Argument(help="Built-in protocol, or a file (*.toml).")], json: JsonFlag = False) -> None:
    """Print the file of a protocol, as a template for a custom one."""
    with command(json) as output:
        from endive.protocols.reader import find_protocol

        found = find_protocol(name)
        output.result(found.document.model_dump(mode="json"))
        output.verbatim(found.text.rstrip("\n"))
