"""Manage the worker processes of the live page and their job queue.

Each process has its own ``ProcessPoolExecutor``, so that a process that breaks or does not stop can be replaced without affecting
the others. A job is one ``Call``, usually a run of one seed, and belongs to a ``CancelToken``. Once the token is cancelled, waiting
jobs are dropped and running ones are asked to stop; a process that does not stop in time is killed. Processes are forked from a
server that has loaded the engine, so that a new one is ready in milliseconds.
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
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from endive.config.errors import ConfigError
from endive.serve.messages import Call, StoppedError, T, WorkError

log = logging.getLogger(__name__)
_MOST_WORKERS = 4
_STOP_S = 0.3
"""Time after which a process that does not stop a cancelled job is killed."""
_POLL_S = 0.05
LONGEST_S = 120.0
"""Time limit of a job, independent of its estimate."""


class _OverdueError(Exception):
    """Raised if a job exceeds its time limit, or does not stop when it is cancelled."""


@dataclass(frozen=True)
class CancelToken:
    """Token that cancels all jobs that were submitted with it."""

    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def cancel(self) -> None:
        """Cancel the jobs."""
        self.cancelled.set()


@dataclass(order=True)
class _Job:
    priority: int
    number: int
    call: Call[Any] = field(compare=False)
    token: CancelToken = field(compare=False)
    result: asyncio.Future[Any] = field(compare=False)

    def fail(self, error: Exception) -> None:
        """Set the exception of the result, and mark it as retrieved, because a disconnected client does not retrieve it."""
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()

    def succeed(self, value: Any) -> None:
        """Set the result, unless the job was abandoned."""
        if not self.result.done():
            self.result.set_result(value)


class Pool:
    """Worker processes with a priority queue; ``code`` permits custom components.

    All methods must be called from one event loop.
    """

    def __init__(self, folder: Path, workers: int | None = None, *, code: bool = False) -> None:
        self._folder, self._code = folder, code
        self.size = workers or max(1, min(_MOST_WORKERS, os.cpu_count() or 1))
        self._queue: list[_Job] = []
        self._numbers = itertools.count()
        self._filled = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._processes: set[_Process] = set()
        start_forkserver()

    def start(self) -> None:
        """Start the processes; jobs wait until one is ready."""
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(self.size)]

    async def close(self) -> None:
        """Stop the processes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for process in self._processes:
            process.kill()
        self._processes = set()

    @property
    def processes(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(process.pid for process in self._processes if process.pid is not None)

    def submit(self, token: CancelToken, priority: int, call: Call[T]) -> asyncio.Future[T]:
        """Queue a call and return its future result.

        Raises (from the future):
            ConfigError: The call rejected its configuration.
            WorkError: The call failed.
            StoppedError: The token was cancelled.
        """
        job = _Job(priority, next(self._numbers), call, token, asyncio.get_running_loop().create_future())
        heapq.heappush(self._queue, job)
        self._filled.set()
        return job.result

    async def _next(self) -> _Job:
        while True:
            while self._queue:
                job = heapq.heappop(self._queue)
                if job.token.cancelled.is_set():
                    job.fail(StoppedError())
                elif not job.result.done():
                    return job
            self._filled.clear()
            await self._filled.wait()

    async def _serve(self) -> None:
        """Run jobs on one worker process, which is replaced whenever it breaks."""
        process = await self._start_process()
        while True:
            job = await self._next()
            try:
                job.succeed(await process.run(job))
            except Exception as error:
                job.fail(_explain(error, job))
                if isinstance(error, BrokenExecutor | _OverdueError):
                    self._processes.discard(process)
                    process.kill()
                    process = await self._start_process()

    async def _start_process(self) -> _Process:
        process = _Process(self._folder, self._code)
        await asyncio.to_thread(process.start)
        self._processes.add(process)
        return process


def _explain(error: Exception, job: _Job) -> Exception:
    """Return the exception for the client from the exception of a worker; unexpected exceptions are logged."""
    if job.token.cancelled.is_set() or isinstance(error, InterruptedError):
        return StoppedError()
    if isinstance(error, ConfigError | WorkError):
        return error
    log.error("job %s failed", type(job.call).__name__, exc_info=error)
    if isinstance(error, _OverdueError):
        reason = f"it took longer than {LONGEST_S:.0f} s, far more than estimated"
    elif isinstance(error, BrokenExecutor):
        reason = "its worker process ended unexpectedly"
    else:
        reason = f"{type(error).__name__}: {error}"
    return WorkError(f"The simulation failed: {reason}.")


@functools.cache
def _context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["endive.serve.worker"])
    return context


@functools.cache
def start_forkserver() -> None:
    """Start the process that workers are forked from. It ignores Ctrl-C, which a terminal sends to all its processes."""
    _context()
    in_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main else None
    try:
        forkserver.ensure_running()
    finally:
        if in_main:
            signal.signal(signal.SIGINT, before)


class _Process:
    """Handle of a worker process in the server."""

    def __init__(self, folder: Path, code: bool) -> None:
        context = _context()
        self._stop = context.Event()
        self._pids, self._sender = context.Pipe(duplex=False)
        self._executor = ProcessPoolExecutor(1, context, _initialize, (self._sender, self._stop, folder, code))
        self._ready: Future[None] | None = None
        self.pid: int | None = None
        """None until the process has started."""

    def start(self) -> None:
        """Start the process and wait until it runs or has failed. The process loads the engine meanwhile."""
        self._ready = self._executor.submit(_wait_until_loaded)
        while self.pid is None and not self._ready.done():
            if self._pids.poll(_POLL_S):
                self.pid = self._pids.recv()
        self._pids.close()
        self._sender.close()

    async def run(self, job: _Job) -> Any:
        """Run a job.

        Raises:
            BrokenExecutor: If the process ended.
            _OverdueError: If the job neither ended in time nor stopped.
        """
        assert self._ready is not None
        await asyncio.wrap_future(self._ready)
        self._stop.clear()
        result = asyncio.wrap_future(self._executor.submit(_perform, job.call))
        result.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # the exception of an overdue job is not retrieved
        cancelled = asyncio.create_task(job.token.cancelled.wait())
        try:
            await asyncio.wait([result, cancelled], timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
            if cancelled.done() and not result.done():
                self._stop.set()
                await asyncio.wait([result], timeout=_STOP_S)
            if not result.done():
                raise _OverdueError
            return result.result()
        finally:
            cancelled.cancel()

    def kill(self) -> None:
        """Kill the process."""
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._executor.shutdown()


def _initialize(pids: Any, stop: Any, folder: Path, code: bool) -> None:
    """Prepare a worker process to end with the server and to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pids.send(os.getpid())
    from endive.config.components import allow_code
    from endive.serve import worker

    allow_code(code)  # the user agreed when the server was started
    worker.start(folder, stop.is_set)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _wait_until_loaded() -> None:
    """Do nothing; the call returns once the initializer has finished."""


def _perform(call: Call[Any]) -> Any:
    from endive.serve import worker

    try:
        return worker.run(call)
    except SystemExit as error:  # of a custom component; in the server, the exception would end the event loop
        raise RuntimeError(f"SystemExit: {error}") from error
