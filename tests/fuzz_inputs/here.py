"""Commands in this process, without Spark, and searches without simulation."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import numpy as np
import pytest
from typer.main import get_command

from endive.analysis.run_metrics import ALL, empty_metrics, window_columns
from endive.analysis.warmup import SERIES_BINS, Window, find_window
from endive.config import Document
from endive.simulation.compiled import kernel_cache
from endive.simulation.compiled.features import Features
from endive.studies.measure import Row, RunMetrics, check_window, document_load_pattern
from endive.studies.replicate import Replications
from tests.pipeline.runs import run_commands_without_spark

_MOST_SEEDS = 20


@contextmanager
def commands_here() -> Iterator[None]:
    """Let commands consolidate and measure in this process without Spark, and search with artificial metrics."""
    with pytest.MonkeyPatch.context() as patched:
        run_commands_without_spark(patched)
        patched.setattr("typer.testing._get_command", cache(get_command))  # takes 60 ms each time
        patched.setattr("endive.simulation.compiled.kernel_cache._build", _built_beside_the_clock)
        yield


def _built_beside_the_clock(features: Features, build: Callable[[Features], bytes] = kernel_cache._build) -> bytes:
    """Build a kernel, and exclude its compilation from the CPU time of the attempt."""
    left, _ = signal.setitimer(signal.ITIMER_PROF, 0.0)
    try:
        return build(features)
    finally:
        signal.setitimer(signal.ITIMER_PROF, left)


@contextmanager
def searches_here() -> Iterator[None]:
    """Let searches use artificial metrics and draw no figures, to test arguments and messages."""
    with pytest.MonkeyPatch.context() as patched:
        for module in ("search_answer", "sides"):
            patched.setattr(f"endive.report.{module}.Replications", _MadeUp)
            patched.setattr(f"endive.report.{module}.note_compilation", lambda *_: None)
        patched.setattr("endive.report.search_answer.save_figure", lambda *_: [])
        yield


class _MadeUp(Replications):
    """Artificial metrics that get worse with the rates of a configuration, without simulation."""

    def window(self, document: Document, seeds: Sequence[int]) -> Window:
        """Return the window that is known before a run."""
        check_window(document, self._options)
        duration, cooldown = document.simulation.duration_ms, self._options.cooldown_ms
        return find_window(duration, cooldown, document_load_pattern(document), np.zeros(SERIES_BINS))

    def measure(self, document: Document, seeds: Sequence[int], window: Window | None = None) -> tuple[RunMetrics, ...]:
        """Return artificial metrics."""
        chosen = window or self.window(document, seeds)
        load = min(sum(each.rate or 1.0 for each in document.workload.values()), 1e9)
        return tuple(RunMetrics(seed, _rows(load, seed, chosen, list(document.workload))) for seed in seeds[:_MOST_SEEDS])


def _rows(load: float, seed: int, window: Window, classes: Sequence[str]) -> tuple[Row, ...]:
    counted = {"transactions": 1_000, "committed": int(1_000 / (1.0 + load / 100.0)) - seed % 3 * (load > 50.0)}
    times = {f"time_to_commit_p{p}_ms": 100.0 + load + seed for p in (50, 95, 99)}
    numbers = {**counted, "aborted": 1_000 - counted["committed"], "throughput_per_s": load / (1.0 + load), **times}
    about = {**window_columns(window), "operation_type": ALL}
    made = {**empty_metrics(window), **numbers, **about}
    return tuple({**made, "workload_class": name} for name in (ALL, *classes))
