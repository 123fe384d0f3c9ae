"""One Spark session for all tests of the pipeline: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from endive.pipeline.session import SparkOptions, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A real Spark on two cores."""
    with spark_session(SparkOptions(master="local[2,4]")) as session:
        yield session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker of pytest-xdist run all tests that use the session, so that there is one."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
