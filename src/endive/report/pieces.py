"""What of a line belongs together, so that nothing is broken where lines are folded: in a terminal or on a page."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"^[(~>≥≤<]*[-+±]?\d[\d.,]*(e[-+]?\d+)?$")
_SIGNS = frozenset({"±", "+-", ">", "<", "≥", "≤", "=", "/", "-", "to"})
_TIMES = ("ms", "s", "min", "h", "/s", "commits/s", "transactions/s", "appends/s")
_UNITS = frozenset(
    ("%", "pp", "MiB", "GiB", "bytes", "times", "commits", "seeds", "runs", "writers", "clients", "retries", *_TIMES)
)


def pieces_of(text: str) -> list[str]:
    """Return the parts of a line that stay whole: words, paths, names with values (``a = 1``), numbers with signs and units."""
    pieces: list[str] = []
    for word in text.split():
        if pieces and _belongs(pieces[-1].rsplit(" ", 1)[-1], word):
            pieces[-1] = f"{pieces[-1]} {word}"
        else:
            pieces.append(word)
    return pieces


def _belongs(before: str, word: str) -> bool:
    """Tell whether a word stays in the line of the one before it."""
    if "=" in (before, word):
        return True
    if _NUMBER.match(before):
        return word.rstrip(".,;:)") in _UNITS or word in ("±", "+-")
    return before in _SIGNS - {"-", "to", "/"} and bool(_NUMBER.match(word.rstrip(".,;:)")))


def glued(text: str) -> str:
    """Return a text in which numbers cannot be parted from their signs and units: with spaces that do not break."""
    return " ".join(piece.replace(" ", "\u00a0") for piece in pieces_of(text))
