"""Studies of small real runs on the reference engine, measured in this process without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endive.report.study_data import Study, load_study
from tests.pipeline.runs import document, local_session, run_all

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
    return load_study(path, sessions=local_session, **options)
