"""A configuration that was checked, as workers hand it to the server."""

from __future__ import annotations

from dataclasses import dataclass

from endive.config.schema import Document
from endive.serve.trees import Tree

_QUICK_REFERENCE_S = 1.0
"""What the reference engine does in this time is not worth waiting for a kernel."""


@dataclass(frozen=True)
class Prepared:
    """A configuration that was checked: what it is, what was left out of it, and what one run of it costs."""

    tree: Tree
    document: Document
    left_out: tuple[str, ...]
    toml: str
    warnings: tuple[str, ...]
    assumed: tuple[str, ...]
    transactions: float
    cpu_s: float
    """Of one run, on the engine that it will be run by once that is compiled."""
    reference_s: float
    ready: bool
    """Whether its engine is there, and no kernel has to be compiled for it."""

    @property
    def patient(self) -> bool:
        """Whether to wait for a kernel rather than to take the reference engine."""
        return not self.ready and self.reference_s > _QUICK_REFERENCE_S

    @property
    def first_s(self) -> float:
        """What a run takes now."""
        return self.cpu_s if self.ready else self.reference_s
