"""Versions that decide which stored results are still valid, and the Git commit of the running code.

Stored results are identified by their parameters and ``MODEL_VERSION``, metrics by ``METRICS_VERSION``. Increment a version in the
commit that changes results on purpose. The golden rows (``tests/simulation/golden*.jsonl``) and the golden metrics
(``tests/studies/golden_metrics.json``) fail if results change but the version does not.
"""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

MODEL_VERSION = 5
"""Version of the simulated rows: the same parameters, seed and version produce the same rows."""
METRICS_VERSION = 7
"""Version of the metrics: the same rows, window and version produce the same metrics."""
DIRTY = "-dirty"
"""Suffix of a commit whose working tree has uncommitted changes."""


def code_version() -> str:
    """Return the name of the model version that results record."""
    return f"model-{MODEL_VERSION}"


@cache
def get_git_sha() -> str | None:
    """Return the Git commit of this code, with ``-dirty`` if the package has changes.

    Returns:
        The commit, or None if the package is not installed from a checkout.
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
