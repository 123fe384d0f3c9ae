"""A kind of input, and how one is given to Endive: a command in this process, with what it said and how it ended."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from endive import main
from tests.mutations import mutated

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    """How an attempt ended: 0 if the input was taken, another code if it was refused, and what came out of it."""

    code: int
    said: str
    exception: BaseException | None = None


Attempt = Callable[[Path], Ended]


@dataclass(frozen=True)
class Kind:
    """A kind of input: the ending of its file, good examples, what is done with one, and how that may end beside well."""

    name: str
    ending: str
    good: tuple[bytes, ...]
    attempt: Attempt
    refused: tuple[int, ...] = (2,)
    mutate: Callable[[Sequence[bytes], random.Random], bytes] = mutated
    every: int = 1
    """It has its turn in one of so many rounds: some cost much more than others."""


class NotJsonError(AssertionError):
    """A command that was asked for JSON printed something else on stdout."""


def invoke(arguments: Sequence[str]) -> Ended:
    """Run a command."""
    result = CliRunner().invoke(main.app, list(arguments))
    exception = None if isinstance(result.exception, SystemExit) else result.exception
    if exception is None and "--json" in arguments and result.stdout:
        try:
            json.loads(result.stdout)
        except ValueError:
            exception = NotJsonError(result.stdout[-300:])
    return Ended(result.exit_code, result.output, exception)


def command(make: Callable[[Path], list[str]]) -> Attempt:
    """An attempt that runs a command, which asks for JSON one time in four."""

    def attempt(path: Path) -> Ended:
        arguments = make(path)
        return invoke([*arguments, "--json"] if chance(path) % 4 == 0 and "watch" not in arguments else arguments)

    return attempt


def chance(path: Path) -> int:
    """A number that follows from a file's content, for what is done with some of them only."""
    return zlib.crc32(path.read_bytes())


def files(pattern: str) -> tuple[bytes, ...]:
    """The content of files of this repository."""
    found = tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)))
    assert found, pattern
    return found


def beside(path: Path, name: str, text: str | bytes) -> str:
    """Write a further file beside an input; returns its path."""
    other = path.parent / name
    other.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(other)
