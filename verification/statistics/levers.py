"""Does "what would help most?" of the live page find what helps most?

Twenty systems are made up, each with one fault: a lever that mends it is planted, and must come out as the clear winner. In others
no lever is best: nothing is wrong with them, or two levers mend the fault equally well; there no winner may be named.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from endive.serve.evaluation import prepare
from endive.serve.messages import Tree
from endive.serve.pool import CancelToken, Pool
from endive.serve.ranking import rank_changes

_EACH = 4
_QUICK_EACH = 1


@dataclass(frozen=True)
class LeverRow:
    """A made-up system, the lever that mends it (none, if there is no best one), and what was found."""

    case: str
    planted: str
    found: str
    sentence: str

    @property
    def within(self) -> bool:
        """Whether the planted lever was found, or rightly none."""
        return self.planted == self.found

    def document(self) -> dict[str, Any]:
        """The row as it is written to a file."""
        return {"mode": "levers", **asdict(self), "within": self.within}


def system(**sections: Any) -> Tree:
    """A system of twenty minutes on S3 Express."""
    return {"simulation": {"duration_ms": "20min"}, "storage": {"provider": "s3x"}, **sections}


def appends(rate: float, work_ms: float) -> Tree:
    """A class of fast appends, so many per second."""
    return {"ingest": {"rate": rate, "operation": "fast_append", "runtime": {"mean": work_ms, "sigma": 0.5}}}


def too_few_retries(draw: random.Random) -> Tree:
    """Nothing is tried again."""
    return system(transaction={"retry": 0}, workload=appends(draw.uniform(1.5, 4.0), draw.uniform(50.0, 200.0)))


def too_slow_a_store(draw: random.Random) -> Tree:
    """More appends than commits on S3 can carry, each by a client of its own."""
    jobs = {"rate": draw.uniform(5.5, 7.5), "operation": "merge_append", "runtime": {"median": "2s", "sigma": 0.4}}
    policy = {"commit_path": "iceberg", "retry_policy": "iceberg"}
    return system(storage={"provider": "s3"}, transaction=policy, workload={"ingest": jobs})


def one_pointer_for_all(draw: random.Random) -> Tree:
    """Many tables, each of which is hardly ever written to, share a pointer."""
    catalog = {"num_tables": draw.choice([20, 30, 40]), "num_groups": 1}
    return system(catalog=catalog, transaction={"retry": 5}, workload=appends(draw.uniform(14.0, 20.0), 1000.0))


def one_partition_for_all(draw: random.Random) -> Tree:
    """Jobs that rewrite the same rows while others do."""
    runtime = {"mean": draw.uniform(3000.0, 6000.0), "sigma": 0.4}
    jobs = {"rate": draw.uniform(0.15, 0.35), "operation": "validated_overwrite", "runtime": runtime}
    return system(transaction={"retry": 10, "real_conflict_probability": draw.uniform(0.6, 1.0)}, workload={"jobs": jobs})


def too_long_waits(draw: random.Random) -> Tree:
    """A lost commit waits for ten seconds and more."""
    waits = {"enabled": True, "base_ms": draw.uniform(8000.0, 20000.0), "multiplier": 1.0, "max_ms": 30000.0, "jitter": 0.1}
    return system(transaction={"retry": 20, "retry_backoff": waits}, workload=appends(draw.uniform(1.5, 3.0), 500.0))


def nothing_is_wrong(draw: random.Random) -> Tree:
    """A commit every minute, with nobody to meet."""
    return system(catalog={"type": "instant"}, transaction={"retry": 10}, workload=appends(draw.uniform(0.01, 0.02), 500.0))


def two_ways_to_mend(draw: random.Random) -> Tree:
    """Lost commits may be tried again by the writers or by the service."""
    catalog = {"type": "service"}
    return system(catalog=catalog, transaction={"retry": 0}, workload=appends(draw.uniform(2.0, 4.0), 100.0))


PLANTED: dict[str, Callable[[random.Random], Tree]] = {
    "retries": too_few_retries,
    "store": too_slow_a_store,
    "pointers": one_pointer_for_all,
    "partitions": one_partition_for_all,
    "no_waits": too_long_waits,
}
"""Systems by the lever that mends them."""
WITHOUT: tuple[Callable[[random.Random], Tree], ...] = (nothing_is_wrong, two_ways_to_mend)


def cases(each: int = _EACH) -> Iterator[tuple[str, str, Tree]]:
    """The name of each system, the lever that mends it, and the system."""
    for lever, make in PLANTED.items():
        for number in range(each):
            yield f"{make.__name__} {number}", lever, make(random.Random(f"{lever} {number}"))
    for make in WITHOUT:
        for number in range(each):
            yield f"{make.__name__} {number}", "", make(random.Random(f"{make.__name__} {number}"))


async def find_best(pool: Pool, tree: Tree) -> tuple[str, str]:
    """What the page would say of a system: the lever that is best ("" if none is) and the sentence."""
    token = CancelToken()
    present = await prepare(pool, token, tree)
    found = [event async for event in rank_changes(pool, token, present, None) if event["kind"] == "ranking"]
    return found[-1]["best"] or "", found[-1]["sentence"]


def compare(quick: bool) -> Iterator[LeverRow]:
    """Ask for each system what would help most."""

    async def all_of_them() -> list[LeverRow]:
        with tempfile.TemporaryDirectory() as folder:
            pool = Pool(Path(folder))
            pool.start()
            try:
                return [
                    LeverRow(case, planted, *await find_best(pool, tree))
                    for case, planted, tree in cases(_QUICK_EACH if quick else _EACH)
                ]
            finally:
                await pool.close()

    yield from asyncio.run(all_of_them())
