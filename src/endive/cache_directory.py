"""The cache directory: compiled kernels, a Java home, class archives, libraries of reports, the speed of this machine.

What lies in it is run (compiled code is loaded, indexes are unpickled), so it belongs to the user alone: it is made with mode
0700, and a directory that others may write to is refused.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "ENDIVE_CACHE_DIR"
"""The environment variable that names another directory."""
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UnsafeCacheError(OSError):
    """The cache directory belongs to, or can be written by, somebody else; the message says how to mend it."""


def cache_root() -> Path:
    """Return the cache directory, made if it is not there and can be. Raises UnsafeCacheError if others may write to it."""
    chosen = os.environ.get(CACHE_VARIABLE)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("endive", appauthor=False))
    with suppress(OSError):  # who writes to it says what is wrong
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
            f"{root}: the cache belongs to another user, who could run code as you; {CACHE_VARIABLE} names another"
        )
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise UnsafeCacheError(
            f"{root}: others may write to the cache, and so run code as you; if you trust what is in it: `chmod go-w {root}`"
        )
