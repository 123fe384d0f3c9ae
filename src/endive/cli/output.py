"""Two ways to speak: tables for people, JSON for programs. Results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PAPER_WIDTH = 200
"""Columns where there is no terminal: nothing has to be folded in a file."""


class Output(ABC):
    """What a command has to say."""

    def __init__(self) -> None:
        self.talk = Console(stderr=True, highlight=False)

    @abstractmethod
    def result(self, data: Any) -> None:
        """The outcome as data; people get it by ``text`` and ``table``."""

    @abstractmethod
    def text(self, line: str) -> None:
        """A line for people."""

    @abstractmethod
    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table for people."""

    def note(self, line: str) -> None:
        """Something said on the side."""
        self.talk.print(Text(line, style="dim"))

    def error(self, line: str) -> None:
        """What went wrong."""
        self.talk.print(Text("error: ", style="bold red") + Text(line), soft_wrap=True)


class ConsoleOutput(Output):
    """For people."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        if not self._console.is_terminal and "COLUMNS" not in os.environ:
            self._console.width = _PAPER_WIDTH

    def result(self, data: Any) -> None:
        """People read the tables."""

    def text(self, line: str) -> None:
        """A line on stdout."""
        self._console.print(Text(line), soft_wrap=True)

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table on stdout; columns after the first are numbers and stand to the right where they look like it."""
        rows = [list(row) for row in rows]
        if title:  # not the table's own, which is folded where the table is narrow
            self._console.print(Text(title, style="bold"))
        table = Table(box=None, pad_edge=False)
        for column, name in enumerate(header):
            numbers = all(_number_like(row[column]) for row in rows)
            justify: Literal["left", "right"] = "right" if numbers else "left"
            table.add_column(name, justify=justify, header_style="dim", overflow="fold", no_wrap=column == 0)
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)


class JsonOutput(Output):
    """For programs: one JSON document on stdout."""

    def result(self, data: Any) -> None:
        """The outcome."""
        print(json.dumps(data, indent=2, allow_nan=False))

    def text(self, line: str) -> None:
        """Nothing: it is in the result."""

    def table(self, title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Nothing: it is in the result."""


def output_for(json_wanted: bool) -> Output:
    """The output that was asked for."""
    return JsonOutput() if json_wanted else ConsoleOutput()


def _number_like(cell: str) -> bool:
    return cell.strip(" %-+.,<>/s") == "" or cell[:1].isdigit() or cell[:2].strip("-<").isdigit()
