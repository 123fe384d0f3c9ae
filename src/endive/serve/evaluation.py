"""Evaluate a configuration for the page, and rank changes to it. Both decide which runs to simulate, and in which order.

The result is a stream of events, JSON objects with a ``kind``; later events refine earlier ones. An evaluation simulates one seed,
then more seeds and the figures. A ranking applies each change to the configuration, and compares one metric with the current
configuration. Its configurations are measured in one window with the same seeds, and therefore with the same arrivals, job
durations and latencies. The intervals are simultaneous. Differences that are too small to be relevant are not significant.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from endive.analysis.conditions import format_metric, kind_of
from endive.analysis.contrasts import (
    Best,
    Difference,
    RunCounts,
    best_of,
    better,
    confidence_of_each,
    paired_difference,
    widen_difference,
)
from endive.analysis.metric import more_is_better
from endive.analysis.run_metrics import ALL
from endive.analysis.saturation import FEWEST_ENTRIES
from endive.analysis.warmup import common_window
from endive.config.errors import ConfigError, Problem
from endive.config.schema import Document
from endive.formatting import format_duration, join_names
from endive.report.verdicts import format_signed_change, name_metric
from endive.serve import messages
from endive.serve.changes import FACTORS
from endive.serve.messages import Answer, Call, Change, Chart, LoadPoint, MetricValues, Prepared, StoppedError, T, Tree, WorkError
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


PRESENT = "no change"
_NOTICEABLE_SHARE = 0.005
_NOTICEABLE_PART = 0.02
"""Smallest relevant differences: half a percentage point for proportions, 2% for other metrics."""
_GOOD = 0.99
_MOST_NAMED = 3
_FEW, _MANY = 4, 12
_RANKING_BUDGET_S = 40.0
"""Limit of the CPU time of a ranking, in seconds."""
GOALS = {
    "success_rate": "success",
    "time_to_commit_p50_ms": "p50 time to commit",
    "time_to_commit_p95_ms": "p95 time to commit",
    "throughput_per_s": "commits/s",
}


@dataclass(frozen=True)
class Goal:
    """Metric and class to improve."""

    metric: str
    workload_class: str = ALL

    @property
    def words(self) -> str:
        """Name of the goal."""
        return GOALS[self.metric] + ("" if self.workload_class == ALL else f" of {self.workload_class}")


@dataclass(frozen=True)
class Tried:
    """Change of the configuration, and the values of the metric after the change."""

    name: str
    words: str
    note: str
    found: MetricValues


async def rank_changes(pool: Pool, token: CancelToken, present: Prepared, goal: Goal | None) -> AsyncIterator[Event]:
    """Yield rankings, each over more seeds than the previous one. Raises StoppedError once the token is cancelled."""
    ranking = _Ranking(pool, token)
    found = await ranking.submit(messages.ListChanges(present.tree))
    changes, prepared = await ranking.affordable(found)
    yield {"kind": "changes", "changes": [change.words for change in changes]}
    seeds = int(min(_MANY, max(_FEW, _RANKING_BUDGET_S / max(present.cpu_s * (len(changes) + 1), 1e-3))))
    await wait_for_engines(pool, token, [present, *prepared])
    documents = [present.document, *(change.document for change in changes)]
    for number in sorted({_FEW, seeds}):
        some = tuple(range(number))
        async for event in ranking.simulate(documents, some):
            yield event
        if goal is None:
            goal = choose_goal(await ranking.submit(messages.Summarize(present.document, some)))
        ranked = await ranking.rank(goal, documents, changes, some)
        yield {"kind": "ranking", **ranked, "trees": {change.name: change.tree for change in changes}, "final": number == seeds}


class _Ranking:
    """Jobs of a ranking."""

    def __init__(self, pool: Pool, token: CancelToken) -> None:
        self._pool, self._token = pool, token

    def submit(self, call: Call[T]) -> asyncio.Future[T]:
        """Submit a call."""
        return self._pool.submit(self._token, CHANGES, call)

    async def affordable(self, changes: Sequence[Change]) -> tuple[list[Change], list[Prepared]]:
        """Return the changes whose runs fit into the time limit, and the cost of these runs."""
        found = await asyncio.gather(*(self.submit(messages.Prepare(change.tree)) for change in changes))
        kept = [(change, cost) for change, cost in zip(changes, found, strict=True) if cost.cpu_s <= MOST_S]
        return [change for change, _ in kept], [cost for _, cost in kept]

    async def simulate(self, documents: Sequence[Document], seeds: tuple[int, ...]) -> AsyncIterator[Event]:
        """Simulate all documents with all seeds, and yield the progress."""
        jobs = [self.submit(messages.Simulate(document, seed)) for document in documents for seed in seeds]
        for done, job in enumerate(asyncio.as_completed(jobs)):
            await job
            if done % len(seeds) == 0:
                yield {"kind": "progress", "done": done, "of": len(jobs)}

    async def rank(
        self, goal: Goal, documents: Sequence[Document], changes: Sequence[Change], seeds: tuple[int, ...]
    ) -> dict[str, Any]:
        """Measure the goal for all documents in one window, and rank the changes."""
        windows = await asyncio.gather(*(self.submit(messages.FindWindow(document, seeds)) for document in documents))
        window = common_window(windows)
        what = (seeds, window, goal.metric, goal.workload_class)
        before, *found = await asyncio.gather(*(self.submit(messages.MeasureMetric(each, *what)) for each in documents))
        tried = [Tried(each.name, each.words, each.note, values) for each, values in zip(changes, found, strict=True)]
        return rank(goal, before, tried, window.length_ms / 1000.0)


def choose_goal(answer: Answer) -> Goal:
    """Choose a goal: the success of the worst class or, if all classes commit, the p95 of the time to commit.

    Classes with too few transactions are skipped, and classes that reach 99% if all transactions in flight commit. Classes
    significantly below 99% come first.
    """
    judged = [row for row in answer.classes if row.entered >= FEWEST_ENTRIES] or list(answer.classes)
    found = [(row.name, row.metrics["success_rate"], row.in_flight / max(1, row.entered)) for row in judged]
    poor = [
        (each, name)
        for name, each, in_flight in found
        if each is not None and each.mean is not None and each.mean + in_flight / 2.0 < _GOOD
    ]
    clearly = [(each, name) for each, name in poor if each.high is not None and each.high < _GOOD]
    if poor:
        return Goal("success_rate", min((each.mean, name) for each, name in clearly or poor)[1])
    whole = next(row for row in answer.classes if row.name == ALL or len(answer.classes) == 1)
    for metric in ("time_to_commit_p95_ms", "time_to_commit_p50_ms"):
        estimate = whole.metrics[metric]
        if estimate is not None and estimate.kind == "number":
            return Goal(metric)
    return Goal("success_rate")


def rank(goal: Goal, present: MetricValues, tried: Sequence[Tried], seconds: float) -> dict[str, Any]:
    """Rank changes by their difference from the current configuration, best first. ``seconds`` is the length of the window."""
    seeds = sorted(present.values)
    ranked = [each for each in tried if sorted(each.found.values) == seeds] if seeds else []
    others = [each for each in tried if each not in ranked]
    baseline = [present.values[seed] for seed in seeds]
    values = {each.name: [each.found.values[seed] for seed in seeds] for each in ranked}
    least = _least_width(goal, baseline)
    counts = {
        name: RunCounts(each.entered, each.in_flight, seconds * len(seeds))
        for name, each in ((PRESENT, present), *((each.name, each.found) for each in ranked))
    }

    everything = {PRESENT: baseline, **values}

    def compare(a: str, b: str, confidence: float) -> Difference:
        found = paired_difference(everything[a], everything[b], confidence)
        return widen_difference(found, goal.metric, counts[a], counts[b], confidence, least_width=least)

    differences = {name: compare(PRESENT, name, confidence_of_each(len(values))) for name in values}
    best = best_of(everything, goal.metric, compare) if values else None
    sign = 1.0 if more_is_better(goal.metric) else -1.0
    ordered = sorted(ranked, key=lambda each: -sign * differences[each.name].difference)
    winner = best.name if best is not None and best.clear and best.name != PRESENT else None
    return {
        "goal": {"metric": goal.metric, "workload_class": goal.workload_class, "words": goal.words},
        "present": None if present.estimate is None else asdict(present.estimate),
        "seeds": seeds,
        "clear": winner is not None,
        "best": winner,
        "sentence": _headline(goal, best, differences, {each.name: each for each in tried}, present),
        "rows": [_row(goal, each, differences[each.name]) for each in ordered] + [_row(goal, each, None) for each in others],
    }


def _least_width(goal: Goal, baseline: Sequence[float]) -> float:
    """Return the half width below which a difference is too small to be relevant."""
    if kind_of(goal.metric) == "share":
        return _NOTICEABLE_SHARE
    return _NOTICEABLE_PART * abs(sum(baseline) / max(1, len(baseline)))


def _row(goal: Goal, each: Tried, found: Difference | None) -> dict[str, Any]:
    return {
        "name": each.name,
        "words": each.words,
        "note": each.note,
        "value": None if each.found.estimate is None else asdict(each.found.estimate),
        "change": _difference(goal, found),
        "difference": None if found is None else {key: value for key, value in asdict(found).items() if key not in ("a", "b")},
        "significant": found is not None and found.is_significant,
        "better": None if found is None else better(goal.metric, found),
    }


def _difference(goal: Goal, found: Difference | None) -> str:
    if found is not None and kind_of(goal.metric) == "share" and (found.half_width or 0.0) > 1.0:
        return "too few transactions"
    return format_signed_change(goal.metric, found)


def _headline(
    goal: Goal, best: Best | None, differences: Mapping[str, Difference], tried: Mapping[str, Tried], present: MetricValues
) -> str:
    if best is None:
        return f"No clear winner: {name_metric(goal.metric)} has no value in some seeds, so the changes cannot be ranked."
    helps = [name for name, found in differences.items() if better(goal.metric, found)]
    if not helps:
        return f"No clear winner: no change improves {goal.words} significantly (95%)."
    names = {PRESENT: PRESENT, **{name: each.words for name, each in tried.items()}}
    leader = names[best.name]
    if best.clear and best.name != PRESENT:
        before, after = (_mean(goal, each) for each in (present, tried[best.name].found))
        return f"Largest improvement of {goal.words}: {leader}, from {before} to {after}."
    rivals = [names[name] for name in best.rivals if name in helps] or [names[name] for name in best.rivals if name != PRESENT]
    more = len(rivals) - _MOST_NAMED
    if not rivals:
        return f'No clear winner: "{leader}" ranks first, but the improvement is not significant (95%).'
    verb = "does" if len(rivals) == 1 else "do"
    others = join_names([f'"{name}"' for name in rivals[:_MOST_NAMED]] + ([f"{more} more"] if more > 0 else []))
    return f'No clear winner: "{leader}" ranks first, but {others} {verb} not differ from it significantly.'


def _mean(goal: Goal, found: MetricValues) -> str:
    assert found.estimate is not None
    assert found.estimate.mean is not None
    return format_metric(goal.metric, found.estimate.mean)
