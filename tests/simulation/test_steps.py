"""Steps besides numbers: waits for another transaction, and failed responses."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import simpy

from endive.catalog import CommitResult, InstantCatalog
from endive.randomness import RandomSource, Stream
from endive.simulation.reference import drive_generator
from endive.steps import FailedAnswer, RequestFailedError, Signal, Step, WaitFor
from endive.storage import StorageProvider, StorageResult
from endive.transaction import CommitPolicy, FastAppendTransaction, TraceEvent, TransactionResult, TransactionStatus
from tests.interleave import NEVER_REAL, fixed_provider, run_transaction
from tests.transaction.test_lifecycle import Flaky

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "extending.md"


def drive(*generators: Generator[Step, None, Any]) -> list[tuple[float, Any]]:
    """The moments at which the generators end, and what they return, in order."""
    env = simpy.Environment()
    ends: list[tuple[float, Any]] = []
    for place, steps in enumerate(generators):
        drive_generator(env, steps, place + 1, lambda value: ends.append((env.now, value)))
    env.run()
    return ends


def test_one_waits_until_another_wakes_it() -> None:
    signal = Signal()

    def waiting() -> Generator[Step, None, float]:
        yield 1.0
        yield WaitFor(signal)
        return signal.time_ms

    def waking(delay_ms: float) -> Generator[Step, None, str]:
        yield 5.0
        signal.wake(delay_ms)
        return "woken"

    assert drive(waiting(), waking(0.0)) == [(5.0, "woken"), (5.0, 5.0)]
    assert drive(waiting(), waking(2.5)) == [(5.0, "woken"), (7.5, 7.5)]


def test_waking_a_signal_without_a_waiter_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no transaction waits"):
        Signal().wake()


def test_a_failed_answer_takes_its_time_and_raises() -> None:
    def asking() -> Generator[Step, None, str]:
        yield 1.0
        try:
            yield FailedAnswer(4.0, "503")
        except RequestFailedError as error:
            yield 2.0
            return error.reason
        return "not reached"

    assert drive(asking()) == [(7.0, "503")]


class Refusing(StorageProvider):
    """A store that answers the n-th request with a failure."""

    name = "refusing"
    min_latency_ms = 1.0
    supports_cas = supports_append = supports_tail_append = False

    def __init__(self, rng: RandomSource, refused: int) -> None:
        super().__init__(rng)
        self.refused = refused
        self.requests = 0

    def _answer(self, size_bytes: int) -> Generator[float, None, StorageResult]:
        self.requests += 1
        yield 3.0
        return StorageResult(self.requests != self.refused, 3.0, size_bytes)

    def read(self, key: str, expected_size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._answer(expected_size_bytes)

    def write(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._answer(size_bytes)

    def cas(self, key: str, expected_version: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._answer(size_bytes)

    def append(self, key: str, offset: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._answer(size_bytes)

    def tail_append(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._answer(size_bytes)


@pytest.mark.parametrize("refused", [1, 2, 3])
def test_a_store_that_says_no_ends_the_transaction_when_the_answer_is_there(refused: int) -> None:
    store = Refusing(Stream(0), refused)
    result = run_transaction(FastAppendTransaction(1, 0.0, 10.0, frozenset({0})), Flaky(0), storage=store)
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "request_failed")
    assert store.requests == refused
    assert result.per_attempt_io_ms == 3.0 * refused
    assert result.total_latency_ms == result.catalog_read_ms + result.runtime_ms + result.per_attempt_io_ms


def test_the_trace_tells_which_request_failed_and_how_long_it_took() -> None:
    events: list[TraceEvent] = []
    run_transaction(
        FastAppendTransaction(1, 7.0, 10.0, frozenset({0})), Flaky(0), storage=Refusing(Stream(0), 2), trace=events.append
    )
    [failed] = [event for event in events if event.event == "io_failed"]
    assert failed.duration_ms == 3.0
    assert (events[-1].event, events[-1].kind, events[-1].time_ms) == ("abort", "request_failed", failed.time_ms)


class Refused(InstantCatalog):
    """A catalog that answers each commit with failures: those that it copes with, and then one that it does not."""

    def __init__(self, coped_with: int, reason: str | None) -> None:
        super().__init__(1, (1,), 2.0)
        self.coped_with, self.reason = coped_with, reason
        self.answer: list[str] = []

    def commit(self, *arguments: Any, **keys: Any) -> Generator[Any, None, CommitResult]:
        for _ in range(self.coped_with):
            try:
                yield FailedAnswer(5.0, "503")
            except RequestFailedError as error:
                self.answer.append(error.reason)
        if self.reason is not None:
            yield 3.0
            raise RequestFailedError(self.reason, 4.0)
        return (yield from super().commit(*arguments, **keys))


def run_append(catalog: Refused) -> tuple[TransactionResult, list[TraceEvent]]:
    """An append that is submitted at 7 ms, as the reference engine drives it."""
    events: list[TraceEvent] = []
    txn = FastAppendTransaction(1, 7.0, 10.0, frozenset({0}))
    [(end_ms, result)] = drive(txn.execute(catalog, fixed_provider(), NEVER_REAL, trace=events.append))
    assert end_ms == result.total_latency_ms
    return result, events


def test_a_catalog_may_cope_with_failed_answers_and_their_time_is_part_of_the_commit() -> None:
    catalog = Refused(2, None)
    result, _ = run_append(catalog)
    assert result.status is TransactionStatus.COMMITTED
    assert catalog.answer == ["503", "503"]
    assert result.catalog_commit_ms == 2 * 5.0 + 2.0
    assert result.commit_time_ms == 7.0 + result.total_latency_ms


def test_a_catalog_that_aborts_ends_the_transaction_when_its_answer_is_there() -> None:
    result, events = run_append(Refused(1, "gone"))
    assert (result.status, result.abort_reason) == (TransactionStatus.ABORTED, "gone")
    assert result.catalog_commit_ms == 5.0 + 3.0 + 4.0
    assert result.abort_time_ms == 7.0 + result.total_latency_ms
    failed, abort = events[-2:]
    assert (failed.event, failed.kind, failed.duration_ms) == ("request_failed", "gone", 12.0)
    assert (abort.event, abort.kind, abort.time_ms) == ("abort", "gone", result.abort_time_ms)


def test_a_store_that_says_yes_is_not_disturbed() -> None:
    result = run_transaction(FastAppendTransaction(1, 0.0, 10.0, frozenset({0})), Flaky(0), storage=Refusing(Stream(0), 0))
    assert result.status is TransactionStatus.COMMITTED


def guide() -> dict[str, Any]:
    """The names that the guide's Python defines."""
    blocks = GUIDE.read_text(encoding="utf-8").split("```python\n")[1:]
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block.split("```")[0], names)
    return names


@pytest.mark.parametrize("path", ["iceberg", "pyiceberg"])
def test_the_catalog_of_the_guide_works_on_iceberg_s_paths(path: str) -> None:
    names = guide()
    simulate, catalog = names["simulate"], names["QueueCatalog"](2, 4, 50.0)
    rows = simulate(catalog=catalog, policy=CommitPolicy(commit_path=path), max_retries=20)
    written = rows[rows.tables_written.str.len() > 0]
    assert (written.status == "committed").mean() > 0.9
    assert (written[written.status == "committed"].manifest_list_writes >= 1).all()
