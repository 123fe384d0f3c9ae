"""Why a figure is not there."""

from __future__ import annotations


class NotInStudyError(Exception):
    """The study has no data for a figure; the message says what is missing."""
