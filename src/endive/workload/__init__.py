"""Workloads: topology, arrivals, and the choice of operations, tables and partitions."""

from endive.workload.arrivals import (
    Arrivals,
    ClosedArrivals,
    OpenArrivals,
    PeriodicArrivals,
    ScheduledArrivals,
    Submission,
    TraceArrivals,
    WriterArrivals,
    expected_submissions,
    mean_ms,
    writers_of,
)
from endive.workload.classes import DEFAULT_CLASS, WorkloadClass, ZipfCount
from endive.workload.committer import Committer, CommitterSettings, HandOverCounters
from endive.workload.groups import assign_groups
from endive.workload.selectors import (
    PartitionSelector,
    TableSelector,
    UniformPartitionSelector,
    UniformTableSelector,
    ZipfPartitionSelector,
    ZipfTableSelector,
)
from endive.workload.workload import CommitterSource, Source, Workload, WorkloadConfig

__all__ = [
    "DEFAULT_CLASS",
    "Arrivals",
    "ClosedArrivals",
    "Committer",
    "CommitterSettings",
    "CommitterSource",
    "HandOverCounters",
    "OpenArrivals",
    "PartitionSelector",
    "PeriodicArrivals",
    "ScheduledArrivals",
    "Source",
    "Submission",
    "TableSelector",
    "TraceArrivals",
    "UniformPartitionSelector",
    "UniformTableSelector",
    "Workload",
    "WorkloadClass",
    "WorkloadConfig",
    "WriterArrivals",
    "ZipfCount",
    "ZipfPartitionSelector",
    "ZipfTableSelector",
    "assign_groups",
    "expected_submissions",
    "mean_ms",
    "writers_of",
]
