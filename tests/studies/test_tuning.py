"""The candidates of ``endive tune``: settings that the client of the configuration has."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.studies.tuning import ICEBERG, read_tuning
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
