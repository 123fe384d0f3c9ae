"""Run closed loops of real writers in the lab, and simulate the same loops with the observed protocol.

On a machine with few cores, CPU time of the clients and of the lab adds to every access. The simulation uses the mean and the
standard deviation of the time per access measured in the same cell, and the CPU time before and after the requests of a commit as
think time. The protocol alone determines which writers lose, and how often.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from multiprocessing.context import ForkServerContext
from pathlib import Path
from statistics import fmean, median, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import tomli_w

from endive.catalog import ServiceSettings
from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.config.schema import Document
from endive.lab.observe import observing_behavior
from endive.lab.open_lab import LabSettings, open_lab
from endive.lab.recording import RecordedRequest
from endive.lab.rivals import RivalCommit, plan_rivals, run_rivals
from endive.protocols.reader import find_protocol
from endive.simulation import Simulation
from endive.storage import FixedLatency
from verification.clients.jobs import NAMESPACE, TABLE
from verification.clients.processes import run_job, run_writers, warm_context
from verification.clients.writer import run_writer

WRITERS = (1, 2, 4, 8, 16)
MIXED_WRITERS = (2, 4, 8)
SEEDS = range(20)
_START_S = 60.0
"""Time in seconds by which planned concurrent commits exceed a run, because they start before the real writers."""
_DOCUMENTED = ("lance", "icechunk")
"""Clients whose retry settings are taken from the built-in protocol of this name."""
WRITERS_CLASS = "writers"
RIVAL_TABLE = ((NAMESPACE,), TABLE)
METRICS = ("attempts_per_commit", "success", "commits_per_s", "p95_ms")


@dataclass(frozen=True)
class Loop:
    """Writers of one client in a closed loop.

    Attributes:
        client: Client.
        writers: Number of writer processes.
        think_ms: Mean of the exponential think times; 0 for none.
        seconds: Length of the run.
        latency_ms: Latency of every access.
        stdev_ms: Standard deviation of the latency, in the simulation.

    """

    client: str
    writers: int
    think_ms: float
    seconds: float = 60.0
    latency_ms: float = 100.0
    stdev_ms: float = 0.0


Run = Callable[[Loop], dict[str, float]]
Simulate = Callable[[Loop], list[dict[str, float]]]


def lab_settings(latency_ms: float) -> LabSettings:
    """Return a lab in which every request has the same latency and takes effect at its end."""
    latency = FixedLatency(latency_ms)
    service = ServiceSettings(network=FixedLatency(0.0), load=latency, commit=latency, check=latency)
    return LabSettings(replace(observing_behavior(latency_ms), service=service))


def run_loop(loop: Loop, rivals: Sequence[RivalCommit] = ()) -> dict[str, float]:
    """Run real writers, with any concurrent commits; return ``METRICS``, the standard error of attempts, and time per access."""
    names = [f"writer-{number}" for number in range(loop.writers)]
    with TemporaryDirectory(prefix="endive-catalog-") as folder, open_lab(lab_settings(loop.latency_ms), names) as lab:
        opened_s = time.monotonic()
        os.environ["VERIFICATION_DIRECTORY"] = folder
        committing = asyncio.run_coroutine_threadsafe(run_rivals(lab, rivals, [RIVAL_TABLE]), lab.loop)
        writers = start_writers(loop, warm_context([loop.client]), lab.environment(), [lab.environment(name) for name in names])
        committing.cancel()
        requests = lab.recording.requests()
    own = [each for each in requests if each.client in names and "warm_up" not in each.event.target]
    commits = [_Commit(own, name, opened_s, deadline, *each) for name, deadline, made in writers for each in made]
    seen = [commit for commit in commits if commit.requests]
    measured = measure_loop(loop, [commit.span for commit in seen], sum(each.is_commit for each in own))
    accesses = [gap for commit in seen for gap in commit.access_times_ms()]
    measured |= {"access_ms": fmean(accesses), "access_stdev_ms": stdev(accesses)}
    measured["attempts_error"] = _ratio_error([(commit.attempts, not commit.span[2]) for commit in seen])
    return measured | {"outside_ms": fmean(commit.outside_ms for commit in seen)}


class _Commit:
    """Commit of a writer: its requests, and the times of the process in seconds of the system's monotonic clock."""

    def __init__(
        self,
        requests: Sequence[RecordedRequest],
        client: str,
        opened_s: float,
        deadline: float,
        start: float,
        end: float,
        error: str,
    ) -> None:
        first, last = 1e3 * (start - opened_s), 1e3 * (end - opened_s)
        within = [each for each in requests if each.client == client and first <= each.time_ms <= last]
        self.requests = sorted(within, key=lambda each: each.time_ms)
        self._opened_s, self._deadline, self._start, self._end, self._error = opened_s, deadline, start, end, error

    @property
    def span(self) -> tuple[float, float, str]:
        """Times of the first request and the last response, relative to the end of the loop, and the error."""
        first, last = self.requests[0].time_ms, max(each.end_ms for each in self.requests)
        offset = self._opened_s - self._deadline
        return first / 1e3 + offset, last / 1e3 + offset, self._error

    @property
    def attempts(self) -> int:
        """Number of commit requests."""
        return sum(each.is_commit for each in self.requests)

    @property
    def outside_ms(self) -> float:
        """Client CPU time before the first request and after the last response, which is part of the think time."""
        first, last, _ = self.span
        return 1e3 * (self._end - self._start - (last - first))

    def access_times_ms(self) -> Iterator[float]:
        """Return the time from each request to the next: latency of the lab, and CPU time of client and lab.

        Concurrent requests, and requests after a failed attempt, before which the client waits, are excluded.
        """
        for before, after in pairwise(self.requests):
            if before.is_commit and before.event.outcome != "ok":
                return
            if after.time_ms >= before.end_ms:
                yield after.time_ms - before.time_ms


def start_writers(
    loop: Loop, context: ForkServerContext, first: Mapping[str, str], environments: Sequence[Mapping[str, str]]
) -> list[tuple[str, float, list[tuple[float, float, str]]]]:
    """Create the table with a first commit, run the loops of all writers at the same time, and return all commits."""
    writers = [
        (run_writer, (loop.client, number, loop.think_ms, loop.seconds, environment))
        for number, environment in enumerate(environments)
    ]
    return run_writers(context, (run_job, (loop.client, first)), writers, loop.seconds + 300.0)


def _ratio_error(operations: Sequence[tuple[int, bool]]) -> float:
    """Return the standard error of attempts per commit, from the attempts and the outcome of each operation."""
    commits = max(1, sum(committed for _, committed in operations))
    ratio = sum(attempts for attempts, _ in operations) / commits
    return math.sqrt(sum((attempts - ratio * committed) ** 2 for attempts, committed in operations)) / commits


def measure_loop(loop: Loop, done: Sequence[tuple[float, float, str]], attempts: int) -> dict[str, float]:
    committed = [(start, end) for start, end, error in done if not error]
    return {
        "attempts_per_commit": attempts / max(1, len(committed)),
        "success": len(committed) / max(1, len(done)),
        "commits_per_s": sum(end <= 0.0 for _, end in committed) / loop.seconds,
        "p95_ms": float(np.quantile([1e3 * (end - start) for start, end in committed], 0.95)) if committed else float("nan"),
        "commits": len(committed),
    }


def describe_service(access: dict[str, float], commit: dict[str, float]) -> dict[str, Any]:
    """Return the configuration of a catalog service without network latency."""
    network = {"median": 0.001, "sigma": 0.0}
    return {"type": "service", "network": network, "load": access, "commit": commit, "check": access}


def describe_clients(loop: Loop, clients: int) -> dict[str, Any]:
    """Return the configuration of the clients of a closed loop."""
    think = {"distribution": "exponential", "mean": loop.think_ms} if loop.think_ms else {"distribution": "fixed", "value": 0.0}
    return {"clients": clients, "think_time": think}


def loop_document(loop: Loop, protocol: Path, job_requests: int, rivals: int = 0) -> Document:
    """Return the configuration of a loop with an observed protocol; the job consists of requests for data files.

    Args:
        loop: Writers, which are the class ``writers``.
        protocol: File of the protocol.
        job_requests: Number of requests for data files.
        rivals: Number of further writers, which are the class ``rivals``.

    """
    access = {"mean": loop.latency_ms, "stddev": loop.stdev_ms}
    both = {"read": access, "write": access}
    variance = math.log1p((loop.stdev_ms / loop.latency_ms) ** 2)
    service = {"median": loop.latency_ms * math.exp(-variance / 2.0), "sigma": math.sqrt(variance)}
    is_service = 'point = "swap"' in protocol.read_text() and 'operation = "request"' in protocol.read_text()
    document: dict[str, Any] = {
        "simulation": {"duration_ms": 1e3 * loop.seconds, "drain": True},
        "storage": {
            "max_parallel": 16,
            "T_CAS": access,
            **dict.fromkeys(("T_METADATA_ROOT", "T_TABLE_METADATA", "T_MANIFEST_LIST", "T_MANIFEST_FILE"), both),
        },
        "catalog": describe_service(service, service) if is_service else {"type": "cas"},
        "transaction": {"commit_path": str(protocol)},
        "workload": {
            name: {
                "closed": describe_clients(loop, clients),
                "operation": "fast_append",
                "runtime": {"distribution": "fixed", "value": max(job_requests * loop.latency_ms, 0.001)},
            }
            for name, clients in ((WRITERS_CLASS, loop.writers), ("rivals", rivals))
            if clients
        },
    }
    return check_document(document, "verification")


def simulate_loop(loop: Loop, protocol: Path, job_requests: int, rivals: int = 0) -> list[dict[str, float]]:
    """Simulate a loop for several seeds; return the metrics of the class ``writers`` for each seed."""
    return simulate_document(loop, loop_document(loop, protocol, job_requests, rivals))


def simulate_document(loop: Loop, document: Document) -> list[dict[str, float]]:
    """Simulate a configuration for several seeds; return the metrics of the class ``writers`` for each seed."""
    return [
        _measure_rows(loop, Simulation(build_simulation_config(document, seed_override=seed)).run().to_table()) for seed in SEEDS
    ]


def _measure_rows(loop: Loop, rows: Any) -> dict[str, float]:
    names = ["workload_class", "t_submit", "total_latency", "status", "n_retries"]
    columns = [row for row in rows.select(names).to_pylist() if row["workload_class"] == WRITERS_CLASS]
    end_ms = 1e3 * loop.seconds
    done = [
        (
            (row["t_submit"] - end_ms) / 1e3,
            (row["t_submit"] + row["total_latency"] - end_ms) / 1e3,
            "" if row["status"] == "committed" else "aborted",
        )
        for row in columns
    ]
    return measure_loop(loop, done, sum(row["n_retries"] + 1 for row in columns))


def compare_loops(
    client: str, observed: dict[str, Any], repetitions: int, thinks: bool, seconds: float, latency_ms: float
) -> list[dict[str, Any]]:
    """Run and simulate the closed loops of a client; return a cell for each number of writers."""
    with _observed_protocol(client, observed) as protocol:
        requests = observed["job_requests"]
        commit_ms = _commit_ms(Loop(client, 1, 0.0, seconds, latency_ms), protocol, requests)
        loops = [Loop(client, writers, commit_ms if thinks else 0.0, seconds, latency_ms) for writers in WRITERS]
        return compare_cells(loops, repetitions, run_loop, lambda slowed: simulate_loop(slowed, protocol, requests))


@contextmanager
def _observed_protocol(client: str, observed: dict[str, Any]) -> Iterator[Path]:
    """Return the file of the observed protocol of a client."""
    with TemporaryDirectory(prefix="endive-protocol-") as folder:
        protocol = Path(folder) / "client.toml"
        protocol.write_text(_with_documented_retries(client, observed["protocol"]))
        yield protocol


def _commit_ms(alone: Loop, protocol: Path, job_requests: int) -> int:
    """Return the simulated time of a commit without contention, in whole milliseconds."""
    return round(1e3 / fmean(each["commits_per_s"] for each in simulate_loop(alone, protocol, job_requests)))


def compare_cells(loops: Iterable[Loop], repetitions: int, run: Run, simulate: Simulate) -> list[dict[str, Any]]:
    """Run each loop, simulate it with the measured times per access, and return a cell for each."""
    cells = []
    for loop in loops:
        real = [run(loop) for _ in range(repetitions)]
        access_ms, stdev_ms, outside_ms = (
            fmean(each[name] for each in real) for name in ("access_ms", "access_stdev_ms", "outside_ms")
        )
        slowed = replace(loop, latency_ms=access_ms, stdev_ms=stdev_ms, think_ms=loop.think_ms + outside_ms)
        cells.append(make_cell(loop, real, simulate(slowed)))
        print(json.dumps(cells[-1]), flush=True)
    return cells


def mix_loops(client: str, observed: dict[str, Any], seconds: float, latency_ms: float) -> list[dict[str, Any]]:
    """Run N writers, all real or half of them simulated by the lab, and simulate them; return attempts per commit for each N.

    The lab commits at the times of the simulation, which uses the time per access measured with real writers.
    """
    cells = []
    with _observed_protocol(client, observed) as protocol:
        requests = observed["job_requests"]
        think_ms = _commit_ms(Loop(client, 1, 0.0, seconds, latency_ms), protocol, requests)
        for writers in MIXED_WRITERS:
            half = Loop(client, writers // 2, think_ms, seconds, latency_ms)
            real = run_loop(replace(half, writers=writers))
            slowed = replace(
                half, latency_ms=real["access_ms"], stdev_ms=real["access_stdev_ms"], think_ms=think_ms + real["outside_ms"]
            )
            longer = replace(slowed, seconds=seconds + _START_S)
            plan = plan_rivals(loop_document(longer, protocol, requests, writers // 2), WRITERS_CLASS, seed=writers)
            mixed = run_loop(half, plan)
            simulated = [each["attempts_per_commit"] for each in simulate_loop(slowed, protocol, requests, writers // 2)]
            cells.append(
                {
                    "writers": writers,
                    "think_ms": think_ms,
                    "seconds": seconds,
                    "all_real": _attempts(real),
                    "half_real": _attempts(mixed),
                    "simulated": {"attempts_per_commit": round(fmean(simulated), 3), "stdev": round(stdev(simulated), 3)},
                }
            )
            print(json.dumps(cells[-1]), flush=True)
    return cells


def _attempts(measured: dict[str, float]) -> dict[str, float]:
    """Return attempts per commit with the half width of the 95% interval."""
    return {
        "attempts_per_commit": round(measured["attempts_per_commit"], 3),
        "half_width": round(1.96 * measured["attempts_error"], 3),
        "commits": measured["commits"],
    }


def _with_documented_retries(client: str, text: str) -> str:
    """Return an observed protocol with the retries of the built-in protocol, which come from the client's code.

    Waits that are random, or depend on the duration of an attempt, cannot be observed in one series of retries.
    """
    if client not in _DOCUMENTED:
        return text
    tree = tomllib.loads(text)
    retries = tomllib.loads(find_protocol(client).text)["retries"]
    if "operation_timeout_for" in retries and not set(tree["operations"]) & set(retries["operation_timeout_for"]):
        del retries["operation_timeout_for"], retries["operation_timeout_ms"]
    return tomli_w.dumps(tree | {"retries": retries})


def make_cell(loop: Loop, real: list[dict[str, float]], simulated: list[dict[str, float]]) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "writers": loop.writers,
        "think_ms": loop.think_ms,
        "seconds": loop.seconds,
        "latency_ms": loop.latency_ms,
    }
    for metric in METRICS:
        own, model = [each[metric] for each in real], [each[metric] for each in simulated]
        cell[metric] = {
            "real": [round(value, 4) for value in own],
            "simulated": round(fmean(model), 4),
            "simulated_stdev": round(stdev(model), 4),
            "error": round(fmean(model) / fmean(own) - 1.0, 4) if fmean(own) else None,
        }
    measured = {name: [round(each[name], 1) for each in real] for name in ("commits", "access_ms", "access_stdev_ms", "outside_ms")}
    return cell | measured


def summarize_errors(cells: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the median absolute error of all cells and metrics, and the worst cell."""
    errors = [
        (abs(cell[metric]["error"]), cell["client"], cell["writers"], metric)
        for cell in cells
        for metric in METRICS
        if cell[metric]["error"] is not None
    ]
    worst = max(errors)
    return {
        "median_error": round(median(error for error, *_ in errors), 4),
        "by_metric": {metric: round(median(error for error, _, _, name in errors if name == metric), 4) for metric in METRICS},
        "worst": {"error": worst[0], "client": worst[1], "writers": worst[2], "metric": worst[3]},
    }
