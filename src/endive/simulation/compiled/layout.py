"""The state of a compiled run as arrays: one record for each transaction in flight, class, source, table and group.

The records of transactions are recycled, so their number follows the work in flight and not the length of the run.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from endive.table import OPERATION_CODES, Traits
from endive.transaction.failures import OnUnknown
from endive.transaction.policy import CommitPath, OnRealConflict

# Where time goes: indices of Txn.times, in the order of lifecycle.TIMES.
CATALOG_READ, RUNTIME, PER_ATTEMPT_IO, CONFLICT_IO, BACKOFF, CATALOG_COMMIT = range(6)
# Accesses to files: indices of Txn.counts, in the order of lifecycle.COUNTERS; but for the last also of Class.access, Class.sized.
METADATA_READ, METADATA_WRITE, LIST_READ, LIST_WRITE, FILE_READ, FILE_WRITE, FILE_DELETE, LIST_APPENDS = range(8)
NUM_COUNTS = 8
# Distributions of the catalog: indices of Run.catalog.
READ, COMMIT, FAILED_COMMIT, APPEND, FAILED_APPEND, COMPACTION, FAILED_COMPACTION, LOG_ENTRY = range(8)

EXPIRE_SNAPSHOTS, MERGE_APPEND, READ_ONLY = (OPERATION_CODES[name] for name in ("expire_snapshots", "merge_append", "read_only"))
NUM_OPERATIONS = len(OPERATION_CODES)
COMMIT_PATHS: tuple[CommitPath, ...] = get_args(CommitPath)
ENDIVE, ICEBERG, PYICEBERG = (COMMIT_PATHS.index(path) for path in ("endive", "iceberg", "pyiceberg"))
OPEN, PERIODIC, CLOSED, SCHEDULED, TRACED = range(5)
EXECUTING, COMMITTING, COMMITTED, ABORTED, IN_FLIGHT = range(5)
NO_REASON, MAX_RETRIES, TIMEOUT, VALIDATION, UNAVAILABLE, METADATA_TOO_LARGE, CRASH, STATE_UNKNOWN = range(-1, 7)
ON_REAL_CONFLICT: tuple[OnRealConflict, ...] = get_args(OnRealConflict)
ABORT, MERGE, RESTART = (ON_REAL_CONFLICT.index(policy) for policy in ("abort", "merge", "restart"))
PROBABILISTIC, PARTITION_OVERLAP = range(2)
ON_UNKNOWN: tuple[OnUnknown, ...] = get_args(OnUnknown)
UNKNOWN_CHECK, UNKNOWN_RETRY, UNKNOWN_KEY = (ON_UNKNOWN.index(each) for each in ("check", "retry", "idempotency_key"))
CAS, LOG, SERVICE = range(3)
# Distributions of a service: indices of Run.service.
SERVICE_NETWORK, SERVICE_LOAD, SERVICE_COMMIT, SERVICE_CHECK = range(4)
NOBODY = -1
"""The end of a list of slots."""

# Moments that touch what transactions share: what a transaction's next event is.
(
    START_READ,
    RETRY_READ,
    CAS_EFFECT,
    LOG_COMMIT,
    COMPACTION_EFFECT,
    APPEND_EFFECT,
    DISCOVERY,
    LISTS_READ,
    LIST_APPEND,
    LIST_REWRITE,
    REFRESH,
    AFTER_COMMIT,
    CHECK,
    DONE,
    SERVICE_ARRIVAL,
    SERVICE_BEGIN,
    SERVICE_LOCKED,
    SERVICE_END,
    BATCH_LEAD,
    BATCH_READY,
    BATCH_END,
    BATCH_ANSWER,
    STATUS_CHECK,
) = range(23)

LEVELS = 24
"""Convolved convoys: sums of up to 2^24 batches, more than any transaction can wait for."""
SCORES = 2048
"""Convolved convoys: cells of a table of quantiles, over the normal scores."""

# Why the kernel comes back.
FINISHED, ROWS_FULL, SLOTS_FULL, HISTORY_FULL, PAUSED, HANDOVERS_FULL = range(6)

Array = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CACHE_LINE = 64
"""What a processor reads of its memory at once, in bytes."""


def _in_lines(*names: Any) -> np.dtype[Any]:
    """A record that fills whole lines of the processor's cache, so that what lies together in one does so in every record."""
    words = -np.dtype([*names]).itemsize % CACHE_LINE // 8
    return np.dtype([*names, ("unused", "i8", (words,))] if words else [*names])


def aligned(shape: int | tuple[int, ...], dtype: np.dtype[Any], ahead: int = 0) -> npt.NDArray[Any]:
    """An array of zeros of which item number ``ahead`` begins a line of the processor's cache."""
    shape = (shape,) if isinstance(shape, int) else shape
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    start = -(memory.ctypes.data + ahead * dtype.itemsize) % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


RUN = np.dtype(
    [
        ("now_ms", "f8"),
        ("end_ms", "f8"),
        ("duration_ms", "f8"),
        ("next_id", "i8"),
        ("rows_used", "i8"),
        ("heap_size", "i8"),
        ("heap_hole", "i8"),
        ("free_head", "i8"),
        # addresses and sizes of the other arrays
        ("classes", "i8"),
        ("sources", "i8"),
        ("txns", "i8"),
        ("touched", "i8"),
        ("partitions_touched", "i8"),
        ("groups", "i8"),
        ("tables", "i8"),
        ("partitions", "i8"),
        ("heap", "i8"),
        ("rows", "i8"),
        ("row_tables", "i8"),
        ("weights", "i8"),
        ("quantiles", "i8"),
        ("candidates", "i8"),
        ("convoys", "i8"),
        ("scratch", "i8"),
        ("traits", "i8"),
        ("history", "i8"),
        ("history_partitions", "i8"),
        ("schedules", "i8"),
        ("submissions", "i8"),
        ("traced_partitions", "i8"),
        ("requests", "i8"),
        ("known_versions", "i8"),
        ("committers", "i8"),
        ("handovers", "i8"),
        ("slots", "i8"),
        ("row_capacity", "i8"),
        ("row_stride", "i8"),
        ("num_quantiles", "i8"),
        ("num_weights", "i8"),
        ("num_candidates", "i8"),
        ("num_partitions", "i8"),
        ("num_convoys", "i8"),
        ("num_classes", "i8"),
        ("num_sources", "i8"),
        ("num_tables", "i8"),
        ("scratch_length", "i8"),
        ("num_traits", "i8"),
        ("history_capacity", "i8"),
        ("history_first", "i8"),
        ("history_end", "i8"),
        # the configuration of tables, where their files are kept account of
        ("tracks_files", "i8"),
        ("metadata_bytes", "i8"),
        ("metadata_bytes_per_snapshot", "i8"),
        ("manifest_list_bytes", "i8"),
        ("manifest_list_bytes_per_manifest", "i8"),
        ("manifest_bytes", "i8"),
        ("manifest_header_bytes", "i8"),
        ("min_count_to_merge", "i8"),
        ("target_bytes", "i8"),
        ("merge_manifests", "i8"),
        # the configuration of the catalog
        ("catalog_kind", "i8"),
        ("linearization", "f8"),
        ("log_entry_bytes", "i8"),
        ("compaction_threshold", "i8"),
        ("compaction_max_entries", "i8"),
        ("seal_threshold", "i8"),
        ("log_entry_read", "i8"),
        ("num_groups", "i8"),
        ("max_tables", "i8"),
        ("max_partitions", "i8"),
        ("convolved", "i8"),
        ("catalog", "f8", (8, 4)),
        # the configuration and the state of a catalog service
        ("service", "f8", (4, 4)),
        ("metadata_write", "f8", (4,)),
        ("metadata_sized", "f8", (3,)),
        ("fixed_metadata_bytes", "i8"),
        ("writes_metadata", "i8"),
        ("metadata_limit", "i8"),
        ("write_interval_ms", "f8"),
        ("transfer_ms_per_mib", "f8"),
        ("own_pointers", "i8"),
        ("spans_groups", "i8"),
        ("workers", "i8"),
        ("queue_limit", "i8"),
        ("retry_after_ms", "f8"),
        ("max_resends", "i8"),
        ("locks_tables", "i8"),
        ("server_retries", "i8"),
        ("coalesces", "i8"),
        ("linger_ms", "f8"),
        ("max_batch", "i8"),
        ("busy_workers", "i8"),
        ("waiting", "i8"),
        ("queue_head", "i8"),
        ("queue_tail", "i8"),
        ("queue_length", "i8"),
        ("lock_head", "i8"),
        ("lock_tail", "i8"),
        ("in_batches", "i8"),
        ("commit_success", "i8"),
        ("commit_conflict", "i8"),
        ("append_physical_success", "i8"),
        ("append_physical_failure", "i8"),
        ("append_logical_success", "i8"),
        ("append_logical_conflict", "i8"),
        ("append_compactions_triggered", "i8"),
        ("append_compactions_completed", "i8"),
        ("commit_throttled", "i8"),
        ("service_requests", "i8"),
        ("service_refused", "i8"),
        ("service_retries", "i8"),
        ("service_batches", "i8"),
        ("service_longest_queue", "i8"),
        ("service_busy_ms", "f8"),
        ("service_waited_ms", "f8"),
        ("metadata_limit_reached_ms", "f8"),
        ("manifest_append_physical_success", "i8"),
        ("manifest_append_physical_failure", "i8"),
        ("manifest_append_sealed_rewrite", "i8"),
        # hand-overs to committers; held are those at work and those in a queue
        ("handover_free", "i8"),
        ("handover_capacity", "i8"),
        ("handovers_held", "i8"),
        ("handovers_begun", "i8"),
        ("handovers_made", "i8"),
        ("handovers_committed", "i8"),
        ("handovers_given_up", "i8"),
    ]
)

CLASS = np.dtype(
    [
        ("arrival_kind", "i8"),
        ("arrival", "f8", (4,)),
        ("first_step", "i8"),
        ("steps", "i8"),
        ("first_submission", "i8"),
        ("submissions", "i8"),
        ("runtime", "f8", (4,)),
        ("weights", "f8", (NUM_OPERATIONS,)),
        ("only_operation", "i8"),
        ("tables_per_txn", "i8"),
        ("table_count_weights", "i8"),
        ("table_weights", "i8"),
        ("table_write_fraction", "f8"),
        ("first_candidate", "i8"),
        ("candidates", "i8"),
        ("partitions_per_txn", "f8"),
        ("partition_weights", "i8"),
        ("partition_write_fraction", "f8"),
        ("range_first", "i8"),
        ("range_end", "i8"),
        ("manifests_per_commit", "f8"),
        ("max_retries", "i8"),
        ("max_parallel", "i8"),
        ("inlined", "i8"),
        ("entry_bytes", "i8"),
        ("linearization", "f8"),
        ("commit_path", "i8"),
        ("access", "f8", (7, 4)),
        ("sized", "f8", (7, 3)),
        ("convoy", "i8", (7,)),
        ("list_append", "f8", (4,)),
        ("failed_list_append", "f8", (4,)),
        ("backoff", "i8"),
        ("backoff_base_ms", "f8"),
        ("backoff_multiplier", "f8"),
        ("backoff_max_ms", "f8"),
        ("backoff_jitter", "f8"),
        ("backoff_upwards", "i8"),
        ("timeout_ms", "f8"),
        ("timeout_from_retry", "i8"),
        ("on_real_conflict", "i8"),
        ("max_restarts", "i8"),
        ("manifests", "f8", (4,)),
        ("manifests_low", "i8"),
        ("manifests_high", "i8"),
        ("detector", "i8"),
        ("real_probability", "f8"),
        ("request_error", "f8"),
        ("lost_answer", "f8"),
        ("client_crash", "f8"),
        ("on_unknown", "i8"),
        ("status_checks", "i8"),
        ("check_min_wait_ms", "f8"),
        ("check_max_wait_ms", "f8"),
        ("backoff_kind", "i8"),
        ("keeps_handles", "i8"),
        ("computes", "i8"),
        ("client_time", "f8", (4,)),
        ("committer", "i8"),
    ]
)

SOURCE = np.dtype(
    [
        ("cls", "i8"),
        ("key", "u8"),
        ("ordinal", "i8"),
        ("client", "i8"),
        ("first_ms", "f8"),
        ("end_ms", "f8"),
        ("backoff_state_ms", "f8"),
        ("uncommitted", "i8"),
        ("blocked", "i8"),
    ]
)

COMMITTER = np.dtype(
    [
        ("source", "i8"),
        ("interval_ms", "f8"),
        ("max_batch", "i8"),
        ("limit", "i8"),
        ("next_ms", "f8"),
        ("waiting", "i8"),
        ("under_way", "i8"),
        ("head", "i8"),
        ("tail", "i8"),
        ("called", "i8"),
        ("timed", "i8"),
    ]
)
"""A committer: its source, its settings, the list of its hand-overs (the first are under way), and what it has in the queue."""

HANDOVER = np.dtype([("time_ms", "f8"), ("source", "i8"), ("next", "i8")])

SUBMISSION = np.dtype(
    [("time_ms", "f8"), ("operation", "i8"), ("runtime_ms", "f8"), ("table", "i8"), ("first_partition", "i8"), ("partitions", "i8")]
)
"""A submission of a trace: what is negative is drawn. Partitions are a range of ``World.traced_partitions``."""

ROW = np.dtype(
    [
        ("now_ms", "f8"),
        ("txn_id", "i8"),
        ("cls", "i8"),
        ("operation", "i8"),
        ("written", "i8"),
        ("event_count", "i8"),
        ("retries", "i8"),
        ("false_conflicts", "i8"),
        ("times", "f8", (6,)),
        ("counts", "i8", (NUM_COUNTS,)),
        ("commit_latency_ms", "f8"),
        ("status", "i8"),
        ("reason", "i8"),
        ("submit_ms", "f8"),
        ("entered_ms", "f8"),
        ("restarts", "i8"),
        ("real_conflicts", "i8"),
        ("client", "i8"),
        ("unknown_outcomes", "i8"),
        ("installs", "i8"),
        ("batch_size", "i8"),
        ("batch_wait_ms", "f8"),
        ("batch_longest_wait_ms", "f8"),
    ]
)
"""What a row of results is made of: the beginning of a transaction's record."""
BATCH_WORDS = 3
"""The last fields of a row, which only commits of committers have."""

TXN = _in_lines(
    *((name, *each) for name, *each in ROW.descr),
    # what every attempt touches
    ("event", "i8"),
    ("group", "i8"),
    ("seq", "i8"),
    ("log_offset", "i8"),
    ("read", "i8"),
    ("tracks_partitions", "i8"),
    ("attempt", "i8"),
    ("append_due", "i8"),
    ("redo_tables", "i8"),
    ("storage_key", "u8"),
    ("storage_index", "i8"),
    ("catalog_key", "u8"),
    ("catalog_index", "i8"),
    ("effect_ms", "f8"),
    ("success_ms", "f8"),
    ("failure_ms", "f8"),
    ("elapsed_ms", "f8"),
    ("round_trips", "i8"),
    ("commit_started_ms", "f8"),
    ("key", "u8"),
    ("conflict_index", "i8"),
    ("backoff_index", "i8"),
    # the rest
    ("source", "i8"),
    ("next_free", "i8"),
    ("runtime_ms", "f8"),
    ("checkpoint_offset", "i8"),
    ("applied", "i8"),
    ("table_cursor", "i8"),
    ("history_start", "i8"),
    ("written_before", "i8"),
    ("lost_files", "i8"),
    ("failure_index", "i8"),
    ("known_by_key", "i8"),
    ("rebased", "i8"),
    ("took_effect", "i8"),
    ("status_checks", "i8"),
    ("final_reason", "i8"),
    ("client_index", "i8"),
    ("backoff_state_ms", "f8"),
)
"""A transaction in flight. Fields that are used together lie together: a record is larger than what the nearest cache holds."""

GROUP = np.dtype(
    [("seq", "i8"), ("log_offset", "i8"), ("checkpoint_offset", "i8"), ("entries", "i8"), ("sealed", "i8"), ("writable_ms", "f8")]
)

TABLE = np.dtype(
    [
        ("version", "i8"),
        ("whole_commits", "i8"),
        ("group", "i8"),
        ("partitions", "i8"),
        ("first_partition", "i8"),
        ("list_offset", "i8"),
        ("list_start", "i8"),
        ("list_sealed", "i8"),
        # its files
        ("data", "i8"),
        ("data_bytes", "i8"),
        ("deletes", "i8"),
        ("delete_bytes", "i8"),
        ("snapshots", "i8"),
        ("length", "i8"),
        ("head", "i8"),
        ("data_revision", "i8"),
        ("delete_revision", "i8"),
        ("merges", "i8"),
        # at a service
        ("ref", "i8"),
        ("locked", "i8"),
        ("batch_open", "i8"),
        ("batch_head", "i8"),
        ("batch_tail", "i8"),
    ]
)

TOUCHED = _in_lines(
    ("table", "i8"),
    ("version", "i8"),
    ("ref", "i8"),
    ("partitions", "i8"),
    ("list_offset", "i8"),
    ("list_sealed", "i8"),
    ("redo", "i8"),
    # what an operation on one of Iceberg's paths knows of it
    ("start", "i8"),
    ("prepared_version", "i8"),
    ("seen", "i8"),
    ("base", "i8"),
    ("prepared", "i8"),
    ("data_revision", "i8"),
    ("delete_revision", "i8"),
    ("merges", "i8"),
    ("lost", "i8"),
    ("made", "i8"),
    ("made_list", "i8"),
    ("merged", "i8"),
    ("bins", "i8"),
    ("snapshots", "i8"),
    ("manifests", "i8"),
    # where the writer keeps its handles
    ("known_version", "i8"),
)
"""A table that a transaction touches: the version it has seen, how many partitions it writes, the end of the list it has seen."""

TRAITS = np.dtype([(field.name, "i8") for field in fields(Traits)])
"""A snapshot that an operation of a class makes. With PyIceberg an operation may make two; otherwise the second is ``UNUSED``."""
UNUSED = -1

HISTORY = np.dtype(
    [
        ("parent", "i8"),
        ("kind", "i8"),
        ("data", "i8"),
        ("deletes", "i8"),
        ("partitions", "i8"),
        ("first", "i8"),
        ("last", "i8"),
    ]
)
"""A snapshot: the one before it, what it added, and how many partitions it wrote (-1: any), from which to which."""

PARTITION = np.dtype([("partition", "i8"), ("version", "i8")])
"""A partition that a transaction writes, and the version it has seen."""

REQUEST = np.dtype(
    [
        ("then", "i8"),
        ("u", "f8"),
        ("back_ms", "f8"),
        ("began_ms", "f8"),
        ("queued_ms", "f8"),
        ("arrived_ms", "f8"),
        ("next", "i8"),
        ("next_member", "i8"),
        ("serving", "i8"),
        ("leads", "i8"),
        ("members", "i8"),
        ("retries", "i8"),
        ("outcome", "i8"),
    ]
)
"""A request of a transaction at a service: where it stands, and who comes after it in the list in which it waits."""

INTEGER = np.dtype([("value", "i8")])

EVENT = np.dtype([("time_ms", "f8"), ("whose", "i8")])


class World(NamedTuple):
    """All the arrays of a run."""

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
    convoys: Floats
    scratch: Ints
    traits: Array
    history: Array
    history_partitions: Ints
    schedules: Floats
    submissions: Array
    traced_partitions: Ints
    requests: Array
    known_versions: Ints
    committers: Array
    handovers: Array


def point(world: World) -> World:
    """Write the addresses and sizes of a world's arrays into its run record."""
    run = world.run[0]
    for name, array in zip(world._fields, world, strict=True):
        if name != "run":
            assert array.flags.c_contiguous
            run[name] = array.ctypes.data
    run["slots"] = len(world.txns)
    run["row_capacity"] = len(world.row_tables)
    run["row_stride"] = world.rows.shape[1]
    run["num_quantiles"] = len(world.quantiles)
    run["num_weights"] = len(world.weights)
    run["num_candidates"] = len(world.candidates)
    run["num_partitions"] = len(world.partitions)
    run["num_convoys"] = len(world.convoys)
    run["num_classes"] = len(world.classes)
    run["num_sources"] = len(world.sources)
    run["num_tables"] = len(world.tables)
    run["max_tables"], run["max_partitions"] = world.partitions_touched.shape[1:]
    run["scratch_length"] = world.scratch.shape[1]
    run["num_traits"] = world.traits.shape[1]
    run["history_capacity"] = len(world.history)
    run["handover_capacity"] = len(world.handovers)
    return world
