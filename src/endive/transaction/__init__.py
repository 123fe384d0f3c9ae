"""Transactions: operations on tables and their way through the commit protocol."""

from endive.transaction.base import ConflictDetector, Transaction
from endive.transaction.manifest_lists import ManifestListCounters, ManifestLists
from endive.transaction.operations import (
    OPERATIONS,
    FastAppendTransaction,
    MergeAppendTransaction,
    ReadOnlyTransaction,
    ValidatedOverwriteTransaction,
)
from endive.transaction.policy import Backoff, CommitPolicy, ManifestCount, ObjectSizes
from endive.transaction.trace import TraceEvent, Tracer
from endive.transaction.types import ConflictCost, TransactionResult, TransactionStatus

__all__ = [
    "OPERATIONS",
    "Backoff",
    "CommitPolicy",
    "ConflictCost",
    "ConflictDetector",
    "FastAppendTransaction",
    "ManifestCount",
    "ManifestListCounters",
    "ManifestLists",
    "MergeAppendTransaction",
    "ObjectSizes",
    "ReadOnlyTransaction",
    "TraceEvent",
    "Tracer",
    "Transaction",
    "TransactionResult",
    "TransactionStatus",
    "ValidatedOverwriteTransaction",
]
