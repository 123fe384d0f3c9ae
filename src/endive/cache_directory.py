"""Find the cache directory, which contains compiled kernels and other files that are expensive to create.

Endive runs code from this directory, such as compiled kernels, so only the user may own and write it. Endive creates it with mode
0700, and rejects a directory to which other users can write.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "ENDIVE_CACHE_DIR"
"""Environment variable that sets the path of the cache directory."""
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class UnsafeCacheError(OSError):
    """Raised if other users can write to the cache directory or own it. The message states the remedy."""


def cache_root() -> Path:
    """Return the cache directory, and create it if it does not exist.

    Raises:
        UnsafeCacheError: If other users can write to the directory or own it.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("endive", appauthor=False))
    with suppress(OSError):  # a later write raises a clear error
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
            f"{root}: the cache directory belongs to another user, who could run code with your permissions; "
            f"set {CACHE_VARIABLE} to another directory"
        )
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise UnsafeCacheError(
            f"{root}: other users can write to the cache directory, and could run code with your permissions; "
            f"if you trust its files, run `chmod go-w {root}`"
        )
