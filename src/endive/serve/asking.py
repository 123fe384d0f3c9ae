"""What is run for a question, and in which order: one seed first, then more, then what else the page shows.

A question is a checked configuration, and perhaps another (A) to compare it with. Its answer is a stream of events, each a JSON
object with its ``kind``; later ones refine earlier ones.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from endive.config.errors import ConfigError, Problem
from endive.config.schema import Document
from endive.serve.load import FACTORS, LoadPoint
from endive.serve.pool import Owner, Pool, StoppedError, WorkError
from endive.serve.trees import Prepared

Event = dict[str, Any]

MOST_S = 30.0
"""CPU seconds of one run, above which a configuration is refused."""
MOST_TRANSACTIONS = 2_000_000
_PREVIEW_S = 0.4
"""A first run that would take longer than this is shortened."""
_BUDGET_S = 3.0
"""CPU seconds of each worker for the seeds of an answer; there are three of them at least."""
_FEWEST_SEEDS, _MOST_SEEDS = 3, 12
_FARTHER = (8.0, 16.0)
_POINT_S = 1.0
"""A point of the curve of loads takes this long at most."""
_CURVE_SEEDS = 3
_LOOK_S = 0.2
"""How often it is looked whether a kernel is compiled."""

FIRST, SEEDS, TIME, CURVE, TIMELINE, MORE, LEVERS = range(7)
"""Priorities: what is waited for most comes first, whichever tab asked for it."""


@dataclass(frozen=True)
class Question:
    """A configuration to answer for, and one to compare it with."""

    b: Prepared
    a: Prepared | None = None

    @property
    def seeds(self) -> int:
        """With how many seeds it is answered in the end: as many as fit into the time that is waited for."""
        cost = max(each.cpu_s for each in (self.b, self.a) if each is not None)
        return int(min(max(_FEWEST_SEEDS, _BUDGET_S / max(cost, 1e-3)), _MOST_SEEDS))


async def prepare(pool: Pool, owner: Owner, tree: dict[str, Any], changed: str | None = None) -> Prepared:
    """Check a configuration. Raises ConfigError, also if one run of it would take too long."""
    found: Prepared = await pool.submit(owner, FIRST, "prepare", tree, changed)
    if found.cpu_s > MOST_S or found.transactions > MOST_TRANSACTIONS:
        raise ConfigError("configuration", [Problem("simulation.duration_ms", too_long(found))])
    return found


async def wait_for_engines(pool: Pool, owner: Owner, configurations: Sequence[Prepared]) -> None:
    """Wait until the kernels are compiled of those configurations that take long without; workers stay free meanwhile."""
    for each in configurations:
        while each.patient and not await pool.submit(owner, SEEDS, "is_ready", each.document):
            await asyncio.sleep(_LOOK_S)


def too_long(found: Prepared) -> str:
    """Say that a configuration takes too long for the page, and what to do."""
    return (
        f"one run of this would take about {_spoken(found.cpu_s)} ({found.transactions:,.0f} transactions), and this page "
        f"answers what takes {MOST_S:.0f} s at most: make the run shorter or the load lower; `endive run` has no such limit"
    )


def _spoken(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} minutes" if seconds < 7_200.0 else f"{seconds / 3_600.0:,.0f} hours"


async def answer(pool: Pool, owner: Owner, question: Question) -> AsyncIterator[Event]:
    """Yield the events of an answer. Raises StoppedError once the owner is stopped."""
    events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
    asker = _Asker(pool, owner, question, events)
    main = asyncio.create_task(asker.run())
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


class _Asker:
    """The work on one question; puts events into a queue, and None at the end."""

    def __init__(self, pool: Pool, owner: Owner, question: Question, events: asyncio.Queue[Event | BaseException | None]) -> None:
        self._pool, self._owner, self._question, self._events = pool, owner, question, events
        self._b = question.b
        self._document = question.b.document

    def _submit(self, priority: int, name: str, *arguments: Any) -> Any:
        return self._pool.submit(self._owner, priority, name, *arguments)

    def _tell(self, kind: str, **content: Any) -> None:
        self._events.put_nowait({"kind": kind, **content})

    async def run(self) -> None:
        """Do all of it."""
        try:
            await self._first()
            await wait_for_engines(self._pool, self._owner, [each for each in (self._b, self._question.a) if each is not None])
            parts: list[Coroutine[Any, Any, None]] = [self._seeds(), self._curve()]
            if self._question.a is not None:
                parts.append(self._compare(self._question.a.document))
            await asyncio.gather(*parts)
            self._tell("done")
            self._events.put_nowait(None)
        except (StoppedError, WorkError, ConfigError) as error:
            self._events.put_nowait(error)
        except Exception as error:  # the page is told; the server goes on
            self._events.put_nowait(WorkError(f"This could not be answered: {type(error).__name__}: {error}"))

    async def _first(self) -> None:
        """The first answer: one seed, of a shorter run where the whole would take too long."""
        document = self._document
        if self._b.first_s > _PREVIEW_S:
            document = _shortened(document, max(_PREVIEW_S / self._b.first_s, 1e-3))
        found, _ = await self._submit(FIRST, "answer", document, [0])
        self._tell("answer", **found, preview=document is not self._document, final=False)

    async def _seeds(self) -> None:
        """The answer with three seeds, then with as many as there is time for; and what is drawn of them."""
        few = list(range(_FEWEST_SEEDS))
        await self._answer(few, final=self._question.seeds == _FEWEST_SEEDS)
        drawing = [
            self._figure("time", TIME, "time_figure", self._document, few),
            self._figure("timeline", TIMELINE, "timeline_figure", self._document, 0, self._b.reference_s),
        ]
        if self._question.seeds > _FEWEST_SEEDS:
            drawing.append(self._answer(list(range(self._question.seeds)), final=True))
        await asyncio.gather(*drawing)

    async def _answer(self, seeds: Sequence[int], *, final: bool) -> None:
        priority = MORE if len(seeds) > _FEWEST_SEEDS else SEEDS
        await self._simulate(self._document, seeds, priority)
        found, _ = await self._submit(priority, "answer", self._document, seeds)
        self._tell("answer", **found, preview=False, final=final)

    async def _simulate(self, document: Document, seeds: Sequence[int], priority: int) -> None:
        await asyncio.gather(*(self._submit(priority, "simulate", document, seed) for seed in seeds))

    async def _figure(self, name: str, priority: int, call: str, *arguments: Any) -> None:
        found = await self._submit(priority, call, *arguments)
        self._tell("figure", name=name, figure=found)

    async def _curve(self) -> None:
        """Throughput against load: a few multiples with one seed, farther ones if it carries these, then with more seeds."""
        points: dict[float, LoadPoint] = {}
        await self._points(points, [f for f in FACTORS if self._affordable(f)], [0], CURVE)
        await self._draw_curve(points)
        last = max(points.values(), key=lambda point: point.factor, default=None)
        if last is not None and last.point.reason is None:
            await self._points(points, [f for f in _FARTHER if self._affordable(f)], [0], CURVE)
        factors = [f for f in (*points, *_between(points)) if self._affordable(f * _CURVE_SEEDS)]
        await self._points(points, factors, list(range(_CURVE_SEEDS)), MORE)
        await self._draw_curve(points)

    def _affordable(self, factor: float) -> bool:
        return self._b.first_s * factor <= _POINT_S or factor == 1.0

    async def _points(self, points: dict[float, LoadPoint], factors: Sequence[float], seeds: Sequence[int], priority: int) -> None:
        found = await asyncio.gather(*(self._submit(priority, "load_point", self._b.tree, each, seeds) for each in factors))
        points.update({point.factor: point for point in found if point is not None})

    async def _draw_curve(self, points: dict[float, LoadPoint]) -> None:
        await self._figure("curve", CURVE, "curve_figure", self._b.tree, list(points.values()))

    async def _compare(self, a: Document) -> None:
        """A against B, with three seeds and then with all."""
        for number in sorted({_FEWEST_SEEDS, self._question.seeds}):
            seeds = list(range(number))
            priority = SEEDS if number == _FEWEST_SEEDS else MORE
            await self._simulate(a, seeds, priority)
            await self._simulate(self._document, seeds, priority)
            found = await self._submit(priority, "compare", a, self._document, seeds)
            self._tell("comparison", **found, final=number == self._question.seeds)


def _shortened(document: Document, part: float) -> Document:
    shorter = {"duration_ms": document.simulation.duration_ms * part}
    return document.model_copy(update={"simulation": document.simulation.model_copy(update=shorter)})


def _between(points: dict[float, LoadPoint]) -> list[float]:
    """A multiple of the load between the last that is carried and the first that is not."""
    ordered = sorted(points.values(), key=lambda point: point.factor)
    for before, after in itertools.pairwise(ordered):
        if before.point.reason is None and after.point.reason is not None:
            return [(before.factor * after.factor) ** 0.5]
    return []
