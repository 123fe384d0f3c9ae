"""Compute the number and the size of the requests of a protocol step. ``step`` has the fields of ``ProtocolStep``."""

from __future__ import annotations

from typing import Any

_ROUNDING = 1e-9
"""Tolerance that is added before rounding down, so that 10 x 0.1 is 1."""


def step_count(step: Any, behind: int, lost: int, files: int, entries: int) -> int:
    """Return the number of requests of a step.

    Args:
        step: the step.
        behind: versions that the client learned about in this phase.
        lost: failed attempts so far.
        files: data files of the tables.
        entries: log entries since the last checkpoint.

    """
    number = step.count + step.per_version_behind * behind + step.per_attempt * lost
    number += step.per_file * files + step.per_log_entry * entries
    return int(number + _ROUNDING)  # not negative, so this rounds down


def step_size(step: Any, files: int, version: int) -> int:
    """Return the size of an object of a step in bytes, for a table with this number of files and versions."""
    return int(step.size_bytes + step.bytes_per_file * files + step.bytes_per_version * version)


def entries_since_checkpoint(version: int, every: int) -> int:
    """Return the number of log entries since the last checkpoint, or of all entries without checkpoints."""
    return version % every if every > 0 else version
