"""Run a command in a lab: a child process with the addresses of the lab in its environment, which ends with the lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from endive.lab import LabError

_GRACE_S = 5.0
_SIGNAL_BASE = 128
"""Exit code of a shell for a child that a signal ended, before the number of the signal."""


@contextmanager
def child_process(
    command: Sequence[str], environment: Mapping[str, str], stdout: int | IO[Any] | None = None, stderr: int | IO[Any] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command, and end it when the block ends.

    Raises:
        LabError: The command cannot be started.
    """
    try:
        child = subprocess.Popen(list(command), env={**os.environ, **environment}, stdout=stdout, stderr=stderr)
    except (OSError, ValueError) as error:
        raise LabError(f"{command[0]}: cannot be started: {getattr(error, 'strerror', None) or error}") from None
    try:
        yield child
    finally:
        end_child(child)


def end_child(child: subprocess.Popen[bytes]) -> None:
    """Ask a child to end, and kill it if it does not."""
    if child.poll() is None:
        child.terminate()
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
    if child.poll() is None:
        child.kill()
    child.wait()


def exit_code(child: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a child that has ended, as a shell does."""
    code = child.wait()
    return code if code >= 0 else _SIGNAL_BASE - code
