"""What the first mode measures: the accesses of one operation, attempt by attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from verification.iceberg.accesses import Accesses

LONGEST_ERROR = 60
"""Errors name files, which have random names, after that many characters."""


@dataclass(frozen=True)
class Counts:
    """The accesses of an operation: as its client loads the table, at each attempt, and after the last.

    An operation that ends with a validation error has what it did since its last swap in `after`.
    """

    start: dict[str, int]
    attempts: list[dict[str, int]]
    after: dict[str, int]
    error: str | None = None

    @classmethod
    def of(cls, accesses: Accesses, error: str | None) -> Counts:
        """What was counted, by phase."""
        start, *attempts, after = accesses.table()
        return cls(start, attempts, after, None if error is None else error[:LONGEST_ERROR])

    def document(self) -> dict[str, Any]:
        """As JSON: for each kind of access its counts at the attempts, one after the other."""
        kinds = sorted({kind for attempt in self.attempts for kind in attempt})
        attempts = {kind: [attempt.get(kind, 0) for attempt in self.attempts] for kind in kinds}
        return {"start": self.start, "attempts": attempts, "after": self.after, "error": self.error}
