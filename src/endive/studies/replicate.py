"""Run replications: run a configuration with several seeds on this machine, and measure each run.

Runs are stored in the layout of ``endive run`` and ``endive sweep`` and identified by experiment hash and seed, so that no run is
repeated. The metrics of each run and the window of each configuration are stored next to the runs, with the version and the options
of the measurement. Rows of transactions are kept only on request. Runs execute in threads, because the compiled engine releases
Python's global interpreter lock.

    FOLDER/HASH/window.json  cfg.toml
    FOLDER/HASH/SEED/metrics.json  results.parquet  summary.json  provenance.json
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from endive.analysis.cohort import Submitted
from endive.analysis.warmup import Window
from endive.config import Document, compute_experiment_hash
from endive.input_files import read_json
from endive.output_files import discard, write_text
from endive.runs.execute import execute_run, prepare_run
from endive.runs.layout import RUN_METRICS, WINDOW, RunFiles, run_directory
from endive.runs.stored import StoredRun
from endive.studies.measure import (
    RUN_SCHEMA,
    ExperimentRuns,
    MetricsOptions,
    RunFile,
    RunMetrics,
    check_window,
    choose_window,
    document_load_pattern,
    measure_file,
    metrics_version,
    open_run,
)

WINDOW_SEEDS = 3
"""Number of seeds that determine the window of a configuration, which therefore does not change when seeds are added."""


class Replications:
    """Runs of documents with several seeds. The metrics are stored in a folder.

    Args:
        folder: Folder for the runs.
        options: Options of the measurement.
        keep_rows: Whether to keep the rows of transactions, which pairing and later changes of the window require.
        workers: Number of concurrent runs; by default the number of cores.
        among_many: Whether to wait for a kernel that must be compiled. Otherwise, the reference engine is used if it is faster.
        stopped: Function that is called periodically. When it returns True, runs raise InterruptedError.
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
        """Number of simulated runs, without reused runs."""

    def measure(self, document: Document, seeds: Sequence[int], window: Window | None = None) -> tuple[RunMetrics, ...]:
        """Return the metrics of a document for these seeds, in the given order. Run missing seeds.

        Args:
            document: Configuration.
            seeds: Seeds of the runs.
            window: Measurement window; by default the window of the configuration.
        """
        chosen = window or self.window(document, seeds)
        experiment = compute_experiment_hash(document)
        found = {seed: self._read_metrics(experiment, seed, chosen) for seed in seeds}
        missing = [seed for seed, metrics in found.items() if metrics is None]
        self._simulate(document, experiment, missing)
        for seed in missing:
            found[seed] = self._measure(experiment, seed, chosen)
            if not self._keep_rows:
                files = RunFiles.in_directory(self._directory(experiment, seed))
                discard(files.results)
                discard(files.measuring)
        return tuple(metrics for seed in seeds if (metrics := found[seed]) is not None)

    def window(self, document: Document, seeds: Sequence[int]) -> Window:
        """Return the window of a configuration, as set by the options or determined from the runtimes and the first seeds."""
        check_window(document, self._options)
        experiment, first = compute_experiment_hash(document), list(seeds[:WINDOW_SEEDS])
        duration, cooldown = document.simulation.duration_ms, self._options.cooldown_ms
        pattern = document_load_pattern(document)
        entry = pattern.entry_warmup_ms
        runs = ExperimentRuns(experiment, duration, pattern, ())
        if self._options.warmup_ms is not None or entry is None or entry > (duration - cooldown) / 2.0:
            return choose_window([runs], self._options)
        basis = {"version": metrics_version(), "cooldown_ms": cooldown, "seeds": first}
        path = self._folder / experiment / WINDOW
        try:
            kept = read_json(path)
            if {name: kept[name] for name in basis} == basis:
                return Window(**kept["window"])
        except (ValueError, KeyError, TypeError, IndexError):
            pass
        self._simulate(document, experiment, first)
        files = tuple(RunFile(seed, self._results(experiment, seed)) for seed in first)
        found = choose_window([ExperimentRuns(experiment, duration, pattern, files)], self._options)
        write_text(path, json.dumps({**basis, "window": asdict(found)}) + "\n")
        return found

    def submitted(self, document: Document, seed: int) -> dict[str, Submitted]:
        """Return the transactions of a run by class, in the order of submission. Requires ``keep_rows``."""
        with open_run("", RunFile(seed, self.rows_file(document, seed))) as rows:
            return rows.submitted()

    def simulate(self, document: Document, seeds: Sequence[int]) -> None:
        """Run the seeds that have no rows yet. Requires ``keep_rows``."""
        self._simulate(document, compute_experiment_hash(document), seeds)

    def rows_file(self, document: Document, seed: int) -> Path:
        """Return the file of the rows of a run."""
        return self._results(compute_experiment_hash(document), seed)

    def _simulate(self, document: Document, experiment: str, seeds: Sequence[int]) -> None:
        missing = [seed for seed in seeds if not self._has_rows(experiment, seed)]
        if not missing:
            return
        pool = ThreadPoolExecutor(min(self._workers, len(missing)))
        try:
            for done in as_completed([pool.submit(self._run, document, experiment, seed) for seed in missing]):
                self.runs += 1
                done.result()
        except BaseException:
            self._stop.set()  # stop the runs in progress
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, document: Document, experiment: str, seed: int) -> None:
        prepared = prepare_run(document, seed=seed, among_many=self._among_many)
        files = RunFiles.in_directory(self._directory(experiment, seed))
        execute_run(prepared, files, progress=self._check_stopped, rows="all" if self._keep_rows else "none")

    def _has_rows(self, experiment: str, seed: int) -> bool:
        """Return whether the file from which a run is measured exists, with all rows if they are kept."""
        kept = not self._keep_rows or StoredRun(self._directory(experiment, seed)).keeps("all")
        return kept and self._results(experiment, seed).is_file()

    def _check_stopped(self, _: float) -> None:
        if self._stop.is_set() or self._stopped():
            raise InterruptedError("stopped")

    def _measure(self, experiment: str, seed: int, window: Window) -> RunMetrics:
        run = RunFile(seed, self._results(experiment, seed))
        rows = [{name: _plain(row.get(name)) for name in RUN_SCHEMA.names} for row in measure_file(experiment, run, window)]
        kept = {"version": metrics_version(), "window": asdict(window), "rows": rows}
        write_text(self._directory(experiment, seed) / RUN_METRICS, json.dumps(kept) + "\n")
        return RunMetrics(seed, tuple(rows))

    def _read_metrics(self, experiment: str, seed: int, window: Window) -> RunMetrics | None:
        """Return the stored metrics of a run; None if there are none for this version and window."""
        try:
            kept = read_json(self._directory(experiment, seed) / RUN_METRICS)
            same = kept["version"] == metrics_version() and Window(**kept["window"]) == window
            return RunMetrics(seed, tuple(kept["rows"])) if same else None
        except (ValueError, KeyError, TypeError, IndexError):
            return None

    def _directory(self, experiment: str, seed: int) -> Path:
        return run_directory(self._folder / experiment, seed)

    def _results(self, experiment: str, seed: int) -> Path:
        files = RunFiles.in_directory(self._directory(experiment, seed))
        return files.results if self._keep_rows else files.measuring


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
