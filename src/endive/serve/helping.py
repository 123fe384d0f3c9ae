"""The work on "what would help most?": every lever is run with the same seeds, a few at first and then more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from endive.analysis.windows import common_window
from endive.serve.asking import LEVERS, MOST_S, Event, wait_for_engines
from endive.serve.levers import Pulled
from endive.serve.pool import Owner, Pool
from endive.serve.ranking import Goal, Tried, choose_goal, rank
from endive.serve.trees import Prepared

_FEW, _MANY = 4, 12
_BUDGET_S = 40.0
"""CPU seconds for all levers and seeds together."""


async def help_most(pool: Pool, owner: Owner, present: Prepared, wanted: Goal | None) -> AsyncIterator[Event]:
    """Yield rankings, each with more seeds than the last. Raises StoppedError once the owner is stopped."""
    pulled: list[Pulled] = await pool.submit(owner, LEVERS, "levers", present.tree)
    pulled, prepared = await _affordable(pool, owner, pulled)
    yield {"kind": "levers", "levers": [each.lever.words for each in pulled]}
    seeds = int(min(_MANY, max(_FEW, _BUDGET_S / max(present.cpu_s * (len(pulled) + 1), 1e-3))))
    await wait_for_engines(pool, owner, [present, *prepared])
    goal = wanted
    for number in sorted({_FEW, seeds}):
        async for event in _ranking(pool, owner, present, pulled, goal, list(range(number)), final=number == seeds):
            if event["kind"] == "ranking":
                goal = Goal(event["goal"]["metric"], event["goal"]["workload_class"])
            yield event


async def _affordable(pool: Pool, owner: Owner, pulled: Sequence[Pulled]) -> tuple[list[Pulled], list[Prepared]]:
    """Those levers whose runs do not take too long, and what they cost."""
    found = await asyncio.gather(*(pool.submit(owner, LEVERS, "prepare", each.tree, None) for each in pulled))
    kept = [(each, cost) for each, cost in zip(pulled, found, strict=True) if cost.cpu_s <= MOST_S]
    return [each for each, _ in kept], [cost for _, cost in kept]


async def _ranking(
    pool: Pool,
    owner: Owner,
    present: Prepared,
    pulled: Sequence[Pulled],
    goal: Goal | None,
    seeds: list[int],
    *,
    final: bool,
) -> AsyncIterator[Event]:
    documents = [present.document, *(each.document for each in pulled)]
    jobs = [pool.submit(owner, LEVERS, "simulate", document, seed) for document in documents for seed in seeds]
    for done, job in enumerate(asyncio.as_completed(jobs)):
        await job
        if done % len(seeds) == 0:
            yield {"kind": "progress", "done": done, "of": len(jobs)}
    window = common_window(await asyncio.gather(*(pool.submit(owner, LEVERS, "window_of", each, seeds) for each in documents)))
    if goal is None:
        answer, _ = await pool.submit(owner, LEVERS, "answer", present.document, seeds)
        goal = choose_goal(answer)
    what = (seeds, window, goal.metric, goal.workload_class)
    before, *found = await asyncio.gather(*(pool.submit(owner, LEVERS, "measured_values", each, *what) for each in documents))
    levers = [each.lever for each in pulled]
    tried = [Tried(lever.name, lever.words, lever.note, values) for lever, values in zip(levers, found, strict=True)]
    trees = {each.lever.name: each.tree for each in pulled}
    yield {"kind": "ranking", **rank(goal, before, tried, window.length_ms / 1000.0), "trees": trees, "final": final}
