"""Errors of Spark are reported in one line that names the cause."""

from __future__ import annotations

import pytest

from endive.pipeline.jobs import summarize_error

_JAVA = (
    "An error occurred while calling o41.getResult.\n: java.net.SocketTimeoutException: Accept timed out\n\tat java.base/java.net"
)
_TASK = (
    'org.apache.spark.SparkException: Job aborted\nTraceback (most recent call last):\n  File "a.py", line 1\nOSError: disk full\n'
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (_JAVA, "Spark: java.net.SocketTimeoutException: Accept timed out"),
        (_TASK, "a task failed: OSError: disk full"),
        ("no master", "Spark: no master"),
        ("", "Spark: RuntimeError"),
    ],
)
def test_the_cause_is_named(text: str, line: str) -> None:
    assert summarize_error(RuntimeError(text)) == line
