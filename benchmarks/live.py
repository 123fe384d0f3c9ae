"""Measure the time from a change on the live page to its first and to its refined result, and the CPU time of workers."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Row, median_of
from endive.serve.evaluation import Question, evaluate, prepare
from endive.serve.messages import Tree
from endive.serve.page_configuration import DEFAULT, put
from endive.serve.pool import CancelToken, Pool

_CHANGES = (8, 16, 24, 32, 40)
"""Numbers of writers that the slider is set to."""


def measure_live(shorter: float) -> list[Row]:
    """Measure the default system of the page after several changes; return medians."""
    tree = put(DEFAULT, "simulation.duration_ms", 3_600_000.0 / shorter)
    rows = asyncio.run(_measure([put(tree, "workload.ingest.writers", writers) for writers in _CHANGES]))
    keys = ("first_s", "first_cpu_s", "refined_s", "refined_cpu_s", "all_s", "all_cpu_s")
    return [{"case": "a slider of the live page", **{key: median_of(rows, key) for key in keys}}]


async def _measure(trees: list[Tree]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="endive-bench-") as folder:
        pool = Pool(Path(folder))
        pool.start()
        try:
            await _ask(pool, trees[0])  # until workers are running and kernels are loaded
            return [await _ask(pool, tree) for tree in trees[1:]]
        finally:
            await pool.close()


async def _ask(pool: Pool, tree: Tree) -> Row:
    """Send one request; return the time of the first result, of the last result, and of all content of the page."""
    token, began, cpu = CancelToken(), time.perf_counter(), sum(_cpu_seconds(pool))
    row: Row = {}
    async for event in evaluate(pool, token, Question(await prepare(pool, token, tree))):
        wall, used = time.perf_counter() - began, sum(_cpu_seconds(pool)) - cpu
        if event["kind"] == "answer":
            name = "refined" if event["final"] else "first"
            if name == "refined" or "first_s" not in row:
                row |= {f"{name}_s": wall, f"{name}_cpu_s": used}
        elif event["kind"] == "done":
            row |= {"all_s": wall, "all_cpu_s": used}
    return row


def _cpu_seconds(pool: Pool) -> Iterator[float]:
    """Return the CPU time that each worker has used, from Linux's /proc."""
    for process in pool.processes:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        yield (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
