"""Protocols of observed clients, as recorded by ``python -m verification.clients``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.protocols.reader import find_protocol

RESULTS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "verification/results/clients.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("client", RESULTS)
def test_a_protocol_gives_the_requests_of_further_commits(client: str) -> None:
    found = RESULTS[client]
    assert found["exact"] >= 0.9 * found["checked"]
    for trial in found["further_commits"]:
        equal = all(counts["observed"] == counts["predicted"] for counts in trial["phases"].values())
        assert equal == trial["exact"]


def test_observed_retries_are_those_of_the_built_in_protocol() -> None:
    assert RESULTS["delta-rs"]["retries"] == find_protocol("delta-rs").document.retries.limit
