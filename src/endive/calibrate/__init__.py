"""The user's measurements and tables: latency profiles, imported configurations, and their comparison with the model."""

from __future__ import annotations


class InputError(ValueError):
    """A file, table or store that cannot be used; the message names it and says why in one sentence."""


class TooMuchWorkError(InputError):
    """A configuration that is right, and would take more to simulate than was asked for; the message has the estimate."""
