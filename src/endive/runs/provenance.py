"""What a run records of itself, so that it can be traced and repeated."""

from __future__ import annotations

import platform
from datetime import datetime
from functools import cache
from importlib import metadata
from typing import Any

from endive import __version__
from endive.config.schema import Document
from endive.runs.identity import code_version, compute_experiment_hash, parameters
from endive.version import get_git_sha

_DEPENDENCIES = ("numba", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "simpy")


def describe_run(document: Document, seed: int, engine: str, started: datetime, seconds: float) -> dict[str, Any]:
    """Return versions, parameters and machine of a run that took so many ``seconds`` of wall time."""
    return {
        "endive_version": __version__,
        "code_version": code_version(),
        "git_commit": get_git_sha(),
        "experiment_hash": compute_experiment_hash(document),
        "seed": seed,
        "engine": engine,
        "started": started.isoformat(timespec="seconds"),
        "wall_time_s": round(seconds, 3),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "dependencies": dict(_versions()),
        "parameters": parameters(document),
    }


@cache
def _versions() -> dict[str, str]:
    """The installed versions of what results depend on; looking them up takes as long as a short run."""
    return {name: metadata.version(name) for name in _DEPENDENCIES}
