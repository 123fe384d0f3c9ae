"""Real clients in the lab, as recorded by ``python -m verification.clients``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.protocols.reader import parse_protocol
from verification.clients.contention import WRITERS, summarize_errors

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


def test_contention_of_every_client_is_predicted() -> None:
    """Every cell is stored; the summary is that of the cells with think times."""
    cells = {name: found for name, found in RESULTS["contention"].items() if name != "summary"}
    thinking = [{**cell, "client": name} for name, found in cells.items() for cell in found if cell["think_ms"]]
    assert {cell["client"] for cell in thinking} == {
        "delta-rs",
        "duckdb-iceberg",
        "ducklake",
        "icechunk",
        "lance",
        "pyiceberg-rest",
    }
    assert all([cell["writers"] for cell in found] == list(WRITERS) for found in cells.values())
    assert RESULTS["contention"]["summary"] == summarize_errors(thinking)
    assert RESULTS["contention"]["summary"]["median_error"] <= 0.10


@pytest.mark.parametrize("cell", RESULTS["mixed"]["pyiceberg-rest"], ids=lambda cell: f"{cell['writers']} writers")
def test_half_of_the_writers_can_be_rivals(cell: dict[str, Any]) -> None:
    whole, half = cell["all_real"], cell["half_real"]
    assert abs(whole["attempts_per_commit"] - half["attempts_per_commit"]) <= whole["half_width"] + half["half_width"]
    assert (
        abs(cell["simulated"]["attempts_per_commit"] - half["attempts_per_commit"])
        <= half["half_width"] + cell["simulated"]["stdev"]
    )


def test_advice_is_better_than_the_unchanged_file_with_real_writers() -> None:
    assert len(RESULTS["advice"]) == 3
    assert all(each["order_holds"] for each in RESULTS["advice"])
