"""How commands are listed: in the order of work, by what they are for, and each with examples."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo

GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("init", "serve", "examples", "validate", "providers", "schema"),
    "Your own system": ("import", "replay", "fidelity", "probe", "calibrate"),
    "Ask": ("run", "compare", "frontier", "tune"),
    "Studies": ("sweep", "experiments", "consolidate", "metrics", "report", "plot"),
}
"""Commands in the order of work; each has a module of its name."""
EXAMPLES: dict[str, tuple[str, ...]] = {
    "init": ("endive init my.toml --for rest",),
    "serve": ("endive serve", "endive serve my.toml"),
    "validate": ("endive validate my.toml", "endive validate my.toml --set workload.ingest.rate=3"),
    "providers": ("endive providers",),
    "schema": ("endive schema > endive.schema.json",),
    "import": ("endive import metadata.json --out my.toml",),
    "replay": ("endive replay metadata.json --set storage.provider=s3x",),
    "fidelity": ("endive fidelity my.toml reports.jsonl",),
    "probe": ("endive probe ./data",),
    "calibrate": ("endive calibrate latencies.csv --out my-store.toml",),
    "run": ("endive run my.toml", "endive run my.toml --seed 7 --set transaction.retry=20"),
    "compare": (
        "endive compare my.toml my.toml --set-b storage.provider=s3x",
        "endive compare today=a.toml b.toml c.toml --question 'success(compaction)'",
        "endive compare study.toml",
    ),
    "frontier": ("endive frontier my.toml --vary workload.ingest.rate --until 'success < 99%'",),
    "tune": ("endive tune my.toml --for 'p99(ingest)' --subject-to 'success >= 99%'",),
    "sweep": ("endive sweep study.toml --dry-run", "endive sweep study.toml --quick --out results"),
    "consolidate": ("endive consolidate results",),
    "metrics": ("endive metrics results",),
    "report": ("endive report results",),
    "plot": ("endive plot results --figure throughput_load --format svg",),
}
"""What to type, by command; groups of commands show those of their own."""


_WHOLE = 400
"""Letters of a first sentence: none is cut."""


class OrderOfWork(TyperGroup):
    """Lists commands under what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands to the help."""
        for title, names in GROUPS.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (name, command.get_short_help_str(_WHOLE)) for name, command in found if command is not None and not command.hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def add_examples(app: typer.Typer) -> None:
    """Put the examples below the help of each command."""
    for info in app.registered_commands:
        name = _name_of(info)
        if name in EXAMPLES and not info.epilog:
            info.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])


def keep_command(app: typer.Typer, name: str) -> None:
    """Forget all commands but the one that is called, if there is one of that name: parsers of the others take 50 ms to make."""
    commands = [info for info in app.registered_commands if _name_of(info) == name]
    groups = [info for info in app.registered_groups if info.name == name]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups


def _name_of(info: CommandInfo) -> str:
    return info.name or (info.callback.__name__ if info.callback else "")
