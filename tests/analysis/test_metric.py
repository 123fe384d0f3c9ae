"""Records of metrics: complete, and used instead of defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.analysis.metric import METRIC_RECORDS, TABLES, get_metric, more_is_better
from endive.analysis.run_metrics import METRICS

DEFINITIONS = (Path(__file__).parents[2] / "docs" / "explanation" / "statistics.md").read_text(encoding="utf-8")


def test_every_metric_of_a_run_has_a_record() -> None:
    assert tuple(METRIC_RECORDS) == METRICS


@pytest.mark.parametrize("name", METRIC_RECORDS)
def test_the_page_of_definitions_names_every_metric(name: str) -> None:
    assert f"`{name}`" in DEFINITIONS


def test_a_metric_without_a_record_is_an_error() -> None:
    with pytest.raises(ValueError, match="'surprise' has no record"):
        more_is_better("surprise")


def test_tables_show_metrics_that_have_a_record() -> None:
    assert {name for names in TABLES.values() for name in names} <= set(METRIC_RECORDS)
    assert get_metric("success_rate").tables == ("metrics", "compare", "page")


def test_directions() -> None:
    assert more_is_better("success_rate") is True
    assert more_is_better("time_to_commit_p99_ms") is False
    assert more_is_better("retries_per_txn") is None
