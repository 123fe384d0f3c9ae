"""Layout of ``--help``: commands by purpose, options by topic, and examples."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("init", "serve", "examples", "validate", "providers", "protocols", "schema"),
    "Your system": ("import", "replay", "fidelity", "probe", "calibrate", "lab", "observe"),
    "Questions": ("run", "compare", "frontier", "tune", "screen"),
    "Studies": ("sweep", "experiments", "consolidate", "metrics", "report", "plot", "pack"),
}
"""Commands by the heading of ``endive --help``, in the order in which a study uses them."""
EXAMPLES: dict[str, tuple[str, ...]] = {
    "init": ("endive init my.toml --for rest",),
    "serve": ("endive serve", "endive serve my.toml"),
    "validate": ("endive validate my.toml", "endive validate my.toml --set workload.ingest.rate=3"),
    "providers": ("endive providers",),
    "protocols": ("endive protocols", "endive protocols show delta-rs"),
    "schema": ("endive schema > endive.schema.json",),
    "import": ("endive import metadata.json -o my.toml",),
    "replay": ("endive replay metadata.json --set storage.provider=s3x",),
    "fidelity": ("endive fidelity my.toml --against reports.jsonl",),
    "probe": ("endive probe ./data",),
    "calibrate": ("endive calibrate latencies.csv -o my-store.toml",),
    "lab": ("endive lab my.toml", "endive lab my.toml --rivals --table db.events -- python job.py"),
    "observe": ("endive observe -o client.toml -- python append.py",),
    "run": ("endive run my.toml", "endive run my.toml --seed 7 --set transaction.retry=20"),
    "compare": (
        "endive compare my.toml my.toml --set-b storage.provider=s3x",
        "endive compare today=a.toml b.toml c.toml --question 'success(compaction)'",
        "endive compare study.toml",
    ),
    "frontier": ("endive frontier my.toml --vary workload.ingest.rate --until 'success < 99%'",),
    "tune": ("endive tune my.toml --for 'p99(ingest)' --subject-to 'success >= 99%'",),
    "screen": ("endive screen my.toml --for 'success(compaction)'",),
    "sweep": ("endive sweep study.toml --dry-run", "endive sweep study.toml --quick -o results"),
    "consolidate": ("endive consolidate results",),
    "metrics": ("endive metrics results",),
    "report": ("endive report results",),
    "plot": ("endive plot results --figure throughput_load --format svg",),
    "pack": ("endive pack results -o study.zip",),
}
"""Examples by command."""
_WHOLE = 400
"""Maximum length of a command's summary, so that none is cut."""
_HIDDEN_ALIAS = re.compile(r", --out(?= |$)")
"""Old spelling of ``--output``, which is still accepted."""


class WholeSummaries(TyperGroup):
    """Command group whose help contains the whole summary of each command."""

    def sections(self, ctx: Any) -> Mapping[str, Sequence[str]]:
        """Return the names of the commands by heading."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands to the help text."""
        for title, names in self.sections(ctx).items():
            with formatter.section(title):
                commands = ((name, self.get_command(ctx, name)) for name in names)
                formatter.write_dl([(name, each.get_short_help_str(_WHOLE)) for name, each in commands if each is not None])


class CommandsByPurpose(WholeSummaries):
    """Command group whose help lists commands under the headings of ``GROUPS``."""

    def sections(self, ctx: Any) -> Mapping[str, Sequence[str]]:
        """Return the names of the commands by heading."""
        return GROUPS


COMMAND_KEY = "endive.command"
"""Context key for the words after ``--``, for the commands in ``WITH_COMMAND``."""
WITH_COMMAND = frozenset({"lab", "observe"})
"""Commands that run a program of the user, which is given after ``--``."""


class OptionsByTopic(TyperCommand):
    """Command whose help lists options under the headings in ``rich_help_panel``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; words after ``--`` are kept for commands that run a program."""
        if self.name in WITH_COMMAND and "--" in args:
            place = args.index("--")
            ctx.meta[COMMAND_KEY] = args[place + 1 :]
            args = args[:place]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line, with optional arguments in brackets."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        pieces = ["[OPTIONS]", *(name if each.required else f"[{name}]" for each in arguments for name in [_argument_name(each)])]
        return [*pieces, "[-- COMMAND...]"] if self.name in WITH_COMMAND else pieces

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options to the help text."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            record = each.get_help_record(ctx)
            if record is None:
                continue
            if each.param_type_name == "argument":
                panels.setdefault("Arguments", []).append((_argument_name(each), record[1].removesuffix("  [required]")))
            else:
                title = getattr(each, "rich_help_panel", None) or "Options"
                panels.setdefault(title, []).append((_HIDDEN_ALIAS.sub("", record[0]), record[1]))
        for title, rows in panels.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def _argument_name(argument: Any) -> str:
    return f"{argument.metavar or argument.name.upper()}{'...' if argument.nargs == -1 else ''}"


def lay_out_help(app: typer.Typer) -> None:
    """Set the layout of every command and command group, and add the examples of ``EXAMPLES``."""
    for each in app.registered_groups:
        each.cls = WholeSummaries
    for group in (app, *(each.typer_instance for each in app.registered_groups)):
        for info in group.registered_commands if group is not None else []:
            info.cls = OptionsByTopic
            name = info.name or (info.callback.__name__ if info.callback else "")
            if group is app and name in EXAMPLES:
                info.epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[name])
