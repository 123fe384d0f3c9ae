"""Kinds of input, and their execution: a command in this process, with its output and outcome."""

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
    """Outcome of an attempt: 0 if the input was accepted, another code if it was rejected, and the output."""

    code: int
    said: str
    exception: BaseException | None = None


Attempt = Callable[[Path], Ended]


@dataclass(frozen=True)
class Kind:
    """Kind of input: file suffix, valid examples, command, and allowed exit codes other than 0."""

    name: str
    ending: str
    good: tuple[bytes, ...]
    attempt: Attempt
    refused: tuple[int, ...] = (2,)
    mutate: Callable[[Sequence[bytes], random.Random], bytes] = mutated
    every: int = 1
    """Number of rounds per input of this kind; expensive kinds have larger values."""


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
    """Return an attempt that runs a command, with ``--json`` in a quarter of the cases."""

    def attempt(path: Path) -> Ended:
        arguments = make(path)
        return invoke([*arguments, "--json"] if chance(path) % 4 == 0 and "watch" not in arguments else arguments)

    return attempt


def chance(path: Path) -> int:
    """Return a pseudo-random number derived from the content of a file."""
    return zlib.crc32(path.read_bytes())


def files(pattern: str) -> tuple[bytes, ...]:
    """Return the contents of files of this repository."""
    found = tuple(path.read_bytes() for path in sorted(ROOT.glob(pattern)))
    assert found, pattern
    return found


def beside(path: Path, name: str, text: str | bytes) -> str:
    """Write another file to the directory of an input; return its path."""
    other = path.parent / name
    other.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(other)
