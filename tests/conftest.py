"""Environment of all tests, and the summary at their end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.fresh_seed import VARIABLE, fresh_seed


def pytest_configure() -> None:
    """Reset the terminal width and the handling of Ctrl-C.

    Background processes ignore Ctrl-C, and processes that tests interrupt would inherit this.
    """
    os.environ.pop("COLUMNS", None)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def shared_kernels() -> Iterator[None]:
    """Run all tests with a few shared kernels, because compiling one per configuration would take minutes."""
    from tests.simulation.kernels import sharing_kernels

    with sharing_kernels():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed of the random configurations of this commit."""
    terminalreporter.write_line(f"configurations of this commit: {VARIABLE}={fresh_seed()}")
