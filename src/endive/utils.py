"""Small things that belong nowhere else."""

from __future__ import annotations

import hashlib
import subprocess
from functools import cache
from pathlib import Path

_RESULT_CODE = (
    "randomness.py",
    "costs.py",
    "conflict_detector.py",
    "storage",
    "catalog",
    "transaction",
    "workload",
    "simulation",
    "config",
)


@cache
def fingerprint(*names: str) -> str:
    """A hash of the code in these files and folders of the package (by default: all that results depend on)."""
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parent
    for name in names or _RESULT_CODE:
        path = package / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(package).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


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
