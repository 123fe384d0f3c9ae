"""How evenly writers share the commits of their class, in words, where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from endive.report.phrases import known, percent, short

Row = Mapping[Any, Any]
_EVEN = 0.9
"""Of Jain's index: from here on commits count as shared evenly."""


def fairness_in_words(name: str, rows: Sequence[Row], where: Callable[[Any], str]) -> Iterator[str]:
    """Tell of a class where its writers share its commits least evenly, if that is far from even.

    Args:
        name: The class.
        rows: Its metrics, a row for each configuration.
        where: Says which configuration a row is, in words such as `` with 20 clients``; empty if there is only one.

    """
    measured = [row for row in rows if known(row.get("jain_index"))]
    if not measured:
        return
    worst = min(measured, key=lambda row: row["jain_index"])
    if worst["jain_index"] >= _EVEN and not worst["writers_without_commit"]:
        return
    told = f"The writers of {name} do not share its commits evenly{where(worst)}: Jain's index is {short(worst['jain_index'])}"
    if worst["writers_without_commit"] > 0.0:
        told += f", {percent(worst['writers_without_commit'])} of them never commit"
    losses = round(worst["longest_losing_streak"])
    yield f"{told}, and one loses {losses:,} transactions in a row." if losses > 1 else f"{told}."
