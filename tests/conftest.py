"""What every run of the tests says at its end."""

from __future__ import annotations

import pytest

from tests.fresh_seed import VARIABLE, fresh_seed


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed by which this commit draws configurations of its own."""
    terminalreporter.write_line(f"configurations of this commit: {VARIABLE}={fresh_seed()}")
