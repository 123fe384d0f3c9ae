"""The one door for files of users and of results: TOML and JSON, limited in size and depth, and rows, limited by memory.

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
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from endive.utils import available_bytes

MOST_BYTES = 16 * 2**20
"""Larger files are no configurations and no records of runs."""
_LONGEST = 200
"""Characters of a file that an error shows."""
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
    """Parse JSON. Raises UnreadableError, also for half a character, which JSON can write and nothing else can."""
    found = _parsed(json.loads, text, "JSON")
    place = next(_half_characters(found, ""), None) if "\\ud" in text.lower() else None
    if place is not None:
        raise UnreadableError(f"{place}{': ' if place else ''}is no text (it has half a character)")
    return found


def _half_characters(node: Any, key: str) -> Iterator[str]:
    """Yield the keys of texts that cannot be written as text."""
    if isinstance(node, dict):
        for name, child in node.items():
            here = f"{key}.{name}" if key else name
            if is_text(name):
                yield from _half_characters(child, here)
            else:
                yield ascii(here)[1:-1]
    elif isinstance(node, list):
        for child in node:
            yield from _half_characters(child, key)
    elif isinstance(node, str) and not is_text(node):
        yield key


def is_text(value: str) -> bool:
    """Tell whether a string can be written as text: half a character of JSON or of a command line cannot."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def in_short(text: str) -> str:
    """A text of a file as an error shows it: what is longer than a line or two is cut."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


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
    """Read a text file (UTF-8). Raises UnreadableError."""
    try:
        return read_content(path, most_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableError("is no text (UTF-8)") from None


def read_content(path: Path, most_bytes: int) -> bytes:
    """Read a file. Raises UnreadableError.

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
    return content


def _is_readable(path: Path) -> bool:
    """Tell whether reading will come to an end; a directory is left to the error that opening it raises."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path.absolute().is_relative_to("/dev")


def check_rows(path: Path, bytes_per_row: int) -> None:
    """See whether a file of rows (Parquet, or text with a row in each line, gzip or not) can be held in memory, before it is read.

    Raises UnreadableError if not, with the estimate, or if it is no file: small files may unpack to more than there is.
    """
    try:
        if not _is_readable(path):
            raise UnreadableError("is not a file")
        counted = _rows_of_parquet(path) if path.suffix in (".parquet", ".pq") else _rows_of_text(path)
        most = available_bytes() // 2
        for rows, size in counted:
            if rows * bytes_per_row + size > most:
                needed = f"{(rows * bytes_per_row + size) / 2**30:,.1f} GiB of memory"
                raise UnreadableError(f"has {rows:,} rows or more, which need about {needed}, more than half of what is free")
    except UnreadableError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UnreadableError(f"cannot be read: {getattr(error, 'strerror', None) or _first_line(error)}") from None


def _rows_of_text(path: Path) -> Iterator[tuple[int, int]]:
    """How many lines and bytes there are, so far."""
    rows = size = 0
    with path.open("rb") as raw, gzip.open(raw) if path.suffix == ".gz" else nullcontext(raw) as file:
        while chunk := file.read(1 << 20):
            rows, size = rows + chunk.count(b"\n"), size + len(chunk)
            yield rows, size


def _rows_of_parquet(path: Path) -> Iterator[tuple[int, int]]:
    """How many values its longest column has, and how large it says that all are, so far."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        told = pyarrow.parquet.read_metadata(path)
    except pa.ArrowException as error:
        raise UnreadableError(f"cannot be read: {_first_line(error)}") from None
    rows = size = 0
    for group in map(told.row_group, range(told.num_row_groups)):
        longest = max((group.column(number).num_values for number in range(group.num_columns)), default=0)
        rows, size = rows + max(group.num_rows, longest), size + max(group.total_byte_size, 0)
        yield rows, size


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
        raise UnreadableError(f"is not {kind}: {_first_line(error)}") from None
    if _depth_exceeds(found, DEEPEST):
        raise UnreadableError(f"is nested more than {DEEPEST} deep")
    return found


def _first_line(error: Exception) -> str:
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
