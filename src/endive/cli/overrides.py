"""The option that overrides keys of a file, the same in every command that reads one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

SetOption = Annotated[list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the file.")]


def overrides_of(assignments: Iterable[str]) -> dict[str, Any]:
    """Read what ``--set`` was given, by key. Raises ConfigError if it is no assignment."""
    from endive.config.load import parse_assignment

    return dict(parse_assignment(text) for text in assignments)
