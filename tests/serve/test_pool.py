"""The worker pool: priorities, stopping, and survival of jobs that fail in any way."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from endive.config.errors import ConfigError, Problem
from endive.serve.messages import Call, StoppedError, WorkError
from endive.serve.pool import CancelToken, Pool
from endive.serve.worker import Worker, perform


@dataclass(frozen=True)
class Double(Call[int]):
    number: Any


@dataclass(frozen=True)
class Fail(Call[None]):
    error: type[BaseException]


class Reject(Call[None]):
    pass


class Die(Call[None]):
    pass


class ReturnFunction(Call[Any]):
    pass


class WaitUntilStopped(Call[None]):
    pass


class IgnoreStop(Call[None]):
    pass


@perform.register
def _(call: Double, worker: Worker) -> Any:
    return 2 * call.number


@perform.register
def _(call: Fail, worker: Worker) -> None:
    raise call.error("on purpose")


@perform.register
def _(call: Reject, worker: Worker) -> None:
    raise ConfigError("file", [Problem("storage.provider", "is wrong")])


@perform.register
def _(call: Die, worker: Worker) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@perform.register
def _(call: ReturnFunction, worker: Worker) -> Any:
    return lambda: None


@perform.register
def _(call: WaitUntilStopped, worker: Worker) -> None:
    while True:
        worker.check_stopped()


@perform.register
def _(call: IgnoreStop, worker: Worker) -> None:
    while True:
        pass


def nested(depth: int) -> Any:
    made: Any = 1
    for _ in range(depth):
        made = {"a": made}
    return made


def run(folder: Path, work: Callable[[Pool], Awaitable[Any]]) -> Any:
    """Run a coroutine with a pool of one worker, which must be at work again afterwards."""

    async def with_pool() -> Any:
        async with started(folder) as pool:
            found = await work(pool)
            assert await pool.submit(CancelToken(), 0, Double(21)) == 42
            return found

    return asyncio.run(with_pool())


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Pool]:
    pool = Pool(folder, 1)
    pool.start()
    try:
        yield pool
    finally:
        await pool.close()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Fail(ValueError), "ValueError: on purpose"),
        (Fail(SystemExit), "SystemExit: on purpose"),
        (Fail(RecursionError), "RecursionError: on purpose"),
        (Fail(MemoryError), "MemoryError: on purpose"),
        (Double(nested(3_000)), "RecursionError"),
        (ReturnFunction(), "pickle"),
        (Die(), "its worker process ended unexpectedly"),
    ],
    ids=["value", "exit", "recursion", "memory", "deep call", "result", "killed"],
)
def test_the_pool_survives_any_failure_and_logs_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, call: Call[Any], message: str
) -> None:
    async def work(pool: Pool) -> None:
        with pytest.raises(WorkError, match=message):
            await pool.submit(CancelToken(), 0, call)

    with caplog.at_level(logging.ERROR, "endive.serve.pool"):
        run(tmp_path, work)
    assert [record.name for record in caplog.records] == ["endive.serve.pool"]


def fail_to_start(*_: Any) -> None:
    os._exit(1)


def test_a_process_that_does_not_start_fails_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(pool: Pool) -> None:
        with pytest.raises(WorkError, match="its worker process ended unexpectedly"):
            await pool.submit(CancelToken(), 0, Double(1))
        monkeypatch.undo()
        while True:  # processes that failed to start meanwhile are used up
            with contextlib.suppress(WorkError):
                assert await pool.submit(CancelToken(), 0, Double(1)) == 2
                return

    monkeypatch.setattr("endive.serve.pool._initialize", fail_to_start)
    run(tmp_path, work)


def test_a_rejected_configuration_keeps_its_problems(tmp_path: Path) -> None:
    async def work(pool: Pool) -> None:
        with pytest.raises(ConfigError) as found:
            await pool.submit(CancelToken(), 0, Reject())
        assert [problem.key for problem in found.value.problems] == ["storage.provider"]

    run(tmp_path, work)


@pytest.mark.parametrize("call", [WaitUntilStopped(), IgnoreStop()])
def test_a_cancelled_token_ends_its_running_job_and_drops_waiting_jobs(tmp_path: Path, call: Call[None]) -> None:
    async def work(pool: Pool) -> None:
        assert await pool.submit(CancelToken(), 0, Double(1)) == 2
        token = CancelToken()
        jobs: list[asyncio.Future[Any]] = [pool.submit(token, 0, each) for each in (call, Double(1))]
        await asyncio.sleep(0.1)
        token.cancel()
        found = await asyncio.gather(*jobs, return_exceptions=True)
        assert [type(each) for each in found] == [StoppedError, StoppedError]

    run(tmp_path, work)


def test_jobs_run_by_priority(tmp_path: Path) -> None:
    async def work(pool: Pool) -> None:
        order: list[int] = []
        jobs = [pool.submit(CancelToken(), priority, Double(priority)) for priority in (2, 0, 1)]
        for job in jobs:
            job.add_done_callback(lambda done: order.append(done.result()))
        await asyncio.gather(*jobs)
        assert order == [0, 2, 4]

    run(tmp_path, work)
