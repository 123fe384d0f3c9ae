"""Real clients in the lab, as recorded by ``python -m verification.clients``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.protocols.reader import parse_protocol

RESULTS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "verification/results/clients.json").read_text(encoding="utf-8"))
OBSERVED = RESULTS["observed"]


@pytest.mark.parametrize("client", OBSERVED)
def test_a_protocol_gives_the_requests_of_further_commits(client: str) -> None:
    found = OBSERVED[client]
    assert found["checked"] >= 30
    assert found["exact"] >= 0.9 * found["checked"]
    for trial in found["further_commits"]:
        equal = all(counts["observed"] == counts["predicted"] for counts in trial["phases"].values())
        assert equal == trial["exact"]


@pytest.mark.parametrize("client", OBSERVED)
def test_an_observed_protocol_is_valid(client: str) -> None:
    assert parse_protocol(OBSERVED[client]["protocol"], client, client).document.status == "observed"


@pytest.mark.parametrize("client", [name for name, found in OBSERVED.items() if found["objects"]])
def test_objects_of_an_attempt_are_those_of_the_built_in_path(client: str) -> None:
    objects = OBSERVED[client]["objects"]
    assert objects["observed"] == objects["built_in"] == objects["counted"]
