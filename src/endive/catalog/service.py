"""Define the catalog service: a REST catalog or a database, with network latency, a queue and workers.

The service checks the requirements of a commit when it starts to serve the commit. If a requirement fails, the service rejects the
commit after the service time ``check``. Otherwise, the commit takes effect at the end of its service time. If another commit has
changed the table in the meantime, the server repeats the commit at most ``server_retries`` times. docs/explanation/services.md
describes the order of random draws and events.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import replace
from typing import Self

from endive.arithmetic.costs import BYTES_PER_MIB, any_error_probability
from endive.arithmetic.manifests import metadata_size
from endive.catalog.base import CommitRequest, StoredCatalog
from endive.catalog.service_queue import LOST, SERVICE_UNAVAILABLE, Member, Server, ServiceSettings
from endive.catalog.snapshots import METADATA_TOO_LARGE, CatalogSnapshot, CommitResult, TableHandles
from endive.randomness import RandomSource, Stream
from endive.steps import REQUEST_FAILED, RequestFailedError, Step, WaitFor
from endive.storage import TABLE_METADATA, StorageProvider
from endive.table import TableModel

DEFAULT_METADATA_BYTES = 16_384


class ServiceCatalog(StoredCatalog):
    """Catalog service.

    If each table has its own commit pointer, a commit only requires that the main branches of its tables have not moved. Therefore
    an expiry of snapshots does not conflict with an append, and a commit to several tables is atomic.
    """

    def __init__(
        self,
        storage: StorageProvider,
        num_tables: int,
        partitions_per_table: Sequence[int],
        settings: ServiceSettings | None = None,
        *,
        table_groups: Sequence[int] | None = None,
        table_model: TableModel | None = None,
        metadata_bytes: int = DEFAULT_METADATA_BYTES,
        metadata_limit_bytes: int | None = None,
        unpublished_limit: int | None = None,
    ) -> None:
        groups = tuple(range(num_tables)) if table_groups is None else table_groups
        super().__init__(storage, num_tables, partitions_per_table, table_groups=groups, table_model=table_model)
        self.settings = settings or ServiceSettings()
        self.metadata_bytes = metadata_bytes
        self.metadata_limit_bytes = metadata_limit_bytes
        self.unpublished_limit = unpublished_limit
        self.own_pointers = len(set(groups)) == num_tables
        self._rng: RandomSource = Stream(0)
        self._tables: Collection[int] = range(num_tables)
        self._handles: TableHandles | None = None
        self._server = Server(self.settings, self._state.counters)

    def fresh(self) -> Self:
        """Return the catalog in its initial state, with an idle server."""
        catalog = super().fresh()
        catalog._server = Server(self.settings, catalog._state.counters)
        return catalog

    def bind(self, rng: RandomSource | None, group: int = 0) -> Self:
        """Return the catalog for one transaction."""
        view = super().bind(rng, group)
        if rng is not None:
            view._rng = rng
        return view

    def restrict(self, tables: Collection[int]) -> Self:
        """Return the catalog for a transaction that loads only these tables."""
        self._tables = tables
        return self

    def keep_handles(self, handles: TableHandles) -> CatalogSnapshot | None:
        """Update the table handles of the writer with the table state that its transaction observes.

        Returns:
            The cached state if it contains all tables of the transaction, otherwise None.
        """
        self._handles = handles
        return handles.snapshot_of(self._tables)

    @property
    def takes_requirements(self) -> bool:
        """True if the server writes the metadata. A commit is then one POST request that contains its requirements."""
        return self.settings.writes_metadata

    def read(self, timestamp_ms: float = 0.0) -> Generator[Step, None, CatalogSnapshot]:
        """Load the tables of the transaction."""
        now_ms, u, back, _ = yield from self._send(timestamp_ms, joins_batch=False)
        now_ms = began_ms = yield from self._server.enter(now_ms)
        service = self.settings.load.at(u)
        yield service
        now_ms += service
        group = self._state.groups[self._group_id]
        snapshot = CatalogSnapshot(group.seq, self._state.tables, now_ms)
        if self._handles is not None:
            self._handles.keep(self._tables, snapshot)
        self._server.leave(began_ms, now_ms)
        if self.settings.writes_metadata:
            loaded = sum(self._metadata_size(table_id, 0) for table_id in self._tables)
            back += self.settings.transfer_ms_per_mib * loaded / BYTES_PER_MIB
        if back > 0.0:
            yield back
        return snapshot

    def _commit(self, request: CommitRequest) -> Generator[Step, None, CommitResult]:
        """Send a commit request with its requirements."""
        intention, request = request.intention, request._replace(handles=self._handles)
        if intention.refs is None:
            refs = {table_id: version - 1 for table_id, version in request.writes.items()}
            request = request._replace(intention=replace(intention, refs=refs, moves_ref=True, rebasable=False))
        coalesced = self.settings.coalesce is not None and not intention.applied
        now_ms, u, back, round_trips = yield from self._send(request.timestamp_ms, joins_batch=coalesced)
        outcome: str | None
        if intention.applied:
            outcome, now_ms = yield from self._respond_to_known(u, now_ms)
        elif coalesced:
            outcome, now_ms = yield from self._commit_in_batch(request, u, now_ms)
        else:
            outcome, now_ms = yield from self._commit_alone(request, u, now_ms)
        if back > 0.0:
            yield back
        return CommitResult(outcome is None, now_ms + back - request.timestamp_ms, round_trips, outcome or None)

    def _send(self, now_ms: float, *, joins_batch: bool) -> Generator[Step, None, tuple[float, float, float, int]]:
        """Send a request, and send it again while the service rejects it.

        Returns:
            Time of arrival at the service, uniform random number of the service time, network latency of the response, and number
                of requests.
        """
        settings, round_trips = self.settings, 0
        while True:
            there = settings.network.at(self._rng.random_sample())
            u = self._rng.random_sample()
            back = settings.network.at(self._rng.random_sample())
            yield there
            now_ms += there
            round_trips += 1
            if not self._server.refuses(joins_batch=joins_batch):
                return now_ms, u, back, round_trips
            yield back
            now_ms += back
            if round_trips > settings.max_resends:
                raise RequestFailedError(SERVICE_UNAVAILABLE)
            yield settings.retry_after_ms
            now_ms += settings.retry_after_ms

    def _respond_to_known(self, u: float, now_ms: float) -> Generator[Step, None, tuple[None, float]]:
        """Serve a commit that has already taken effect. The service recognizes it by its idempotency key."""
        now_ms = began_ms = yield from self._server.enter(now_ms)
        service = self.settings.check.at(u)
        yield service
        now_ms += service
        self._server.leave(began_ms, now_ms)
        return None, now_ms

    def _commit_alone(self, request: CommitRequest, u: float, now_ms: float) -> Generator[Step, None, tuple[str | None, float]]:
        """Serve a commit that is not in a batch.

        In the mode ``recheck``, the service rejects a commit if its requirements fail at the start of its service or after a
        reload.

        Returns:
            The outcome, as in ``Member.outcome``, and the time of the decision.
        """
        settings, server, tables = self.settings, self._server, sorted(request.writes)
        now_ms = began_ms = yield from server.enter(now_ms)
        if settings.lock == "table":
            now_ms = yield from server.lock(tables, now_ms)
        server.begin_commit(tables)
        rechecks = settings.server_retry_mode == "recheck"
        retries = settings.server_retries if rechecks or request.intention.rebasable else 0
        required, swapped, outcome = self._list_required(request), self._list_compared(request), None
        if required != self._list_current(request):
            service, outcome = settings.check.at(u), LOST
            retries = 0 if rechecks else retries
        elif self._is_too_large(request, now_ms):
            service, outcome, retries = settings.check.at(u), METADATA_TOO_LARGE, 0
        elif self._has_too_many_unpublished():
            service, outcome, retries = settings.check.at(u), LOST, 0
        else:
            service = settings.commit.at(u) + self._write_ms(tables, 1)
        yield service
        now_ms += service
        while retries > 0 and (outcome == LOST or swapped != self._list_compared(request)):
            retries -= 1
            self._state.counters.service_retries += 1
            reload = settings.server_backoff_ms + settings.load.at(self._rng.random_sample())
            yield reload
            now_ms += reload
            if rechecks and required != self._list_current(request):
                outcome = LOST
                break
            swapped, outcome = self._list_compared(request), None
            service = settings.commit.at(self._rng.random_sample()) + self._write_ms(tables, 1)
            yield service
            now_ms += service
        if outcome is None and swapped != self._list_compared(request):
            outcome = LOST
        outcome = self._ask_database(tables, outcome)
        self._decide(request, outcome, now_ms)
        if settings.lock == "table":
            server.unlock(tables)
        server.leave(began_ms, now_ms)
        return outcome, now_ms

    def _commit_in_batch(self, request: CommitRequest, u: float, now_ms: float) -> Generator[Step, None, tuple[str | None, float]]:
        """Add a commit to the next batch of its table, or start a new batch with it as the leader.

        Returns:
            The outcome, and the time of the decision.
        """
        coalesce, server = self.settings.coalesce, self._server
        assert coalesce is not None
        table, member = min(request.writes), Member(request, now_ms)
        server.join(table, member)
        if not member.leads:
            yield WaitFor(member.signal)
            now_ms = member.signal.time_ms
        if not member.leads:
            return member.outcome, now_ms
        linger = member.arrived_ms + coalesce.linger_ms - now_ms
        if linger > 0.0:
            yield linger
            now_ms += linger
        now_ms = began_ms = yield from server.enter(now_ms, waits_already=True)
        batch = server.take_batch(table)
        server.begin_commit((table,))
        service = self.settings.commit.at(u) + self._write_ms((table,), len(batch))
        yield service
        now_ms += service
        failed = self._ask_database((table,), None)
        for each in batch:
            if failed is not None:
                each.outcome = failed
            elif each.request.intention.rebasable or self._list_required(each.request) == self._list_current(each.request):
                each.outcome = METADATA_TOO_LARGE if self._is_too_large(each.request, now_ms) else None
            self._decide(each.request, each.outcome, now_ms)
        server.leave(began_ms, now_ms)
        server.end_batch(table, batch)
        return member.outcome, now_ms

    def _ask_database(self, tables: Collection[int], outcome: str | None) -> str | None:
        """End the service of a commit, and return its outcome.

        The outcome can be a serialization failure of the database.
        """
        probability, others = self.settings.database_conflict, self._server.end_commit(tables)
        if outcome is None and probability > 0.0 and others > 0:
            failed = self._rng.random_sample() < any_error_probability(probability, others)
            return REQUEST_FAILED if failed else None
        return outcome

    def _decide(self, request: CommitRequest, outcome: str | None, now_ms: float) -> None:
        """Install a commit that was accepted, or count a conflict."""
        if outcome == REQUEST_FAILED:
            self._state.counters.service_database_conflicts += 1
            return
        if outcome is not None:
            self._state.counters.commit_conflict += 1
            return
        writes = {table_id: self.tables[table_id].version + 1 for table_id in request.writes}
        first, *others = sorted({self.table_groups[table_id] for table_id in writes})
        self._state.install(self._state.groups[first], request._replace(writes=writes))
        for group in others:
            self._state.groups[group].seq += 1
        if request.handles is not None:
            request.handles.keep(writes, CatalogSnapshot(self._state.groups[first].seq, self._state.tables, now_ms))

    def _has_too_many_unpublished(self) -> bool:
        """Return whether the catalog rejects a commit because too many earlier commits are not published. Count the rejection."""
        group, limit = self._state.groups[self._group_id], self.unpublished_limit
        if limit is None or group.seq - group.published < limit:
            return False
        self._state.counters.commit_throttled += 1
        return True

    def _list_required(self, request: CommitRequest) -> tuple[int, ...]:
        """Return the requirements of a commit: the refs of its tables, or the commit pointer that these tables share."""
        if not self.own_pointers:
            return (request.expected_seq,)
        intention = request.intention
        assert intention.refs is not None
        return tuple(intention.refs[table_id] for table_id in request.writes) if intention.moves_ref else ()

    def _list_current(self, request: CommitRequest) -> tuple[int, ...]:
        """Return the current values of the refs or of the commit pointer that a commit requires."""
        if not self.own_pointers:
            return (self._state.groups[self.table_groups[min(request.writes)]].seq,)
        return tuple(self.tables[table_id].ref for table_id in request.writes) if request.intention.moves_ref else ()

    def _list_compared(self, request: CommitRequest) -> tuple[int, ...]:
        """Return the current values that the server compares in its compare-and-swap.

        In the mode ``recheck``, the server compares the metadata files of the tables, as Iceberg does. Expiring snapshots also
        replaces these files.
        """
        if self.own_pointers and self.settings.server_retries and self.settings.server_retry_mode == "recheck":
            return tuple(self.tables[table_id].version for table_id in request.writes)
        return self._list_current(request)

    def _metadata_size(self, table_id: int, more_snapshots: int) -> int:
        files = self._state.tables[table_id].files
        return self.metadata_bytes if files is None else metadata_size(files.model, files.snapshots + more_snapshots)

    def _write_ms(self, tables: Collection[int], more_snapshots: int) -> float:
        """Return the time that the service takes to write the metadata of the tables one after the other, in ms."""
        total = 0.0
        if self.settings.writes_metadata:
            for table_id in tables:
                total += self.storage.write_ms(TABLE_METADATA, self._metadata_size(table_id, more_snapshots))
        return total
