"""What is wrong with a configuration: all of it at once, each with its file, key, value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from endive.input_files import in_short


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. ``key`` is dotted; ``value`` is as given (a missing one is None)."""

    key: str
    message: str
    value: Any = None

    def __str__(self) -> str:
        shown = "" if self.value is None else f" (is {in_short(repr(self.value))})"
        return f"{in_short(self.key)}: {self.message}{shown}" if self.key else self.message


class ConfigError(ValueError):
    """A configuration that cannot be run."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = [f"{source}: {problem}" for problem in self.problems]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, tuple[Problem, ...]]]:
        """Pickle the problems with the message."""
        return type(self), (self.source, self.problems)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest known spelling, or at all of them."""
    known = sorted(known)
    if not known:
        return "nothing is allowed here"
    return closest(word, known).removeprefix("; ") or f"allowed are {', '.join(known)}"


def closest(word: str, known: Iterable[str]) -> str:
    """A hint at the nearest known spelling, if one is near."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""
