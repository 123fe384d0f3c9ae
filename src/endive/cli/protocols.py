"""``endive protocols``: list the built-in commit protocols, and print one."""

from __future__ import annotations

from typing import Annotated

import typer

from endive.cli.app import JsonFlag, app, command

commands = typer.Typer(help="List the commit protocols of table formats, or show one.", invoke_without_command=True)
app.add_typer(commands, name="protocols")


@commands.callback()
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


@commands.command("show")
def show(name: Annotated[str, typer.Argument(help="Built-in protocol, or a file (*.toml).")], json: JsonFlag = False) -> None:
    """Print the file of a protocol, as a template for a custom one."""
    with command(json) as output:
        from endive.protocols.reader import find_protocol

        found = find_protocol(name)
        output.result(found.document.model_dump(mode="json"))
        output.verbatim(found.text.rstrip("\n"))
