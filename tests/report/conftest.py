"""Studies that many tests read without changing them."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.report.study_data import Study
from tests.report.studies import designs_sweep, measured, mixed_sweep, one_experiment


@pytest.fixture(scope="session")
def mixed_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = mixed_sweep(tmp_path_factory.mktemp("mixed") / "experiments")
    measured(root)
    return root


@pytest.fixture(scope="session")
def mixed(mixed_root: Path) -> Study:
    return measured(mixed_root)


@pytest.fixture(scope="session")
def designs(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return measured(designs_sweep(tmp_path_factory.mktemp("designs") / "experiments"))


@pytest.fixture(scope="session")
def experiment_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of one experiment of three runs."""
    root = tmp_path_factory.mktemp("one") / "experiments"
    one_experiment(root)
    return next(root.glob("mixed-*"))


@pytest.fixture(scope="session")
def single(experiment_root: Path) -> Study:
    return measured(experiment_root / "0")
