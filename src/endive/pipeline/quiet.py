"""Silence where pyspark speaks of what is no concern of its users."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_OF_PY4J = " while sending command."


def silence_py4j() -> None:
    """Keep py4j from printing the traceback of every command that Ctrl-C interrupts; what is raised is raised all the same."""
    root = logging.getLogger()
    if _is_of_use not in root.filters:
        root.addFilter(_is_of_use)


def _is_of_use(record: logging.LogRecord) -> bool:
    return not str(record.msg).endswith(_OF_PY4J)


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Pyspark warns of pandas 3, of which nothing is used here.

    The filter stays: Spark comes up in a thread of its own, and filters are those of the process.
    """
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    yield
