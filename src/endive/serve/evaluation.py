"""Evaluate a configuration for the page: first one seed, then more seeds and the figures.

The result is a stream of events, JSON objects with a ``kind``; later events refine earlier ones.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from endive.config.errors import ConfigError, Problem
from endive.config.schema import Document
from endive.formatting import format_duration
from endive.serve import messages
from endive.serve.changes import FACTORS
from endive.serve.messages import Call, Chart, LoadPoint, Prepared, StoppedError, T, Tree, WorkError
from endive.serve.pool import CancelToken, Pool

log = logging.getLogger(__name__)
Event = dict[str, Any]

MOST_S = 30.0
"""Limit of the CPU time of one run, in seconds."""
MOST_TRANSACTIONS = 2_000_000
_PREVIEW_S = 0.4
"""Maximum time of the first run; a longer run is shortened."""
_BUDGET_S = 3.0
"""CPU time per worker for all seeds of an evaluation."""
_FEWEST_SEEDS, _MOST_SEEDS = 3, 12
_FARTHER = (8.0, 16.0)
_POINT_S = 1.0
"""Limit of the CPU time of a point of the load curve, in seconds."""
_CURVE_SEEDS = 3
_POLL_S = 0.2
"""Interval between checks for a compiled kernel."""

FIRST, SEEDS, TIME, CURVE, TIMELINE, MORE, CHANGES = range(7)
"""Priorities of jobs, across all tabs."""


@dataclass(frozen=True)
class Question:
    """Configuration to evaluate (B), and optionally a configuration to compare it with (A)."""

    b: Prepared
    a: Prepared | None = None

    @property
    def seeds(self) -> int:
        """Number of seeds of the final result, which is limited by the budget."""
        cost = max(each.cpu_s for each in (self.b, self.a) if each is not None)
        return int(min(max(_FEWEST_SEEDS, _BUDGET_S / max(cost, 1e-3)), _MOST_SEEDS))


async def prepare(pool: Pool, token: CancelToken, tree: Tree, changed: str | None = None) -> Prepared:
    """Check a configuration. Raises ConfigError if the configuration is not valid, or if one run would take too long."""
    prepared = await pool.submit(token, FIRST, messages.Prepare(tree, changed))
    if prepared.cpu_s > MOST_S or prepared.transactions > MOST_TRANSACTIONS:
        raise ConfigError("configuration", [Problem("simulation.duration_ms", _too_long(prepared))])
    return prepared


async def wait_for_engines(pool: Pool, token: CancelToken, configurations: Sequence[Prepared]) -> None:
    """Wait until the kernels of long-running configurations are compiled, without blocking workers."""
    for each in configurations:
        while each.needs_kernel and not await pool.submit(token, SEEDS, messages.CheckEngine(each.document)):
            await asyncio.sleep(_POLL_S)


def _too_long(prepared: Prepared) -> str:
    return (
        f"a run would take about {format_duration(round(prepared.cpu_s) * 1000.0)} of CPU time for "
        f"{prepared.transactions:,.0f} transactions. The limits of this page are {MOST_S:.0f} s and {MOST_TRANSACTIONS:,} "
        "transactions. Shorten the run, reduce the load, or use `endive run`, which has no limits"
    )


async def evaluate(pool: Pool, token: CancelToken, question: Question) -> AsyncIterator[Event]:
    """Yield the events of an evaluation. Raises StoppedError once the token is cancelled."""
    events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
    main = asyncio.create_task(_Evaluation(pool, token, question, events).run())
    try:
        while True:
            event = await events.get()
            if event is None:
                return
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        main.cancel()
        await asyncio.gather(main, return_exceptions=True)


class _Evaluation:
    """Evaluation of one request. Events are put into a queue, followed by None."""

    def __init__(
        self, pool: Pool, token: CancelToken, question: Question, events: asyncio.Queue[Event | BaseException | None]
    ) -> None:
        self._pool, self._token, self._question, self._events = pool, token, question, events
        self._b = question.b
        self._document = question.b.document

    def _submit(self, priority: int, call: Call[T]) -> asyncio.Future[T]:
        return self._pool.submit(self._token, priority, call)

    def _emit(self, kind: str, **content: Any) -> None:
        self._events.put_nowait({"kind": kind, **content})

    async def run(self) -> None:
        """Evaluate the request."""
        try:
            await self._first()
            await wait_for_engines(self._pool, self._token, [each for each in (self._b, self._question.a) if each is not None])
            steps: list[Coroutine[Any, Any, None]] = [self._seeds(), self._curve()]
            if self._question.a is not None:
                steps.append(self._compare(self._question.a.document))
            await asyncio.gather(*steps)
            self._emit("done")
            self._events.put_nowait(None)
        except (StoppedError, WorkError, ConfigError) as error:
            self._events.put_nowait(error)
        except Exception as error:
            log.exception("an evaluation failed")
            self._events.put_nowait(WorkError(f"The evaluation failed: {type(error).__name__}: {error}"))

    async def _first(self) -> None:
        """Evaluate one seed; the run is shortened if it would take too long."""
        document = self._document
        if self._b.first_s > _PREVIEW_S:
            document = _shorten(document, max(_PREVIEW_S / self._b.first_s, 1e-3))
        answer = await self._submit(FIRST, messages.Summarize(document, (0,)))
        self._emit("answer", **asdict(answer), preview=document is not self._document, final=False)

    async def _seeds(self) -> None:
        """Evaluate three seeds, then as many as the budget allows, and draw the figures."""
        few = tuple(range(_FEWEST_SEEDS))
        await self._answer(few, final=self._question.seeds == _FEWEST_SEEDS)
        drawing = [
            self._figure("time", TIME, messages.DrawBreakdown(self._document, few)),
            self._figure("timeline", TIMELINE, messages.DrawTimeline(self._document, 0, self._b.reference_s)),
        ]
        if self._question.seeds > _FEWEST_SEEDS:
            drawing.append(self._answer(tuple(range(self._question.seeds)), final=True))
        await asyncio.gather(*drawing)

    async def _answer(self, seeds: tuple[int, ...], *, final: bool) -> None:
        priority = MORE if len(seeds) > _FEWEST_SEEDS else SEEDS
        await self._simulate(self._document, seeds, priority)
        answer = await self._submit(priority, messages.Summarize(self._document, seeds))
        self._emit("answer", **asdict(answer), preview=False, final=final)

    async def _simulate(self, document: Document, seeds: Sequence[int], priority: int) -> None:
        await asyncio.gather(*(self._submit(priority, messages.Simulate(document, seed)) for seed in seeds))

    async def _figure(self, name: str, priority: int, call: Call[Chart | None]) -> None:
        self._emit("figure", name=name, figure=await self._submit(priority, call))

    async def _curve(self) -> None:
        """Draw throughput versus load: first one seed per multiple, then higher multiples if none saturates, then more seeds."""
        points: dict[float, LoadPoint] = {}
        await self._points(points, [factor for factor in FACTORS if self._is_affordable(factor)], (0,), CURVE)
        await self._draw_curve(points)
        last = max(points.values(), key=lambda point: point.factor, default=None)
        if last is not None and last.point.reason is None:
            await self._points(points, [factor for factor in _FARTHER if self._is_affordable(factor)], (0,), CURVE)
        factors = [factor for factor in (*points, *_between(points)) if self._is_affordable(factor * _CURVE_SEEDS)]
        await self._points(points, factors, tuple(range(_CURVE_SEEDS)), MORE)
        await self._draw_curve(points)

    def _is_affordable(self, factor: float) -> bool:
        return self._b.first_s * factor <= _POINT_S or factor == 1.0

    async def _points(
        self, points: dict[float, LoadPoint], factors: Sequence[float], seeds: tuple[int, ...], priority: int
    ) -> None:
        calls = [messages.MeasureLoad(self._b.tree, factor, seeds) for factor in factors]
        found = await asyncio.gather(*(self._submit(priority, call) for call in calls))
        points.update({point.factor: point for point in found if point is not None})

    async def _draw_curve(self, points: dict[float, LoadPoint]) -> None:
        await self._figure("curve", CURVE, messages.DrawLoadCurve(self._b.tree, tuple(points.values())))

    async def _compare(self, a: Document) -> None:
        """Compare A with B, first with three seeds, then with all seeds."""
        for number in sorted({_FEWEST_SEEDS, self._question.seeds}):
            seeds = tuple(range(number))
            priority = SEEDS if number == _FEWEST_SEEDS else MORE
            await self._simulate(a, seeds, priority)
            await self._simulate(self._document, seeds, priority)
            compared = await self._submit(priority, messages.Compare(a, self._document, seeds))
            self._emit("comparison", **asdict(compared), final=number == self._question.seeds)


def _shorten(document: Document, share: float) -> Document:
    shorter = {"duration_ms": document.simulation.duration_ms * share}
    return document.model_copy(update={"simulation": document.simulation.model_copy(update=shorter)})


def _between(points: dict[float, LoadPoint]) -> list[float]:
    """Return a multiple of the load between the highest sustained and the lowest saturated multiple."""
    ordered = sorted(points.values(), key=lambda point: point.factor)
    for before, after in itertools.pairwise(ordered):
        if before.point.reason is None and after.point.reason is not None:
            return [(before.factor * after.factor) ** 0.5]
    return []
