"""A real cluster of Spark on this machine: a standalone master and workers, from the pip-installed pyspark.

As a program it is the driver of a sweep, in a process of its own, because a process has one Spark at a time:

    python -m tests.pipeline.cluster MASTER SWEEP ROOT TASKS [ship] [measure] [allow-code]

prints, as JSON, the states of the runs and the cache directory that the executors see; if it is asked to measure, the tables of
metrics are made as well. Code of one's own is run if that is allowed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from endive.cache_directory import CACHE_VARIABLE
from endive.config.components import allow_code
from endive.pipeline.consolidate import consolidate
from endive.pipeline.java import java_home
from endive.pipeline.metrics import measure_study
from endive.pipeline.session import SparkOptions, spark_session
from endive.pipeline.sweep import run_sweep
from endive.runs.plan import remaining_work
from endive.studies.measure import MetricsOptions
from tests.pipeline.sweeps import plan_of

PATIENCE_SECONDS = 300.0
_HOST = "127.0.0.1"
_QUICK_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a short-lived JVM."""


@dataclass(frozen=True)
class Cluster:
    """Running cluster."""

    master: str
    workers: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and workers of one core each within the context."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_daemon(log, "master.Master", "--host", _HOST, "--port", "0", "--webui-port", "0"))
        master = _logged(log, r"Starting Spark master at (spark://\S+)")
        started = []
        for number in range(workers):
            place = ["--host", _HOST, "--port", "0", "--webui-port", "0", "--work-dir", str(folder / f"work-{number}")]
            command = ["worker.Worker", *place, "--cores", "1", "--memory", "1g", master]
            started.append(stack.enter_context(_daemon(folder / f"worker-{number}.log", *command)))
        for number in range(workers):
            _logged(folder / f"worker-{number}.log", r"(Successfully registered) with master")
        yield Cluster(master, tuple(started))


@contextmanager
def _daemon(log: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a Spark process in a separate session, so that its child processes can be ended with it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **{name: value for name, value in clean_environment().items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": _QUICK_START,
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=environment, start_new_session=True
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def clean_environment() -> dict[str, str]:
    """Return the environment for Spark processes, without variables of a session of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": _HOST}


def _logged(log: Path, pattern: str) -> str:
    """Wait for a line in a log and return its match."""
    found = wait_until(lambda: re.search(pattern, log.read_text(errors="replace")), f"{log.name} never said {pattern!r}")
    return str(found[1])


def wait_until(condition: Any, complaint: str) -> Any:
    """Wait until a condition returns a value, and return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        time.sleep(0.02)
    return found


@contextmanager
def driver(
    master: str, sweep: Path, root: Path, tasks: int, *also: str, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a process that runs a sweep on a cluster, and optionally ships its code and measures."""
    command = [sys.executable, "-m", __name__, master, str(sweep), str(root), str(tasks), *also]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean_environment(), **(environment or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def report_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the JSON output of a finished driver."""
    answer, complaints = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, complaints
    report: dict[str, Any] = json.loads(answer)
    return {**report, "stderr": complaints}


def measured_tables(spark: SparkSession, root: Path) -> dict[str, str]:
    """Consolidate and measure a directory; return the tables of metrics by name."""
    consolidate(root, lambda: nullcontext(spark))
    measure_study(spark, root, MetricsOptions())
    return tables_of(root)


def tables_of(root: Path) -> dict[str, str]:
    """Return the tables of metrics in a directory."""
    return {path.name: path.read_text() for path in sorted((root / "metrics").glob("*.csv"))}


def _cache_directories(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"value": [os.environ.get(CACHE_VARIABLE, "")]})


def main(master: str, sweep: str, root: str, tasks: str, *also: str) -> None:
    """Run a sweep and print its result."""
    warnings.simplefilter("ignore", FutureWarning)  # warnings of pyspark about pandas 3
    allow_code("allow-code" in also)
    settings = (
        ("spark.executor.memory", "512m"),
        ("spark.executor.extraJavaOptions", _QUICK_START),
        ("spark.driver.host", _HOST),
    )
    with spark_session(SparkOptions(master=master, ship_code="ship" in also, settings=settings)) as spark:
        plan = replace(plan_of(Path(sweep)), rows="sample" if "sample" in also else "all")
        outcomes = run_sweep(spark, remaining_work(plan, Path(root)), Path(root), tasks=int(tasks))
        if "measure" in also:
            measured_tables(spark, Path(root))
        seen = spark.range(0, 2, 1, 2).mapInArrow(_cache_directories, "value string").collect()
    states = [outcome.state for outcome in outcomes]
    print(json.dumps({"states": states, "caches": sorted({row["value"] for row in seen})}))


if __name__ == "__main__":
    main(*sys.argv[1:])
