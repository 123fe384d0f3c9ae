"""Silence where pyspark speaks of what is no concern of its users."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Pyspark warns of pandas 3, of which nothing is used here.

    The filter stays: Spark comes up in a thread of its own, and filters are those of the process.
    """
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    yield
