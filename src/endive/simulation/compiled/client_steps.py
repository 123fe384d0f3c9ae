"""Run the steps of a transaction that do not affect other transactions: file accesses, the job, backoff.

Each function returns whether the step ended before the end of the run. A step that did not end does not change the times and
counters of the transaction.
"""

from __future__ import annotations

import math
from typing import Any

from endive.arithmetic.backoff import SLOTS, backoff_ms, next_wait_ms, state_after_loss_ms
from endive.arithmetic.costs import manifests_to_merge, whole_count
from endive.arithmetic.draws import quantile
from endive.simulation.compiled.features import HAS_CLIENTS, HAS_FAILURES, HAS_ICEBERG, HAS_LIST_APPENDS, jit
from endive.simulation.compiled.memory import class_at, floats_at, touched_at, traits_at
from endive.simulation.compiled.run_state import (
    BACKOFF,
    CANCELLED,
    CATALOG_READ,
    CONFLICT_IO,
    EXPIRE_SNAPSHOTS,
    FAILED,
    FILE_DELETE,
    FILE_READ,
    FILE_WRITE,
    LIST_READ,
    LIST_WRITE,
    MERGE_APPEND,
    METADATA_READ,
    METADATA_WRITE,
    PER_ATTEMPT_IO,
    RUNTIME,
)
from endive.simulation.compiled.streams import (
    any_fails,
    backoff_uniform,
    client_ms,
    conflict_uniform,
    largest_storage_uniform,
    resends_ms,
    storage_uniform,
    value,
)

NOT_SIZED = -math.inf
"""Value that marks an access whose latency does not depend on the object size."""


@jit
def step(run: Any, txn: Any, component: int, duration_ms: float) -> bool:
    """Wait for ``duration_ms``, and add the time to a component of the latency."""
    now = txn.now_ms + duration_ms
    if HAS_FAILURES and now > txn.deadline_ms:
        return cancel(run, txn, component)
    if now >= run.end_ms:
        return False
    txn.now_ms = now
    txn.times[component] += duration_ms
    txn.event_count += 1
    return True


@jit
def cancel(run: Any, txn: Any, component: int) -> bool:
    """Wait until the deadline of the operation. The kernel then ends the transaction (``txn.failed``).

    Returns:
        False, because no step follows.
    """
    left = txn.deadline_ms - txn.now_ms
    if txn.now_ms + left < run.end_ms:
        txn.now_ms += left
        txn.times[component] += left
        txn.event_count += 1
        txn.failed = CANCELLED
    return False


@jit
def is_in_time(txn: Any) -> bool:
    """Return whether a response arrived before the deadline. If not, the kernel ends the transaction (``txn.failed``)."""
    if txn.now_ms > txn.deadline_ms:
        txn.failed = CANCELLED
        return False
    return True


@jit
def start_time_limit(run: Any, txn: Any) -> bool:
    """Set the deadline of the operation, and return whether the deadline is in the future."""
    txn.deadline_ms = txn.submit_ms + class_at(run, txn.cls).time_limits[txn.operation]
    return is_in_time(txn)


@jit
def access_step(run: Any, txn: Any, component: int, latency_ms: float) -> bool:
    """Wait for one access to the object store, or for one batch of accesses: the latency and the client CPU time."""
    if HAS_CLIENTS:
        latency_ms += client_ms(run, txn, class_at(run, txn.cls))
    return step(run, txn, component, latency_ms)


@jit
def send_requests(run: Any, txn: Any, component: int, requests: int, latency_ms: float, can_fail: bool) -> bool:
    """Wait for concurrent requests to the object store, which the SDK resends after errors.

    ``can_fail`` is True if the operation ends when a request fails permanently.
    """
    if HAS_FAILURES:
        latency_ms += resends_ms(txn, class_at(run, txn.cls).request_error, requests, latency_ms)
        if can_fail and fails_for_good(run, txn, component, requests, latency_ms):
            return False
    return access_step(run, txn, component, latency_ms)


@jit
def fails_for_good(run: Any, txn: Any, component: int, requests: int, latency_ms: float) -> bool:
    """Return whether one of several requests fails permanently. If so, the kernel ends the transaction after the latency."""
    if not any_fails(txn, class_at(run, txn.cls).fatal_error, requests):
        return False
    if step(run, txn, component, latency_ms):
        txn.failed = FAILED
    return True


@jit
def access(run: Any, txn: Any, cls: Any, kind: int, count: int, component: int) -> bool:
    """Access ``count`` files in batches of ``max_parallel``. The latency of a batch is that of its slowest access."""
    if count == 1:
        alone = value(run, cls.access[kind], storage_uniform(txn))
        if not send_requests(run, txn, component, 1, alone, True):
            return False
        txn.counts[kind] += 1
        return True
    return run_batches(run, txn, cls, kind, count, component, NOT_SIZED, cls.max_parallel)


@jit
def run_batches(run: Any, txn: Any, cls: Any, kind: int, count: int, component: int, first: float, parallel: int) -> bool:
    """Access ``count`` files in batches of ``parallel``.

    ``first`` is the latency parameter that depends on the file size, or ``NOT_SIZED``.
    """
    while count > 0:
        batch = min(count, parallel)
        latency = sized_latency(run, cls.access[kind], first, largest_storage_uniform(txn, batch))
        if not send_requests(run, txn, component, batch, latency, kind != FILE_DELETE):
            return False
        txn.counts[kind] += batch
        count -= batch
    return True


@jit
def sized_latency(run: Any, parameters: Any, first: float, u: float) -> float:
    """Return the latency of an access at quantile ``u``, in ms.

    ``first`` replaces the first parameter of the distribution, unless ``first`` is ``NOT_SIZED``.
    """
    if first == NOT_SIZED:
        return value(run, parameters, u)
    return quantile(int(parameters[0]), first, parameters[2], parameters[3], u, floats_at(run.quantiles, run.num_quantiles))


@jit
def _tables_to_load(run: Any, txn: Any, slot: int, cls: Any) -> int:
    """Return the number of tables whose metadata the writer must read: all, or only those that changed if it has a cache."""
    moved = txn.read
    if HAS_CLIENTS and cls.keeps_handles:
        moved = 0
        for t in range(txn.read):
            mine = touched_at(run, slot, t)
            if mine.known_version != mine.version:
                moved += 1
            mine.known_version = mine.version
    return moved  # type: ignore[no-any-return]


@jit
def read_tables(run: Any, txn: Any, slot: int, cls: Any) -> bool:
    """Read the table metadata after the catalog read, unless metadata is inlined, and run the job."""
    if cls.handles_metadata:
        tables = _tables_to_load(run, txn, slot, cls)
        if not access(run, txn, cls, METADATA_READ, tables, CATALOG_READ):
            return False
    if HAS_ICEBERG:
        txn.job_start_ms = txn.now_ms
    return step(run, txn, RUNTIME, txn.runtime_ms)


@jit
def read_lists(run: Any, txn: Any, cls: Any) -> bool:
    """Read the manifest lists of an attempt."""
    return txn.operation == EXPIRE_SNAPSHOTS or access(run, txn, cls, LIST_READ, txn.redo_tables, PER_ATTEMPT_IO)


@jit
def write_manifests(run: Any, txn: Any, cls: Any) -> bool:
    """Write the manifests of an attempt. Unless the run appends to manifest lists (ML+), also write the manifest lists."""
    if txn.operation == EXPIRE_SNAPSHOTS:
        return True
    if not access(run, txn, cls, FILE_WRITE, txn.redo_tables, PER_ATTEMPT_IO):
        return False
    if HAS_LIST_APPENDS:
        return True
    return access(run, txn, cls, LIST_WRITE, txn.redo_tables, PER_ATTEMPT_IO)


@jit
def write_metadata(run: Any, txn: Any, cls: Any) -> bool:
    """Write the table metadata, unless the catalog writes it."""
    return not cls.handles_metadata or access(run, txn, cls, METADATA_WRITE, txn.redo_tables, PER_ATTEMPT_IO)


@jit
def back_off(run: Any, txn: Any, cls: Any) -> bool:
    """Wait before the next attempt, according to the backoff settings of the class."""
    if not cls.backoff_enabled:
        return True
    u = backoff_uniform(txn)
    base, multiplier, longest = cls.backoff_base_ms, cls.backoff_multiplier, cls.backoff_max_ms
    if HAS_CLIENTS:
        kind = cls.backoff_kind
        if kind == SLOTS and txn.attempt == 1:
            txn.backoff_state_ms = txn.now_ms - txn.commit_started_ms
        state, jitter = txn.backoff_state_ms, cls.backoff_jitter
        wait = next_wait_ms(kind, txn.attempt, base, multiplier, longest, jitter, cls.backoff_upwards, state, u)
        txn.backoff_state_ms = state_after_loss_ms(kind, state, wait, multiplier, longest)
    else:
        wait = backoff_ms(txn.attempt, base, multiplier, longest, cls.backoff_jitter, u, cls.backoff_upwards)
    return step(run, txn, BACKOFF, wait)


@jit
def pay_conflict(run: Any, txn: Any, cls: Any, behind: int) -> bool:
    """Perform the additional I/O of the operation after an overlap."""
    if traits_at(run, txn.cls, txn.operation).validates:
        return access(run, txn, cls, LIST_READ, behind, CONFLICT_IO)
    if txn.operation == MERGE_APPEND:
        manifests = manifests_to_merge(behind, cls.manifests_per_commit)
        return merge(run, txn, cls, 0, manifests)
    return True


@jit
def merge(run: Any, txn: Any, cls: Any, lists: int, manifests: int) -> bool:
    """Read manifest lists, and read and rewrite manifests."""
    return (
        access(run, txn, cls, LIST_READ, lists, CONFLICT_IO)
        and access(run, txn, cls, FILE_READ, manifests, CONFLICT_IO)
        and access(run, txn, cls, FILE_WRITE, manifests, CONFLICT_IO)
    )


@jit
def conflicting_manifests(run: Any, txn: Any, cls: Any) -> int:
    """Return the number of manifests that a client merges to resolve a real conflict."""
    count = value(run, cls.manifests, conflict_uniform(txn))
    return whole_count(count, cls.manifests_low, cls.manifests_high)
