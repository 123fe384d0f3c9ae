"""Access the records of a run. The run's record contains the addresses of the arrays.

Functions of the kernel take one record instead of fifteen arrays, which makes them cheap to call and to compile. The caller of the
kernel keeps the arrays alive (``run_state.World``).
"""

from __future__ import annotations

from numba import types

from endive.simulation.compiled import run_state
from endive.simulation.compiled.native.intrinsics import array_finder, record_finder, row_writer

_ROW_WORDS = run_state.ROW.itemsize // 8
_PROTOCOL_AT = _ROW_WORDS - run_state.PROTOCOL_WORDS
_BATCH_AT = _PROTOCOL_AT - run_state.BATCH_WORDS
write_row = row_writer(0, _BATCH_AT)
"""Function that writes a transaction's row, except the columns of committers and protocols."""
write_batch = row_writer(_BATCH_AT, _PROTOCOL_AT)
"""Function that writes the columns of committers."""
write_requests = row_writer(_PROTOCOL_AT, _ROW_WORDS)
"""Function that writes the columns of protocols."""
step_at = record_finder("steps", run_state.STEP)
committer_at = record_finder("committers", run_state.COMMITTER)
handover_at = record_finder("handovers", run_state.HANDOVER)
class_at = record_finder("classes", run_state.CLASS)
source_at = record_finder("sources", run_state.SOURCE)
submission_at = record_finder("submissions", run_state.SUBMISSION)
known_version_at = record_finder("known_versions", run_state.INTEGER, "num_tables")
kept_table_at = record_finder("kept_tables", run_state.TABLE, "num_tables")
kept_at = record_finder("kept_handles", run_state.KEPT, "num_tables")
traced_partition_at = record_finder("traced_partitions", run_state.INTEGER)
txn_at = record_finder("txns", run_state.TXN)
group_at = record_finder("groups", run_state.GROUP)
table_at = record_finder("tables", run_state.TABLE)
event_at = record_finder("heap", run_state.EVENT)
candidate_at = record_finder("candidates", run_state.INTEGER)
partition_version_at = record_finder("partitions", run_state.INTEGER)
touched_at = record_finder("touched", run_state.TOUCHED, "max_tables")
row_table_at = record_finder("row_tables", run_state.INTEGER, "max_tables")
traits_at = record_finder("traits", run_state.TRAITS, "num_traits")
history_at = record_finder("history", run_state.HISTORY)
age_at = record_finder("ages", run_state.AGE)
request_at = record_finder("requests", run_state.REQUEST)
history_partition_at = record_finder("history_partitions", run_state.INTEGER, "max_partitions")
partition_at = record_finder("partitions_touched", run_state.PARTITION, "max_tables", "max_partitions")
floats_at = array_finder(types.float64)
integers_at = array_finder(types.int64)
