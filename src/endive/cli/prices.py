"""The option that names a table of prices, and what a thousand commits take, in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endive.cli.app import refuse
from endive.cli.output import Output

if TYPE_CHECKING:
    from endive.analysis.cost import Cost
    from endive.storage.prices import Prices

PricesOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Prices of requests (TOML), in place of list prices; see docs/explanation/cost.md."),
]


def prices_of(path: Path | None) -> Prices:
    """Return the list prices, or those of a file. Raises ConfigError that names what is wrong with it."""
    from endive.storage.prices import PriceError, load_prices

    try:
        return load_prices(path)
    except PriceError as error:
        refuse("--prices", str(error))


def show_cost(output: Output, cost: Cost | None) -> None:
    """Print what a thousand commits take: requests by kind, money if all of it has a price, and files left behind."""
    from endive.analysis.cost import KINDS
    from endive.report.phrases import money, short

    if cost is None:
        return
    each = cost.money
    header = ("", "requests", *(() if each is None else (cost.currency,)))
    rows = [
        (word, short(cost.requests[kind]), *(() if each is None else (money(each[kind]),)))
        for kind, word in KINDS.items()
        if cost.requests[kind]
    ]
    total = cost.total_money
    rows.append(("all", short(cost.total_requests), *(() if total is None else (money(total),))))
    output.table("\nFor a thousand commits", header, rows)
    if cost.orphaned_files:
        output.text(f"{short(cost.orphaned_files)} files are left behind for a thousand commits")


def cost_as_data(cost: Cost | None) -> dict[str, Any] | None:
    """What a thousand commits take, for JSON."""
    if cost is None:
        return None
    return {
        "per": "1000 commits",
        "requests": dict(cost.requests),
        "money": None if cost.money is None else dict(cost.money),
        "total_requests": cost.total_requests,
        "total_money": cost.total_money,
        "currency": cost.currency,
        "orphaned_files": cost.orphaned_files,
    }
