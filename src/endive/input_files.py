"""Read files of users and of results: TOML and JSON, limited in size and depth, and rows, limited by memory.

Every problem with a file raises ``UnreadableError`` with a message of one sentence.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

MOST_BYTES = 16 * 2**20
"""Maximum size of configurations and records of runs."""
_LONGEST = 200
"""Maximum number of characters of a value in an error message."""
DEEPEST = 64
"""Maximum depth of nested tables and lists."""
_PREDICATE = re.compile(
    r"(\(line \d+\) )?(already|is|was|are|has|should|must|needs|does|cannot|contains|unpacks|applies|contradicts|excludes|loads) "
)


class UnreadableError(ValueError):
    """Raised if a file cannot be read. The message does not contain the name of the file; the caller adds it."""

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file. Raises UnreadableError."""
    return parse_toml(read_text(path))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises UnreadableError."""
    found: dict[str, Any] = _parse(tomllib.loads, text, "TOML")
    return found


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises UnreadableError."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """Parse JSON. Raises UnreadableError, also for an unpaired surrogate, which UTF-8 cannot encode."""
    found = _parse(json.loads, text, "JSON")
    if "\\ud" in text.lower() and not is_text(json.dumps(found, ensure_ascii=False)):
        raise UnreadableError("contains an unpaired surrogate")
    return found


def is_text(value: str) -> bool:
    """Return whether a string can be encoded as UTF-8. An unpaired surrogate, from JSON or a command line, cannot."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def in_short(text: str) -> str:
    """Return a value from a file for an error message, truncated if it is long."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def is_predicate(message: str) -> bool:
    """Return whether a message is the predicate of a sentence, such as ``is missing``."""
    return _PREDICATE.match(message) is not None


def state(subject: str, message: str, *, is_key: bool = False) -> str:
    """Return an error message about a file, an option or a key: ``FILE is not a file`` or ``FILE: no such file``."""
    if not is_predicate(message):
        return f"{subject}: {message}"
    return f"`{subject}` {message}" if is_key else f"{subject} {message}"


def unpacked(content: bytes, most_bytes: int) -> bytes:
    """Decompress gzip. Raises UnreadableError above a limit, because a small file can decompress to more than the free memory."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"is not valid gzip: {error}") from None
    if len(found) > most_bytes:
        raise UnreadableError(f"unpacks to more than {most_bytes / 2**20:g} MiB")
    return found


def read_text(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Read a text file (UTF-8). Raises UnreadableError."""
    try:
        return read_content(path, most_bytes).decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableError("is not UTF-8 text") from None


def read_content(path: Path, most_bytes: int) -> bytes:
    """Read a file. Raises UnreadableError.

    Pipes are accepted only in ``/dev``, where shells create them, because reading any other pipe might never end.
    """
    try:
        if not _is_readable(path):
            raise UnreadableError("is not a file")
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except FileNotFoundError:
        raise UnreadableError("no such file", missing=True) from None
    except UnreadableError:
        raise
    except (OSError, ValueError) as error:  # ValueError: NUL character in the path
        raise UnreadableError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > most_bytes:
        raise UnreadableError(f"is larger than {most_bytes / 2**20:g} MiB")
    return content


def _is_readable(path: Path) -> bool:
    """Return whether reading a file will end. True for a directory, because opening it raises a clear error."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or path.absolute().is_relative_to("/dev")


def check_rows(path: Path, bytes_per_row: int) -> None:
    """Check that a file of rows (Parquet, or text with one row per line, optionally gzip) fits into memory, before it is read.

    A small file can decompress to more than the free memory. Raises UnreadableError with the estimated size if it does, or if the
    path is not a file.
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
    except FileNotFoundError:
        raise UnreadableError("no such file", missing=True) from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise UnreadableError(f"cannot be read: {getattr(error, 'strerror', None) or _first_line(error)}") from None


def _rows_of_text(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the number of lines and bytes read so far."""
    rows = size = 0
    with path.open("rb") as raw, gzip.open(raw) if path.suffix == ".gz" else nullcontext(raw) as file:
        while chunk := file.read(1 << 20):
            rows, size = rows + chunk.count(b"\n"), size + len(chunk)
            yield rows, size


def _rows_of_parquet(path: Path) -> Iterator[tuple[int, int]]:
    """Yield the number of values of the longest column and the uncompressed size, summed over the row groups so far."""
    import pyarrow as pa
    import pyarrow.parquet

    try:
        metadata = pyarrow.parquet.read_metadata(path)
    except pa.ArrowException as error:
        raise UnreadableError(f"cannot be read: {_first_line(error)}") from None
    rows = size = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        longest = max((group.column(number).num_values for number in range(group.num_columns)), default=0)
        rows, size = rows + max(group.num_rows, longest), size + max(group.total_byte_size, 0)
        yield rows, size


def leading_comment(path: Path) -> str:
    """Return the leading comment of a TOML file as one line. Raises UnreadableError."""
    lines = []
    for line in read_text(path).splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    ends = [text.index(mark) + 1 for mark in (". ", "? ") if mark in text]
    return text[: min(ends, default=len(text))]


def _parse(parse: Callable[[str], Any], text: str, kind: str) -> Any:
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
    """Return the message of a parser in one line."""
    if "integer string conversion" in str(error):
        return "an integer has too many digits"
    return str(error).splitlines()[0][:200]


def _depth_exceeds(node: Any, most: int) -> bool:
    """Return whether tables and lists are nested more than ``most`` levels deep, without recursion."""
    level = [node] if isinstance(node, dict | list) else []
    for _ in range(most):
        children = (child for parent in level for child in (parent.values() if isinstance(parent, dict) else parent))
        level = [child for child in children if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def available_bytes() -> int:
    """Return the free memory in bytes. If the system does not report it, return half of the installed memory, or 4 GiB."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30
