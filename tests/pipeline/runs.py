"""Experiments for tests of the pipeline: small, on the reference engine, so that no kernel is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from endive.config import Document
from endive.config.load import check_document
from endive.pipeline.jobs import LocalThreads
from endive.runs.execute import run_experiment

DURATION_MS = 20_000.0
MASTER = "local[2,4]"


def document(label: str = "mixed", **overrides: Any) -> Document:
    """Return two kinds of appends and a periodic overwrite that aborts on real conflicts; ``__`` in overrides stands for a dot."""
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": DURATION_MS, "engine": "reference"},
        "experiment": {"label": label},
        "storage": {"provider": "s3x"},
        "catalog": {"num_tables": 2},
        "transaction": {"retry": 3, "real_conflict_probability": 0.5},
        "workload": {
            "ingest": {
                "rate": 6.0,
                "operation_types": {"fast_append": 0.7, "merge_append": 0.3},
                "runtime": {"mean": 500.0, "sigma": 0.5},
            },
            "upkeep": {
                "periodic": {"interval_ms": 900.0, "phase_ms": 300.0},
                "operation": "validated_overwrite",
                "runtime": {"distribution": "fixed", "value": 1500.0},
            },
        },
    }
    return check_document(tree, "test", overrides={key.replace("__", "."): value for key, value in overrides.items()})


def run_all(documents: Iterable[Document], root: Path, seeds: Iterable[int]) -> None:
    """Run each document with each seed."""
    seeds = list(seeds)
    for each in documents:
        for seed in seeds:
            run_experiment(each, root=root, seed=seed)


def local_session(*_: Any, **__: Any) -> AbstractContextManager[Any]:
    """Return a context with a thread of this process in place of a Spark session."""
    return nullcontext(LocalThreads(1))


def run_commands_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands in this process consolidate, measure and report without Spark."""
    monkeypatch.setattr("endive.pipeline.session.spark_session", local_session)
