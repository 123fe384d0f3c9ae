"""Transactions: operations on tables and their way through the commit protocol."""

from endive.transaction.base import ConflictDetector, Transaction
from endive.transaction.manifest_lists import ManifestListCounters, ManifestLists
from endive.transaction.operations import (
    OPERATIONS,
    DeleteTransaction,
    ExpireSnapshotsTransaction,
    FastAppendTransaction,
    MergeAppendTransaction,
    OverwriteTransaction,
    ReadOnlyTransaction,
    ReplacePartitionsTransaction,
    RewriteFilesTransaction,
    RowDeltaTransaction,
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
    "DeleteTransaction",
    "ExpireSnapshotsTransaction",
    "FastAppendTransaction",
    "ManifestCount",
    "ManifestListCounters",
    "ManifestLists",
    "MergeAppendTransaction",
    "ObjectSizes",
    "OverwriteTransaction",
    "ReadOnlyTransaction",
    "ReplacePartitionsTransaction",
    "RewriteFilesTransaction",
    "RowDeltaTransaction",
    "TraceEvent",
    "Tracer",
    "Transaction",
    "TransactionResult",
    "TransactionStatus",
    "ValidatedOverwriteTransaction",
]
