"""Submit transactions: determine their times, operations, tables and partitions, as ``endive.workload.Source`` does.

A source submits the transactions of a class, or of one writer of a class. A paced writer submits at scheduled times, one
transaction at a time. A slot is the index of the record of a transaction in flight.
"""

from __future__ import annotations

import math
from typing import Any

from endive.arithmetic.backoff import AIMD, state_after_commit_ms
from endive.arithmetic.costs import fractional_count, insert_pick, pick, scheduled_delay_ms, written_count
from endive.arithmetic.draws import derive, keyed_uniform
from endive.randomness import Purpose
from endive.simulation.compiled import run_state
from endive.simulation.compiled.features import (
    HAS_CLIENTS,
    HAS_COMMITTERS,
    HAS_FAILURES,
    HAS_ICEBERG,
    HAS_PROTOCOL,
    inlined,
    jit,
    word,
)
from endive.simulation.compiled.memory import (
    arrival,
    candidate_at,
    class_at,
    floats_at,
    integers_at,
    known_version_at,
    partition_at,
    push,
    source_at,
    submission_at,
    table_at,
    touched_at,
    traced_partition_at,
)
from endive.simulation.compiled.streams import uniform_at, value
from endive.workload.arrivals import PERIODIC, SCHEDULED, TRACED

_ARRIVAL = int(Purpose.ARRIVAL)
_RUNTIME = int(Purpose.RUNTIME)
_OPERATION = int(Purpose.OPERATION)
_TABLES = int(Purpose.TABLES)
_PARTITIONS = int(Purpose.PARTITIONS)
_STORAGE = int(Purpose.STORAGE)
_CATALOG = int(Purpose.CATALOG)


@jit
def next_submit_ms(run: Any, source: Any, cls: Any) -> float:
    """Return the time of the next submission of a source, in ms.

    The time is infinite if the source submits no more transactions.
    """
    if cls.arrival_kind == TRACED:
        if source.ordinal >= cls.submissions:
            return math.inf
        return submission_at(run, cls.first_submission + source.ordinal).time_ms  # type: ignore[no-any-return]
    return run.now_ms + _next_delay_ms(run, source, cls)  # type: ignore[no-any-return]


@jit
def _next_delay_ms(run: Any, source: Any, cls: Any) -> float:
    if cls.arrival_kind == PERIODIC:
        return cls.arrival[1] if source.ordinal > 0 else source.first_ms  # type: ignore[no-any-return]
    key = derive(source.key, word(source.ordinal))
    delay = value(run, cls.arrival, uniform_at(key, _ARRIVAL, 0))
    if cls.arrival_kind == SCHEDULED:
        return scheduled_delay_ms(run.now_ms, delay, floats_at(run.schedules + 8 * cls.first_step, 2 * cls.steps), cls.steps)
    return delay if source.ordinal > 0 else source.first_ms + delay


@jit
def await_arrival(run: Any, source_id: int) -> None:
    """Schedule the next arrival of a source, unless the arrival is after the end of the run."""
    source = source_at(run, source_id)
    submit_ms = next_submit_ms(run, source, class_at(run, source.cls))
    if submit_ms < source.end_ms:
        push(run, submit_ms, arrival(source_id))


@jit
def take_slot(run: Any, owner: int) -> int:
    """Return the source whose transaction starts at an arrival or a late start, or ``NO_SLOT`` if its writer is busy."""
    if owner >= run.num_sources:
        source_id = owner - run.num_sources
        begin_job(source_at(run, source_id))
        return source_id  # type: ignore[no-any-return]
    source = source_at(run, owner)
    if class_at(run, source.cls).paced:
        if source.due or misses_slot(run, source, 0):
            await_arrival(run, owner)
            return run_state.NO_SLOT
        begin_job(source)
    return owner


@jit
def begin_job(source: Any) -> None:
    """Mark a periodic writer as busy with a job."""
    source.running = 1
    source.late = 0
    source.due = 0


@inlined
def _is_busy(source: Any, limit: int) -> bool:
    """Return whether a periodic writer has a job, or may not start one before the committer has committed its file batches."""
    return source.running or source.delivered or 0 < limit <= source.uncommitted  # type: ignore[no-any-return]


@jit
def misses_slot(run: Any, source: Any, limit: int) -> bool:
    """Return whether a periodic writer misses its scheduled time because it is busy."""
    if _is_busy(source, limit):
        source.late = 1
        if not source.running or run.now_ms < source.job_end_ms:
            run.slots_missed += 1
        return True
    return False


@jit
def start_late(run: Any, source_id: int, limit: int) -> None:
    """Start a periodic writer that missed a scheduled time, if it is free now."""
    source = source_at(run, source_id)
    if source.late and not source.due and not _is_busy(source, limit) and run.now_ms < source.end_ms:
        source.due = 1
        push(run, run.now_ms, arrival(run.num_sources + source_id))


@jit
def submit(run: Any, txn: Any, slot: int, source: Any, cls: Any) -> None:
    """Create the next transaction of a source. The caller has already set its number, class and submission time."""
    ordinal = source.ordinal
    key = derive(source.key, word(ordinal))
    source.ordinal += 1
    txn.client = source.client
    txn.data_start_ms = source.collected_ms if cls.paced else -1.0
    start_streams(txn, key, source, cls)
    txn.operation = _operation(cls, key)
    txn.runtime_ms = value(run, cls.runtime, uniform_at(key, _RUNTIME, 0))
    _choose_tables(run, txn, slot, cls)
    txn.tracks_partitions = 0
    if cls.submissions and not _is_committed_by_another(cls):
        _replay(run, txn, slot, submission_at(run, cls.first_submission + ordinal))
    if txn.operation == run_state.READ_ONLY:
        txn.written = 0
        txn.tracks_partitions = 0
    elif not txn.tracks_partitions and cls.partitions_per_txn >= 0.0:
        txn.tracks_partitions = 1
        _choose_partitions(run, txn, slot, cls)
    if HAS_CLIENTS and cls.keeps_handles:
        take_known_versions(run, txn, slot)
    if HAS_ICEBERG:
        txn.job_commit = 1
        if cls.commits_per_job > 1 and txn.operation == run_state.REWRITE_FILES:
            txn.job_key = key
            txn.job_runtime_ms = txn.runtime_ms
            txn.runtime_ms /= cls.commits_per_job
            txn.job_failed = 0
            txn.job_installs = 0
    clear(txn)


@jit
def start_streams(txn: Any, key: int, source: Any, cls: Any) -> None:
    """Start the random streams of a transaction, and load the backoff state of its writer."""
    txn.key = key
    txn.storage_key = derive(key, word(_STORAGE))
    txn.catalog_key = derive(key, word(_CATALOG))
    txn.storage_index = 0
    txn.catalog_index = 0
    txn.conflict_index = 0
    txn.backoff_index = 0
    if HAS_CLIENTS:
        txn.client_index = 0
        txn.backoff_state_ms = source.backoff_state_ms if cls.backoff_kind == AIMD else cls.backoff_base_ms


@jit
def take_known_versions(run: Any, txn: Any, slot: int) -> None:
    """Load the versions of the tables that the writer has cached."""
    for t in range(txn.read):
        mine = touched_at(run, slot, t)
        mine.known_version = known_version_at(run, txn.source, mine.table).value


@inlined
def _is_committed_by_another(cls: Any) -> bool:
    """Return whether a committer commits the file batches of a class.

    The submissions of a trace do not describe the commits of a committer.
    """
    if HAS_COMMITTERS:
        return cls.committer >= 0  # type: ignore[no-any-return]
    return False


@jit
def know_written(run: Any, txn: Any, slot: int) -> None:
    """Set the cached versions of the written tables to the versions after the commit."""
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        mine.known_version = mine.version + 1


@jit
def learn(run: Any, txn: Any, slot: int) -> None:
    """Take over a writer's cached table versions and backoff state from a transaction that has ended.

    The version of a cached table never decreases.
    """
    cls = class_at(run, txn.cls)
    if cls.keeps_handles:
        for t in range(txn.read):
            mine = touched_at(run, slot, t)
            known = known_version_at(run, txn.source, mine.table)
            known.value = max(known.value, mine.known_version)
    if cls.backoff_kind == AIMD:
        source, state = source_at(run, txn.source), txn.backoff_state_ms
        committed = txn.status == run_state.COMMITTED
        source.backoff_state_ms = state_after_commit_ms(state, cls.backoff_base_ms) if committed else state


@jit
def _replay(run: Any, txn: Any, slot: int, given: Any) -> None:
    """Replace the operation, runtime, table and partitions of a transaction by the values of the trace."""
    if given.operation >= 0:
        txn.operation = given.operation
    if given.runtime_ms >= 0.0:
        txn.runtime_ms = given.runtime_ms
    if given.table < 0:
        return
    mine = touched_at(run, slot, 0)
    mine.table = given.table
    txn.written = 1
    txn.read = 1
    txn.group = table_at(run, given.table).group
    if given.partitions >= 0:
        txn.tracks_partitions = 1
        mine.partitions = given.partitions
        for p in range(given.partitions):
            partition_at(run, slot, 0, p).partition = traced_partition_at(run, given.first_partition + p).value


@jit
def clear(txn: Any) -> None:
    """Reset the times and counters of a transaction."""
    txn.status = run_state.EXECUTING
    txn.reason = run_state.NO_REASON
    txn.attempt = 0
    txn.retries = 0
    txn.restarts = 0
    txn.false_conflicts = 0
    txn.real_conflicts = 0
    txn.event_count = 0
    txn.failure_index = 0
    if HAS_FAILURES:
        txn.deadline_ms = math.inf
    txn.on_handle = 0
    txn.unknown_outcomes = 0
    txn.installs = 0
    txn.table_snapshots = 0
    if HAS_PROTOCOL:
        txn.list_requests = 0
        txn.catalog_requests = 0
        txn.data_reads = 0
        txn.data_writes = 0
    txn.commit_latency_ms = 0.0
    txn.commit_started_ms = 0.0
    txn.entered_ms = -1.0
    if HAS_COMMITTERS:
        txn.batch_size = 0
        txn.batch_wait_ms = 0.0
        txn.batch_longest_wait_ms = 0.0
    for i in range(6):
        txn.times[i] = 0.0
    for i in range(run_state.NUM_COUNTS):
        txn.counts[i] = 0


@jit
def _operation(cls: Any, key: int) -> int:
    if cls.only_operation >= 0:
        return cls.only_operation  # type: ignore[no-any-return]
    total = 0.0
    for i in range(run_state.NUM_OPERATIONS):
        total += cls.weights[i]
    left = uniform_at(key, _OPERATION, 0) * total
    last = 0
    for i in range(run_state.NUM_OPERATIONS):
        if cls.weights[i] > 0.0:
            left -= cls.weights[i]
            last = i
            if left < 0.0:
                return i
    return last


@jit
def _choose_tables(run: Any, txn: Any, slot: int, cls: Any) -> None:
    """Select the tables of a transaction: one table of the class, and other tables of the same table group.

    The written tables come first, in order of their ids.
    """
    candidates, count, draws = cls.candidates, cls.tables_per_txn, 0
    if cls.table_count_weights >= 0:
        weights = floats_at(run.weights + 8 * cls.table_count_weights, candidates + 1)
        nothing = integers_at(run.scratch, 0)
        count = 1 + pick(weights, candidates, nothing, weights, 0, uniform_at(txn.key, _TABLES, draws))
        draws += 1
    txn.written = 1
    txn.read = 1
    txn.group = 0
    if candidates == 1:
        first = candidate_at(run, cls.first_candidate + 0).value
        touched_at(run, slot, 0).table = first
        txn.group = table_at(run, first).group
    elif run.num_groups == 1 or run.spans_groups:
        n = min(count, candidates)
        _pick_items(run, cls.table_weights, n, candidates, txn.key, _TABLES, draws)
        txn.written = written_count(n, cls.table_write_fraction)
        txn.read = n
        for i in range(n):
            touched_at(run, slot, i).table = candidate_at(run, cls.first_candidate + _picked_item(run, i)).value
    else:
        _choose_in_group(run, txn, slot, cls, count, draws)
    _sort_tables(run, slot, txn.written)


@jit
def _choose_in_group(run: Any, txn: Any, slot: int, cls: Any, count: int, draws: int) -> None:
    """Select a table of the class, and other tables of its table group."""
    _pick_items(run, cls.table_weights, 1, cls.candidates, txn.key, _TABLES, draws)
    picked = _picked_item(run, 0)
    first = candidate_at(run, cls.first_candidate + picked).value
    txn.group = table_at(run, first).group
    touched_at(run, slot, 0).table = first
    if count == 1 or run.num_groups == run.num_tables:
        return
    by_group = cls.first_candidate + cls.candidates
    place = candidate_at(run, by_group + cls.candidates + picked).value
    start = _first_of_group(run, cls, txn.group)
    n_others = _first_of_group(run, cls, txn.group + 1) - start - 1
    n = min(count - 1, n_others)
    if n > 0:
        _pick_items(run, cls.table_weights, n, n_others, txn.key, _TABLES, draws + 1)
        txn.written = written_count(1 + n, cls.table_write_fraction)
        txn.read = 1 + n
        for i in range(n):
            other = start + _picked_item(run, i)
            touched_at(run, slot, 1 + i).table = candidate_at(run, by_group + (other if other < place else other + 1)).value


@jit
def _first_of_group(run: Any, cls: Any, group: int) -> int:
    """Return the index of the first candidate of a table group, in the list of candidate tables by group."""
    low, high = 0, cls.candidates
    while low < high:
        middle = (low + high) // 2
        if table_at(run, candidate_at(run, cls.first_candidate + cls.candidates + middle).value).group < group:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _sort_tables(run: Any, slot: int, end: int) -> None:
    """Sort the first ``end`` tables by id."""
    for i in range(1, end):
        table = touched_at(run, slot, i).table
        j = i - 1
        while j >= 0 and touched_at(run, slot, j).table > table:
            touched_at(run, slot, j + 1).table = touched_at(run, slot, j).table
            j -= 1
        touched_at(run, slot, j + 1).table = table


@inlined
def _picked_item(run: Any, index: int) -> int:
    """Return the item that ``_pick_items`` selected as number ``index``."""
    return integers_at(run.scratch, run.scratch_length)[index]  # type: ignore[no-any-return]


@jit
def _pick_items(run: Any, weights_index: int, n: int, total: int, key: int, purpose: int, first_draw: int) -> None:
    """Select ``n`` of ``total`` items by weight, without replacement. ``_picked_item`` returns the selected items."""
    weights = floats_at(run.weights + 8 * weights_index, total + 1)
    picks = integers_at(run.scratch, run.scratch_length)
    chosen = integers_at(run.scratch + 8 * run.scratch_length, run.scratch_length)
    before = floats_at(run.scratch + 24 * run.scratch_length, run.scratch_length)
    stream = derive(key, word(purpose))
    for i in range(n):
        item = pick(weights, total, chosen, before, i, keyed_uniform(stream, word(first_draw + i)))
        picks[i] = item
        insert_pick(weights, chosen, before, i, item)


@jit
def _choose_partitions(run: Any, txn: Any, slot: int, cls: Any) -> None:
    """Select the partitions of each written table."""
    draws = 0
    mean = cls.partitions_per_txn
    for t in range(txn.written):
        mine = touched_at(run, slot, t)
        first, end = 0, table_at(run, mine.table).partitions
        if cls.range_end >= 0:
            first, end = cls.range_first, cls.range_end
        count = int(mean)
        if mean != count:
            count = max(1, fractional_count(mean, uniform_at(txn.key, _PARTITIONS, draws)))
            draws += 1
        n = min(count, end - first)
        _pick_items(run, cls.partition_weights, n, end - first, txn.key, _PARTITIONS, draws)
        draws += n
        mine.partitions = written_count(n, cls.partition_write_fraction)
        _keep_sorted(run, slot, t, first, n, mine.partitions)


@jit
def _keep_sorted(run: Any, slot: int, t: int, first: int, n: int, written: int) -> None:
    """Store the selected partitions of a table in ascending order."""
    if written == n:
        chosen = integers_at(run.scratch + 8 * run.scratch_length, run.scratch_length)
        for p in range(n):
            partition_at(run, slot, t, p).partition = first + chosen[p]
        return
    for p in range(written):
        partition = first + _picked_item(run, p)
        q = p
        while q > 0 and partition_at(run, slot, t, q - 1).partition > partition:
            partition_at(run, slot, t, q).partition = partition_at(run, slot, t, q - 1).partition
            q -= 1
        partition_at(run, slot, t, q).partition = partition
