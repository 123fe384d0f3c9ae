"""The seed of configurations that are drawn anew for each commit; ``ENDIVE_TEST_SEED`` repeats those of another one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

VARIABLE = "ENDIVE_TEST_SEED"


def fresh_seed() -> int:
    """Return the seed that was asked for, or one made of the commit (0 outside of a checkout)."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return int(given)
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    except (OSError, subprocess.SubprocessError):
        return 0
    return int(done.stdout[:8], 16)
