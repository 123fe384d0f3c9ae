"""The one door for text files of users and of results: TOML and JSON, limited in size and depth.

Whatever is wrong with a file (it is not there, too large, no text, nested without end, numbers of thousands of digits) is an
``UnreadableError`` that says so in one sentence; nothing else is raised.
"""

from __future__ import annotations

import gzip
import io
import json
import stat
import tomllib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_BYTES = 16 * 2**20
"""Larger files are no configurations and no records of runs."""
DEEPEST = 64
"""Tables and lists within each other."""


class UnreadableError(ValueError):
    """A file that cannot be read as what it should be. The message has no name of the file: who asked knows it."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises UnreadableError."""
    return parse_toml(read_text(path))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises UnreadableError."""
    found: dict[str, Any] = _parsed(tomllib.loads, text, "TOML")
    return found


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises UnreadableError."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """Parse JSON. Raises UnreadableError."""
    return _parsed(json.loads, text, "JSON")


def unpacked(content: bytes, most_bytes: int) -> bytes:
    """Unpack gzip, but no further than a limit. Raises UnreadableError: a few bytes may unpack to more than there is memory."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"is gzip that cannot be unpacked: {error}") from None
    if len(found) > most_bytes:
        raise UnreadableError(f"is gzip that unpacks to more than {most_bytes / 2**20:g} MiB")
    return found


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Read a text file (UTF-8). Raises UnreadableError.

    What a shell hands over in ``/dev`` may be a pipe; elsewhere a pipe, which may wait for ever, is no file.
    """
    try:
        if not _is_readable(path):
            raise UnreadableError("is not a file")
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise UnreadableError("there is no such file", missing=True) from None
    except UnreadableError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise UnreadableError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > most_bytes:
        raise UnreadableError(f"is larger than {most_bytes / 2**20:g} MiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableError("is no text (UTF-8)") from None


def _is_readable(path: Path) -> bool:
    """Tell whether reading will come to an end; a directory is left to the error that opening it raises."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path.absolute().is_relative_to("/dev")


def leading_comment(path: Path) -> str:
    """The comment that a TOML file begins with, as one line. Raises UnreadableError."""
    lines = []
    for line in read_text(path).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def first_sentence(text: str) -> str:
    """A text up to the end of its first sentence."""
    ends = [text.index(mark) + 1 for mark in (". ", "? ") if mark in text]
    return text[: min(ends, default=len(text))]


def _parsed(parse: Callable[[str], Any], text: str, kind: str) -> Any:
    try:
        found = parse(text)
    except RecursionError:
        raise UnreadableError(f"is nested more than {DEEPEST} deep") from None
    except ValueError as error:
        raise UnreadableError(f"is not {kind}: {_in_short(error)}") from None
    if _depth_exceeds(found, DEEPEST):
        raise UnreadableError(f"is nested more than {DEEPEST} deep")
    return found


def _in_short(error: ValueError) -> str:
    """What a parser says, in a line; Python's own words for a number of thousands of digits are about Python."""
    if "integer string conversion" in str(error):
        return "a whole number has more digits than any key takes"
    return str(error).splitlines()[0][:200]


def _depth_exceeds(node: Any, most: int) -> bool:
    """Whether tables and lists go deeper; level by level, so that no depth is too much to find out."""
    level = [node] if isinstance(node, dict | list) else []
    for _ in range(most):
        children = (child for parent in level for child in (parent.values() if isinstance(parent, dict) else parent))
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True
