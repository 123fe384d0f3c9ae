"""The daemon of local sessions: it loads what tasks need once, and workers are forked from it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from endive.pipeline.quiet import without_pandas_warning

LOADED = """
import sys
import endive.pipeline.daemon
print(*sorted(sys.modules))
"""


def parents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pathlib import Path

    for _ in batches:
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        yield pa.RecordBatch.from_pylist([{"parent": command}])


def test_workers_of_a_local_session_are_forked_from_it(spark: SparkSession) -> None:
    with without_pandas_warning():
        told = spark.range(2).mapInArrow(parents, "parent string").collect()
    assert all("endive.pipeline.daemon" in row.parent for row in told)
    assert told


def test_it_has_what_consolidation_and_metrics_need_and_no_more() -> None:
    loaded = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert {"pyspark.worker", "endive.pipeline.consolidate", "endive.studies.measure"} <= set(loaded)
    assert not {"pandas", "numba", "endive.simulation.compiled.engine"} & set(loaded)
