"""Results of the first mode: the accesses of one operation by attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from verification.iceberg.accesses import Accesses

LONGEST_ERROR = 60
"""Maximum length of error messages, which continue with random file names."""


@dataclass(frozen=True)
class Counts:
    """Accesses of an operation: while its client loads the table, at each attempt, and after the last attempt.

    For an operation that ends with a validation error, `after` contains the accesses since its last swap.
    """

    start: dict[str, int]
    attempts: list[dict[str, int]]
    after: dict[str, int]
    error: str | None = None

    @classmethod
    def of(cls, accesses: Accesses, error: str | None) -> Counts:
        """Return the counts by phase."""
        start, *attempts, after = accesses.table()
        return cls(start, attempts, after, None if error is None else error[:LONGEST_ERROR])

    def document(self) -> dict[str, Any]:
        """Return the counts as JSON: a list over attempts for each kind of access."""
        kinds = sorted({kind for attempt in self.attempts for kind in attempt})
        attempts = {kind: [attempt.get(kind, 0) for attempt in self.attempts] for kind in kinds}
        return {"start": self.start, "attempts": attempts, "after": self.after, "error": self.error}
