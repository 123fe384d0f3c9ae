"""Latency profiles from measurements, configurations imported from tables, and their comparison with the model."""

from __future__ import annotations


class InputError(ValueError):
    """A file, table or object store that cannot be used; the message names it and gives the reason."""


class TooMuchWorkError(InputError):
    """A valid configuration that would exceed the simulation budget; the message contains the estimate."""
