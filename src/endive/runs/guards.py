"""Objections to work that is likely to be a mistake: more disk than there is, or days of computing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from endive.runs.effort import Effort

LONG_SECONDS = 24 * 3_600.0
"""What takes longer is asked about first."""
_FREE_SHARE = 0.9
"""Results may take so much of the free disk."""


def objections(effort: Effort, root: Path, cores: int | None) -> Iterator[str]:
    """Yield what speaks against an effort, in words. ``cores`` is None where it is not known how many there are."""
    free = free_bytes(root)
    if effort.disk_bytes > free * _FREE_SHARE:
        yield f"results would take about {_gigabytes(effort.disk_bytes)}, and {_gigabytes(free)} are free in {root}"
    if cores is not None and effort.cpu_seconds / cores > LONG_SECONDS:
        yield f"this would take about {effort.cpu_seconds / cores / 3_600.0:,.0f} hours on {cores} cores"


def free_bytes(root: Path) -> int:
    """Return the free disk where a directory is, or will be."""
    existing = next(folder for folder in (root.absolute(), *root.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _gigabytes(amount: float) -> str:
    return f"{amount / 1e9:,.0f} GB" if amount >= 1e10 else f"{amount / 1e9:,.1f} GB"
