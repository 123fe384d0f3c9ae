"""Run tasks on Spark, or in threads of this process. Tasks take specifications and return small rows.

A task is a list of specifications, which a function processes on an executor. The rows that the function returns are collected in
an Arrow table, so there must be few: one row per file or per run, never one per transaction.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from endive.runs.stored import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TaskFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Report = Callable[[int, int], None]
"""Function of the number of finished tasks and the number of all tasks."""
Spec = str
"""Specification of work for a task, as JSON text."""
T = TypeVar("T")
_TASKS = pa.schema([("task", pa.int32()), ("specs", pa.string())])
_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
_TYPES |= {pa.list_(each): f"array<{name}>" for each, name in _TYPES.items()}
_POLL_SECONDS = 0.25


@dataclass(frozen=True)
class LocalThreads:
    """Threads of this process that run tasks, for studies that are too small for Spark.

    Attributes:
        workers: Number of concurrent tasks.
    """

    workers: int = os.cpu_count() or 1


def spark_ddl(schema: pa.Schema) -> str:
    """Return an Arrow schema as Spark DDL. Raises KeyError for a type that Endive's tables do not use."""
    return ", ".join(f"{field.name} {_TYPES[field.type]}" for field in schema)


def deal(specs: Sequence[Spec], weights: Sequence[float], tasks: int) -> list[list[Spec]]:
    """Distribute specifications over tasks of about equal cost. The costliest task is the first."""
    loads = [0.0] * max(1, min(tasks, len(specs)))
    hands: list[list[Spec]] = [[] for _ in loads]
    for weight, index in sorted(((weight, index) for index, weight in enumerate(weights)), key=lambda pair: (-pair[0], pair[1])):
        least = loads.index(min(loads))
        hands[least].append(specs[index])
        loads[least] += weight
    order = sorted(range(len(loads)), key=lambda hand: (-loads[hand], hand))
    return [hands[hand] for hand in order if hands[hand]]


def count_tasks(spark: SparkSession | LocalThreads, weight: float, weight_per_task: float) -> int:
    """Return a number of tasks with which all cores are busy and the overhead per task is small."""
    return max(cores(spark), int(-(-weight // weight_per_task)))


def cores(spark: SparkSession | LocalThreads) -> int:
    """Return the number of cores of Spark, or of threads."""
    if isinstance(spark, LocalThreads):
        return spark.workers
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect does not report the number
        return os.cpu_count() or 1


def run_tasks(
    spark: SparkSession | LocalThreads, tasks: Sequence[Sequence[Spec]], work: TaskFunction, ddl: str, report: Report | None
) -> pa.Table:
    """Run ``work`` in tasks, and return the rows of all tasks. Raises PipelineError if a task fails permanently."""
    if isinstance(spark, LocalThreads):
        return _run_in_threads(spark, tasks, work, report)
    frame = repartition_by_task(spark, make_task_table(tasks), len(tasks)).mapInArrow(work, ddl)
    return run_with_progress(spark, lambda: collect_arrow(frame), len(tasks), report)


def _run_in_threads(threads: LocalThreads, tasks: Sequence[Sequence[Spec]], work: TaskFunction, report: Report | None) -> pa.Table:
    """Run tasks in threads, and return their rows in the order of the tasks. An interruption waits for the running tasks."""
    batches = make_task_table(tasks).to_batches(max_chunksize=1)
    pool = ThreadPoolExecutor(max(1, min(threads.workers, len(batches))))
    try:
        running = [pool.submit(_collect, work, batch) for batch in batches]
        for done, _ in enumerate(as_completed(running), 1):
            if report is not None:
                report(done, len(running))
        return pa.Table.from_batches([batch for each in running for batch in each.result()])
    except (OSError, pa.ArrowException, ValueError) as error:
        raise PipelineError(f"a task failed: {type(error).__name__}: {error}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _collect(work: TaskFunction, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    return list(work(iter([batch])))


def make_task_table(tasks: Sequence[Sequence[Spec]]) -> pa.Table:
    """Return a table with a row for each task, from which ``read_specs`` takes its specifications."""
    return pa.Table.from_pylist([{"task": number, "specs": json.dumps(task)} for number, task in enumerate(tasks)], _TASKS)


def repartition_by_task(spark: SparkSession, specs: pa.Table, tasks: int) -> DataFrame:
    """Create a DataFrame with a partition for each ``task``, in order, so that the first tasks start first.

    The table is passed to Spark as an Arrow table, because Python rows would cost 1.5 s in the first job of a session. With one row
    per task and one core per row, Spark already partitions the rows in this way.
    """
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.createDataFrame(specs)
    return frame if tasks == len(specs) <= cores(spark) else frame.repartitionById(tasks, F.col("task"))


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Return the rows of a small DataFrame."""
    try:
        return frame.toArrow()
    except Exception as error:
        raise PipelineError(summarize_error(error)) from error


def summarize_error(error: Exception) -> str:
    """Return the cause of an error in one line. For a failed task, this is the last line of its traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if line.startswith("Traceback"):
            raised = [text for text in lines[index + 1 :] if not text.startswith(("File ", "^", "at ", "JVM"))]
            named = [text for text in raised if text.split(":")[0].replace(".", "").isidentifier() and ":" in text]
            if named:
                return f"a task failed: {named[-1]}"
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling"):  # Py4J: the Java exception follows
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    return f"Spark: {lines[0] if lines else type(error).__name__}"


def read_specs(batches: Iterator[pa.RecordBatch]) -> Iterator[Spec]:
    """Yield the specifications of a task."""
    for batch in batches:
        for text in batch.column("specs").to_pylist():
            yield from json.loads(text)


def run_with_progress(
    spark: SparkSession,
    call: Callable[[], T],
    total: int,
    report: Report | None,
    *,
    finished: Callable[[], int] | None = None,
    poll_seconds: float = _POLL_SECONDS,
) -> T:
    """Call a function that waits for Spark, and report progress meanwhile. Ctrl-C cancels Spark's jobs.

    ``finished`` is a function that returns the progress; by default, the number of finished Spark tasks.
    """
    done: list[T] = []
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            done.append(call())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=wait, daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(poll_seconds)
            if report is not None:
                report(_count_finished_tasks(spark, total) if finished is None else finished(), total)
    except BaseException:
        _cancel(spark)
        worker.join(30.0)
        raise
    if errors:
        raise errors[0]
    return done[0]


def _count_finished_tasks(spark: SparkSession, total: int) -> int:
    """Return the number of finished tasks of the active stage; 0 on Spark Connect, which does not report the number."""
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except Exception:
        return 0
    return max((stage.numCompletedTasks for stage in stages if stage is not None and stage.numTasks == total), default=0)


def _cancel(spark: SparkSession) -> None:
    try:
        spark.sparkContext.cancelAllJobs()
    except Exception:
        spark.interruptAll()
