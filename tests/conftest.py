"""What no run of the tests depends on, and what each says at its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.fresh_seed import VARIABLE, fresh_seed


def pytest_configure() -> None:
    """Forget what is around the tests: how wide the terminal is, and that Ctrl-C is ignored in what was started in the background,
    which the processes that tests interrupt would inherit.
    """
    os.environ.pop("COLUMNS", None)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def shared_kernels() -> Iterator[None]:
    """Run all tests by a few kernels: to compile the very one of each configuration would take minutes."""
    from tests.simulation.kernels import sharing_kernels

    with sharing_kernels():
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed by which this commit draws configurations of its own."""
    terminalreporter.write_line(f"configurations of this commit: {VARIABLE}={fresh_seed()}")
