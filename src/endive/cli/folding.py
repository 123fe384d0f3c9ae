"""Text and tables in a given number of columns: folded between words, never inside a word or between a number and its unit.

Everything here is a function of its arguments: no console, no environment. ``output`` decides how wide it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from endive.report.pieces import pieces_of

GAP = 2
"""Spaces between the columns of a table."""
_WORDS_WIDTH = 24
"""Columns of words are not folded to less than this, if they have so much to say: a table of many columns is split instead."""


def fold(text: str, width: int) -> list[str]:
    """Return the lines of a text, none wider than ``width`` but for a piece that is; further lines have the first one's indent."""
    folded: list[str] = []
    for line in text.split("\n"):
        if len(line) <= width:
            folded.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()))
        current = ""
        for piece in pieces_of(line):
            longer = f"{current} {piece}" if current else indent + piece
            if current and len(longer) > width:
                folded.append(current)
                longer = indent + piece
            current = longer
        folded.append(current)
    return folded


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its cells, how they are aligned, and how narrow it can be."""

    name: str
    cells: tuple[str, ...]
    right: bool

    @property
    def natural(self) -> int:
        """The width that takes no folding of cells; names are folded as cells allow."""
        return max([_longest(self.name), *(len(cell) for cell in self.cells)])

    @property
    def least(self) -> int:
        """The width below which a word would break, or words would stand in a pile."""
        if self.right:
            return self.natural
        return min(self.natural, max([_longest(self.name), *(_longest(cell) for cell in self.cells), _WORDS_WIDTH]))


def _longest(text: str) -> int:
    return max((len(piece) for piece in pieces_of(text)), default=0)


def number_like(cell: str) -> bool:
    """Tell whether a cell is a number, with a sign or a unit or without, or stands for one that is missing."""
    return cell.strip(" %-+.,<>/s") == "" or cell == "never" or cell[:1].isdigit() or cell.lstrip("><≥≤± -")[:1].isdigit()


def columns_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Column]:
    """Return the columns of a table; those of numbers alone stand to the right."""
    return [
        Column(name, cells, bool(rows) and all(number_like(cell) for cell in cells))
        for name, cells in ((name, tuple(row[place] for row in rows)) for place, name in enumerate(header))
    ]


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a table, each with whether it is of the header.

    A table that is too wide is folded in its columns of words; if that is not enough, it is split into several below each other,
    and each has the first column.
    """
    columns = columns_of(header, [list(row) for row in rows])
    for place, block in enumerate(_blocks(columns, width)):
        if place:
            yield "", False
        yield from _block_lines(block, _widths(block, width))


def _blocks(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Split columns into tables that fit, the first column in each."""
    first, blocks = columns[0], [[columns[0]]]
    for column in columns[1:]:
        if len(blocks[-1]) > 1 and _total([each.least for each in (*blocks[-1], column)]) > width:
            blocks.append([first])
        blocks[-1].append(column)
    return blocks


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Narrow the widest columns that can be narrower until the table fits, or none can."""
    widths = [column.natural for column in columns]
    while _total(widths) > width:
        place = max(range(len(widths)), key=lambda at: (widths[at] > columns[at].least, widths[at]))
        if widths[place] <= columns[place].least:
            break
        widths[place] -= 1
    return widths


def _block_lines(columns: Sequence[Column], widths: Sequence[int]) -> Iterator[tuple[str, bool]]:
    names = [fold(column.name, width) for column, width in zip(columns, widths, strict=True)]
    if any(column.name for column in columns):
        tall = max(len(lines) for lines in names)
        yield from ((line, True) for line in _side_by_side([[""] * (tall - len(n)) + n for n in names], columns, widths))
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
        yield from ((line, False) for line in _side_by_side(cells, columns, widths))


def _side_by_side(cells: Sequence[list[str]], columns: Sequence[Column], widths: Sequence[int]) -> Iterator[str]:
    for at in range(max(len(lines) for lines in cells)):
        parts = [lines[at] if at < len(lines) else "" for lines in cells]
        aligned = (p.rjust(w) if c.right else p.ljust(w) for p, c, w in zip(parts, columns, widths, strict=True))
        yield (" " * GAP).join(aligned).rstrip()
