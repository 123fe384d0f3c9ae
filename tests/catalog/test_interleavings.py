"""Properties of all interleavings of commits: no lost update, correct responses, first committer wins.

Installed state is observed from outside: after each resumption of a writer the tables are compared with the previous tables.
Latencies are whole milliseconds and linearization points binary fractions, so that times are exact.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from endive.catalog import (
    AppendCatalog,
    CASCatalog,
    CatalogSnapshot,
    CommitResult,
    IntentionRecord,
    StoredCatalog,
    TableMetadata,
)
from tests.interleave import Steps, fixed_provider, group_seq, interleave, latency_of, seen_through

PARTITIONS = 3
EXAMPLES = settings(max_examples=150)


@dataclass(frozen=True)
class Writer:
    """Client of one table group that reads, waits and commits repeatedly until it succeeds or aborts."""

    start_ms: int
    tables: frozenset[int]
    tables_read: frozenset[int]
    partitions: frozenset[int] | None
    read_ms: int
    think_ms: int
    commit_ms: int
    failed_ms: int
    attempts: int


@dataclass(frozen=True)
class Attempt:
    """Commit attempt as observed by its writer."""

    writer: int
    base: CatalogSnapshot
    writes: dict[int, int]
    began_ms: float
    ended_ms: float
    result: CommitResult


@dataclass(frozen=True)
class Install:
    """Change of the tables as observed from outside."""

    writer: int
    time_ms: float
    before: tuple[TableMetadata, ...]
    after: tuple[TableMetadata, ...]

    @property
    def changed(self) -> dict[int, int]:
        return {new.table_id: new.version for old, new in zip(self.before, self.after, strict=True) if old != new}


@dataclass
class Watched:
    """Run of writers: their responses, and the observed changes."""

    attempts: list[Attempt] = field(default_factory=list)
    installs: list[Install] = field(default_factory=list)


@dataclass(frozen=True)
class Scenario:
    """Writers and the groups of the tables."""

    table_groups: tuple[int, ...]
    linearization: float
    writers: tuple[Writer, ...]

    def group(self, writer: int) -> int:
        return self.table_groups[min(self.writers[writer].tables)]


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    num_tables = draw(st.integers(1, 4))
    table_groups = tuple(draw(st.lists(st.integers(0, 1), min_size=num_tables, max_size=num_tables)))
    writers = []
    latency = st.integers(0, 12)
    for _ in range(draw(st.integers(2, 7))):
        group = draw(st.sampled_from(table_groups))
        members = [table_id for table_id, of in enumerate(table_groups) if of == group]
        written = draw(st.frozensets(st.sampled_from(members), min_size=1))
        writers.append(
            Writer(
                start_ms=draw(st.integers(0, 20)),
                tables=written,
                tables_read=written | draw(st.frozensets(st.sampled_from(members))),
                partitions=draw(st.none() | st.frozensets(st.integers(0, PARTITIONS - 1))),
                read_ms=draw(latency),
                think_ms=draw(latency),
                commit_ms=draw(latency),
                failed_ms=draw(latency),
                attempts=draw(st.integers(1, 4)),
            )
        )
    return Scenario(table_groups, draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])), tuple(writers))


def watch(scenario: Scenario, catalog: StoredCatalog) -> Watched:
    """Run the writers on the catalog; return their responses and the installed changes."""
    watched = Watched()
    clock_ms = 0.0

    def write(index: int, writer: Writer) -> Steps[None]:
        storage = fixed_provider(
            catalog_read=writer.read_ms,
            cas=writer.commit_ms,
            failed_cas=writer.failed_ms,
            append=writer.commit_ms,
            failed_append=writer.failed_ms,
            compaction=writer.commit_ms,
        )
        view = seen_through(catalog, storage, scenario.group(index))
        partitions = None if writer.partitions is None else dict.fromkeys(writer.tables, writer.partitions)
        now_ms = float(writer.start_ms)
        for _ in range(writer.attempts):
            base = yield from view.read(now_ms)
            yield float(writer.think_ms)
            writes = {table_id: base.get_table(table_id).version + 1 for table_id in writer.tables}
            reads = {table_id: base.get_table(table_id).version for table_id in writer.tables_read}
            intention = IntentionRecord(index, base.seq, writes, tables_read=reads, expected_offset=base.log_offset)
            began_ms = clock_ms
            result = yield from view.commit(base.seq, writes, began_ms, intention, partitions_written=partitions)
            now_ms = clock_ms
            watched.attempts.append(Attempt(index, base, writes, began_ms, now_ms, result))
            if result.success:
                return

    tables = catalog.tables

    def look(now_ms: float, index: int) -> None:
        nonlocal tables
        if catalog.tables is not tables:
            watched.installs.append(Install(index, now_ms, tables, catalog.tables))
            tables = catalog.tables

    def ticking(index: int, writer: Writer) -> Steps[None]:
        """Run the steps of a writer, and update its clock."""
        nonlocal clock_ms
        now_ms = float(writer.start_ms)
        for latency in write(index, writer):
            yield latency
            now_ms += latency_of(latency)
            clock_ms = now_ms

    interleave(
        [ticking(i, writer) for i, writer in enumerate(scenario.writers)],
        starts_ms=[float(writer.start_ms) for writer in scenario.writers],
        after_each=look,
    )
    return watched


def cas_catalog(scenario: Scenario) -> CASCatalog:
    tables = len(scenario.table_groups)
    return CASCatalog(
        fixed_provider(),
        tables,
        (PARTITIONS,) * tables,
        table_groups=scenario.table_groups,
        linearization=scenario.linearization,
    )


def log_catalog(scenario: Scenario, max_entries: int) -> AppendCatalog:
    tables = len(scenario.table_groups)
    return AppendCatalog(
        fixed_provider(),
        tables,
        (PARTITIONS,) * tables,
        table_groups=scenario.table_groups,
        linearization=scenario.linearization,
        compaction_max_entries=max_entries,
    )


def check_no_lie_and_no_lost_update(scenario: Scenario, catalog: StoredCatalog, watched: Watched) -> None:
    """Check that responses agree with installed commits, and that versions contain each commit exactly once."""
    reported = [attempt for attempt in watched.attempts if attempt.result.success]
    assert sorted((i.writer, sorted(i.changed.items())) for i in watched.installs) == sorted(
        (attempt.writer, sorted(attempt.writes.items())) for attempt in reported
    )

    installed = [(table_id, version) for attempt in reported for table_id, version in attempt.writes.items()]
    assert len(set(installed)) == len(installed), "two commits at the same version of a table"
    commits = Counter(table_id for table_id, _ in installed)
    assert [table.version for table in catalog.tables] == [commits[i] for i in range(len(catalog.tables))]

    touched: Counter[tuple[int, int]] = Counter()
    for attempt in reported:
        partitions = scenario.writers[attempt.writer].partitions
        for partition in range(PARTITIONS) if partitions is None else partitions:
            touched.update((table_id, partition) for table_id in attempt.writes)
    for table in catalog.tables:
        assert table.partition_versions == tuple(touched[table.table_id, p] for p in range(PARTITIONS))

    groups = Counter(scenario.group(attempt.writer) for attempt in reported)
    for group in set(scenario.table_groups):
        assert group_seq(catalog, group) == groups[group]
    assert catalog.seq == len(reported) == catalog.counters.commit_success
    assert catalog.counters.commit_conflict == len(watched.attempts) - len(reported)


def check_versions_grow_by_one(watched: Watched) -> None:
    """Check that each change advances the written tables by exactly one version, in the order of linearization points."""
    for install in watched.installs:
        assert install.changed
        for table_id, version in install.changed.items():
            assert version == install.before[table_id].version + 1
    times = [install.time_ms for install in watched.installs]
    assert times == sorted(times)


def check_first_committer_wins(scenario: Scenario, watched: Watched) -> None:
    """Check that nothing a successful commit relies on changed between its base and its linearization point."""
    for install in watched.installs:
        attempt = next(a for a in watched.attempts if a.writer == install.writer and a.result.success)
        assert attempt.began_ms <= install.time_ms <= attempt.ended_ms
        for table_id in scenario.writers[install.writer].tables_read:
            assert install.before[table_id] is attempt.base.get_table(table_id)


@EXAMPLES
@given(scenarios())
def test_cas_commits_lose_no_update_and_report_their_outcome(scenario: Scenario) -> None:
    catalog = cas_catalog(scenario)
    watched = watch(scenario, catalog)
    check_no_lie_and_no_lost_update(scenario, catalog, watched)
    check_versions_grow_by_one(watched)
    check_first_committer_wins(scenario, watched)


@EXAMPLES
@given(scenarios(), st.integers(0, 3))
def test_log_commits_lose_no_update_and_report_their_outcome(scenario: Scenario, max_entries: int) -> None:
    catalog = log_catalog(scenario, max_entries)
    watched = watch(scenario, catalog)
    check_no_lie_and_no_lost_update(scenario, catalog, watched)
    check_versions_grow_by_one(watched)
    check_first_committer_wins(scenario, watched)


@EXAMPLES
@given(scenarios())
def test_cas_commits_succeed_in_the_order_of_effects_exactly_if_the_group_has_not_moved(scenario: Scenario) -> None:
    catalog = cas_catalog(scenario)
    watched = watch(scenario, catalog)
    seqs = dict.fromkeys(scenario.table_groups, 0)

    def effect(attempt: Attempt) -> tuple[float, int, float]:
        latency_ms = scenario.writers[attempt.writer].commit_ms * scenario.linearization
        return attempt.began_ms + latency_ms, attempt.writer, attempt.began_ms

    for attempt in sorted(watched.attempts, key=effect):
        group = scenario.group(attempt.writer)
        assert attempt.result.success == (attempt.base.seq == seqs[group])
        seqs[group] += attempt.result.success


@EXAMPLES
@given(scenarios(), st.integers(0, 3))
def test_log_commits_fail_only_because_of_commits_after_their_snapshot(scenario: Scenario, max_entries: int) -> None:
    watched = watch(scenario, log_catalog(scenario, max_entries))
    for attempt in watched.attempts:
        if attempt.result.success:
            continue
        relied_on = scenario.writers[attempt.writer].tables_read
        overtaken_by = [
            install
            for install in watched.installs
            if install.time_ms <= attempt.ended_ms
            and any(install.changed.get(table_id, 0) > attempt.base.get_table(table_id).version for table_id in relied_on)
        ]
        assert overtaken_by


@EXAMPLES
@given(scenarios(), st.integers(0, 3))
def test_every_log_commit_enters_the_log_once_and_the_counters_add_up(scenario: Scenario, max_entries: int) -> None:
    catalog = log_catalog(scenario, max_entries)
    watched = watch(scenario, catalog)
    counters = catalog.counters
    entries = Counter(scenario.group(attempt.writer) for attempt in watched.attempts)
    for group in set(scenario.table_groups):
        assert catalog.log_offset(group) == catalog.log_entry_bytes * entries[group]
    assert counters.append_physical_success == len(watched.attempts)
    assert counters.append_logical_success == catalog.seq
    assert counters.append_logical_conflict == len(watched.attempts) - catalog.seq
    assert 0 <= counters.append_compactions_triggered - counters.append_compactions_completed <= len(entries)
    if max_entries == 0:
        assert counters.append_compactions_triggered == 0
        requests = sum(attempt.result.round_trips for attempt in watched.attempts)
        assert requests == 2 * len(watched.attempts) + counters.append_physical_failure


@EXAMPLES
@given(scenarios(), st.booleans())
def test_a_commit_takes_the_latency_of_its_result(scenario: Scenario, log: bool) -> None:
    catalog: StoredCatalog = log_catalog(scenario, 2) if log else cas_catalog(scenario)
    for attempt in watch(scenario, catalog).attempts:
        assert attempt.ended_ms - attempt.began_ms == attempt.result.latency_ms


@EXAMPLES
@given(scenarios())
def test_writers_of_different_tables_never_conflict_in_a_log(scenario: Scenario) -> None:
    watched = watch(scenario, log_catalog(scenario, 2))
    for attempt in watched.attempts:
        mine = scenario.writers[attempt.writer].tables_read
        others = [writer.tables for i, writer in enumerate(scenario.writers) if i != attempt.writer]
        if all(mine.isdisjoint(tables) for tables in others):
            assert attempt.result.success
