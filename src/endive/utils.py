"""Small things that belong nowhere else."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

_RESULT_CODE = (
    "arithmetic",
    "randomness.py",
    "steps.py",
    "conflict_detector.py",
    "storage",
    "table",
    "catalog",
    "transaction",
    "workload",
    "simulation",
    "config",
)


@cache
def fingerprint(*names: str) -> str:
    """A hash of the code in these files and folders of the package (by default: all that results depend on).

    Read as resources, so that it is the same for a package that was shipped as a zip file.
    """
    digest = hashlib.sha256()
    package = resources.files("endive")
    for name in names or _RESULT_CODE:
        for path, file in sorted(_sources(package.joinpath(*name.split("/")), name), key=lambda item: item[0]):
            digest.update(path.encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _sources(node: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """The Python files at or below a place."""
    if node.is_file():
        if path.endswith(".py"):
            yield path, node
    elif node.is_dir():
        for child in node.iterdir():
            yield from _sources(child, f"{path}/{child.name}")


def available_bytes() -> int:
    """Memory that is free, or can be made so; where the system does not tell, half of what it has, or else 4 GiB."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return 4 * 2**30


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
