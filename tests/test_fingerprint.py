"""The fingerprint of code: what it means, and not how it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive import utils
from endive.utils import fingerprint, meaning

CODE = b'''"""A module."""
import math

LIMIT = 3
"""What a constant means."""

def area(radius: float) -> float:
    """The area of a circle."""
    return math.pi * radius**2  # pi r squared

class Empty(Exception):
    """Nothing there."""
'''


def test_comments_docstrings_and_layout_make_no_difference() -> None:
    """A comment made all results old."""
    other = CODE.replace(b"  # pi r squared", b"").replace(b"The area of a circle.", b"Something else.")
    other = other.replace(b"What a constant means.", b"A bound.").replace(b"A module.", b"Other words.").replace(b"\n\n", b"\n\n\n")
    assert meaning(other) == meaning(CODE)
    assert meaning(CODE.replace(b'    """Nothing there."""', b"    pass")) == meaning(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"radius**2", b"radius**3"), (b"LIMIT = 3", b"LIMIT = 4"), (b"math.pi * radius", b'math.pi * ("x", radius)[1]')],
)
def test_what_changes_meaning_makes_one(old: bytes, new: bytes) -> None:
    assert meaning(CODE.replace(old, new)) != meaning(CODE)


def test_texts_that_are_values_count() -> None:
    assert meaning(b'NAME = "a"') != meaning(b'NAME = "b"')


def test_it_is_kept_so_that_code_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENDIVE_CACHE_DIR", str(tmp_path / "cache"))
    parsed: list[int] = []

    def counted(source: bytes) -> str:
        parsed.append(1)
        return meaning(source)

    monkeypatch.setattr(utils, "meaning", counted)
    uncached = fingerprint.__wrapped__
    first = uncached("workload")
    assert parsed
    parsed.clear()
    assert (uncached("workload"), parsed) == (first, [])
    assert uncached("workload", "table") != first
    (tmp_path / "cache").chmod(0o777)  # a cache that others may write to is not used
    assert uncached("workload") == first
