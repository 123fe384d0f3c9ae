"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer


def _allow(allowed: bool) -> bool:
    if allowed:
        from endive.config.parts import allow_code

        allow_code()
    return allowed


AllowCodeOption = Annotated[
    bool,
    typer.Option("--allow-code", callback=_allow, help="Run the code that [parts] of the file names: it can do whatever you can."),
]
ConfigArgument = Annotated[Path, typer.Argument(help="Configuration file (TOML).", show_default=False)]
SetOption = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file.")]

ROOT = Path("experiments")
RootArgument = Annotated[Path, typer.Argument(help="Directory of experiments.")]

WarmupOption = Annotated[
    float | None,
    typer.Option(
        help="Warm-up in ms, left out of all metrics. Default: until 95 % of the entry rate is reached, and MSER-5 from there on.",
        min=0.0,
    ),
]
CooldownOption = Annotated[float, typer.Option(help="Time before the end, in ms, left out of all metrics.", min=0.0)]
OptionalCooldownOption = Annotated[float | None, typer.Option(help="Time before the end, in ms, left out of all metrics.", min=0.0)]
LoadOption = Annotated[
    str | None, typer.Option(metavar="KEY", help="Parameter that is the load of curves. Default: the rate that varies.")
]

MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master: local[N], spark://HOST:PORT, yarn, k8s://... Default: all cores here.")
]
RemoteOption = Annotated[str | None, typer.Option("--remote", help="Spark Connect server: sc://HOST:PORT.")]
ShipOption = Annotated[bool, typer.Option("--ship-code", help="Send the package to executors that do not have it.")]


def overrides_of(assignments: Iterable[str]) -> dict[str, Any]:
    """Read what ``--set`` was given, by key. Raises ConfigError if it is no assignment."""
    from endive.config.load import parse_assignment

    return dict(parse_assignment(text) for text in assignments)
