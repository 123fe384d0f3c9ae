"""What every run of the tests says at its end."""

from __future__ import annotations

import os

import pytest

from tests.fresh_seed import VARIABLE, fresh_seed


def pytest_configure() -> None:
    """Forget how wide the terminal around the tests is, which workers are told: what is printed does not depend on it."""
    os.environ.pop("COLUMNS", None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed by which this commit draws configurations of its own."""
    terminalreporter.write_line(f"configurations of this commit: {VARIABLE}={fresh_seed()}")
