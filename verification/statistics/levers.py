"""Verify "what would help most?" of the live page.

Twenty systems have one fault each, and one known change that removes it, which must be reported as the best change. Other systems
have no best change: they have no fault, or two changes remove it equally well; no best change may be reported.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from endive.serve.evaluation import prepare, rank_changes
from endive.serve.messages import Tree
from endive.serve.pool import CancelToken, Pool

_EACH = 4
_QUICK_EACH = 1


@dataclass(frozen=True)
class LeverRow:
    """System, the change that removes its fault (None without a best change), and the reported change."""

    case: str
    planted: str
    found: str
    sentence: str

    @property
    def within(self) -> bool:
        """True if the known change was reported, or correctly none."""
        return self.planted == self.found

    def document(self) -> dict[str, Any]:
        """Return the row as it is written to a file."""
        return {"mode": "levers", **asdict(self), "within": self.within}


def system(**sections: Any) -> Tree:
    """Return a system with a run of twenty minutes on S3 Express."""
    return {"simulation": {"duration_ms": "20min"}, "storage": {"provider": "s3x"}, **sections}


def appends(rate: float, work_ms: float) -> Tree:
    """Return a class of fast appends with a rate per second."""
    return {"ingest": {"rate": rate, "operation": "fast_append", "runtime": {"mean": work_ms, "sigma": 0.5}}}


def too_few_retries(draw: random.Random) -> Tree:
    """Return a system without retries."""
    return system(transaction={"retry": 0}, workload=appends(draw.uniform(1.5, 4.0), draw.uniform(50.0, 200.0)))


def too_slow_a_store(draw: random.Random) -> Tree:
    """Return a system with more appends than commits on S3 can sustain, each by a separate client."""
    jobs = {"rate": draw.uniform(5.5, 7.5), "operation": "merge_append", "runtime": {"median": "2s", "sigma": 0.4}}
    policy = {"commit_path": "iceberg", "retry_policy": "iceberg"}
    return system(storage={"provider": "s3"}, transaction=policy, workload={"ingest": jobs})


def one_pointer_for_all(draw: random.Random) -> Tree:
    """Return a system with many rarely written tables that share a commit pointer."""
    catalog = {"num_tables": draw.choice([20, 30, 40]), "num_groups": 1}
    return system(catalog=catalog, transaction={"retry": 5}, workload=appends(draw.uniform(14.0, 20.0), 1000.0))


def one_partition_for_all(draw: random.Random) -> Tree:
    """Return a system with jobs that rewrite the same rows concurrently."""
    runtime = {"mean": draw.uniform(3000.0, 6000.0), "sigma": 0.4}
    jobs = {"rate": draw.uniform(0.15, 0.35), "operation": "validated_overwrite", "runtime": runtime}
    return system(transaction={"retry": 10, "real_conflict_probability": draw.uniform(0.6, 1.0)}, workload={"jobs": jobs})


def too_long_waits(draw: random.Random) -> Tree:
    """Return a system with backoffs of ten seconds and more."""
    waits = {"enabled": True, "base_ms": draw.uniform(8000.0, 20000.0), "multiplier": 1.0, "max_ms": 30000.0, "jitter": 0.1}
    return system(transaction={"retry": 20, "retry_backoff": waits}, workload=appends(draw.uniform(1.5, 3.0), 500.0))


def nothing_is_wrong(draw: random.Random) -> Tree:
    """Return a system with one commit per minute, without contention."""
    return system(catalog={"type": "instant"}, transaction={"retry": 10}, workload=appends(draw.uniform(0.01, 0.02), 500.0))


def two_ways_to_mend(draw: random.Random) -> Tree:
    """Return a system in which the writers or the service can retry lost commits."""
    catalog = {"type": "service"}
    return system(catalog=catalog, transaction={"retry": 0}, workload=appends(draw.uniform(2.0, 4.0), 100.0))


PLANTED: dict[str, Callable[[random.Random], Tree]] = {
    "retries": too_few_retries,
    "store": too_slow_a_store,
    "pointers": one_pointer_for_all,
    "partitions": one_partition_for_all,
    "no_waits": too_long_waits,
}
"""Systems by the change that removes their fault."""
WITHOUT: tuple[Callable[[random.Random], Tree], ...] = (nothing_is_wrong, two_ways_to_mend)


def cases(each: int = _EACH) -> Iterator[tuple[str, str, Tree]]:
    """Return the name of each system, the change that removes its fault, and the system."""
    for lever, make in PLANTED.items():
        for number in range(each):
            yield f"{make.__name__} {number}", lever, make(random.Random(f"{lever} {number}"))
    for make in WITHOUT:
        for number in range(each):
            yield f"{make.__name__} {number}", "", make(random.Random(f"{make.__name__} {number}"))


async def find_best(pool: Pool, tree: Tree) -> tuple[str, str]:
    """Return the best change as reported by the page (empty if none), and the sentence."""
    token = CancelToken()
    present = await prepare(pool, token, tree)
    found = [event async for event in rank_changes(pool, token, present, None) if event["kind"] == "ranking"]
    return found[-1]["best"] or "", found[-1]["sentence"]


def compare(quick: bool) -> Iterator[LeverRow]:
    """Rank the changes of each system."""

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
