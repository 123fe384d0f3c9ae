"""The process of this machine that forks Spark's Python workers: pyspark's own, with what tasks need loaded beforehand.

Every worker would otherwise load it by itself, all at the same time. What simulates is left out: small studies run it elsewhere.
Nothing that is loaded here has threads that a worker would miss: numbers are computed on one thread in Spark's workers, and the
allocator of Arrow starts its own again after a fork.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from endive.pipeline import consolidate, metrics  # noqa: F401
from endive.utils import convert_without_pandas

if __name__ == "__main__":
    convert_without_pandas()
    manager()
