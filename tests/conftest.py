"""Environment of all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "suite",
    derandomize=True,  # the same examples in every run; `make fuzz-engines` draws others
    deadline=None,  # the first example compiles a kernel
    suppress_health_check=[
        hypothesis.HealthCheck.too_slow,
        hypothesis.HealthCheck.data_too_large,
        hypothesis.HealthCheck.filter_too_much,
    ],
)
hypothesis.settings.load_profile("suite")


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
