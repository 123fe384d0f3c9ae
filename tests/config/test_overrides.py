"""Keys that are set from outside: by ``--set``, by the axes of a sweep, by the load of a frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endive.config import ConfigError
from endive.config.load import check_document
from endive.config.sweep_file import Sweep
from endive.runs.plan import plan_sweep

CLASSES: dict[str, Any] = {
    "simulation": {"duration_ms": 1_000, "seed": 1},
    "storage": {"provider": "instant"},
    "workload": {
        "ingest": {"rate": 1.0},
        "compaction": {"periodic": {"interval_ms": 100}, "commit": {"retry": {"num-retries": 3}}},
    },
}


def complaint(overrides: dict[str, Any], tree: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        check_document(tree or CLASSES, "file.toml", overrides=overrides)
    return str(error.value)


def test_an_unknown_class_is_an_error_with_a_suggestion() -> None:
    found = complaint({"workload.ingst.rate": 3})
    assert "workload.ingst.rate: unknown class 'ingst'" in found
    assert "did you mean 'ingest'?" in found


def test_a_new_class_is_made_in_a_file_only() -> None:
    assert "and an override cannot add a class" in complaint({"workload.backfill": {"rate": 1.0}})
    found = complaint({"workload.x.rate": 1}, {**CLASSES, "workload": {}, "transaction": {"inter_arrival": {"scale": 1.0}}})
    assert "the file has no classes" in found


def test_a_class_that_is_there_is_changed() -> None:
    document = check_document(CLASSES, "file.toml", overrides={"workload.ingest.rate": 5})
    assert document.workload["ingest"].rate == 5


def test_an_axis_of_an_unknown_class_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "sweep.toml"
    path.write_text(
        """
sweep.seeds = "0-1"
axes."workload.ingst.rate" = [1, 2]
[base.simulation]
duration_ms = 1000
[base.storage]
provider = "instant"
[base.workload.ingest]
rate = 1.0
"""
    )
    with pytest.raises(ConfigError, match="did you mean 'ingest'"):
        plan_sweep(Sweep(path))


@pytest.mark.parametrize("broken", [{}, {"storage": 3}])
def test_a_key_with_bytes_that_are_no_text_is_named(broken: dict[str, Any]) -> None:
    """As a shell hands over what is not UTF-8."""
    found = complaint({"stora\udce7e.provider": "s3"}, {**CLASSES, **broken})
    assert found == r"file.toml: `stora\udce7e` contains an unpaired surrogate"
