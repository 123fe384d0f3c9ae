"""Provide simulated transactions as a DataFrame, without files: ``spark.read.format("endive")``.

Options specify a configuration and seeds. Each task simulates runs and passes their rows, with the seed, to Spark as Arrow batches.
The driver handles only the options.

    register(spark)
    rows = spark.read.format("endive").option("config", "base.toml").option("seeds", "0-99").load()

Options (names are case-insensitive):

``config``      path of a configuration (TOML), equivalent to the path given to ``load``
``toml``        text of a configuration, instead of a path
``seeds``       7 or 0-9; default: the seed in the configuration, or 0
``set.KEY``     value of a dotted key; Spark converts KEY to lower case
``set``         lines of ``key = value``, which keep their case
``partitions``  number of tasks for the seeds; default: one task per seed
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from endive.config import ConfigError, Document, Problem, build_simulation_config
from endive.config.errors import nearest
from endive.config.load import check_document, parse_assignment, read_toml
from endive.config.study import parse_seeds
from endive.input_files import UnreadableError, parse_toml
from endive.pipeline.jobs import spark_ddl
from endive.simulation import RESULT_SCHEMA, Simulation, SimulationConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FORMAT = "endive"
DEFAULT_SEED = 0
"""Default seed. It is fixed, because Spark can compute rows more than once."""
SCHEMA = RESULT_SCHEMA.append(pa.field("seed", pa.int64()))
_SET = "set."
_OPTIONS = ("config", "path", "toml", "seeds", "set", "partitions")


def register(spark: SparkSession) -> None:
    """Register the format with a session."""
    spark.dataSource.register(EndiveDataSource)


@dataclass(frozen=True)
class Request:
    """Simulation request: a checked document, and the seeds of each task."""

    document: str
    """Document as JSON."""
    chunks: tuple[tuple[int, ...], ...]


class EndiveDataSource(DataSource):
    """Spark data source ``endive``, which simulates a configuration and returns the rows."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Check the options, and return the columns of results and the seed."""
        _ = self.request
        return spark_ddl(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the rows."""
        return EndiveReader(self.request)

    @cached_property
    def request(self) -> Request:
        """Request that the options describe. Spark sends the request to tasks, so that later changes of the file have no effect."""
        return parse_options(self.options)


class EndiveReader(DataSourceReader):
    """Reader that simulates runs on Spark executors."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each Spark task, with the seeds of the task's runs."""
        return [InputPartition(seeds) for seeds in self._request.chunks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the runs of a task."""
        document = Document.model_validate(json.loads(self._request.document))
        for seed in partition.value:
            for batch in stream_batches(build_simulation_config(document, seed_override=seed)):
                yield batch.append_column(SCHEMA.field("seed"), pa.repeat(pa.scalar(seed, pa.int64()), batch.num_rows))


def parse_options(options: Mapping[str, str]) -> Request:
    """Parse the options of a read into a request. Raises ConfigError, which lists every problem."""
    unknown = [key for key in options if key not in _OPTIONS and not key.startswith(_SET)]
    if unknown:
        problems = [Problem(key, f"unknown option; {nearest(key, (*_OPTIONS, 'set.KEY'))}") for key in unknown]
        raise ConfigError(f'format("{FORMAT}")', problems)
    document = _document(options)
    seeds = _seeds(options, document)
    count = min(_partitions(options, len(seeds)), len(seeds))
    tree = document.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return Request(json.dumps(tree), tuple(seeds[number::count] for number in range(count)))


def _document(options: Mapping[str, str]) -> Document:
    given = [key for key in ("config", "path", "toml") if key in options]
    if len(given) != 1:
        found = "none" if not given else " and ".join(given)
        raise _make_error("config", f"pass exactly one of config, toml and a path to load; got {found}")
    if given == ["toml"]:
        try:
            tree = parse_toml(options["toml"])
        except UnreadableError as error:
            raise _make_error("toml", str(error)) from error
        return check_document(tree, "option toml", Path.cwd(), _overrides(options))
    path = Path(options[given[0]]).absolute()
    return check_document(read_toml(path), str(path), path.parent, _overrides(options))


def _overrides(options: Mapping[str, str]) -> dict[str, Any]:
    lines = [line.strip() for line in options.get("set", "").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    lines += [f"{key.removeprefix(_SET)}={value}" for key, value in options.items() if key.startswith(_SET)]
    try:
        return dict(parse_assignment(line) for line in lines)
    except ConfigError as error:
        raise ConfigError("option set", error.problems) from None


def _seeds(options: Mapping[str, str], document: Document) -> tuple[int, ...]:
    if "seeds" not in options:
        seed = document.simulation.seed
        return (DEFAULT_SEED if seed is None else seed,)
    try:
        return parse_seeds(options["seeds"])
    except ConfigError as error:
        raise ConfigError("option seeds", error.problems) from None


def _partitions(options: Mapping[str, str], default: int) -> int:
    text = options.get("partitions", str(default))
    if not text.isdecimal() or int(text) == 0:
        raise _make_error("partitions", f"should be a whole number above 0 (got {text!r})")
    return int(text)


def _make_error(option: str, message: str) -> ConfigError:
    return ConfigError(f"option {option}", [Problem("", message)])


class _ReaderLeftError(Exception):
    """Raised in the thread of the engine when Spark stops reading."""


def stream_batches(config: SimulationConfig) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a run in batches, with only a few batches in memory at a time.

    The engine runs in a separate thread, because the engine pushes rows while Spark pulls them. If the reader stops early (for
    example, because of a LIMIT), the run ends with the next batch.
    """
    handed: Queue[pa.RecordBatch | BaseException | None] = Queue(maxsize=1)
    left = threading.Event()

    def hand_on(item: pa.RecordBatch | BaseException | None) -> None:
        if left.is_set():
            raise _ReaderLeftError
        handed.put(item)

    def run() -> None:
        try:
            Simulation(config, among_many=True).stream(hand_on)
            hand_on(None)
        except _ReaderLeftError:
            pass
        except BaseException as error:
            if not left.is_set():
                handed.put(error)

    threading.Thread(target=run, name="endive-engine", daemon=True).start()
    try:
        while (item := handed.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        left.set()
        with suppress(Empty):
            while True:  # empty the queue, so that a blocked engine continues and notices that it must stop
                handed.get_nowait()
