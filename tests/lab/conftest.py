"""Fixture of a lab without latencies and failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from endive.lab.open_lab import Lab, LabSettings, open_lab


@pytest.fixture
def lab() -> Iterator[Lab]:
    with open_lab(LabSettings()) as opened:
        yield opened
