"""Define the versions that determine whether stored results are valid, and find the Git commit of the running code.

Stored results are identified by their parameters and ``MODEL_VERSION``, and metrics by ``METRICS_VERSION``. Increment a version in
the commit that changes results intentionally. The tests of the golden rows (``tests/simulation/golden*.jsonl``) and the golden
metrics (``tests/studies/golden_metrics.json``) fail if results change but the version does not.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

MODEL_VERSION = 5
"""Version of the simulated rows. The same parameters, seed and version produce the same rows."""
METRICS_VERSION = 7
"""Version of the metrics. The same rows, window and version produce the same metrics."""
DIRTY = "-dirty"
"""Suffix of the commit if the working tree has uncommitted changes."""


def code_version() -> str:
    """Return the name of the model version, as recorded in results."""
    return f"model-{MODEL_VERSION}"


@cache
def get_git_sha() -> str | None:
    """Return the Git commit of this code, with the suffix ``-dirty`` if the package has uncommitted changes.

    Returns:
        The commit, or None if the package is not installed from a Git checkout.
    """
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = _git("status", "--porcelain", "--untracked-files=no", ".")
        return _git("rev-parse", "HEAD") + (DIRTY if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=10, text=True).stdout.strip()
