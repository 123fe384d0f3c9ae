"""One run of a plan and what came of it, wherever it is run."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from endive.config.schema import Document
from endive.runs.execute import run_experiment
from endive.runs.identity import code_version, compute_experiment_hash
from endive.runs.layout import experiment_directory, run_directory
from endive.runs.plan import Work
from endive.runs.stored import StoredRun

QUICK_SECONDS = 2.0
"""Runs that take no longer may be run ahead: whoever waits for the last of them does not wait long."""


@dataclass(frozen=True)
class Outcome:
    """What came of one run."""

    experiment: str
    seed: int
    state: Literal["done", "found", "failed"]
    rows: int = 0
    seconds: float = 0.0
    error: str | None = None


def run_planned(document: Document, seed: int, root: Path, experiment: str) -> Outcome:
    """Run a configuration with a seed, unless that is there already: another task or another sweep may have been quicker.

    ``experiment`` is the hash that the plan gave it; other code would write other results elsewhere. An error is told.
    """
    started = time.perf_counter()
    if compute_experiment_hash(document) != experiment:
        error = f"the executor has other code ({code_version()}) than the driver; --ship-code sends it along"
        return Outcome(experiment, seed, "failed", error=error)
    stored = StoredRun(run_directory(experiment_directory(document, root), seed))
    if stored.problem() is None:
        return Outcome(experiment, seed, "found", stored.provenance["rows"])
    try:
        finished = run_experiment(document, root=root, seed=seed, among_many=True)
    except Exception as error:
        text = "".join(traceback.format_exception_only(error)).strip()
        return Outcome(experiment, seed, "failed", 0, time.perf_counter() - started, text)
    return Outcome(experiment, seed, "done", finished.rows, time.perf_counter() - started)


def run_ahead(work: Work, root: Path, enough: Callable[[], bool], tell: Callable[[], None]) -> tuple[list[Outcome], Work]:
    """Run quick runs here, the quickest first, until it is ``enough``; returns what came of them, and the work that is left.

    A small study has its first results before Spark is up. ``tell`` is called after each run.
    """
    ordered = sorted(work.todo, key=lambda run: (run.effort.cpu_seconds, run.point.experiment, run.seed))
    outcomes: list[Outcome] = []
    for run in ordered:
        if run.effort.cpu_seconds > QUICK_SECONDS or enough():
            break
        outcomes.append(run_planned(run.point.document, run.seed, root, run.point.experiment))
        tell()
    return outcomes, Work(tuple(ordered[len(outcomes) :]), work.finished, work.damaged)
