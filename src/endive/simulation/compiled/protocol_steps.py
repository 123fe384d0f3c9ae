"""Run the steps of a declarative protocol that do not affect other transactions, as in ``endive.transaction.protocol_path``.

These steps are requests to the object store. A step that affects other transactions ends the sequence with an event, which
``protocol_path`` of this package processes.
"""

from __future__ import annotations

from typing import Any

from endive.arithmetic.costs import entries_since_checkpoint, step_count, step_size
from endive.simulation.compiled.client_steps import send_requests, sized_latency
from endive.simulation.compiled.features import jit
from endive.simulation.compiled.iceberg import first_parameter
from endive.simulation.compiled.memory import class_at, step_at
from endive.simulation.compiled.run_state import (
    AFTER_LOSS,
    ATTEMPT,
    CATALOG_READ,
    CONFLICT_IO,
    EACH_ATTEMPT,
    FILE_DELETE,
    FIRST_ATTEMPT,
    LOAD,
    NUM_COUNTS,
    PER_ATTEMPT_IO,
)
from endive.simulation.compiled.streams import largest_storage_uniform

ENDED, CUT, LOSES, DISCOVERS, REQUESTS, PUBLISHES = range(6)
"""Reasons for stopping a phase.

In order: end of the phase, end of the run, failed check of the version, and three requests that access shared state.
"""


@jit
def enter_phase(run: Any, txn: Any, phase: int) -> None:
    """Start a phase of the protocol."""
    txn.phase = phase
    txn.place = class_at(run, txn.cls).phase_first[phase]
    txn.phase_seq = txn.seq
    if phase == LOAD:
        txn.seq = -1
        txn.phase_seq = -1
        txn.known_files = 0


@jit
def component_of(phase: int) -> int:
    """Return the latency component to which the time of a phase is added."""
    if phase == LOAD:
        return CATALOG_READ
    return CONFLICT_IO if phase == AFTER_LOSS else PER_ATTEMPT_IO


@jit
def requests_of(run: Any, txn: Any, step: Any) -> int:
    """Return the number of requests of a step."""
    version = max(txn.seq, 0)
    entries = entries_since_checkpoint(version, class_at(run, txn.cls).checkpoint_every)
    return step_count(step, txn.seq - txn.phase_seq, txn.lost_files, txn.known_files, entries)


@jit
def count_requests(txn: Any, step: Any, requests: int) -> None:
    """Add a number of requests to the counter of a step."""
    counter = step.counter
    if counter < NUM_COUNTS:
        txn.counts[counter] += requests
    elif counter == NUM_COUNTS:
        txn.list_requests += requests
    elif counter == NUM_COUNTS + 2:
        txn.data_reads += requests
    else:
        txn.data_writes += requests


@jit
def latency_of(run: Any, txn: Any, step: Any, requests: int) -> float:
    """Return the latency of a batch of parallel requests of a step, in ms."""
    first = first_parameter(step.sized, step.access, step_size(step, txn.known_files, max(txn.seq, 0)))
    return sized_latency(run, step.access, first, largest_storage_uniform(txn, requests))


@jit
def run_steps(run: Any, txn: Any) -> int:
    """Run the remaining steps of a phase, and return the reason for stopping.

    ``txn.place`` is then the index of the step at which the phase stopped.
    """
    cls = class_at(run, txn.cls)
    end = cls.phase_end[txn.phase]
    while txn.place < end:
        step = step_at(run, txn.place)
        if step.attempts != EACH_ATTEMPT and (step.attempts == FIRST_ATTEMPT) != (txn.attempt == 0):
            txn.place += 1
            continue
        if step.discovers:
            return DISCOVERS
        if step.in_catalog:
            txn.requests_left = requests_of(run, txn, step)
            if txn.requests_left > 0:
                return REQUESTS
        elif step.with_next:
            if not _run_pair(run, txn, step, step_at(run, txn.place + 1)):
                return CUT
            txn.place += 1
        elif not _run_requests(run, txn, step, requests_of(run, txn, step), cls.max_parallel if step.parallel else 1):
            return CUT
        if step.publishes:
            return PUBLISHES
        if loses_at(txn, step):
            return LOSES
        txn.place += 1
    return ENDED


@jit
def loses_at(txn: Any, step: Any) -> bool:
    """Return whether the attempt fails after a step that checks the version."""
    return step.checks and txn.phase == ATTEMPT and txn.seq != txn.phase_seq  # type: ignore[no-any-return]


@jit
def _run_requests(run: Any, txn: Any, step: Any, requests: int, parallel: int) -> bool:
    """Send the requests of a step in batches of ``parallel``."""
    while requests > 0:
        batch = min(requests, parallel)
        latency = latency_of(run, txn, step, batch)
        if not send_requests(run, txn, component_of(txn.phase), batch, latency, step.counter != FILE_DELETE):
            return False
        count_requests(txn, step, batch)
        requests -= batch
    return True


@jit
def _run_pair(run: Any, txn: Any, one: Any, other: Any) -> bool:
    """Send one request of each of two steps concurrently."""
    first = latency_of(run, txn, one, 1)
    second = latency_of(run, txn, other, 1)
    if not send_requests(run, txn, component_of(txn.phase), 2, max(first, second), True):
        return False
    count_requests(txn, one, 1)
    count_requests(txn, other, 1)
    return True
