"""What a report cannot be made of."""

from __future__ import annotations


class ReportError(ValueError):
    """There is nothing to show, or not what was asked for; the message says why and what to do. The exit code is 2."""
