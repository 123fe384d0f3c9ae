"""Two ways to speak: tables for people, JSON for programs. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import math
import os
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from endive.cli.folding import fold, table_lines

_PAPER_WIDTH = 200
"""Columns of tables where there is no terminal and COLUMNS is not set; sentences are not folded there at all."""


def _width_of(console: Console) -> int | None:
    """The columns there are; None where nothing has to be folded, which is in a file or a pipe."""
    return console.width if console.is_terminal or "COLUMNS" in os.environ else None


def _folded(line: str, console: Console) -> str:
    width = _width_of(console)
    return line if width is None else "\n".join(fold(line, width))


class Output:
    """What a command has to say. Of lines that are None there is nothing to say."""

    def __init__(self) -> None:
        self.talk = Console(stderr=True, highlight=False)

    def result(self, data: Any) -> None:
        """The outcome as data, for programs."""

    def text(self, *lines: str | None) -> None:
        """Lines for people."""

    def verbatim(self, text: str) -> None:
        """A text for people that is not to be folded, such as a file."""

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table for people."""

    def note(self, *lines: str | None) -> None:
        """Something said on the side."""
        for line in lines:
            if line is not None:
                self.talk.print(Text(_folded(printable(line, "\n"), self.talk), style="dim"), soft_wrap=True)

    def error(self, *lines: str) -> None:
        """What went wrong."""
        for line in lines:
            first, *rest = _folded(f"error: {printable(line)}", self.talk).split("\n")
            told = Text("\n".join([first.removeprefix("error: "), *rest]))
            self.talk.print(Text("error: ", style="bold red") + told, soft_wrap=True)


class ConsoleOutput(Output):
    """For people, on stdout."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)

    def text(self, *lines: str | None) -> None:
        """Print lines, folded where that is needed."""
        for line in lines:
            if line is not None:
                self._console.print(Text(_folded(printable(line, "\n\t"), self._console)), soft_wrap=True)

    def verbatim(self, text: str) -> None:
        """Print a text as it is, but for what a terminal would act upon."""
        self._console.print(Text(printable(text, "\n\t")), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table; columns of numbers stand to the right, and one that is too wide is folded or split."""
        header, rows = [printable(name) for name in header], [[printable(cell) for cell in row] for row in rows]
        if title:
            self._console.print(Text(_folded(printable(title, "\n"), self._console), style="bold"), soft_wrap=True)
        for line, heading in table_lines(header, rows, _width_of(self._console) or _PAPER_WIDTH):
            self._console.print(Text(line, style="dim" if heading else ""), soft_wrap=True)


class JsonOutput(Output):
    """For programs: one JSON document on stdout, and nothing else there."""

    def result(self, data: Any) -> None:
        """Print the outcome."""
        print(json.dumps(data, indent=2, allow_nan=False))


def printable(text: str, keep: str = "") -> str:
    """Return a text with what a terminal would act upon, or not show, written as escapes: names of files may hold anything."""
    return "".join(each if each in keep or _is_shown(each) else each.encode("unicode_escape").decode() for each in text)


def _is_shown(character: str) -> bool:
    """Control and format characters (those that turn the direction of text among them), halves of characters, line separators."""
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def finite(value: float | None) -> float | None:
    """A number as JSON has it: None if it is not finite, or there is none."""
    return value if value is not None and math.isfinite(value) else None


def output_for(json_wanted: bool) -> Output:
    """The output that was asked for."""
    return JsonOutput() if json_wanted else ConsoleOutput()
