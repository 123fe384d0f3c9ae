"""Row of a comparison of theory with the simulator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TheoryRow:
    """Quantity with its value from theory, its simulated value, and the accepted relative difference."""

    mode: str
    case: str
    quantity: str
    theory: float
    simulated: float
    bar: float

    @property
    def difference(self) -> float:
        """Relative difference between simulator and theory (absolute if theory gives 0)."""
        return self.simulated - self.theory if self.theory == 0.0 else self.simulated / self.theory - 1.0

    @property
    def within(self) -> bool:
        """True if the difference is accepted."""
        return abs(self.difference) <= self.bar

    def document(self) -> dict[str, Any]:
        """Return the row as it is written to a file."""
        return {**asdict(self), "difference": self.difference, "within": self.within}
