"""Hand-overs that wait for a committer are part of what a system has to carry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tomli_w
from typer.testing import CliRunner

from endive.analysis.run_totals import waiting_of_counts
from endive.main import app

OVERLOADED = "Overloaded: "


def said(tmp_path: Path, rate: float, committer: dict[str, object]) -> str:
    """What a run says of a committer on a store that takes some 0.3 s for a commit."""
    tree = {
        "simulation": {"duration_ms": 300_000.0, "engine": "reference"},
        "storage": {"provider": "s3"},
        "transaction": {"commit_path": "iceberg", "retry_policy": "iceberg"},
        "workload": {"sink": {"rate": rate, "runtime": {"distribution": "fixed", "value": 1_000.0}, "committer": committer}},
    }
    path = tmp_path / "run.toml"
    path.write_text(tomli_w.dumps(tree))
    answer = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    return " ".join(answer.output.split())


@pytest.mark.parametrize(
    ("rate", "committer", "carries"),
    [
        (25.0, {"max_batch": 5}, False),
        (8.0, {"max_batch": 5}, True),
        (25.0, {}, True),
        (25.0, {"interval_ms": 20_000.0}, True),
    ],
    ids=["more than it takes", "less than it takes", "batches without a limit", "an interval"],
)
def test_a_committer_that_does_not_keep_up_is_named(
    tmp_path: Path, rate: float, committer: dict[str, object], carries: bool
) -> None:
    """At most five in some 0.3 s are 16 in a second: what is handed over beyond that waits, though every commit succeeds."""
    assert (OVERLOADED in said(tmp_path, rate, committer)) is not carries


def test_hand_overs_wait_by_littles_law() -> None:
    """Ten commits of ten in 10 s wait for 3 s each: thirty wait. In the second part nothing is handed over."""
    found = waiting_of_counts(np.array([10.0, 0.0]), np.array([100.0, 0.0]), np.array([30_000.0, 0.0]), np.full(2, 10_000.0))
    assert found.tolist() == [30.0, 0.0]
