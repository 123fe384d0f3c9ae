"""The stored measurements of Iceberg's REST server code, compared with the simulator."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from verification.iceberg.rest_server import SECONDS, Calibration, RestCase, predict
from verification.iceberg.rows import REST_BAR

STORED = json.loads((Path(__file__).parents[2] / "verification/results/iceberg.json").read_text())["rows"]
ROWS = [row for row in STORED if row["mode"] == "rest"]
OUTSIDE = {("java", "8 writers, loaded handles, any number of workers")}
"""Measured outside the bar; docs/explanation/iceberg.md has the figures."""


def test_all_clients_handles_and_workers_are_stored() -> None:
    assert len(ROWS) == 28
    assert {(row["client"], row["case"]) for row in ROWS if not row["within"]} == OUTSIDE


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['client']} {row['case']}")
def test_the_simulator_predicts_the_attempts_of_a_case(row: dict[str, Any]) -> None:
    found = re.fullmatch(r"(\d) writers, (\w+) handles, (\d|any number of) workers", row["case"])
    assert found is not None
    writers, workers = int(found[1]), 0 if found[3].startswith("any") else int(found[3])
    case = RestCase(row["client"], writers, found[2] == "kept", workers, SECONDS[writers])
    ratio = predict(case, Calibration(**row["predicted"]["times"]))["attempts_per_commit"] / row["measured"]["attempts_per_commit"]
    assert (abs(ratio - 1.0) <= REST_BAR) == ((row["client"], row["case"]) not in OUTSIDE)
