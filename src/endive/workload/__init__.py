"""Workloads: topology, arrivals, and the choice of operations, tables and partitions."""

from endive.workload.classes import (
    DEFAULT_CLASS,
    Arrivals,
    ClosedArrivals,
    OpenArrivals,
    PeriodicArrivals,
    WorkloadClass,
    ZipfCount,
)
from endive.workload.groups import assign_groups
from endive.workload.selectors import (
    PartitionSelector,
    TableSelector,
    UniformPartitionSelector,
    UniformTableSelector,
    ZipfPartitionSelector,
    ZipfTableSelector,
)
from endive.workload.workload import Source, Workload, WorkloadConfig

__all__ = [
    "DEFAULT_CLASS",
    "Arrivals",
    "ClosedArrivals",
    "OpenArrivals",
    "PartitionSelector",
    "PeriodicArrivals",
    "Source",
    "TableSelector",
    "UniformPartitionSelector",
    "UniformTableSelector",
    "Workload",
    "WorkloadClass",
    "WorkloadConfig",
    "ZipfCount",
    "ZipfPartitionSelector",
    "ZipfTableSelector",
    "assign_groups",
]
