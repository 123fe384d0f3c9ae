"""One comparison of theory with the simulator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TheoryRow:
    """A quantity that theory knows, what the simulator gave, and how far they may be apart (relative)."""

    mode: str
    case: str
    quantity: str
    theory: float
    simulated: float
    bar: float

    @property
    def difference(self) -> float:
        """Relative difference of the simulator from theory (absolute where theory says 0)."""
        return self.simulated - self.theory if self.theory == 0.0 else self.simulated / self.theory - 1.0

    @property
    def within(self) -> bool:
        """Whether the difference is within its bar."""
        return abs(self.difference) <= self.bar

    def document(self) -> dict[str, Any]:
        """The row as it is written to a file."""
        return {**asdict(self), "difference": self.difference, "within": self.within}
