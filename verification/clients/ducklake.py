"""Run closed loops of DuckLake on PostgreSQL, with a proxy that delays every message, and simulate the built-in protocol."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from endive.config.load import check_document
from verification.clients.contention import (
    WRITERS,
    WRITERS_CLASS,
    Loop,
    compare_cells,
    describe_clients,
    describe_service,
    measure_loop,
    simulate_document,
    start_writers,
)
from verification.clients.jobs import LAKE_DATA, LAKE_DATABASE
from verification.clients.processes import warm_context
from verification.clients.statements import Statement, delaying_proxy
from verification.iceberg.postgres import postgres_server

CLIENT = "ducklake"
_INSERT = 'INSERT INTO "public".ducklake_snapshot '
_MESSAGES = 13
"""Number of messages of an append without a conflict."""


def run_loop(loop: Loop) -> dict[str, float]:
    """Run real writers, each with a separate connection; return ``METRICS`` and time per message."""
    names = [f"writer-{number}" for number in range(loop.writers)]
    with (
        TemporaryDirectory(prefix="endive-lake-") as folder,
        postgres_server() as url,
        delaying_proxy(urlsplit(url).port or 0, loop.latency_ms, ["first", *names]) as proxy,
    ):
        at = urlsplit(url)
        environments = {
            name: {
                LAKE_DATABASE: f"dbname=postgres host=127.0.0.1 port={port} user={at.username} password={at.password}",
                LAKE_DATA: folder,
            }
            for name, port in proxy.ports.items()
        }
        offset_s = proxy.time_s() - time.monotonic()
        done = start_writers(loop, warm_context([CLIENT]), environments.pop("first"), [environments[name] for name in names])
        statements = list(proxy.statements)
    spans, attempts, accesses = [], 0, []
    for name, deadline, made in done:
        for start, end, error in made:
            own = [each for each in statements if each.client == name and start + offset_s <= each.time_s <= end + offset_s]
            attempts += sum(_INSERT in each.text for each in own)
            accesses += _gaps_ms(own)
            spans.append((start - deadline, end - deadline, error))
    measured = measure_loop(loop, spans, attempts)
    return measured | {"access_ms": fmean(accesses), "access_stdev_ms": stdev(accesses), "outside_ms": 0.0}


def _gaps_ms(statements: Sequence[Statement]) -> list[float]:
    """Return the time from each message to the next, except after a failed attempt, when the client backs off."""
    gaps = []
    for before, after in pairwise(statements):
        if "ROLLBACK" in after.text:
            break
        gaps.append(1e3 * (after.time_s - before.time_s))
    return gaps


def simulate_loop(loop: Loop) -> list[dict[str, float]]:
    """Simulate a loop for several seeds: a message takes one access, the batch and COMMIT take two."""
    access = {"median": loop.latency_ms, "sigma": 0.0}
    document: dict[str, Any] = {
        "simulation": {"duration_ms": 1e3 * loop.seconds, "drain": True},
        "storage": {"provider": "s3"},
        "catalog": describe_service(access, {"median": 2.0 * loop.latency_ms, "sigma": 0.0}),
        "transaction": {"commit_path": CLIENT},
        "workload": {
            WRITERS_CLASS: {
                "closed": describe_clients(loop, loop.writers),
                "operation": "fast_append",
                "runtime": {"distribution": "fixed", "value": 0.001},
            }
        },
    }
    return simulate_document(loop, check_document(document, "verification"))


def compare_ducklake(repetitions: int, thinks: bool, seconds: float, latency_ms: float) -> list[dict[str, Any]]:
    """Run and simulate the closed loops; return a cell for each number of writers."""
    think_ms = _MESSAGES * latency_ms if thinks else 0.0
    loops = [Loop(CLIENT, writers, think_ms, seconds, latency_ms) for writers in WRITERS]
    return compare_cells(loops, repetitions, run_loop, simulate_loop)
