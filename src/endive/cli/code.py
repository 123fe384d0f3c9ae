"""The option by which a user lets code of a configuration be run, the same in every command that simulates."""

from __future__ import annotations

from typing import Annotated

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
