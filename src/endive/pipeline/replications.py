"""Replications: a configuration run with several seeds on the cores of this machine, each run reduced to its metrics.

What flows in: a document and seeds. What flows out: for each seed the rows that ``metrics/by_run`` would have. The rows of
transactions are written to a temporary file, measured and forgotten; what is kept are small files of metrics, addressed by the hash
of the experiment and the seed, so that nothing is run twice. Threads suffice: the compiled engine lets go of Python's lock.

    FOLDER/HASH/SEED.json
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from endive.analysis.warmup import Warmup
from endive.config import ConfigError, Document, Problem, build_simulation_config, compute_experiment_hash
from endive.files import write_text
from endive.pipeline.measure import LATENCIES, RUN_SCHEMA, SUM_COLUMNS, Leaf, OperationRows, Window, group_metrics, measure_sources
from endive.pipeline.metrics import MetricsOptions
from endive.runs.identity import code_version
from endive.simulation import RESULT_SCHEMA, Simulation
from endive.simulation.columns import TIME_COLUMNS

_TEXTS = ["status", "workload_class", "abort_reason", "operation_type"]
_SCHEMA = pa.schema(
    [RESULT_SCHEMA.field(name) for name in (*_TEXTS, "t_submit", "t_commit", *LATENCIES, *SUM_COLUMNS, *TIME_COLUMNS)]
)
"""The columns that metrics are made of."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RunMetrics:
    """What one run came to, by class and operation, where ``all`` stands for any."""

    seed: int
    rows: tuple[Row, ...]

    @property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """The classes and operations that it has."""
        return tuple((row["workload_class"], row["operation_type"]) for row in self.rows)

    def of(self, workload_class: str, operation: str) -> Row:
        """The metrics of a class and operation; if the run has no such transaction, those of none."""
        for row in self.rows:
            if (row["workload_class"], row["operation_type"]) == (workload_class, operation):
                return row
        whole = self.rows[0]
        warmup = Warmup(whole["warmup_ms"], whole["warmup_settled"])
        end = whole["warmup_ms"] + whole["window_ms"]
        return group_metrics([], Window(whole["duration_ms"], warmup, whole["warmup_by"], end))


class RunRows(OperationRows):
    """The file of one run, whose rows of all classes and operations are mixed."""

    def __init__(self, path: Path, seed: int) -> None:
        self._file = pq.ParquetFile(path, read_dictionary=_TEXTS)
        self.leaves = list(self._leaves(seed))

    def _leaves(self, seed: int) -> Iterator[Leaf]:
        keys = self._key_columns()
        classes, class_names = self._codes("workload_class")
        operations, operation_names = self._codes("operation_type")
        pairs = classes * max(len(operation_names), 1) + operations
        for pair in np.unique(pairs):
            index = np.flatnonzero(pairs == pair)
            group, operation = divmod(int(pair), len(operation_names))
            columns = {name: values[index] for name, values in keys.items()}
            yield Leaf(seed, class_names[group], operation_names[operation], index, columns)


class Replications:
    """Runs documents and remembers what they came to in ``folder``. ``report`` is told of each run that ends."""

    def __init__(
        self, folder: Path, options: MetricsOptions, *, workers: int | None = None, report: Callable[[int], None] | None = None
    ) -> None:
        self._folder = folder
        self._options = options
        self._workers = workers or os.cpu_count() or 1
        self._report = report or (lambda seed: None)
        self._stop = threading.Event()
        self.runs = 0
        """How many runs it took; those that were found do not count."""

    def measured(self, document: Document, seeds: Sequence[int]) -> tuple[RunMetrics, ...]:
        """The metrics of a document with these seeds, in their order; what is not there yet is run."""
        check_window(document, self._options)
        experiment = compute_experiment_hash(document)
        found = {seed: self._kept(experiment, seed) for seed in seeds}
        missing = [seed for seed, metrics in found.items() if metrics is None]
        if missing:
            found.update({metrics.seed: metrics for metrics in self._run_all(document, experiment, missing)})
        return tuple(metrics for seed in seeds if (metrics := found[seed]) is not None)

    def _run_all(self, document: Document, experiment: str, seeds: Sequence[int]) -> Iterator[RunMetrics]:
        pool = ThreadPoolExecutor(min(self._workers, len(seeds)))
        try:
            for done in as_completed([pool.submit(self._run, document, experiment, seed) for seed in seeds]):
                metrics = done.result()
                self.runs += 1
                self._report(metrics.seed)
                yield metrics
        except BaseException:
            self._stop.set()  # lets runs end that are under way
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, document: Document, experiment: str, seed: int) -> RunMetrics:
        started = time.perf_counter()
        config = build_simulation_config(document, seed_override=seed)
        simulation = Simulation(config)
        with tempfile.TemporaryDirectory(prefix="endive-") as folder:
            path = Path(folder) / "rows.parquet"
            with pq.ParquetWriter(path, _SCHEMA, compression="lz4", use_dictionary=_TEXTS, write_statistics=False) as writer:

                def sink(batch: pa.RecordBatch) -> None:
                    if self._stop.is_set():
                        raise InterruptedError("stopped")
                    writer.write_batch(batch.select(_SCHEMA.names))

                simulation.stream(sink)
            spec = {"experiment": experiment, "seeds": [seed], "duration_ms": config.duration_ms, **self._window()}
            measured = list(measure_sources(spec, [RunRows(path, seed)]))
        rows = [{name: row.get(name) for name in RUN_SCHEMA.names} for row in measured]
        self._keep(experiment, seed, rows, simulation.engine, time.perf_counter() - started)
        return RunMetrics(seed, tuple(rows))

    def _window(self) -> dict[str, float | None]:
        return {"warmup_ms": self._options.warmup_ms, "cooldown_ms": self._options.cooldown_ms}

    def _path(self, experiment: str, seed: int) -> Path:
        return self._folder / experiment / f"{seed}.json"

    def _keep(self, experiment: str, seed: int, rows: Sequence[Row], engine: str, seconds: float) -> None:
        about = {"experiment": experiment, "seed": seed, "code_version": code_version(), "engine": engine}
        kept = {**about, "seconds": round(seconds, 3), "window": self._window(), "rows": rows}
        write_text(self._path(experiment, seed), json.dumps(kept) + "\n")

    def _kept(self, experiment: str, seed: int) -> RunMetrics | None:
        """What is known of a run; None if it was not run yet, or measured otherwise."""
        try:
            kept = json.loads(self._path(experiment, seed).read_text(encoding="utf-8"))
            return RunMetrics(seed, tuple(kept["rows"])) if kept["window"] == self._window() else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None


def check_window(document: Document, options: MetricsOptions) -> None:
    """Raises ConfigError if warm-up and cool-down leave nothing of the run."""
    cut = (options.warmup_ms or 0.0) + options.cooldown_ms
    if cut >= document.simulation.duration_ms:
        text = (
            f"a warm-up of {options.warmup_ms or 0.0:g} ms and a cool-down of {options.cooldown_ms:g} ms leave nothing of the run"
        )
        raise ConfigError("--warmup", [Problem("simulation.duration_ms", text, document.simulation.duration_ms)])
