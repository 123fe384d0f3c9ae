"""Fit latency profiles to measurements, import configurations from tables, and compare observed commits with the model."""

from __future__ import annotations


class InputError(ValueError):
    """Raised if a file, table or object store cannot be used. The message contains its name and the reason."""


class TooMuchWorkError(InputError):
    """Raised if a prediction would simulate too many transactions. The message contains the estimated number."""
