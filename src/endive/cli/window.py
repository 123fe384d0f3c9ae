"""Options that say which part of runs is measured, the same in every command."""

from __future__ import annotations

from typing import Annotated

import typer

WarmupOption = Annotated[
    float | None,
    typer.Option(
        help="Warm-up in ms, left out of all metrics. Default: until 95 % of the entry rate is reached, and MSER-5 from there on.",
        min=0.0,
    ),
]
CooldownOption = Annotated[float, typer.Option(help="Time before the end, in ms, left out of all metrics.", min=0.0)]
OptionalCooldownOption = Annotated[float | None, typer.Option(help="Time before the end, in ms, left out of all metrics.", min=0.0)]
