"""Reports: findings in words, figures, and one HTML file."""

from __future__ import annotations


class ReportError(ValueError):
    """Raised when there is nothing to show, or not what was requested; the message says why and what to do. The exit code is 2."""
