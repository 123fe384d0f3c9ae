"""Define transactions, which are operations on tables, and the commit protocols that they follow."""

from endive.table.files import ManifestListCounters as ManifestListCounters
from endive.table.files import ManifestLists as ManifestLists
from endive.transaction.operation_classes import OPERATIONS as OPERATIONS
from endive.transaction.operation_classes import ConflictDetector as ConflictDetector
from endive.transaction.operation_classes import DeleteTransaction as DeleteTransaction
from endive.transaction.operation_classes import ExpireSnapshotsTransaction as ExpireSnapshotsTransaction
from endive.transaction.operation_classes import FastAppendTransaction as FastAppendTransaction
from endive.transaction.operation_classes import MergeAppendTransaction as MergeAppendTransaction
from endive.transaction.operation_classes import OverwriteTransaction as OverwriteTransaction
from endive.transaction.operation_classes import ReadOnlyTransaction as ReadOnlyTransaction
from endive.transaction.operation_classes import ReplacePartitionsTransaction as ReplacePartitionsTransaction
from endive.transaction.operation_classes import RewriteFilesTransaction as RewriteFilesTransaction
from endive.transaction.operation_classes import RowDeltaTransaction as RowDeltaTransaction
from endive.transaction.operation_classes import Transaction as Transaction
from endive.transaction.operation_classes import ValidatedOverwriteTransaction as ValidatedOverwriteTransaction
from endive.transaction.policy import Backoff as Backoff
from endive.transaction.policy import CommitPolicy as CommitPolicy
from endive.transaction.policy import ManifestCount as ManifestCount
from endive.transaction.policy import ObjectSizes as ObjectSizes
from endive.transaction.types import ConflictCost as ConflictCost
from endive.transaction.types import TraceEvent as TraceEvent
from endive.transaction.types import Tracer as Tracer
from endive.transaction.types import TransactionResult as TransactionResult
from endive.transaction.types import TransactionStatus as TransactionStatus
