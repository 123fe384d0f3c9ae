"""Define the arrays that hold the state of a compiled run.

Each transaction in flight, class, source, table and table group has a record. The record of a transaction is reused after the
transaction ends, so the number of records depends on the transactions in flight and not on the length of the run. An array that is
full is replaced by a larger one (``with_more_slots`` and others).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from endive.table import OPERATION_CODES, Traits
from endive.transaction import paths
from endive.transaction.policy import BACKOFF_KINDS, OnRealConflict, OnUnknown
from endive.workload.committer import COMMIT_ROUNDS

# Time components: indices of Txn.times, in the order of types.TIMES.
CATALOG_READ, RUNTIME, PER_ATTEMPT_IO, CONFLICT_IO, BACKOFF, CATALOG_COMMIT = range(6)
# File accesses: indices of Txn.counts, in the order of types.COUNTERS; all but the last are also indices of Class.access and
# Class.sized.
METADATA_READ, METADATA_WRITE, LIST_READ, LIST_WRITE, FILE_READ, FILE_WRITE, FILE_DELETE, LIST_APPENDS = range(8)
NUM_COUNTS = 8
# Distributions of the catalog: indices of Run.catalog.
READ, COMMIT, FAILED_COMMIT, APPEND, FAILED_APPEND, COMPACTION, FAILED_COMPACTION, LOG_ENTRY = range(8)

EXPIRE_SNAPSHOTS, MERGE_APPEND, READ_ONLY, REWRITE_FILES = (
    OPERATION_CODES[name] for name in ("expire_snapshots", "merge_append", "read_only", "rewrite_files")
)
NUM_OPERATIONS = len(OPERATION_CODES)
CODES: Mapping[str, tuple[str, ...]] = {
    "commit_path": tuple(paths.COMMIT_PATHS),
    "on_real_conflict": get_args(OnRealConflict),
    "on_unknown": get_args(OnUnknown),
    "backoff_kind": BACKOFF_KINDS,
    "round": COMMIT_ROUNDS,
}
"""Allowed values of settings with text values. Records contain the index of the value."""
ICEBERG, PYICEBERG, PROTOCOL = paths.ICEBERG.code, paths.PYICEBERG.code, paths.PROTOCOL.code
LOAD, ATTEMPT, AFTER_LOSS, AFTER_SUCCESS, AFTER_ABORT, CHECKPOINT = range(6)
"""Phases of a declarative protocol, in the order of ``endive.transaction.protocol_path.PHASES``."""
MERGE, RESTART = (CODES["on_real_conflict"].index(policy) for policy in ("merge", "restart"))
UNKNOWN_CHECK, UNKNOWN_RETRY = (CODES["on_unknown"].index(policy) for policy in ("check", "retry"))
ALL_WRITERS = COMMIT_ROUNDS.index("all_writers")
EXECUTING, COMMITTING, COMMITTED, ABORTED, IN_FLIGHT = range(5)
NO_REASON, MAX_RETRIES, TIMEOUT, VALIDATION, UNAVAILABLE, METADATA_TOO_LARGE, CRASH, STATE_UNKNOWN, FAILED = range(-1, 8)
CANCELLED = 8
PROBABILISTIC, PARTITION_OVERLAP = range(2)
CAS, LOG, SERVICE = range(3)
# Distributions of a service: indices of Run.service.
SERVICE_NETWORK, SERVICE_LOAD, SERVICE_COMMIT, SERVICE_CHECK = range(4)
NO_SLOT = -1
"""Index that marks the end of a list of slots."""

# Events of a transaction: the times of accesses to shared state.
START_READ, RETRY_READ, CAS_EFFECT = range(3)
LOG_COMMIT, COMPACTION_EFFECT, APPEND_EFFECT, DISCOVERY = range(3, 7)
LISTS_READ, LIST_APPEND, LIST_REWRITE = range(7, 10)
REFRESH, AFTER_COMMIT, CHECK, DONE = range(10, 14)
SERVICE_ARRIVAL, SERVICE_BEGIN, SERVICE_LOCKED, SERVICE_END = range(14, 18)
BATCH_LEAD, BATCH_READY, BATCH_END, BATCH_ANSWER, STATUS_CHECK, SERVICE_RELOADED, NEXT_COMMIT, CHECK_FAILED = range(18, 26)
PROTOCOL_STEP, PROTOCOL_OBSERVED, PROTOCOL_READ, PROTOCOL_REQUEST, PROTOCOL_PUBLISH = range(26, 31)

# Reasons for returning from the kernel.
FINISHED, ROWS_FULL, SLOTS_FULL, HISTORY_FULL, PAUSED, HANDOVERS_FULL, AGES_FULL = range(7)

Array = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CACHE_LINE = 64
"""Size of a cache line in bytes."""


def _record(*groups: str) -> np.dtype[Any]:
    """Return a record type from a list of field names.

    The type of a field is given by a suffix ``:type``. Without it, a field whose name ends in ``_ms`` is a float, and any other
    field an integer.
    """
    named = (each.partition(":") for group in groups for each in group.split())
    return np.dtype([(name, kind or ("f8" if name.endswith("_ms") else "i8")) for name, _, kind in named])


def _in_lines(*groups: str) -> np.dtype[Any]:
    """Return a record type padded to whole cache lines. A field has the same offset within a cache line in every record."""
    words = -_record(*groups).itemsize % CACHE_LINE // 8
    return _record(*groups, f"unused:({words},)i8") if words else _record(*groups)


def aligned(shape: int | tuple[int, ...], dtype: np.dtype[Any], ahead: int = 0) -> npt.NDArray[Any]:
    """Return an array of zeros in which the item with index ``ahead`` starts a cache line."""
    shape = (shape,) if isinstance(shape, int) else shape
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    start = -(memory.ctypes.data + ahead * dtype.itemsize) % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


class World(NamedTuple):
    """Arrays of a run."""

    run: Array
    classes: Array
    sources: Array
    txns: Array
    touched: Array
    partitions_touched: Array
    groups: Array
    tables: Array
    partitions: Ints
    heap: Array
    rows: Ints
    row_tables: Ints
    weights: Floats
    quantiles: Floats
    candidates: Ints
    scratch: Ints
    traits: Array
    history: Array
    history_partitions: Ints
    schedules: Floats
    submissions: Array
    traced_partitions: Ints
    requests: Array
    known_versions: Ints
    kept_tables: Array
    kept_handles: Array
    committers: Array
    handovers: Array
    ages: Array
    steps: Array


RUN = _record(
    "now_ms end_ms duration_ms next_id rows_used heap_size heap_hole free_head",
    # addresses and sizes of the other arrays
    *World._fields[1:],
    "row_capacity row_stride num_quantiles num_sources num_tables scratch_length num_traits",
    "history_capacity history_first history_end",
    # configuration of tables, if the catalog tracks their files
    "tracks_files metadata_bytes metadata_bytes_per_snapshot manifest_list_bytes manifest_list_bytes_per_manifest manifest_bytes",
    "manifest_header_bytes min_count_to_merge target_bytes merge_manifests",
    # times of retained snapshots, if snapshots expire by age
    "tracks_ages age_free age_capacity ages_held",
    # configuration of the catalog
    "catalog_kind linearization:f8 log_entry_bytes compaction_threshold_bytes compaction_max_entries seal_threshold log_entry_read",
    "num_groups max_tables max_partitions catalog:(8,4)f8",
    # configuration and state of a catalog service
    "service:(4,4)f8 metadata_write:(4,)f8 metadata_sized:(3,)f8 fixed_metadata_bytes writes_metadata metadata_limit",
    "write_interval_ms transfer_ms_per_mib:f8 own_pointers spans_groups workers queue_limit retry_after_ms max_resends",
    "locks_tables server_retries rechecks server_backoff_ms database_conflict:f8 coalesces linger_ms max_batch unpublished_limit",
    "busy_workers waiting queue_head queue_tail queue_length lock_head lock_tail in_batches committing",
    # counters
    "commit_success commit_conflict append_physical_success append_physical_failure append_logical_success",
    "append_logical_conflict append_compactions_triggered append_compactions_completed commit_throttled",
    "service_requests service_refused service_retries service_batches service_longest_queue service_busy_ms service_waited_ms",
    "service_database_conflicts metadata_limit_reached_ms",
    "manifest_append_physical_success manifest_append_physical_failure manifest_append_sealed_rewrite",
    # handoffs to committers; "held" counts running jobs and queued file batches
    "handover_free handover_capacity handovers_held handovers_begun handovers_made handovers_committed handovers_given_up",
    "slots_missed",
)

CLASS = _record(
    # arrivals and contents of transactions
    "arrival_kind waits paced arrival:(4,)f8 first_step steps first_submission submissions runtime:(4,)f8",
    f"weights:({NUM_OPERATIONS},)f8 only_operation tables_per_txn table_count_weights table_weights table_write_fraction:f8",
    "first_candidate candidates partitions_per_txn:f8 partition_weights partition_write_fraction:f8 range_first range_end",
    # commit policy and latencies
    "manifests_per_commit:f8 max_retries max_parallel handles_metadata manifest_list_entry_bytes linearization:f8",
    "commit_path keeps_files refreshes_first access:(7,4)f8 sized:(7,3)f8 list_append:(4,)f8 failed_list_append:(4,)f8",
    "backoff_enabled backoff_base_ms backoff_multiplier:f8 backoff_max_ms backoff_jitter:f8 backoff_upwards",
    "timeout_ms timeout_from_retry on_real_conflict max_restarts commits_per_job max_failed_commits",
    "manifests:(4,)f8 manifests_low manifests_high detector real_probability:f8",
    # failures and clients
    "request_error:f8 fatal_error:f8 lost_answer:f8 client_crash:f8 on_unknown status_checks min_wait_ms max_wait_ms",
    f"time_limits:({NUM_OPERATIONS},)f8",
    "backoff_kind keeps_handles starts_from_handle reads_history computes client_time:(4,)f8 committer",
    # declarative protocols: the steps of each phase are a range of ``World.steps``
    "phase_first:(6,)i8 phase_end:(6,)i8 checkpoint_every checkpoint_by_writer rebases",
)

STEP = _record(
    "in_catalog discovers checks with_next publishes attempts parallel counter size_bytes bytes_per_file bytes_per_version",
    "count:f8 per_version_behind:f8 per_attempt:f8 per_file:f8 per_log_entry:f8 access:(4,)f8 sized:(3,)f8",
)
"""Step of a protocol: the fields of ``ProtocolStep``, the counter of its requests, and their latency."""
EACH_ATTEMPT, FIRST_ATTEMPT, RETRIES = range(3)

SOURCE = _record(
    "cls key:u8 ordinal client first_ms end_ms backoff_state_ms uncommitted blocked running late due job_end_ms round delivered",
    "collected_ms job_data_ms",
)

COMMITTER = _record(
    "source interval_ms max_batch limit next_ms waiting under_way head tail called timed",
    "round num_writers timeout_ms round_number delivered deadline_ms ready end_ms",
)
"""Committer: its source, settings, list of file batches, scheduled events, and open round.

The first file batches of the list belong to the current commit.
"""

HANDOVER = _record("time_ms source next data_start_ms")

SUBMISSION = _record("time_ms operation runtime_ms table first_partition partitions")
"""Submission of a trace.

A negative value is missing in the trace, so the engine draws it. The partitions are a range of ``World.traced_partitions``.
"""

_ROW = (
    "now_ms txn_id cls operation written event_count retries false_conflicts",
    f"times:(6,)f8 counts:({NUM_COUNTS},)i8 commit_latency_ms status reason submit_ms entered_ms restarts real_conflicts",
    "client unknown_outcomes installs table_metadata_bytes table_manifests table_snapshots data_start_ms",
    "batch_size batch_wait_ms batch_longest_wait_ms",
    "list_requests catalog_requests data_reads data_writes",
)
ROW = _record(*_ROW)
"""Fields of a row of results. The record of a transaction begins with these fields."""
BATCH_WORDS, PROTOCOL_WORDS = 3, 4
"""Number of fields at the end of a row that only committers use, and number of fields that only protocols use."""

TXN = _in_lines(
    *_ROW,
    # fields that every attempt uses
    "event group seq log_offset read tracks_partitions attempt append_due redo_tables",
    "storage_key:u8 storage_index catalog_key:u8 catalog_index effect_ms success_ms failure_ms elapsed_ms round_trips",
    "commit_started_ms key:u8 conflict_index backoff_index",
    # other fields
    "source next_free runtime_ms checkpoint_offset applied table_cursor history_start written_before lost_files failure_index",
    "deadline_ms known_by_key failed on_handle rebased took_effect status_checks final_reason client_index backoff_state_ms",
    # a job with several commits: the number of the current commit, the key and runtime of the job, and the outcome of earlier
    # commits
    "job_commit job_key:u8 job_start_ms job_runtime_ms job_failed job_installs",
    # declarative protocols: the phase, its next step, its remaining requests, and the version at its start; the version at the end
    # of the load, conflicting commits that the client has learned about, and the files of the tables
    "phase place requests_left phase_seq start_seq conflicting conflict_is_certain known_files",
)
"""Transaction in flight. Fields that are used together are adjacent, because a record spans several cache lines."""

GROUP = _record("seq log_offset checkpoint_offset entries sealed writable_ms published")

TABLE = _record(
    "version whole_commits group partitions first_partition list_offset list_start list_sealed",
    # files
    "data data_bytes deletes delete_bytes snapshots length head data_revision delete_revision merges",
    # times of snapshots: a list from the oldest to the newest, and the snapshots before the run
    "initial_interval_ms recorded oldest newest",
    # state at a service
    "ref locked committing batch_open batch_head batch_tail",
)

TOUCHED = _in_lines(
    "table version ref swapped partitions list_offset list_sealed redo",
    # state of an operation on one of Iceberg's paths
    "start prepared_version seen base prepared data_revision delete_revision merges lost made made_list merged bins",
    "snapshots manifests kept",
    # version cached by the writer, if it caches table handles
    "known_version",
)
"""Table that a transaction accesses: the version that it read, and the state of its attempts."""

TRAITS = _record(*(field.name for field in fields(Traits)))
"""Traits of a snapshot that an operation of a class creates.

An operation of PyIceberg can create two snapshots. For other operations, the second record is ``UNUSED``.
"""
UNUSED = -1

HISTORY = _record("parent kind data deletes partitions first last")
"""Snapshot of a table: its parent, the manifests that it added, and the partitions that it wrote.

``partitions`` is the number of partitions, or -1 if the snapshot may have written to any partition. ``first`` and ``last`` are the
ends of their range.
"""

AGE = _record("time_ms next")
"""Time of a retained snapshot, in a list from the oldest to the newest snapshot of a table."""

PARTITION = _record("partition version")
"""Partition that a transaction writes, and the version that the transaction read."""

KEPT = _record("known seq history_start")
"""Cached handle of a writer for one table of a catalog service."""

REQUEST = _record("then u:f8 back_ms began_ms queued_ms arrived_ms next next_member serving leads members retries outcome")
"""Request of a transaction at a catalog service, with the next request in the same queue."""

INTEGER = _record("value")
EVENT = _record("time_ms owner")


def point(world: World) -> World:
    """Write the addresses and sizes of the arrays to the record of the run."""
    run = world.run[0]
    for name, array in zip(world._fields, world, strict=True):
        if name != "run":
            assert array.flags.c_contiguous
            run[name] = array.ctypes.data
    run["row_capacity"] = len(world.row_tables)
    run["row_stride"] = world.rows.shape[1]
    for name in ("quantiles", "sources", "tables"):
        run[f"num_{name}"] = len(getattr(world, name))
    run["max_tables"], run["max_partitions"] = world.partitions_touched.shape[1:]
    run["scratch_length"] = world.scratch.shape[1]
    run["num_traits"] = world.traits.shape[1]
    run["history_capacity"] = len(world.history)
    run["handover_capacity"] = len(world.handovers)
    run["age_capacity"] = len(world.ages)
    return world


INITIAL_HANDOVERS = 1024
INITIAL_AGES = 4096


def with_more_slots(world: World, slots: int) -> World:
    """Return the run with capacity for ``slots`` transactions in flight."""
    old = len(world.txns)
    txns = aligned(slots, TXN)
    txns[:old] = world.txns
    txns["txn_id"][old:] = -1
    txns["next_free"][old:] = np.arange(old + 1, slots + 1)
    run = world.run[0]
    txns["next_free"][-1] = run["free_head"]
    run["free_head"] = old
    touched = aligned((slots, *world.touched.shape[1:]), TOUCHED)
    touched[:old] = world.touched
    partitions = np.zeros((slots, *world.partitions_touched.shape[1:]), PARTITION)
    partitions[:old] = world.partitions_touched
    heap = _heap(world, slots, len(world.handovers))
    requests = np.zeros(slots if run["catalog_kind"] == SERVICE else 0, REQUEST)
    requests[: len(world.requests)] = world.requests
    return point(world._replace(txns=txns, touched=touched, partitions_touched=partitions, heap=heap, requests=requests))


def _heap(world: World, slots: int, handovers: int) -> Array:
    """Return the event queue with capacity for all events that can be scheduled at once.

    A slot and a handoff have at most one event, a source at most two, and a committer at most three.
    """
    size = slots + 2 * len(world.sources) + 3 * len(world.committers) + handovers
    heap = aligned(size, EVENT, ahead=1)  # the four children of an event share a cache line
    heap[: len(world.heap)] = world.heap
    return heap


def with_more_handovers(world: World) -> World:
    """Return the run with capacity for twice the number of handoffs."""
    old = len(world.handovers)
    handovers = np.zeros(max(2 * old, INITIAL_HANDOVERS), HANDOVER)
    handovers[:old] = world.handovers
    handovers["next"][old:] = np.arange(old + 1, len(handovers) + 1)
    run = world.run[0]
    handovers["next"][-1] = run["handover_free"]
    run["handover_free"] = old
    return point(world._replace(handovers=handovers, heap=_heap(world, len(world.txns), len(handovers))))


def with_more_ages(world: World) -> World:
    """Return the run with capacity for the times of more retained snapshots."""
    run, old = world.run[0], len(world.ages)
    least = int(run["ages_held"]) + 2 * (int(run["max_tables"]) + int(run["in_batches"]))
    ages = np.zeros(max(2 * old, 2 * least, INITIAL_AGES), AGE)
    ages[:old] = world.ages
    ages["next"][old:] = np.arange(old + 1, len(ages) + 1)
    ages["next"][-1] = run["age_free"]
    run["age_free"] = old
    return point(world._replace(ages=ages))


def with_room_in_history(world: World) -> World:
    """Return the run with capacity for more snapshots, without those that no transaction needs."""
    run = world.run[0]
    first, end = int(run["history_first"]), int(run["history_end"])
    live = world.txns["txn_id"] >= 0
    needed = min(int(world.txns["history_start"][live].min(initial=end)), end)
    kept = world.kept_handles[world.classes["reads_history"][world.sources["cls"][: len(world.kept_handles)]] != 0]
    needed = int(kept["history_start"][kept["known"] != 0].min(initial=needed))
    retained = slice(needed - first, end - first)
    length = len(world.history) if end - needed <= len(world.history) // 2 else 2 * len(world.history)
    while length < end - needed + 2 * (int(run["max_tables"]) + int(run["in_batches"])):
        length *= 2
    history = np.zeros(length, HISTORY)
    partitions = np.zeros((length, world.history_partitions.shape[1]), np.int64)
    history[: end - needed] = world.history[retained]
    partitions[: end - needed] = world.history_partitions[retained]
    run["history_first"] = needed
    return point(world._replace(history=history, history_partitions=partitions))
