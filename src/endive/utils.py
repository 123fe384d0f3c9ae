"""Small things that belong nowhere else."""

from __future__ import annotations

import subprocess
from pathlib import Path


def get_git_sha() -> str | None:
    """The commit that this code was checked out from; None if it is installed from a package."""
    here = Path(__file__).resolve().parent
    try:
        tracked = ["git", "-C", str(here), "ls-files", "--error-unmatch", Path(__file__).name]
        subprocess.run(tracked, capture_output=True, check=True, timeout=10)
        head = ["git", "-C", str(here), "rev-parse", "HEAD"]
        return subprocess.run(head, capture_output=True, check=True, timeout=10, text=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
