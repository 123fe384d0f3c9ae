"""Small things that belong nowhere else."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

DIRTY = "-dirty"
"""What follows a commit whose code was changed since."""
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
    """A hash of what the code in these files and folders of the package means (by default: all that results depend on).

    It is one of syntax trees without docstrings: comments, docstrings and layout make no difference. Read as resources, so that it
    is the same for a package that was shipped as a zip file. Parsing takes a while, so what bytes came to is kept in the cache.
    """
    package = resources.files("endive")
    found = [pair for name in names or _RESULT_CODE for pair in _sources(package.joinpath(*name.split("/")), name)]
    sources = [(path, file.read_bytes()) for path, file in sorted(found, key=lambda item: item[0])]
    kept = _kept(hashlib.sha256(b"".join(path.encode() + b"\0" + text for path, text in sources)).hexdigest())
    if kept is not None and kept.is_file():
        return kept.read_text(encoding="utf-8")
    digest = hashlib.sha256()
    for path, text in sources:
        digest.update(path.encode())
        digest.update(meaning(text).encode())
    if kept is not None:
        _keep(kept, digest.hexdigest()[:12])
    return digest.hexdigest()[:12]


def meaning(source: bytes) -> str:
    """The code of a file without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    """Whether a statement is nothing but a text: the docstring of a module, class, function or attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _kept(digest: str) -> Path | None:
    """Where the fingerprint of code with these bytes is kept; None if there is no cache to use."""
    from endive.cache_directory import cache_root

    try:
        return cache_root() / "fingerprints" / f"{digest[:32]}-{sys.version_info.major}.{sys.version_info.minor}"
    except OSError:
        return None


def _keep(path: Path, text: str) -> None:
    """Write a small file, whole or not at all; a cache that cannot be written to is done without."""
    from endive.output_files import write_text

    with suppress(OSError):
        write_text(path, text)


def _sources(node: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    """The Python files at or below a place."""
    if node.is_file():
        if path.endswith(".py"):
            yield path, node
    elif node.is_dir():
        for child in node.iterdir():
            yield from _sources(child, f"{path}/{child.name}")


class _WithoutPandas:
    """A finder of modules that finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raise ImportError for pandas; leave other modules to other finders."""
        if name == "pandas":
            raise ImportError(name)


def convert_without_pandas() -> None:
    """Keep pyarrow from loading pandas when it first makes an array, which takes 0.3 s; called where nothing is drawn.

    It looks for pandas once, to tell its objects from others, and again when one asks for a DataFrame, which then is made.
    """
    import pyarrow as pa

    if "pandas" in sys.modules:
        return
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.scalar(0)
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)


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


@cache
def get_git_sha() -> str | None:
    """The commit of this code, with ``-dirty`` if it was changed since; None if it is installed from a package.

    Git is asked once in a process: the code that runs is that which was loaded.
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
