"""What worker processes do: check a configuration, run a seed, measure, compare, draw.

Functions take the bench first: the folder in which runs are kept, and how to see that nobody waits any more. They return plain
values, which are sent to the server.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from endive.analysis.windows import Window, common_window
from endive.config import build_simulation_config
from endive.config.schema import Document
from endive.config.warnings import warnings_of
from endive.report.comparison import Side
from endive.runs.effort import estimate_effort
from endive.runs.identity import code_version
from endive.serve import answers, figures, trees
from endive.serve.levers import Pulled, levers_for
from endive.serve.load import LoadPoint, scaled
from endive.serve.starts import DEFAULT
from endive.serve.trees import Prepared, Tree, put
from endive.simulation.choice import choose_engine, reference_seconds
from endive.simulation.compiled.cache import compile_beside
from endive.simulation.compiled.lower import features_of
from endive.studies.measure import RunRows
from endive.studies.replications import Replications, RunMetrics
from endive.studies.windows import MetricsOptions

_WARM_UP_MS = 60_000.0
_TIMELINE_S = 1.0
"""A run of the reference engine for a timeline takes this long at most."""


@dataclass(frozen=True)
class Bench:
    """Where a worker works."""

    folder: Path
    stopped: Callable[[], bool]

    def replications(self) -> Replications:
        """Runs that are kept."""
        return Replications(self.folder, MetricsOptions(), keep_rows=True, workers=1, among_many=False, stopped=self.stopped)


def prepare(bench: Bench, tree: Tree, changed: str | None) -> Prepared:
    """Check a configuration and estimate one run of it. Raises ConfigError."""
    settled, document, left_out = trees.settle(tree, changed)
    effort = estimate_effort(document)
    choice = choose_engine(build_simulation_config(document, seed_override=0), among_many=True)
    reference_s = reference_seconds(effort.work)
    return Prepared(
        settled,
        document,
        tuple(left_out),
        trees.as_toml(settled),
        tuple(map(str, warnings_of(document))),
        tuple(answers.assumptions(document)),
        effort.transactions,
        effort.cpu_seconds if choice.engine == "compiled" else reference_s,
        reference_s,
        choice.compiles == "no",
    )


def is_ready(bench: Bench, document: Document) -> bool:
    """Whether the engine of a configuration is there; if its kernel has to be compiled, begin with it, in a process of its own."""
    config = build_simulation_config(document, seed_override=0)
    ready = choose_engine(config, among_many=True).compiles == "no"
    if not ready:
        compile_beside(features_of(config))
    return ready


def simulate(bench: Bench, document: Document, seed: int) -> None:
    """Run a seed and keep its rows."""
    bench.replications().simulate(document, [seed])


def measure(bench: Bench, document: Document, seeds: Sequence[int], window: Window | None = None) -> tuple[RunMetrics, ...]:
    """Measure seeds, which are run where they were not yet; in the window that the first of them come to, unless one is given."""
    return bench.replications().measured(document, seeds, window)


def answer(bench: Bench, document: Document, seeds: Sequence[int]) -> tuple[dict[str, Any], Window]:
    """Measure seeds and say what they come to; returns their window as well."""
    runs = measure(bench, document, seeds)
    return answers.answer_of(runs), runs[0].window


def time_figure(bench: Bench, document: Document, seeds: Sequence[int]) -> dict[str, Any] | None:
    """Draw where the time goes, from runs that are measured."""
    return figures.drawn_time(measure(bench, document, seeds))


def load_point(bench: Bench, tree: Tree, factor: float, seeds: Sequence[int]) -> LoadPoint | None:
    """Measure a configuration at a multiple of its load; None where that cannot be done or is beyond what is waited for."""
    found = scaled(tree, factor)
    return None if found is None else figures.point_of(factor, measure(bench, found.document, seeds))


def curve_figure(bench: Bench, tree: Tree, points: Sequence[LoadPoint]) -> dict[str, Any] | None:
    """Draw throughput against load."""
    return figures.drawn_curve(tree, points)


def timeline_figure(bench: Bench, document: Document, seed: int, reference_s: float) -> dict[str, Any] | None:
    """Draw who beat whom around the transaction that lost most often, in the part of a run that can be watched quickly."""
    rows = RunRows(bench.replications().rows_file(document, seed), seed)
    try:
        share = min(1.0, _TIMELINE_S / max(reference_s, 1e-9))
        return figures.drawn_timeline(document, seed, rows, share, lambda _: _look_up(bench))
    finally:
        rows.close()


def _look_up(bench: Bench) -> None:
    if bench.stopped():
        raise InterruptedError("stopped")


def compare(bench: Bench, a: Document, b: Document, seeds: Sequence[int]) -> dict[str, Any]:
    """Compare A with B as ``endive compare`` does: in one window, by pairs of seeds."""
    replications = bench.replications()
    window = common_window([replications.window(document, seeds) for document in (a, b)])
    sides = [
        Side(name, name, replications.measured(document, seeds, window), code_version(), partial(replications.submitted, document))
        for name, document in (("A", a), ("B", b))
    ]
    return answers.comparison_of(*sides)


def measured_values(
    bench: Bench, document: Document, seeds: Sequence[int], window: Window, metric: str, workload_class: str
) -> dict[str, Any]:
    """Measure one metric of one class by seed, for a ranking, with what else a reader wants to know."""
    return answers.values_for_ranking(measure(bench, document, seeds, window), metric, workload_class)


def window_of(bench: Bench, document: Document, seeds: Sequence[int]) -> Window:
    """The window of a configuration."""
    return bench.replications().window(document, seeds)


def levers(bench: Bench, tree: Tree) -> list[Pulled]:
    """The levers of a configuration."""
    return levers_for(tree)


def warm_up(bench: Bench) -> None:
    """Do once what takes longer the first time: load libraries, a kernel, the code that draws."""
    tree = put(DEFAULT, "simulation.duration_ms", _WARM_UP_MS)
    with suppress(Exception):  # what is wrong is said when somebody asks
        document = prepare(bench, tree, None).document
        answer(bench, document, [0, 1])
        time_figure(bench, document, [0, 1])


warnings.filterwarnings("ignore")  # of libraries, about frames without rows; a page has no place for them
