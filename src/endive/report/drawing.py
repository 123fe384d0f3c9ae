"""Figures as files, drawn by this process and others beside it: drawing keeps one core busy, and takes a second to load.

``Drawing`` owns the other processes, one for each further core. Begun early, they load while something else is waited for. Files
and their bytes are those of ``paper.save``. A process ends with the one that started it, however that ends.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from endive.report.figure import Figure

_MOST = 4
_FEW = 3
"""So many figures are drawn here sooner than a process is loaded."""


class Drawing:
    """Processes that draw, for a ``with`` block."""

    def __init__(self, processes: int | None = None) -> None:
        self._number = min(_MOST, os.cpu_count() or 1) - 1 if processes is None else processes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[Thread] = []
        self._todo: deque[tuple[int, tuple[Any, ...]]] = deque()
        self._done: dict[int, list[Path] | Exception] = {}

    def __enter__(self) -> Drawing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._todo.clear()
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            process.communicate()

    def begin(self) -> None:
        """Start the processes."""
        if self._processes:
            return
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        for _ in range(self._number):
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for this process, which ends them
            )
            self._processes.append(process)

    def start(self, figures: Sequence[Figure], folder: Path, *how: Any) -> None:
        """Begin to write figures as ``paper.save`` does, by the other processes."""
        if len(figures) > _FEW:
            self.begin()
        self._done = {}
        self._todo.extend((place, (figure, folder, *how)) for place, figure in enumerate(figures))
        self._threads = [Thread(target=self._draw, args=(partial(_drawn_by, process),)) for process in self._processes]
        for thread in self._threads:
            thread.start()

    def finish(self) -> list[list[Path]]:
        """Write here what nobody has begun, wait for the rest, and return the files of each figure. Raises what ``save`` raises."""
        self._draw(_save)
        for thread in self._threads:
            thread.join()
        self._draw(_save)  # what a process has left undone that ended meanwhile
        files = []
        for _, done in sorted(self._done.items()):
            if isinstance(done, Exception):
                raise done
            files.append(done)
        return files

    def save(self, figures: Sequence[Figure], folder: Path, *how: Any) -> list[list[Path]]:
        """Start and finish."""
        self.start(figures, folder, *how)
        return self.finish()

    def _draw(self, save: Callable[..., list[Path]]) -> None:
        """Take one figure after the other until there is none, or one cannot be drawn."""
        while True:
            try:
                place, work = self._todo.popleft()
            except IndexError:
                return
            try:
                self._done[place] = save(*work)
            except (EOFError, pickle.PickleError, BrokenPipeError):  # of a process that has ended: others draw it
                self._todo.appendleft((place, work))
                return
            except Exception as error:
                self._done[place] = error
                self._todo.clear()


def _save(*work: Any) -> list[Path]:
    from endive.report.paper import save

    return save(*work)


def _drawn_by(process: subprocess.Popen[bytes], *work: Any) -> list[Path]:
    assert process.stdin is not None
    assert process.stdout is not None
    _send(process.stdin, work)
    done: list[Path] | Exception = pickle.load(process.stdout)
    if isinstance(done, Exception):
        raise done
    return done


def _send(stream: IO[bytes], value: Any) -> None:
    pickle.dump(value, stream)
    stream.flush()


def main() -> None:
    """Draw what comes in and send back the files, or what went wrong, until nobody sends any more."""
    from endive.report.paper import load

    load()
    with suppress(EOFError, BrokenPipeError):
        while True:
            work = pickle.load(sys.stdin.buffer)
            try:
                done: Any = _save(*work)
            except Exception as error:
                done = error
            _send(sys.stdout.buffer, done)


if __name__ == "__main__":
    main()
