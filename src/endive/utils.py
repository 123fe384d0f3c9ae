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
    """The commit of this code, with ``-dirty`` if it was changed since; None if it is installed from a package."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = _git("status", "--porcelain", "--untracked-files=no", ".")
        return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).resolve().parent), *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=10, text=True).stdout.strip()
