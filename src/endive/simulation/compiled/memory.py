"""Find the records of a run: the run's record has the addresses of the arrays, and these functions find items there.

Functions of the kernel take one record in place of fifteen arrays, which makes them cheap to call and to compile. The caller of the
kernel keeps the arrays alive (``layout.World``).
"""

from __future__ import annotations

from numba import types

from endive.simulation.compiled import layout
from endive.simulation.compiled.native.intrinsics import array_finder, record_finder, row_writer

_ROW_WORDS = layout.ROW.itemsize // 8
write_row = row_writer(0, _ROW_WORDS - layout.BATCH_WORDS)
"""Write a transaction's row without the columns of committers, which ``write_batch`` writes."""
write_batch = row_writer(_ROW_WORDS - layout.BATCH_WORDS, _ROW_WORDS)
committer_at = record_finder("committers", layout.COMMITTER)
handover_at = record_finder("handovers", layout.HANDOVER)
class_at = record_finder("classes", layout.CLASS)
source_at = record_finder("sources", layout.SOURCE)
submission_at = record_finder("submissions", layout.SUBMISSION)
known_version_at = record_finder("known_versions", layout.INTEGER, "num_tables")
traced_partition_at = record_finder("traced_partitions", layout.INTEGER)
txn_at = record_finder("txns", layout.TXN)
group_at = record_finder("groups", layout.GROUP)
table_at = record_finder("tables", layout.TABLE)
event_at = record_finder("heap", layout.EVENT)
candidate_at = record_finder("candidates", layout.INTEGER)
partition_version_at = record_finder("partitions", layout.INTEGER)
touched_at = record_finder("touched", layout.TOUCHED, "max_tables")
row_table_at = record_finder("row_tables", layout.INTEGER, "max_tables")
traits_at = record_finder("traits", layout.TRAITS, "num_traits")
history_at = record_finder("history", layout.HISTORY)
request_at = record_finder("requests", layout.REQUEST)
history_partition_at = record_finder("history_partitions", layout.INTEGER, "max_partitions")
partition_at = record_finder("partitions_touched", layout.PARTITION, "max_tables", "max_partitions")
floats_at = array_finder(types.float64)
integers_at = array_finder(types.int64)
