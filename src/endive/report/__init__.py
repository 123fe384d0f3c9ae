"""Reports: findings in words, figures, and one HTML file."""

from __future__ import annotations


class ReportError(ValueError):
    """Raised if the requested content cannot be shown; the message contains the reason and the remedy. The exit code is 2."""
