"""Seed of configurations that are drawn for each commit; set ``ENDIVE_TEST_SEED`` to reproduce another commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

VARIABLE = "ENDIVE_TEST_SEED"


def fresh_seed() -> int:
    """Return the seed of the environment, or a seed derived from the commit (0 outside a checkout)."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return int(given)
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(done.stdout[:8], 16)
