"""Replications: a configuration run with several seeds on the cores of this machine, each run reduced to its metrics.

What is kept are small files of metrics, addressed by the hash of the experiment and the seed, so that nothing is run twice; they
say which code measured them and in which window, and what other code has measured is not used. Rows of transactions are kept until
the window of the configuration is known, and for good only where they are asked for. Threads suffice: the compiled engine lets go
of Python's lock.

    FOLDER/HASH/window.json  SEED.json  (SEED.parquet)
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from endive.analysis.cohort import Submitted
from endive.analysis.run_metrics import SUM_COLUMNS, WHOSE_COLUMNS, group_metrics, window_of
from endive.analysis.warmup import SERIES_BINS, Window, find_window, given_window
from endive.config import ConfigError, Document, Problem, build_simulation_config, compute_experiment_hash
from endive.input_files import read_json
from endive.output_files import whole_file, write_text
from endive.runs.identity import code_version
from endive.simulation import RESULT_SCHEMA, Simulation
from endive.simulation.columns import TIME_COLUMNS
from endive.studies.measure import ROW_COLUMNS, RUN_SCHEMA, RunRows, committing_over_time, measure_sources, measuring_code
from endive.studies.windows import MetricsOptions, document_entry_warmup_ms

_TEXTS = ["status", "workload_class", "abort_reason", "operation_type"]
_COLUMNS = dict.fromkeys(("txn_id", *_TEXTS, *ROW_COLUMNS, *SUM_COLUMNS, *TIME_COLUMNS, *WHOSE_COLUMNS))
_SCHEMA = pa.schema([RESULT_SCHEMA.field(name) for name in _COLUMNS])
"""The columns that metrics are made of."""
WINDOW_SEEDS = 3
"""The window of a configuration is found from its first seeds, so that it stays the same when seeds are added."""
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

    @property
    def window(self) -> Window:
        """The part of the run that was measured."""
        return window_of(self.rows[0])

    def of(self, workload_class: str, operation: str) -> Row:
        """The metrics of a class and operation; if the run has no such transaction, those of none."""
        for row in self.rows:
            if (row["workload_class"], row["operation_type"]) == (workload_class, operation):
                return row
        return group_metrics([], self.window)


class Replications:
    """Runs documents and remembers what they came to in ``folder``.

    ``keep_rows`` keeps the rows of transactions, so that they can be paired and measured in another window. ``among_many`` false
    takes the reference engine where that is done before a kernel is compiled. ``stopped`` is asked now and then; once it says so,
    runs that are under way end with InterruptedError.
    """

    def __init__(
        self,
        folder: Path,
        options: MetricsOptions,
        *,
        keep_rows: bool = False,
        workers: int | None = None,
        among_many: bool = True,
        stopped: Callable[[], bool] | None = None,
    ) -> None:
        self._folder = folder
        self._options = options
        self._keep_rows = keep_rows
        self._workers = workers or os.cpu_count() or 1
        self._stop = threading.Event()
        self._among_many = among_many
        self._stopped = stopped or (lambda: False)
        self.runs = 0
        """How many runs it took; those that were found do not count."""

    def measured(self, document: Document, seeds: Sequence[int], window: Window | None = None) -> tuple[RunMetrics, ...]:
        """The metrics of a document with these seeds, in their order; what is not there yet is run.

        ``window`` is by default the one that the first seeds come to.
        """
        chosen = window or self.window(document, seeds)
        experiment = compute_experiment_hash(document)
        found = {seed: self._kept(experiment, seed, chosen) for seed in seeds}
        missing = [seed for seed, metrics in found.items() if metrics is None]
        self._simulate(document, experiment, missing)
        for seed in missing:
            found[seed] = self._measure(experiment, seed, chosen)
        if not self._keep_rows:
            for path in (self._folder / experiment).glob("*.parquet"):
                path.unlink()
        return tuple(metrics for seed in seeds if (metrics := found[seed]) is not None)

    def window(self, document: Document, seeds: Sequence[int]) -> Window:
        """The window of a configuration: the one asked for, or the one that its runtimes and its first seeds come to."""
        check_window(document, self._options)
        duration, cooldown = document.simulation.duration_ms, self._options.cooldown_ms
        if self._options.warmup_ms is not None:
            return given_window(duration, self._options.warmup_ms, cooldown)
        entry = document_entry_warmup_ms(document)
        if entry is None or entry > (duration - cooldown) / 2.0:
            return find_window(duration, cooldown, entry, np.zeros(SERIES_BINS))
        experiment, first = compute_experiment_hash(document), list(seeds[:WINDOW_SEEDS])
        made_of = {"code": measuring_code(), "cooldown_ms": cooldown, "seeds": first}
        path = self._folder / experiment / "window.json"
        try:
            kept = read_json(path)
            if {name: kept[name] for name in made_of} == made_of:
                return Window(**kept["window"])
        except (ValueError, KeyError, TypeError, IndexError):
            pass
        self._simulate(document, experiment, first)
        spec = {"duration_ms": duration, "cooldown_ms": cooldown}
        series = committing_over_time(spec, [RunRows(self._rows(experiment, seed), seed) for seed in first])
        found = find_window(duration, cooldown, entry, series)
        write_text(path, json.dumps({**made_of, "window": asdict(found)}) + "\n")
        return found

    def submitted(self, document: Document, seed: int) -> dict[str, Submitted]:
        """The transactions of a run by class, in the order of their submission. Needs ``keep_rows``."""
        with closing(RunRows(self.rows_file(document, seed), seed)) as rows:
            return rows.submitted()

    def simulate(self, document: Document, seeds: Sequence[int]) -> None:
        """Run those of these seeds that were not run yet, and keep their rows. Needs ``keep_rows``."""
        self._simulate(document, compute_experiment_hash(document), seeds)

    def rows_file(self, document: Document, seed: int) -> Path:
        """Where the rows of a run are kept."""
        return self._rows(compute_experiment_hash(document), seed)

    def _simulate(self, document: Document, experiment: str, seeds: Sequence[int]) -> None:
        """Run those of these seeds whose rows are not there, and write their rows."""
        missing = [seed for seed in seeds if not self._rows(experiment, seed).is_file()]
        if not missing:
            return
        pool = ThreadPoolExecutor(min(self._workers, len(missing)))
        try:
            for done in as_completed([pool.submit(self._run, document, experiment, seed) for seed in missing]):
                self.runs += 1
                done.result()
        except BaseException:
            self._stop.set()  # lets runs end that are under way
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, document: Document, experiment: str, seed: int) -> None:
        started = time.perf_counter()
        simulation = Simulation(build_simulation_config(document, seed_override=seed), among_many=self._among_many)
        with (
            whole_file(self._rows(experiment, seed)) as path,
            pq.ParquetWriter(path, _SCHEMA, compression="lz4", use_dictionary=_TEXTS, write_statistics=False) as writer,
        ):

            def look_up(_: float = 0.0) -> None:
                if self._stop.is_set() or self._stopped():
                    raise InterruptedError("stopped")

            def sink(batch: pa.RecordBatch) -> None:
                look_up()
                writer.write_batch(batch.select(_SCHEMA.names))

            simulation.stream(sink, progress=look_up)
            about = {"seed": seed, "engine": simulation.engine, "seconds": round(time.perf_counter() - started, 3)}
            writer.add_key_value_metadata({"endive.run": json.dumps(about)})

    def _measure(self, experiment: str, seed: int, window: Window) -> RunMetrics:
        path = self._rows(experiment, seed)
        about = json.loads(pq.read_metadata(path).metadata[b"endive.run"])
        spec = {"experiment": experiment, "seeds": [seed], "window": asdict(window)}
        measured = measure_sources(spec, [RunRows(path, seed)])
        rows = [{name: _plain(row.get(name)) for name in RUN_SCHEMA.names} for row in measured]
        made_by = {"code_version": code_version(), "measured_by": measuring_code(), "window": asdict(window)}
        kept = {"experiment": experiment, **about, **made_by, "rows": rows}
        write_text(self._path(experiment, seed), json.dumps(kept) + "\n")
        return RunMetrics(seed, tuple(rows))

    def _rows(self, experiment: str, seed: int) -> Path:
        return self._folder / experiment / f"{seed}.parquet"

    def _path(self, experiment: str, seed: int) -> Path:
        return self._folder / experiment / f"{seed}.json"

    def _kept(self, experiment: str, seed: int, window: Window) -> RunMetrics | None:
        """What is known of a run; None if it was not run yet, or measured by other code or in another window."""
        try:
            kept = read_json(self._path(experiment, seed))
            same = kept["measured_by"] == measuring_code() and Window(**kept["window"]) == window
            return RunMetrics(seed, tuple(kept["rows"])) if same else None
        except (ValueError, KeyError, TypeError, IndexError):
            return None


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def check_window(document: Document, options: MetricsOptions) -> None:
    """Raises ConfigError if warm-up and cool-down leave nothing of the run."""
    duration_ms = document.simulation.duration_ms
    problem = options.problem_with(duration_ms)
    if problem is not None:
        raise ConfigError("--warmup", [Problem("simulation.duration_ms", f"{problem} the run", duration_ms)])
