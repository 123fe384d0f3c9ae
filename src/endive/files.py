"""Files that appear whole or not at all.

What is written goes to a temporary file beside its place, which is renamed when it is complete. The name of a temporary file tells
its writer, so that files of writers that died can be told from those that are being written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from endive.writers import remove_leftovers_of, temporary_beside


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; what is written there takes its place when the block ends well, or else vanishes.

    What killed writers of ``path`` have left is removed first.

    Raises OSError, which names ``path``, if it cannot be written.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers_of(path)
    temporary = temporary_beside(path)
    try:
        yield temporary
        with errors_naming(path):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    with whole_file(path) as temporary, errors_naming(path):
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def errors_naming(path: Path) -> Iterator[None]:
    """Let errors of writing name the file that was to be: by themselves they name a temporary one, or none."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def check_writable(folder: Path) -> None:
    """See whether files can be written in a directory, which need not be there yet. Raises OSError, which names it.

    Nothing is left behind.
    """
    place = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    if not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(place))
    temporary = temporary_beside(place / "writable")
    with errors_naming(folder):
        temporary.touch()
        temporary.unlink()


@contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    """Hold a lock (a flag of ``fcntl.flock``) on a file, which is made if it is not there; the lock goes with the process.

    Links are not followed, so that nothing is made or changed elsewhere. Raises OSError, which names ``path``, and
    BlockingIOError if another process has the lock and ``kind`` does not wait.
    """
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise OSError(
            error.errno, "should be a file of its own" if error.errno == errno.ELOOP else error.strerror, str(path)
        ) from None
    try:
        fcntl.flock(file, kind)
        yield
    finally:
        os.close(file)


def discard(path: Path) -> None:
    """Remove what lies at a path, a link rather than what it leads to; nothing happens if nothing is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_inside(path: Path, root: Path) -> None:
    """Raise PermissionError if writing ``path`` would write outside of ``root``, by its name or by a link on the way."""
    try:
        found = path.resolve()
    except RuntimeError:  # a loop of links
        raise PermissionError(errno.EPERM, "is a link that leads to itself", str(path)) from None
    if not found.is_relative_to(root.resolve()):
        raise PermissionError(errno.EPERM, f"leads out of {root}, to {found}", str(path))
