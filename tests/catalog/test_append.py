"""Append catalog: physical and logical outcome, sealing, compaction, and the cost of a long log."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest

from endive.catalog import AppendCatalog, CatalogCounters, CommitResult, IntentionRecord
from endive.storage import FixedLatency, ProfiledProvider, StorageProfile, UniformLatency, UnsupportedOperationError
from tests.interleave import (
    APPEND,
    CATALOG_READ,
    COMPACTION,
    FAILED_APPEND,
    FAILED_CAS,
    Steps,
    commit_to,
    fixed_provider,
    group_seq,
    interleave,
    outcome,
    seen_through,
    spend,
)

ENTRY = 100


def log_catalog(
    num_tables: int = 2,
    *,
    linearization: float = 1.0,
    threshold_bytes: int = 16_000_000,
    max_entries: int = 0,
    log_entry_read: float | None = None,
    table_groups: tuple[int, ...] | None = None,
) -> AppendCatalog:
    return AppendCatalog(
        fixed_provider(log_entry_read=log_entry_read),
        num_tables,
        (2,) * num_tables,
        linearization=linearization,
        log_entry_bytes=ENTRY,
        compaction_threshold_bytes=threshold_bytes,
        compaction_max_entries=max_entries,
        table_groups=table_groups,
    )


def append_at(
    catalog: AppendCatalog, offset: int | None, writes: Mapping[int, int], reads: Mapping[int, int] | None = None
) -> Steps[CommitResult]:
    """Commit as a transaction that last read the end of the log at ``offset``."""
    return catalog.commit(0, writes, 0.0, IntentionRecord(1, 0, writes, tables_read=reads or {}, expected_offset=offset))


def counters(**expected: int) -> CatalogCounters:
    return dataclasses.replace(CatalogCounters(), **expected)


# -- one commit -------------------------------------------------------------------------------------------------------------------


def test_a_commit_is_an_append_and_a_read_of_its_outcome() -> None:
    catalog = log_catalog()
    latencies, result = spend(append_at(catalog, 0, {0: 1}))
    assert latencies == [APPEND, CATALOG_READ]
    assert result == CommitResult(True, APPEND + CATALOG_READ, 2)
    assert catalog.log_offset() == ENTRY
    assert catalog.counters == counters(commit_success=1, append_physical_success=1, append_logical_success=1)


def test_a_snapshot_contains_the_end_of_the_log() -> None:
    catalog = log_catalog()
    commit_to(catalog, 0)
    snapshot = outcome(catalog.read())
    commit_to(catalog, 0)
    assert snapshot.log_offset == ENTRY
    assert outcome(catalog.read()).log_offset == 2 * ENTRY


def test_without_an_intention_the_append_goes_to_the_end_of_the_log() -> None:
    catalog = log_catalog()
    commit_to(catalog, 0)
    assert spend(catalog.commit(1, {1: 1}))[0] == [APPEND, CATALOG_READ]
    assert catalog.counters.append_physical_failure == 0


def test_a_provider_that_cannot_append_cannot_hold_a_log() -> None:
    with pytest.raises(UnsupportedOperationError, match="'fixed' does not support append"):
        AppendCatalog(fixed_provider(append=None), 1, (1,))


# -- physical failures ------------------------------------------------------------------------------------------------------------


def test_a_physical_failure_is_tried_again_at_the_new_end_within_the_commit() -> None:
    catalog = log_catalog()
    commit_to(catalog, 0)
    latencies, result = spend(append_at(catalog, 0, {1: 1}))
    assert latencies == [APPEND, FAILED_APPEND - APPEND, APPEND, CATALOG_READ]
    assert result == CommitResult(True, FAILED_APPEND + APPEND + CATALOG_READ, 3)
    assert catalog.log_offset() == 2 * ENTRY
    assert catalog.counters == counters(
        commit_success=2, append_physical_success=2, append_logical_success=2, append_physical_failure=1
    )


def test_every_move_of_the_log_end_costs_one_more_failed_append() -> None:
    catalog = log_catalog(4)
    moved_ms = [5.0, FAILED_APPEND + 5.0, 2 * FAILED_APPEND + 5.0]
    timeline = interleave(
        [append_at(catalog, 0, {3: 1})],
        meanwhile={now_ms: partial(commit_to, catalog, i) for i, now_ms in enumerate(moved_ms)},
    )
    assert timeline.results[0] == CommitResult(True, 3 * FAILED_APPEND + APPEND + CATALOG_READ, 5)
    assert catalog.counters.append_physical_failure == 3
    assert [table.version for table in catalog.tables] == [1, 1, 1, 1]


def test_a_physical_failure_leaves_no_entry_in_the_log() -> None:
    catalog = log_catalog()
    commit_to(catalog, 0)
    steps = append_at(catalog, 0, {1: 1})
    for _ in range(3):
        next(steps)  # the first append has been refused, the second one is under way
    assert catalog.log_offset() == ENTRY
    assert catalog.counters.append_physical_failure == 1


def test_a_failed_append_answers_at_the_failed_latency_of_the_same_uniform() -> None:
    profile = StorageProfile(
        "uniform",
        0.0,
        {"*": FixedLatency(1.0)},
        {},
        cas=FixedLatency(1.0),
        append=UniformLatency(10.0, 20.0),
        failed_append=UniformLatency(100.0, 200.0),
    )
    catalog = AppendCatalog(ProfiledProvider(profile, np.random.RandomState(3)), 1, (1,), linearization=0.5)
    twin = np.random.RandomState(3)
    read, failed, landed = (twin.random_sample() for _ in range(3))
    assert 0.0 < read < 1.0
    outcome(catalog.read())
    latencies, result = spend(append_at(catalog, 7, {0: 1}))
    assert latencies[0] == pytest.approx(5.0 + 5.0 * failed, rel=1e-12)
    assert latencies[0] + latencies[1] == pytest.approx(100.0 + 100.0 * failed, rel=1e-12)
    assert latencies[2] + latencies[3] == pytest.approx(10.0 + 10.0 * landed, rel=1e-12)
    assert result.latency_ms == pytest.approx(sum(latencies), rel=1e-12)


def test_a_failed_append_is_not_answered_before_it_was_decided() -> None:
    catalog = AppendCatalog(fixed_provider(append=20.0, failed_append=5.0), 1, (1,), linearization=0.5)
    latencies, result = spend(append_at(catalog, 7, {0: 1}))
    assert latencies == [10.0, 10.0, 10.0, 1.5, 1.5]
    assert result == CommitResult(True, 10.0 + 20.0 + CATALOG_READ, 3)


@pytest.mark.parametrize(("linearization", "effect_ms"), [(0.0, 0.0), (0.25, 5.0), (1.0, 20.0)])
def test_an_append_lands_at_its_moment_of_effect(linearization: float, effect_ms: float) -> None:
    catalog = AppendCatalog(fixed_provider(append=20.0), 1, (1,), linearization=linearization)
    seen: list[tuple[float, int, int]] = []
    timeline = interleave(
        [append_at(catalog, 0, {0: 1})],
        after_each=lambda now_ms, _: seen.append((now_ms, catalog.log_offset(), catalog.seq)),
    )
    assert next(now_ms for now_ms, offset, seq in seen if (offset, seq) == (ENTRY, 1)) == effect_ms
    assert timeline.ends_ms[0] == 20.0 + CATALOG_READ


# -- logical outcome --------------------------------------------------------------------------------------------------------------


def test_transactions_on_different_tables_both_succeed() -> None:
    catalog = log_catalog()
    timeline = interleave([append_at(catalog, 0, {0: 1}), append_at(catalog, 0, {1: 1})])
    assert [timeline.results[i].success for i in range(2)] == [True, True]
    assert timeline.ends_ms == {0: APPEND + CATALOG_READ, 1: FAILED_APPEND + APPEND + CATALOG_READ}
    assert (catalog.seq, catalog.log_offset()) == (2, 2 * ENTRY)


def test_the_second_transaction_on_a_table_is_a_logical_conflict_that_stays_in_the_log() -> None:
    catalog = log_catalog()
    timeline = interleave([append_at(catalog, 0, {0: 1}), append_at(catalog, 0, {0: 1})])
    assert timeline.results == {
        0: CommitResult(True, APPEND + CATALOG_READ, 2),
        1: CommitResult(False, FAILED_APPEND + APPEND + CATALOG_READ, 3),
    }
    assert (catalog.seq, catalog.tables[0].version) == (1, 1)
    assert catalog.log_offset() == 2 * ENTRY
    assert catalog.counters == counters(
        commit_success=1,
        commit_conflict=1,
        append_physical_success=2,
        append_physical_failure=1,
        append_logical_success=1,
        append_logical_conflict=1,
    )


def test_a_logical_conflict_of_one_table_keeps_all_tables_of_the_record_out() -> None:
    catalog = log_catalog(3)
    commit_to(catalog, 1)
    tables = catalog.tables
    assert not outcome(append_at(catalog, ENTRY, {0: 1, 1: 1, 2: 1})).success
    assert catalog.tables is tables


def test_a_changed_table_of_the_read_set_is_a_logical_conflict() -> None:
    catalog = log_catalog()
    commit_to(catalog, 1)
    assert not outcome(append_at(catalog, ENTRY, {0: 1}, reads={0: 0, 1: 0})).success
    assert catalog.tables[0].version == 0
    assert catalog.counters.append_logical_conflict == 1


def test_an_unchanged_read_set_is_no_conflict() -> None:
    catalog = log_catalog()
    commit_to(catalog, 1)
    assert outcome(append_at(catalog, ENTRY, {0: 1}, reads={0: 0, 1: 1})).success


def test_a_table_that_is_written_is_checked_by_its_write_and_not_by_its_read() -> None:
    catalog = log_catalog()
    assert outcome(append_at(catalog, 0, {0: 1}, reads={0: 17})).success


def test_the_logical_check_is_made_when_the_record_lands_and_not_when_it_was_refused() -> None:
    catalog = log_catalog()
    others = {5.0: lambda: commit_to(catalog, 1), FAILED_APPEND + 5.0: lambda: commit_to(catalog, 0)}
    result = interleave([append_at(catalog, 0, {0: 1})], meanwhile=others).results[0]
    assert result == CommitResult(False, 2 * FAILED_APPEND + APPEND + CATALOG_READ, 4)


def test_later_commits_do_not_change_the_outcome_of_a_record() -> None:
    catalog = log_catalog()
    timeline = interleave(
        [append_at(catalog, 0, {0: 1})],
        meanwhile={APPEND + 1.0: lambda: commit_to(catalog, 0)},
    )
    assert timeline.results[0].success
    assert catalog.tables[0].version == 2


# -- sealing and compaction -------------------------------------------------------------------------------------------------------


def test_the_log_is_sealed_once_it_is_longer_than_the_threshold() -> None:
    catalog = log_catalog(threshold_bytes=2 * ENTRY)
    triggered = []
    for _ in range(3):
        commit_to(catalog, 0)
        triggered.append(catalog.counters.append_compactions_triggered)
    assert triggered == [0, 0, 1]
    assert catalog.counters.append_compactions_completed == 0


def test_the_log_is_sealed_at_the_greatest_number_of_entries() -> None:
    catalog = log_catalog(max_entries=2)
    triggered = []
    for _ in range(2):
        commit_to(catalog, 0)
        triggered.append(catalog.counters.append_compactions_triggered)
    assert triggered == [0, 1]


def test_entries_that_were_not_applied_count_towards_the_seal() -> None:
    catalog = log_catalog(max_entries=2)
    commit_to(catalog, 0)
    assert not outcome(append_at(catalog, ENTRY, {0: 1})).success
    assert catalog.counters.append_compactions_triggered == 1


def test_the_commit_after_the_seal_pays_for_the_compaction() -> None:
    catalog = log_catalog(max_entries=2)
    costs = [spend(append_at(catalog, catalog.log_offset(), {0: version})) for version in range(1, 6)]
    plain = ([APPEND, CATALOG_READ], CommitResult(True, APPEND + CATALOG_READ, 2))
    compacting = ([COMPACTION, APPEND, CATALOG_READ], CommitResult(True, COMPACTION + APPEND + CATALOG_READ, 3))
    assert costs == [plain, plain, compacting, plain, compacting]
    assert catalog.counters == counters(
        commit_success=5,
        append_physical_success=5,
        append_logical_success=5,
        append_compactions_triggered=2,
        append_compactions_completed=2,
    )


def test_the_threshold_counts_from_the_last_compaction() -> None:
    catalog = log_catalog(threshold_bytes=2 * ENTRY)
    compactions = [len(spend(append_at(catalog, catalog.log_offset(), {0: version}))[0]) - 2 for version in range(1, 9)]
    assert compactions == [0, 0, 0, 1, 0, 0, 1, 0]


def test_without_a_compaction_distribution_the_compaction_is_a_plain_cas() -> None:
    catalog = AppendCatalog(fixed_provider(cas=77.0, compaction=None), 1, (1,), compaction_max_entries=1)
    commit_to(catalog, 0)
    assert spend(append_at(catalog, ENTRY, {0: 2}))[0] == [77.0, APPEND, CATALOG_READ]


def test_the_second_compactor_pays_a_failed_cas() -> None:
    catalog = AppendCatalog(fixed_provider(compaction=20.0), 3, (1,) * 3, compaction_max_entries=2)
    commit_to(catalog, 0)
    commit_to(catalog, 0)
    tasks = [append_at(catalog, 2 * ENTRY, {1: 1}), append_at(catalog, 2 * ENTRY, {2: 1})]
    timeline = interleave(tasks, starts_ms=[0.0, 1.0])
    assert timeline.results[0] == CommitResult(True, 20.0 + APPEND + CATALOG_READ, 3)
    assert timeline.results[1] == CommitResult(True, FAILED_CAS + FAILED_APPEND + APPEND + CATALOG_READ, 4)
    assert catalog.counters.append_compactions_completed == 1
    assert catalog.log_offset() == 4 * ENTRY


def test_a_slow_compactor_does_not_replace_a_later_checkpoint() -> None:
    """While its compare-and-swap is in flight, another client compacts the log, and a record seals it again."""
    catalog = log_catalog(max_entries=1)
    commit_to(catalog, 0)
    slow = append_at(catalog, ENTRY, {1: 1})
    next(slow)
    assert outcome(append_at(catalog, ENTRY, {0: 2})).success
    assert outcome(slow).success
    assert catalog.counters.append_compactions_completed == 2
    assert catalog.counters.append_compactions_triggered == 3


def test_a_log_sealed_during_an_append_makes_it_compact_before_it_tries_again() -> None:
    catalog = log_catalog(max_entries=1)
    timeline = interleave([append_at(catalog, 0, {0: 1}), append_at(catalog, 0, {1: 1})], starts_ms=[0.0, 1.0])
    assert timeline.results[1] == CommitResult(True, FAILED_APPEND + COMPACTION + APPEND + CATALOG_READ, 4)
    assert catalog.counters == counters(
        commit_success=2,
        append_physical_success=2,
        append_physical_failure=1,
        append_logical_success=2,
        append_compactions_triggered=2,
        append_compactions_completed=1,
    )


def test_the_compaction_takes_effect_at_the_linearization_of_its_latency() -> None:
    catalog = AppendCatalog(
        fixed_provider(compaction=20.0, append=8.0, catalog_read=4.0), 1, (1,), compaction_max_entries=1, linearization=0.25
    )
    commit_to(catalog, 0)
    seen: list[tuple[float, int]] = []
    interleave(
        [append_at(catalog, ENTRY, {0: 2})],
        after_each=lambda now_ms, _: seen.append((now_ms, catalog.counters.append_compactions_completed)),
    )
    assert seen == [(0.0, 0), (5.0, 1), (20.0, 1), (22.0, 1), (28.0, 1), (29.0, 1), (32.0, 1)]


# -- the cost of a long log -------------------------------------------------------------------------------------------------------


def test_a_read_takes_longer_by_each_entry_since_the_checkpoint() -> None:
    catalog = log_catalog(log_entry_read=2.0)
    durations = []
    for _ in range(4):
        durations.append(sum(spend(catalog.read())[0]))
        commit_to(catalog, 0)
    assert durations == [CATALOG_READ + 2.0 * entries for entries in range(4)]


def test_the_discovery_read_replays_the_log_with_the_new_entry() -> None:
    catalog = log_catalog(log_entry_read=2.0)
    commit_to(catalog, 0)
    assert spend(append_at(catalog, ENTRY, {0: 2})) == (
        [APPEND, CATALOG_READ, 4.0],
        CommitResult(True, APPEND + CATALOG_READ + 4.0, 2),
    )


def test_compaction_makes_reads_short_again() -> None:
    catalog = log_catalog(log_entry_read=2.0, max_entries=3)
    durations = []
    for _ in range(5):
        commit_to(catalog, 0)
        durations.append(sum(spend(catalog.read())[0]))
    assert durations == [CATALOG_READ + 2.0 * entries for entries in (1, 2, 3, 1, 2)]


def test_entries_are_replayed_after_the_snapshot_was_taken() -> None:
    catalog = log_catalog(log_entry_read=2.0)
    commit_to(catalog, 0)
    timeline = interleave([catalog.read()], meanwhile={CATALOG_READ + 1.0: lambda: commit_to(catalog, 0)})
    assert timeline.results[0].seq == 1
    assert timeline.ends_ms[0] == CATALOG_READ + 2.0


# -- table groups -----------------------------------------------------------------------------------------------------------------


def test_each_group_has_a_log_of_its_own() -> None:
    catalog = log_catalog(table_groups=(0, 1), max_entries=2)
    timeline = interleave([append_at(catalog, 0, {0: 1}), append_at(catalog, 0, {1: 1})])
    assert timeline.ends_ms == {0: APPEND + CATALOG_READ, 1: APPEND + CATALOG_READ}
    assert catalog.counters.append_physical_failure == 0
    assert catalog.counters.append_compactions_triggered == 0
    assert (catalog.log_offset(0), catalog.log_offset(1)) == (ENTRY, ENTRY)
    assert (group_seq(catalog, 0), group_seq(catalog, 1)) == (1, 1)


def test_a_view_of_a_group_replays_the_log_of_that_group() -> None:
    catalog = log_catalog(table_groups=(0, 1), log_entry_read=2.0)
    commit_to(catalog, 1, group=1)
    durations = [sum(spend(seen_through(catalog, catalog.storage, group).read())[0]) for group in (0, 1)]
    assert durations == [CATALOG_READ, CATALOG_READ + 2.0]


def test_the_discovery_read_of_a_commit_replays_the_log_of_the_group_that_was_written() -> None:
    catalog = log_catalog(table_groups=(0, 1), log_entry_read=2.0)
    assert outcome(append_at(catalog, 0, {1: 1})).latency_ms == APPEND + CATALOG_READ + 2.0


def test_a_commit_over_two_groups_is_refused() -> None:
    catalog = log_catalog(table_groups=(0, 1))
    with pytest.raises(ValueError, match=r"groups \[0, 1\]"):
        outcome(append_at(catalog, 0, {0: 1, 1: 1}))
    assert catalog.log_offset() == 0


def test_fresh_is_the_same_catalog_before_its_first_commit() -> None:
    catalog = log_catalog(max_entries=1)
    commit_to(catalog, 0)
    fresh = catalog.fresh()
    assert (fresh.seq, fresh.log_offset(), fresh.counters) == (0, 0, CatalogCounters())
    assert spend(append_at(fresh, 0, {0: 1}))[0] == [APPEND, CATALOG_READ]
    assert (fresh.compaction_max_entries, catalog.log_offset()) == (1, ENTRY)
