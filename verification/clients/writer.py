"""Writer in a closed loop: thinks and commits until the end of the run."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from verification.clients.jobs import JOBS, TABLE


def run_writer(
    client: str, number: int, think_ms: float, seconds: float, environment: Mapping[str, str], start: Any, done: Any
) -> None:
    """Wait for all writers, then commit in a loop; put name, deadline, and start, end and error of each commit into a queue.

    The first commit goes to a separate table, so that all libraries are loaded.
    """
    os.environ.update(environment)
    commit, draws = JOBS[client], random.Random(number)
    for _ in range(2):
        with suppress(Exception):  # it can lose to the warm-up of another writer, where all tables share a commit point
            commit(f"warm_up_{number}")
    start.wait()
    deadline = time.monotonic() + seconds
    made = []
    while True:
        time.sleep(draws.expovariate(1e3 / think_ms) if think_ms else 0.0)
        begin = time.monotonic()
        if begin >= deadline:
            break
        error = ""
        try:
            commit(TABLE)
        except Exception as lost:
            error = f"{type(lost).__name__}: {str(lost)[:200]}"
        made.append((begin, time.monotonic(), error))
    done.put((f"writer-{number}", deadline, made))
