"""Studies of small real runs on the reference engine, measured in this process without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from endive.report.study_data import Study, load_study
from tests.pipeline.runs import document, run_all, run_here

SEEDS = 3


def mixed_sweep(root: Path) -> Path:
    """Run three loads on two object stores with three seeds each, two classes and three operations."""
    points = [document(workload__ingest__rate=rate, storage__provider=name) for name in ("s3", "s3x") for rate in (2.0, 6.0, 12.0)]
    run_all(points, root, range(SEEDS))
    return root


def designs_sweep(root: Path) -> Path:
    """Run catalogs of several types, with and without ML+ and inlined metadata, at two loads."""
    points = [
        document(
            "designs",
            catalog__type=kind,
            catalog__table_metadata_inlined=inlined,
            transaction__manifest_list_mode=mode,
            workload__ingest__rate=rate,
        )
        for kind in ("cas", "append")
        for mode in ("rewrite", "append")
        for inlined in (True, False)
        for rate in (2.0, 6.0)
    ]
    run_all(points, root, range(SEEDS))
    return root


def one_experiment(root: Path, seeds: int = SEEDS, **overrides: Any) -> Path:
    """Run one configuration with several seeds."""
    run_all([document(**overrides)], root, range(seeds))
    return root


def measured(path: Path, **options: Any) -> Study:
    """Return the measured study of a path."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("consolidate", "metrics"):
            patch.setattr(f"endive.pipeline.{module}.run_tasks", run_here)
            patch.setattr(f"endive.pipeline.{module}.count_tasks", lambda *_: 1)
        return load_study(path, sessions=lambda: nullcontext(None), **options)  # type: ignore[arg-type]
