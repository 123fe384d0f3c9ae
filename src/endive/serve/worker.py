"""Perform the jobs of a worker process: check a configuration, run a seed, measure, compare, draw.

``perform`` has one implementation for each call in ``messages``. Rows and metrics are stored in a directory that all workers share.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

from endive.analysis.warmup import Window, common_window
from endive.config import build_simulation_config
from endive.config.errors import ConfigError, Problem
from endive.config.schema import Document
from endive.config.warnings import warnings_of
from endive.report.comparison import Side
from endive.runs.effort import estimate_effort, preparation_seconds
from endive.serve import messages, page_configuration, summaries
from endive.serve.changes import list_changes, scale_load
from endive.serve.page_configuration import DEFAULT
from endive.simulation.compiled.kernel_cache import compile_in_background
from endive.simulation.runner import EngineError, choose_engine
from endive.studies.measure import MetricsOptions, RunRows
from endive.studies.replicate import Replications
from endive.version import code_version

_WARM_UP_MS = 60_000.0
_MOST_SETUP_S = 10.0
"""Limit of the CPU time to set up a configuration."""
_TIMELINE_S = 1.0
"""Time limit of the run of the reference engine behind a timeline."""


@dataclass(frozen=True)
class Worker:
    """State of a worker process: the directory of the runs, and a function that checks whether the current job was cancelled."""

    folder: Path
    stopped: Callable[[], bool]

    @property
    def runs(self) -> Replications:
        """Runs in the directory. Missing runs are simulated."""
        return Replications(self.folder, MetricsOptions(), keep_rows=True, workers=1, among_many=False, stopped=self.stopped)

    def check_stopped(self, _: float = 0.0) -> None:
        """Raise InterruptedError if the job was cancelled."""
        if self.stopped():
            raise InterruptedError("stopped")


@singledispatch
def perform(call: Any, worker: Worker) -> Any:
    """Perform a call.

    Raises:
        ConfigError: If the configuration is not valid.
        EngineError: If the configuration cannot be run.
        InterruptedError: If the job was cancelled.
    """
    raise TypeError(f"{type(call).__name__} is not a call")


@perform.register
def _(call: messages.Prepare, worker: Worker) -> messages.Prepared:
    tree, document, left_out = page_configuration.settle(call.tree, call.changed)
    _check_setup(document)
    effort = estimate_effort(document, compiles=False)
    choice = choose_engine(build_simulation_config(document, seed_override=0), among_many=True)
    return messages.Prepared(
        tree,
        document,
        tuple(left_out),
        page_configuration.as_toml(tree),
        tuple(map(str, warnings_of(document))),
        tuple(summaries.list_assumptions(document)),
        effort.transactions,
        effort.cpu_seconds,
        effort.work.reference_s,
        choice.compiles == "no",
    )


def _check_setup(document: Document) -> None:
    """Raise ConfigError if the estimated time to set up the configuration is too long."""
    seconds = preparation_seconds(document)
    if seconds > _MOST_SETUP_S:
        tables, classes = document.catalog.num_tables, max(1, len(document.workload))
        key = "catalog.num_tables" if tables > classes else "workload"
        message = (
            f"setting up {tables:,} tables and {classes:,} classes would take about {seconds:.0f} s; the limit of this page is "
            f"{_MOST_SETUP_S:.0f} s. Use fewer tables or classes, or `endive run`, which has no limit"
        )
        raise ConfigError("configuration", [Problem(key, message)])


@perform.register
def _(call: messages.CheckEngine, worker: Worker) -> bool:
    config = build_simulation_config(call.document, seed_override=0)
    choice = choose_engine(config, among_many=True)
    return choice.compiles == "no" or choice.features is None or not compile_in_background(choice.features)


@perform.register
def _(call: messages.Simulate, worker: Worker) -> None:
    worker.runs.simulate(call.document, [call.seed])


@perform.register
def _(call: messages.Summarize, worker: Worker) -> messages.Answer:
    catalog = call.document.catalog
    return summaries.summarize(worker.runs.measure(call.document, call.seeds), catalog.workers, catalog.metadata_limit_bytes)


@perform.register
def _(call: messages.DrawBreakdown, worker: Worker) -> messages.Chart | None:
    return summaries.draw_breakdown(worker.runs.measure(call.document, call.seeds))


@perform.register
def _(call: messages.MeasureLoad, worker: Worker) -> messages.LoadPoint | None:
    scaled = scale_load(call.tree, call.factor)
    return None if scaled is None else summaries.measure_load(call.factor, worker.runs.measure(scaled.document, call.seeds))


@perform.register
def _(call: messages.DrawLoadCurve, worker: Worker) -> messages.Chart | None:
    return summaries.draw_load_curve(call.tree, call.points)


@perform.register
def _(call: messages.DrawTimeline, worker: Worker) -> messages.Chart | None:
    share = min(1.0, _TIMELINE_S / max(call.reference_s, 1e-9))
    with closing(RunRows(worker.runs.rows_file(call.document, call.seed))) as rows:
        return summaries.draw_timeline(call.document, call.seed, rows, share, worker.check_stopped)


@perform.register
def _(call: messages.Compare, worker: Worker) -> messages.Compared:
    runs = worker.runs
    try:
        window = common_window([runs.window(document, call.seeds) for document in (call.a, call.b)])
    except ValueError as error:
        return messages.Compared(f"A and B cannot be compared: {error}.")
    sides = [
        Side(name, name, runs.measure(document, call.seeds, window), code_version(), partial(runs.submitted, document))
        for name, document in (("A", call.a), ("B", call.b))
    ]
    return summaries.compare_sides(*sides)


@perform.register
def _(call: messages.FindWindow, worker: Worker) -> Window:
    return worker.runs.window(call.document, call.seeds)


@perform.register
def _(call: messages.MeasureMetric, worker: Worker) -> messages.MetricValues:
    runs = worker.runs.measure(call.document, call.seeds, call.window)
    return summaries.measure_metric(runs, call.metric, call.workload_class)


@perform.register
def _(call: messages.ListChanges, worker: Worker) -> tuple[messages.Change, ...]:
    return tuple(list_changes(call.tree))


_started: list[Worker] = []


def start(folder: Path, stopped: Callable[[], bool]) -> None:
    """Initialize a worker process: load the libraries and a compiled kernel."""
    warnings.filterwarnings("ignore")  # of libraries, about frames without rows
    worker = Worker(folder, stopped)
    _started[:] = [worker]
    tree = page_configuration.put(DEFAULT, "simulation.duration_ms", _WARM_UP_MS)
    with suppress(Exception):  # reported when a client asks
        document = perform(messages.Prepare(tree), worker).document
        perform(messages.Summarize(document, (0, 1)), worker)
        perform(messages.DrawBreakdown(document, (0, 1)), worker)


def run(call: messages.Call[messages.T]) -> messages.T:
    """Perform a call in this worker process."""
    try:
        result: messages.T = perform(call, _started[0])
    except EngineError as error:
        raise messages.WorkError(f"{error}.") from None
    return result
