"""The cache directory: compiled kernels, a Java home, class archives, libraries of reports, the speed of this machine.

Code in it is run (compiled kernels are loaded, indexes are unpickled), so it must belong to the user alone: it is created with mode
0700, and a directory that other users can write to is rejected.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "ENDIVE_CACHE_DIR"
"""Environment variable that names another directory."""
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UnsafeCacheError(OSError):
    """Raised if the cache directory belongs to another user, or other users can write to it; the message contains the remedy."""


def cache_root() -> Path:
    """Return the cache directory, created if possible. Raises UnsafeCacheError if other users can write to it."""
    chosen = os.environ.get(CACHE_VARIABLE)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("endive", appauthor=False))
    with suppress(OSError):  # writing to it raises a clear error
        root.parent.mkdir(parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
    if root.is_dir():
        _check_private(root)
    return root


def _check_private(root: Path) -> None:
    if os.name != "posix":
        return
    found = root.stat()
    if found.st_uid not in (os.getuid(), 0):
        raise UnsafeCacheError(
            f"{root}: the cache belongs to another user, who could run code as you; set {CACHE_VARIABLE} to another directory"
        )
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise UnsafeCacheError(
            f"{root}: other users can write to the cache, and so run code as you; if you trust its files, run `chmod go-w {root}`"
        )
