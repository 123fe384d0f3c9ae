"""Fit latency profiles to measurements, import configurations from tables, and compare observations with the model."""

from __future__ import annotations


class InputError(ValueError):
    """Raised if a file, table or object store cannot be used; the message names it and the reason."""


class TooMuchWorkError(InputError):
    """Raised if a valid configuration would exceed the simulation budget; the message contains the estimate."""
