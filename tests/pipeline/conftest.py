"""Shared Spark session for all tests of the pipeline, because starting one takes longer than most tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from endive.pipeline.session import SparkOptions, spark_session
from tests.pipeline.runs import MASTER, document, run_all

Sessions = Callable[[], AbstractContextManager[SparkSession]]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return a Spark session on two cores."""
    with spark_session(SparkOptions(master=MASTER)) as session:
        yield session


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups after this hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests that use the session in one pytest-xdist worker, so that there is one session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture
def sessions(spark: SparkSession) -> Sessions:
    """Return a factory of "new" sessions that share the existing one."""

    @contextmanager
    def shared(*_: Any, **__: Any) -> Iterator[SparkSession]:
        yield spark

    return shared


@pytest.fixture
def commands_share_spark(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in this process use the shared session without stopping it."""

    @contextmanager
    def started(*_: Any, **__: Any) -> Iterator[Any]:
        with sessions() as session:
            yield SimpleNamespace(is_local=True, begin=lambda: None, get=lambda: session)

    monkeypatch.setattr("endive.pipeline.session.spark_session", sessions)
    monkeypatch.setattr("endive.pipeline.session.starting_session", started)


@pytest.fixture(scope="session")
def finished_experiments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run two loads on two providers with three seeds each. Do not change the result: `experiments` is a copy."""
    root = tmp_path_factory.mktemp("finished")
    points = [document(workload__ingest__rate=rate, storage__provider=name) for name in ("s3", "s3x") for rate in (2.0, 12.0)]
    run_all(points, root, range(3))
    return root


@pytest.fixture
def experiments(finished_experiments: Path, tmp_path: Path) -> Path:
    root = tmp_path / "experiments"
    shutil.copytree(finished_experiments, root)
    return root
