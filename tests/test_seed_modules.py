"""Modules that exist because scripts look for them by name; they lead to the ones that do the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import typer

from endive import saturation_analysis
from endive.config import ConfigError
from endive.simulation import Simulation
from endive.test_utils import create_test_config


def test_a_configuration_for_tests_runs_and_takes_keys() -> None:
    config = create_test_config(simulation__seed=7, catalog__num_tables=3, simulation__engine="reference")
    assert (config.seed, config.workload.config.num_tables) == (7, 3)
    assert Simulation(config).run().committed > 50


def test_a_configuration_for_tests_is_checked() -> None:
    with pytest.raises(ConfigError, match="num_tables"):
        create_test_config(catalog__num_tables=0)


def test_analysis_measures_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []

    class Command:
        def main(self, arguments: list[str], **_: Any) -> None:
            called.append(arguments)

    monkeypatch.setattr(typer.main, "get_command", lambda app: Command())
    saturation_analysis.analyse(tmp_path)
    assert called == [["metrics", str(tmp_path)], ["plot", str(tmp_path)]]
