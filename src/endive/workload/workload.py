"""Define the workload of a run: tables, classes, and the transactions that they submit.

A configuration and a seed determine the sources. A source submits the transactions of a class, or of one writer of a class, in
sequence. Each transaction depends only on the seed, the class, the writer and its ordinal.
"""

from __future__ import annotations

import heapq
import math
import secrets
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from endive.arithmetic.backoff import state_after_commit_ms
from endive.arithmetic.costs import fractional_count, pick, written_count
from endive.arithmetic.draws import MASK, derive
from endive.catalog.snapshots import TableHandles
from endive.randomness import Purpose, RandomSource, TransactionStreams, class_key, transaction_streams
from endive.storage import LatencyDistribution
from endive.transaction import (
    OPERATIONS,
    CommitPolicy,
    MergeAppendTransaction,
    ReadOnlyTransaction,
    RewriteFilesTransaction,
    Transaction,
)
from endive.transaction.operation_classes import Job
from endive.workload import arrivals
from endive.workload.classes import (
    DEFAULT_CLASS,
    PartitionSelector,
    TableSelector,
    UniformPartitionSelector,
    UniformTableSelector,
    WeightedSelector,
    WorkloadClass,
    ZipfCount,
    zipf_cumulative,
)


@dataclass(frozen=True)
class WorkloadConfig:
    """Tables, table groups and workload classes.

    If ``classes`` is empty, the other fields describe a single class.
    """

    inter_arrival: LatencyDistribution | None = None
    runtime: LatencyDistribution | None = None
    num_tables: int = 1
    partitions_per_table: tuple[int, ...] = (1,)

    fast_append_weight: float = 0.7
    merge_append_weight: float = 0.2
    validated_overwrite_weight: float = 0.1

    tables_per_txn: int | ZipfCount = 1
    table_selector: TableSelector | None = None
    partitions_per_txn: float | None = None
    partition_selector: PartitionSelector | None = None

    manifests_per_concurrent_commit: float = 1.5

    classes: tuple[WorkloadClass, ...] = field(default=(), kw_only=True)
    table_groups: tuple[int, ...] | None = field(default=None, kw_only=True)
    spans_groups: bool = field(default=False, kw_only=True)
    """True if a transaction can write tables of several table groups. The catalog must then commit atomically across groups."""

    def __post_init__(self) -> None:
        if self.num_tables < 1 or len(self.partitions_per_table) != self.num_tables:
            raise ValueError(
                f"partitions_per_table must have one value per table ({self.num_tables}), not {len(self.partitions_per_table)}"
            )
        if not self.classes and (self.inter_arrival is None or self.runtime is None):
            raise ValueError("classes is empty; set classes, or inter_arrival and runtime")
        weights = tuple(self._weights.values())
        if not self.classes and not (min(weights) >= 0.0 and 0.0 < sum(weights) < math.inf):
            raise ValueError(f"weights of operations must not be negative, and at least one must be above 0, not {weights}")
        names = [cls.name for cls in self.classes]
        if len(set(names)) != len(names):
            raise ValueError(f"names of workload classes must be unique, not {names}")

    @property
    def _weights(self) -> dict[type[Transaction], float]:
        """Weights of the operations of the single class."""
        names = ("fast_append", "merge_append", "validated_overwrite")
        return {OPERATIONS[name]: getattr(self, f"{name}_weight") for name in names}

    @cached_property
    def workload_classes(self) -> tuple[WorkloadClass, ...]:
        """Workload classes in order of their names, so that results do not depend on their order in the file."""
        if self.classes:
            return tuple(sorted(self.classes, key=lambda cls: cls.name))
        assert self.inter_arrival is not None
        assert self.runtime is not None
        return (
            WorkloadClass(
                name=DEFAULT_CLASS,
                arrivals=arrivals.OpenArrivals(self.inter_arrival),
                runtime=self.runtime,
                operations=self._weights,
                tables_per_txn=self.tables_per_txn,
                table_selector=self.table_selector or UniformTableSelector(),
                partitions_per_txn=self.partitions_per_txn,
                partition_selector=self.partition_selector or UniformPartitionSelector(),
                manifests_per_concurrent_commit=self.manifests_per_concurrent_commit,
            ),
        )

    @cached_property
    def groups(self) -> tuple[int, ...]:
        """Table group of each table."""
        return self.table_groups or (0,) * self.num_tables


_DRAWN = arrivals.Submission(0.0)


class Source:
    """Source of the transactions of a class, or of one of its writers.

    ``rank`` orders arrivals of several sources at the same time.
    """

    def __init__(self, config: WorkloadConfig, cls: WorkloadClass, key: int, client: int, rank: int) -> None:
        self.workload_class = cls
        self.rank = rank
        self.ordinal = 0
        self._config = config
        self._key = key
        self._client = client
        self.writer = client if client < cls.arrivals.numbered_writers else -1
        """Number of the writer, or -1 if the workload class does not number its writers."""
        self._candidates = tuple(range(config.num_tables)) if cls.tables is None else cls.tables
        self._chooses_freely = config.spans_groups or not any(config.groups)
        self._operations = sorted(cls.operations.items(), key=lambda item: item[0].operation_type)
        self._streams = transaction_streams(key, client, 0)
        self._known_versions: dict[int, int] = {}
        self._handles = TableHandles()
        self._backoff_state_ms: float | None = None
        self.uncommitted = 0
        """Number of uncommitted file batches of the writer, if the class has a committer."""
        self.blocked = False
        """True while a closed-loop client waits because it has too many uncommitted file batches."""
        self.running = False
        """True while a periodic writer runs a job. Without a committer, the job includes the commit."""
        self.job_end_ms = math.inf
        """End of the last job of the writer, if the class has a committer."""
        self.late = False
        """True if a periodic writer has missed a scheduled time and has not started since then."""
        self.collected_ms = cls.start_ms
        """Time up to which previous transactions or jobs of the source have collected data."""
        self._job_data_ms = cls.start_ms
        self.round = 0
        """Committer round in which the last job of the writer started."""
        self.delivered = False
        """True if the writer has handed off its file batch of the open round."""
        self.due = False
        """True if the engine has scheduled a late start of the writer at the current time."""

    @property
    def key(self) -> int:
        """Key of the random streams of the transactions of the source."""
        return derive(self._key, self._client)

    @property
    def closed(self) -> bool:
        """True if the source submits its next transaction only after the current one has ended."""
        return self.workload_class.arrivals.waits

    @property
    def paced(self) -> bool:
        """True if the source submits at scheduled times, one transaction at a time."""
        return self.workload_class.arrivals.paced

    @property
    def is_free(self) -> bool:
        """True if a periodic writer may start a job.

        This is the case if the writer does not run a job, does not wait for the end of the open round, and does not have too many
        uncommitted file batches.
        """
        return not self.running and not self.delivered and not 0 < self.workload_class.most_uncommitted <= self.uncommitted

    def take_slot(self, now_ms: float, counters: arrivals.SlotCounters) -> bool:
        """Return whether a periodic writer starts at the current scheduled time. A writer that is busy misses this time.

        A writer whose late start is due now or whose job ends now does not miss the time, because the engine processes these events
        after arrivals.
        """
        if self.due or self.is_free:
            return not self.due
        self.late = True
        counters.slots_missed += not self.running or now_ms < self.job_end_ms
        return False

    def next_delay_ms(self, now_ms: float = 0.0) -> float:
        """Return the time from ``now_ms`` to the next submission, in ms. The time is infinite after the last submission.

        ``now_ms`` is the time of the last submission or, in a closed loop, the end of the last transaction. It is 0 before the
        first submission.
        """
        rng = self._streams.stream(Purpose.ARRIVAL)
        return self.workload_class.arrivals.delay_ms(now_ms, self.ordinal, self.first_ms, rng)

    def next_submit_ms(self, now_ms: float = 0.0) -> float:
        """Return the time of the next submission in ms. A time from a trace is not rounded."""
        traced_ms = self.workload_class.arrivals.traced_ms(self.ordinal)
        return now_ms + self.next_delay_ms(now_ms) if traced_ms is None else traced_ms

    @property
    def first_ms(self) -> float:
        """Start of the source in ms. A periodic source submits its first transaction at this time."""
        cls = self.workload_class
        return cls.start_ms + cls.arrivals.first_ms(self._key, self._client)

    def collect(self, now_ms: float) -> None:
        """Start a job. The job of a numbered writer collects the data since the start of its previous job."""
        if self.writer >= 0:
            self._job_data_ms, self.collected_ms = self.collected_ms, now_ms

    def batch_start_ms(self, now_ms: float) -> float:
        """Return the start of the data in a file batch that the source hands off now, in ms.

        For a numbered writer, the data starts at the start of its previous job. A source without numbered writers can run several
        jobs at a time. Its data starts at its previous handoff.
        """
        if self.writer < 0:
            self._job_data_ms, self.collected_ms = self.collected_ms, now_ms
        return self._job_data_ms

    def next_work_ms(self) -> float:
        """Return the duration of the job that collects the next file batch of the writer, and advance the source."""
        given, streams = self._next_traced(), self._streams
        self._advance()
        return self.workload_class.runtime.sample(streams.stream(Purpose.RUNTIME)) if given.runtime_ms is None else given.runtime_ms

    def _advance(self) -> None:
        self.ordinal += 1
        self._streams = transaction_streams(self._key, self._client, self.ordinal)

    def make(self, txn_id: int, submit_ms: float) -> tuple[Transaction, TransactionStreams]:
        """Create the next transaction and its random streams, and advance the source."""
        cls, streams, given = self.workload_class, self._streams, self._next_traced()
        operation = given.operation or self._operation(streams.stream(Purpose.OPERATION))
        read, written = self._tables(streams.stream(Purpose.TABLES)) if given.table is None else (frozenset({given.table}),) * 2
        partitions = None
        if issubclass(operation, ReadOnlyTransaction):
            written = frozenset()
        elif given.table is not None and given.partitions is not None:
            partitions = {given.table: given.partitions}
        elif cls.partitions_per_txn is not None:
            partitions = self._partitions(written, cls.partitions_per_txn, streams.stream(Purpose.PARTITIONS))
        extra: dict[str, Any] = {} if cls.settings is None else {"settings": cls.settings}
        if issubclass(operation, MergeAppendTransaction):
            extra["manifests_per_concurrent_commit"] = cls.manifests_per_concurrent_commit
        txn = operation(
            txn_id,
            submit_ms,
            cls.runtime.sample(streams.stream(Purpose.RUNTIME)) if given.runtime_ms is None else given.runtime_ms,
            written,
            partitions,
            tables_read=read,
            group=self._config.groups[min(read)],
            workload_class=cls.name,
            **extra,
        )
        txn.client = self.writer
        commits = 1 if cls.settings is None else cls.settings.commits_per_job
        if commits > 1 and isinstance(txn, RewriteFilesTransaction):
            assert cls.settings is not None
            most = cls.settings.max_failed_commits
            txn.job = Job(commits, txn.runtime_ms, commits if most is None else most, streams)
            txn.runtime_ms /= commits
        self._advance()
        return txn, streams

    def equip(self, txn: Transaction, policy: CommitPolicy) -> None:
        """Set the cached tables and the backoff state of the writer on its next transaction."""
        if policy.table_handle == "kept":
            known, txn.handles = self._known_versions, self._handles
            txn.known_versions = {table_id: known[table_id] for table_id in txn.tables_read if table_id in known}
        if policy.backoff.kind == "aimd":
            txn.backoff_state_ms = policy.backoff.base_ms if self._backoff_state_ms is None else self._backoff_state_ms

    def learn(self, txn: Transaction, policy: CommitPolicy, committed: bool) -> None:
        """Take over the cached tables and the backoff state from a transaction that has ended.

        The version of a cached table never decreases.
        """
        ended = txn.lifecycle
        if ended is None:
            return
        if ended.known is not None:
            for table_id, version in ended.known.items():
                self._known_versions[table_id] = max(version, self._known_versions.get(table_id, version))
        if policy.backoff.kind == "aimd":
            state_ms = ended.backoff_state_ms
            self._backoff_state_ms = state_after_commit_ms(state_ms, policy.backoff.base_ms) if committed else state_ms

    def _next_traced(self) -> arrivals.Submission:
        """Return the submission of the trace for the next transaction. Without a trace, all fields of the submission are None."""
        traced = self.workload_class.arrivals.traced
        return traced[self.ordinal] if traced else _DRAWN

    def _operation(self, rng: RandomSource) -> type[Transaction]:
        left = rng.random_sample() * sum(weight for _, weight in self._operations)
        for operation, weight in self._operations:
            left -= weight
            if left < 0.0:
                return operation
        return next(operation for operation, weight in reversed(self._operations) if weight > 0.0)

    @cached_property
    def _candidates_by_group(self) -> dict[int, list[int]]:
        """Tables that the class can select, by table group."""
        found: dict[int, list[int]] = {}
        for table in self._candidates:
            found.setdefault(self._config.groups[table], []).append(table)
        return found

    def _tables(self, rng: RandomSource) -> tuple[frozenset[int], frozenset[int]]:
        """Return the tables that a transaction reads and writes.

        The first table is one of the tables of the class. The other tables belong to the same table group.
        """
        cls, candidates = self.workload_class, self._candidates
        count = self._table_count(rng)
        if self._chooses_freely:
            read, written = cls.table_selector.select(n_tables=count, total_tables=len(candidates), rng=rng)
            return frozenset(candidates[i] for i in read), frozenset(candidates[i] for i in written)
        first = candidates[next(iter(cls.table_selector.select(n_tables=1, total_tables=len(candidates), rng=rng)[0]))]
        group = self._config.groups[first]
        others = [table for table in self._candidates_by_group[group] if table != first] if count > 1 else []
        if not others:
            return frozenset({first}), frozenset({first})
        selector = cls.table_selector
        if isinstance(selector, WeightedSelector):
            tables = [first, *(others[i] for i in selector.picks(count - 1, len(others), rng))]
            return frozenset(tables), frozenset(tables[: written_count(len(tables), selector.write_fraction)])
        read, written = selector.select(n_tables=count - 1, total_tables=len(others), rng=rng)
        return frozenset({first, *(others[i] for i in read)}), frozenset({first, *(others[i] for i in written)})

    def _table_count(self, rng: RandomSource) -> int:
        count = self.workload_class.tables_per_txn
        if isinstance(count, ZipfCount):
            total = len(self._candidates)
            return 1 + pick(zipf_cumulative(total, count.alpha), total, (), (), 0, rng.random_sample())
        return count

    def _partitions(self, tables: frozenset[int], mean: float, rng: RandomSource) -> dict[int, frozenset[int]]:
        cls = self.workload_class
        chosen = {}
        for table in sorted(tables):
            total = self._config.partitions_per_table[table]
            first, end = cls.partition_range or (0, total)
            count = int(mean) if mean == int(mean) else max(1, fractional_count(mean, rng.random_sample()))
            _, written = cls.partition_selector.select(n_partitions=count, total_partitions=end - first, rng=rng)
            chosen[table] = frozenset(first + partition for partition in written)
        return chosen


_NO_WORK = arrivals.Submission(0.0, runtime_ms=0.0)


class CommitterSource(Source):
    """Source of the commits of a committer. It is numbered after the last writer, and its transactions have no job."""

    def _next_traced(self) -> arrivals.Submission:
        return _NO_WORK


class Workload:
    """Workload of a run.

    If no seed is given, the constructor chooses a random seed and stores it in ``seed``.
    """

    def __init__(self, config: WorkloadConfig, seed: int | None = None) -> None:
        self.config = config
        self.seed = secrets.randbits(32) if seed is None else seed & MASK

    def reseeded(self, seed: int) -> Workload:
        """Return the same workload with another seed."""
        return Workload(self.config, seed)

    def sources(self) -> tuple[Source, ...]:
        """Return new sources in order of their ranks."""
        made: list[Source] = []
        for cls in self.config.workload_classes:
            key = class_key(self.seed, cls.name)
            first = len(made)
            writers = cls.arrivals.numbered_writers or 1
            made.extend(Source(self.config, cls, key, writer, first + writer) for writer in range(writers))
            if cls.committer is not None:
                made.append(CommitterSource(self.config, cls, key, writers, first + writers))
        return tuple(made)

    def generate(self) -> Generator[tuple[float, Transaction], None, None]:
        """Yield each transaction with the time since the previous one, in ms.

        The times are those of periodic writers that do not miss a scheduled time.

        Raises:
            ValueError: If a class is a closed loop or has a committer, because its submission times are then known only in a run.
        """
        sources = self.sources()
        if any(source.closed for source in sources):
            raise ValueError("submissions of a closed loop depend on the end of transactions and cannot be listed without a run")
        if any(isinstance(source, CommitterSource) for source in sources):
            raise ValueError("commits of a committer depend on the end of earlier commits and cannot be listed without a run")
        now_ms = 0.0
        pending = [(source.next_submit_ms(), source.rank) for source in sources]
        heapq.heapify(pending)
        for txn_id in range(2**63):
            submit_ms, rank = pending[0]
            if submit_ms == math.inf:
                return
            source = sources[rank]
            txn, _ = source.make(txn_id, submit_ms)
            yield submit_ms - now_ms, txn
            now_ms = submit_ms
            next_ms = source.next_submit_ms(submit_ms)
            heapq.heapreplace(pending, (next_ms if next_ms < source.workload_class.end_ms else math.inf, rank))
