"""Output of commands: human-readable tables or JSON. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_FILE_WIDTH = 200
"""Width of tables in files and pipes, in characters; text is not wrapped there."""
_GAP = 2


class Output:
    """Output of a command. Lines that are None are omitted."""

    def __init__(self) -> None:
        self.talk = Console(stderr=True, highlight=False)

    def result(self, data: Any) -> None:
        """Print the outcome as JSON data."""

    def text(self, *lines: str | None) -> None:
        """Print lines of text."""

    def verbatim(self, text: str) -> None:
        """Print a text without wrapping it, such as a file."""

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table as text."""

    def note(self, *lines: str | None) -> None:
        """Print remarks and progress to stderr."""
        for line in lines:
            if line is not None:
                _print(self.talk, printable(line, "\n"), "dim")

    def error(self, *lines: str) -> None:
        """Print errors to stderr."""
        for line in lines:
            _print(self.talk, printable(line), prefix="error: ")


class ConsoleOutput(Output):
    """Prints human-readable text and tables."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        if not _wraps(self._console):
            self._console.width = _FILE_WIDTH

    def text(self, *lines: str | None) -> None:
        """Print lines, wrapped at the width of the terminal."""
        for line in lines:
            if line is not None:
                _print(self._console, printable(line, "\n\t"))

    def verbatim(self, text: str) -> None:
        """Print a text unchanged, except for terminal control sequences."""
        self._console.print(Text(printable(text, "\n\t")), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table; one that is too wide is split into several, each with the first column."""
        if title:
            _print(self._console, printable(title, "\n"), "bold")
        columns = list(zip(*([printable(cell) for cell in row] for row in (header, *rows)), strict=True))
        for place, block in enumerate(_blocks(columns, self._console.width)):
            with self._console.capture() as captured:
                self._console.print(_rich_table(block, self._console.width))
            lines = captured.get().splitlines()
            self._console.file.write("".join(f"{line.rstrip()}\n" for line in (["", *lines] if place else lines)))


class JsonOutput(Output):
    """Prints one JSON document on stdout, and nothing else there."""

    def result(self, data: Any) -> None:
        """Print the outcome."""
        print(json.dumps(data, indent=2, allow_nan=False))


def _wraps(console: Console) -> bool:
    """Return whether lines are wrapped: on a terminal, or if COLUMNS is set."""
    return console.is_terminal or "COLUMNS" in os.environ


def _print(console: Console, text: str, style: str = "", prefix: str = "") -> None:
    """Print a text, wrapped between words; paths are not broken. The prefix is printed before it in bold red."""
    lines = f"{prefix}{text}".split("\n")
    if _wraps(console):
        wrapper = textwrap.TextWrapper(console.width, break_long_words=False, break_on_hyphens=False)
        lines = [_wrap(line, wrapper) for line in lines]
    shown = Text("\n".join(lines), style=style)
    shown.stylize("bold red", 0, len(prefix))
    console.print(shown, soft_wrap=True)


def _wrap(line: str, wrapper: textwrap.TextWrapper) -> str:
    wrapper.subsequent_indent = line[: len(line) - len(line.lstrip())]
    return wrapper.fill(line)


def _blocks(columns: Sequence[tuple[str, ...]], width: int) -> Iterator[list[tuple[str, ...]]]:
    """Split columns into tables that fit the width; each repeats the first column."""
    first, *others = columns
    block = [first]
    for column in others:
        if len(block) > 1 and sum(map(_least_width, (*block, column))) + _GAP * len(block) > width:
            yield block
            block = [first]
        block.append(column)
    yield block


def _widths(columns: Sequence[tuple[str, ...]], width: int) -> list[int]:
    """Return the widths of columns. The widest columns are narrowed until the table fits, but not below their longest word."""
    widths, least = [max(map(len, column)) for column in columns], [_least_width(column) for column in columns]
    while sum(widths) + _GAP * (len(widths) - 1) > width and widths != least:
        place = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
        widths[place] -= 1
    return widths


def _least_width(column: Sequence[str]) -> int:
    """Return the minimum width of a column: its width if it contains numbers, otherwise its longest word."""
    cells = [word for cell in column[1:] for word in ([cell] if _is_number(cell) else cell.split())]
    return max((len(word) for word in (*column[0].split(), *cells)), default=0)


def _rich_table(columns: Sequence[tuple[str, ...]], width: int) -> Table:
    """Return a table whose headers and text columns are wrapped where needed."""
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim", show_header=any(c[0] for c in columns))
    for (name, *cells), size in zip(columns, _widths(columns, width), strict=True):
        numeric = bool(cells) and all(_is_number(cell) for cell in cells)
        table.add_column(Text(name), justify="right" if numeric else "left", width=size)
    for row in zip(*(column[1:] for column in columns), strict=True):
        table.add_row(*(Text(cell, no_wrap=_is_number(cell)) for cell in row))
    return table


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number, with or without sign and unit, or a placeholder for a missing number."""
    return cell in ("", "-", "never", "aborted") or cell.lstrip("><≥≤± -+")[:1].isdigit()


def printable(text: str, keep: str = "") -> str:
    """Return a text with control characters escaped, because file names may contain them."""
    return "".join(each if each in keep or _is_shown(each) else each.encode("unicode_escape").decode() for each in text)


def _is_shown(character: str) -> bool:
    """Return whether a character is safe to print: no control or format character, surrogate or line separator."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def output_for(json_wanted: bool) -> Output:
    """Return the output for people or for JSON."""
    return JsonOutput() if json_wanted else ConsoleOutput()
