"""Fit latency profiles to measurements, import configurations from tables, and compare observed commits with the model."""

from __future__ import annotations


class InputError(ValueError):
    """Raised if a file, table or object store cannot be used; the message names it and the reason."""


class TooMuchWorkError(InputError):
    """Raised if a prediction would simulate too many transactions; the message contains the estimated number."""
