"""Worker processes that are ready to simulate, and the queue before them.

The pool owns its processes. A job is one call of ``work``, a run of one seed as a rule. Jobs belong to an owner, who waits for
them; once the owner is stopped, jobs that wait are dropped, those that run are told so, and a process that does not listen is
replaced. Processes are forked from a server that has the engine loaded, so that a new one is ready in milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import heapq
import itertools
import logging
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from endive.config.errors import ConfigError

log = logging.getLogger(__name__)
_MOST_WORKERS = 4
_PATIENCE_S = 0.3
"""How long a process that was told to stop may take."""
LONGEST_S = 120.0
"""No job runs longer, whatever was estimated."""


class StoppedError(Exception):
    """Nobody waits for this any more."""


class WorkError(Exception):
    """A job failed; the message says why, for people."""


@dataclass
class Owner:
    """Who waits for jobs. ``stop`` ends all of them."""

    stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        """Say that nobody waits any more."""
        self.stopped.set()


@dataclass(order=True)
class _Job:
    priority: int
    number: int
    name: str = field(compare=False)
    arguments: tuple[Any, ...] = field(compare=False)
    owner: Owner = field(compare=False)
    answer: asyncio.Future[Any] = field(compare=False)


class Pool:
    """Some processes and a queue. With ``code`` they may run that of configurations. Use from one event loop."""

    def __init__(self, folder: Path, workers: int | None = None, *, code: bool = False) -> None:
        self._folder, self._code = folder, code
        self.size = workers or max(1, min(_MOST_WORKERS, os.cpu_count() or 1))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["endive.serve.work"])
        _begin_to_load()
        self._queue: list[_Job] = []
        self._numbers = itertools.count()
        self._wakened = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._workers: list[_Worker] = []

    def start(self) -> None:
        """Start the processes; jobs wait until there is one."""
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(self.size)]

    async def close(self) -> None:
        """End the processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            worker.end()
        self._workers = []

    async def _begin(self) -> _Worker:
        worker = await asyncio.to_thread(_Worker, self._context, self._folder, self._code)
        self._workers.append(worker)
        return worker

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of its processes."""
        return tuple(worker.process.pid or 0 for worker in self._workers)

    def submit(self, owner: Owner, priority: int, name: str, *arguments: Any) -> asyncio.Future[Any]:
        """Return the answer of a call to come. It raises ConfigError, WorkError, or StoppedError once the owner is stopped."""
        job = _Job(priority, next(self._numbers), name, arguments, owner, asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, job)
        self._wakened.set()
        return job.answer

    async def _next(self) -> _Job:
        while True:
            while self._queue:
                job = heapq.heappop(self._queue)
                if job.answer.done():
                    continue
                if not job.owner.stopped.is_set():
                    return job
                _fail(job, StoppedError())
            self._wakened.clear()
            await self._wakened.wait()

    async def _serve(self) -> None:
        """Keep one process at work."""
        worker = await self._begin()
        while True:
            job = await self._next()
            try:
                outcome = await worker.call(job)
            except (OSError, EOFError, TimeoutError) as error:
                self._workers.remove(worker)
                worker.end()
                worker = await self._begin()
                late = f"it took longer than {LONGEST_S:.0f} s, much more than was estimated"
                told = late if isinstance(error, TimeoutError) else "the process that ran it ended"
                stopped = job.owner.stopped.is_set()
                _fail(job, StoppedError() if stopped else WorkError(f"This could not be simulated: {told}."))
            else:
                _settle(job, outcome)


@functools.cache
def _begin_to_load() -> None:
    """Start the process that workers are forked from. Ctrl-C, which all processes of a terminal get, is not for it."""
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        forkserver.ensure_running()
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)


def _fail(job: _Job, error: Exception) -> None:
    if not job.answer.done():
        job.answer.set_exception(error)
        job.answer.exception()  # an owner who has gone does not ask


def _settle(job: _Job, outcome: tuple[str, Any]) -> None:
    kind, value = outcome
    if kind == "config":
        _fail(job, ConfigError("configuration", value))
    elif kind != "done":
        _fail(job, StoppedError() if kind == "stopped" else WorkError(value))
    elif not job.answer.done():
        job.answer.set_result(value)


class _Worker:
    """One process, as the server sees it."""

    def __init__(self, context: multiprocessing.context.ForkServerContext, folder: Path, code: bool) -> None:
        self._connection, theirs = context.Pipe()
        self._stop = context.Event()
        self.process = context.Process(target=_work, args=(theirs, self._stop, folder, code), daemon=True)
        self.process.start()
        theirs.close()

    async def call(self, job: _Job) -> tuple[str, Any]:
        """Run a job. Raises OSError or EOFError if the process ends, TimeoutError if it does not stop when it is told to."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Event = asyncio.Event()
        descriptor = self._connection.fileno()
        self._stop.clear()
        self._connection.send((job.name, job.arguments))
        loop.add_reader(descriptor, answered.set)
        try:
            await self._wait(answered, job.owner.stopped)
        finally:
            loop.remove_reader(descriptor)
        outcome: tuple[str, Any] = self._connection.recv()
        return outcome

    async def _wait(self, answered: asyncio.Event, stopped: asyncio.Event) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (answered, stopped)]
        try:
            done, _ = await asyncio.wait(waits, timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise TimeoutError
            if waits[0] not in done:
                self._stop.set()
                await asyncio.wait_for(answered.wait(), _PATIENCE_S)
        finally:
            for task in waits:
                task.cancel()

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._connection.close()
        self.process.kill()
        self.process.join()


def _work(connection: Connection, stop: Any, folder: Path, code: bool) -> None:
    """Take calls until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from endive.config.parts import allow_code
    from endive.serve import work

    allow_code(code)  # the user was asked when the server was started
    bench = work.Bench(folder, stop.is_set)
    work.warm_up(bench)
    while True:
        try:
            name, arguments = connection.recv()
            connection.send(_outcome(getattr(work, name), bench, arguments))
        except (EOFError, OSError):
            return


def _outcome(call: Any, bench: Any, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    from endive.simulation.choice import EngineError

    try:
        return "done", call(bench, *arguments)
    except InterruptedError:
        return "stopped", None
    except ConfigError as error:
        return "config", list(error.problems)
    except EngineError as error:
        return "failed", f"{error}."
    except Exception as error:
        log.exception("a job failed")
        return "failed", f"This could not be simulated: {type(error).__name__}: {error}"
