"""The candidates of ``endive tune``: settings that the client of the configuration has."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.config import ConfigError
from endive.studies.measure import MetricsOptions
from endive.studies.replicate import WINDOW_SEEDS, Replications
from endive.studies.tuning import ICEBERG, CostEvaluator, read_tuning
from endive.transaction.paths import ICEBERG_RETRY_PROPERTIES

CONFIG = """
[simulation]
duration_ms = 60_000

[storage]
provider = "s3"

[transaction]
commit_path = "{path}"

[workload.ingest]
rate = 2
operation = "fast_append"
"""


def searched(path: str, folder: Path) -> list[dict[str, object]]:
    """Return the retry settings of each candidate, by key."""
    (folder / "run.toml").write_text(CONFIG.format(path=path))
    question = read_tuning(folder / "run.toml", "success", None, [], {}, 8, 0)
    return [
        {key.removeprefix("workload.ingest."): value for key, value in each.settings.items()}
        for each in question.candidates[ICEBERG + 1 :]
    ]


@pytest.mark.parametrize("path", ["iceberg", "pyiceberg"])
def test_iceberg_clients_are_tuned_by_the_properties_that_exist(path: str, tmp_path: Path) -> None:
    """Iceberg has no property for the multiplier or the jitter, and its waits are whole milliseconds."""
    candidates = searched(path, tmp_path)
    assert candidates
    for settings in candidates:
        assert set(settings) - {"retry_backoff"} <= set(ICEBERG_RETRY_PROPERTIES.values())
        assert isinstance(settings["retry_backoff.base_ms"], int)
        assert isinstance(settings["retry_backoff.max_ms"], int)


def test_the_simplified_path_is_tuned_by_all_settings_of_the_backoff(tmp_path: Path) -> None:
    assert {"retry", "retry_backoff.multiplier", "retry_backoff.jitter"} <= set(searched("endive", tmp_path)[0])


def test_a_percentile_of_too_few_transactions_ends_the_search_before_its_first_round(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG.format(path="endive").replace("rate = 2", "rate = 1"))
    question = read_tuning(tmp_path / "run.toml", "time_to_commit_p99_ms", None, [], {"simulation.engine": "reference"}, 8, 0)
    replications = Replications(tmp_path / "runs", MetricsOptions(warmup_ms=1_000.0))
    with pytest.raises(ConfigError, match=r"needs at least 500 transactions per run.*Set simulation\.duration_ms to"):
        CostEvaluator(question, replications)
    assert replications.runs <= 2 * WINDOW_SEEDS
