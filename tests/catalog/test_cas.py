"""Catalogs that commit by compare-and-swap: installed state, times, and conflicts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from endive.catalog import CASCatalog, CatalogSnapshot, CommitResult, InstantCatalog, TableMetadata
from endive.catalog.snapshots import METADATA_TOO_LARGE
from endive.randomness import Stream
from endive.storage import FixedLatency, ProfiledProvider, StorageProfile, UniformLatency, UnsupportedOperationError
from endive.table import TableChange, TableModel
from endive.table.operations import Traits
from tests.interleave import (
    CAS,
    CATALOG_READ,
    FAILED_CAS,
    commit_to,
    fixed_provider,
    group_seq,
    interleave,
    outcome,
    seen_through,
    spend,
)


def cas_catalog(num_tables: int = 1, *, linearization: float = 1.0, table_groups: tuple[int, ...] | None = None) -> CASCatalog:
    return CASCatalog(fixed_provider(), num_tables, (2,) * num_tables, table_groups=table_groups, linearization=linearization)


# -- what is installed ------------------------------------------------------------------------------------------------------------


def test_initial_tables_with_equal_partition_counts_share_their_versions() -> None:
    first, other, second = CASCatalog(fixed_provider(), 3, (4, 2, 4)).tables
    assert first.partition_versions == (0, 0, 0, 0)
    assert first.partition_versions is second.partition_versions
    assert other.partition_versions == (0, 0)


@pytest.mark.parametrize("expected_seq", [0, 1, 3, 4])
def test_a_failure_changes_nothing(expected_seq: int) -> None:
    catalog = cas_catalog(2)
    commit_to(catalog, 0)
    commit_to(catalog, 1)
    tables = catalog.tables
    result = outcome(catalog.commit(expected_seq, {0: 2, 1: 2}))
    assert not result.success
    assert catalog.tables is tables
    assert catalog.seq == 2
    assert (catalog.counters.commit_success, catalog.counters.commit_conflict) == (2, 1)


def test_a_commit_is_one_round_trip_with_a_latency_for_success_and_one_for_failure() -> None:
    catalog = cas_catalog()
    assert spend(catalog.commit(0, {0: 1})) == ([CAS], CommitResult(True, CAS, 1))
    assert spend(catalog.commit(0, {0: 1})) == ([CAS, FAILED_CAS - CAS], CommitResult(False, FAILED_CAS, 1))


def test_any_commit_of_the_group_makes_a_commit_to_another_table_fail() -> None:
    catalog = cas_catalog(2)
    base = outcome(catalog.read())
    commit_to(catalog, 0)
    assert not outcome(catalog.commit(base.seq, {1: 1})).success
    assert catalog.tables[1].version == 0


def test_a_table_without_an_entry_in_partitions_written_advances_no_partition() -> None:
    catalog = cas_catalog(2)
    assert outcome(catalog.commit(0, {0: 1, 1: 1}, partitions_written={0: frozenset({1})})).success
    assert catalog.tables == (TableMetadata(0, 1, 2, (0, 1)), TableMetadata(1, 1, 2, (0, 0)))


def test_without_partitions_written_all_partitions_of_written_tables_advance() -> None:
    catalog = cas_catalog(2)
    assert outcome(catalog.commit(0, {1: 1})).success
    assert catalog.tables == (TableMetadata(0, 0, 2, (0, 0)), TableMetadata(1, 1, 2, (1, 1)))


# -- when it takes effect ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("linearization", "effect_ms"), [(0.0, 0.0), (0.3, 6.0), (1.0, 20.0)])
def test_a_read_returns_the_state_at_its_linearization_point(linearization: float, effect_ms: float) -> None:
    catalog = CASCatalog(fixed_provider(catalog_read=20.0), 1, (1,), linearization=linearization)
    others: dict[float, Callable[[], object]] = {effect_ms: lambda: commit_to(catalog, 0)}
    later_ms = effect_ms + 0.5
    if later_ms < 20.0:
        others[later_ms] = lambda: commit_to(catalog, 0)
    timeline = interleave([catalog.read(100.0)], meanwhile=others)
    assert timeline.results[0] == CatalogSnapshot(1, (TableMetadata(0, 1, 1, (1,)),), 100.0 + effect_ms)
    assert timeline.ends_ms[0] == pytest.approx(20.0, rel=1e-15)
    assert catalog.seq == len(others)


@pytest.mark.parametrize(("linearization", "effect_ms"), [(0.0, 0.0), (0.3, 6.0), (1.0, 20.0)])
def test_a_commit_is_installed_at_its_moment_of_effect_and_answered_at_the_whole_latency(
    linearization: float, effect_ms: float
) -> None:
    catalog = CASCatalog(fixed_provider(cas=20.0), 1, (1,), linearization=linearization)
    seq_after: list[tuple[float, int]] = []
    timeline = interleave([catalog.commit(0, {0: 1})], after_each=lambda now_ms, _: seq_after.append((now_ms, catalog.seq)))
    installed = [now_ms for now_ms, seq in seq_after if seq == 1]
    assert installed[0] == effect_ms
    assert timeline.results[0] == CommitResult(True, 20.0, 1)
    assert timeline.ends_ms[0] == pytest.approx(20.0, rel=1e-15)


@pytest.mark.parametrize(("linearization", "effect_ms"), [(0.0, 0.0), (0.3, 6.0), (1.0, 20.0)])
def test_a_commit_is_decided_by_the_state_at_its_moment_of_effect(linearization: float, effect_ms: float) -> None:
    provider = fixed_provider(cas=20.0, failed_cas=None)
    in_time = CASCatalog(provider, 1, (1,), linearization=linearization)
    timeline = interleave([in_time.commit(0, {0: 1})], meanwhile={effect_ms: lambda: commit_to(in_time, 0)})
    assert timeline.results[0] == CommitResult(False, 20.0, 1)
    assert timeline.ends_ms[0] == pytest.approx(20.0, rel=1e-15)

    too_late = CASCatalog(provider, 1, (1,), linearization=linearization)
    steps = too_late.commit(0, {0: 1})
    others: dict[float, Callable[[], object]] = {}
    if effect_ms < 20.0:
        others[effect_ms + 0.5] = lambda: commit_to(too_late, 0)
    assert interleave([steps], meanwhile=others).results[0].success
    assert too_late.seq == 1 + len(others)


def test_the_first_to_take_effect_wins_even_if_it_started_later() -> None:
    catalog = cas_catalog(linearization=0.5)
    slow = seen_through(catalog, fixed_provider(cas=20.0, failed_cas=None))
    quick = seen_through(catalog, fixed_provider(cas=4.0, failed_cas=None))
    timeline = interleave([slow.commit(0, {0: 1}), quick.commit(0, {0: 1})], starts_ms=[0.0, 7.0])
    assert timeline.results == {0: CommitResult(False, 20.0), 1: CommitResult(True, 4.0)}


def test_the_first_to_take_effect_wins_even_if_it_is_answered_later() -> None:
    catalog = cas_catalog(linearization=0.25)
    slow = seen_through(catalog, fixed_provider(cas=20.0, failed_cas=None))
    quick = seen_through(catalog, fixed_provider(cas=4.0, failed_cas=None))
    timeline = interleave([slow.commit(0, {0: 1}), quick.commit(0, {0: 1})], starts_ms=[0.0, 5.0])
    assert timeline.results == {0: CommitResult(True, 20.0), 1: CommitResult(False, 4.0)}
    assert timeline.ends_ms == {0: 20.0, 1: 9.0}


def test_the_lower_index_wins_if_two_commits_coincide() -> None:
    catalog = cas_catalog()
    results = interleave([catalog.commit(0, {0: 1}), catalog.commit(0, {0: 1})]).results
    assert [results[i].success for i in range(2)] == [True, False]


# -- how long a failure takes -----------------------------------------------------------------------------------------------------


def test_a_failure_answers_at_the_failed_latency_of_the_same_uniform() -> None:
    profile = StorageProfile(
        "uniform", 0.0, {"*": FixedLatency(1.0)}, {}, cas=UniformLatency(10.0, 20.0), failed_cas=UniformLatency(100.0, 200.0)
    )
    catalog = CASCatalog(ProfiledProvider(profile, np.random.RandomState(3)), 1, (1,), linearization=0.5)
    uniforms = np.random.RandomState(3).random_sample(20)
    for u in uniforms:
        latencies, result = spend(catalog.commit(99, {0: 1}))
        assert not result.success
        assert latencies[0] == pytest.approx((10.0 + 10.0 * u) / 2.0, rel=1e-12)
        assert math.fsum(latencies) == pytest.approx(100.0 + 100.0 * u, rel=1e-12)
        assert result.latency_ms == pytest.approx(math.fsum(latencies), rel=1e-12)


@pytest.mark.parametrize(("linearization", "answered_ms"), [(0.0, 5.0), (0.1, 5.0), (0.5, 10.0), (1.0, 20.0)])
def test_a_failure_is_not_answered_before_it_was_decided(linearization: float, answered_ms: float) -> None:
    catalog = CASCatalog(fixed_provider(cas=20.0, failed_cas=5.0), 1, (1,), linearization=linearization)
    timeline = interleave([catalog.commit(1, {0: 1})])
    assert timeline.results[0] == CommitResult(False, answered_ms, 1)
    assert timeline.ends_ms[0] == answered_ms


def test_without_a_distribution_of_failures_they_take_as_long_as_successes() -> None:
    catalog = CASCatalog(fixed_provider(failed_cas=None), 1, (1,))
    assert spend(catalog.commit(1, {0: 1})) == ([CAS], CommitResult(False, CAS, 1))


# -- table groups -----------------------------------------------------------------------------------------------------------------


def test_commits_of_different_groups_do_not_conflict() -> None:
    catalog = cas_catalog(2, table_groups=(0, 1))
    results = interleave([catalog.commit(0, {0: 1}), catalog.commit(0, {1: 1})]).results
    assert [results[i].success for i in range(2)] == [True, True]


def test_a_view_of_a_group_reads_the_seq_of_that_group() -> None:
    catalog = cas_catalog(2, table_groups=(0, 1))
    commit_to(catalog, 1, group=1)
    assert [outcome(catalog.bind(Stream(0), group).read()).seq for group in (0, 1)] == [0, 1]


def test_a_commit_over_two_groups_is_refused() -> None:
    catalog = cas_catalog(3, table_groups=(0, 1, 1))
    with pytest.raises(ValueError, match=r"tables \[0, 2\] belong to groups \[0, 1\]"):
        outcome(catalog.commit(0, {0: 1, 2: 1}))
    assert catalog.seq == 0


def test_a_commit_of_several_tables_of_one_group_is_installed_as_one() -> None:
    catalog = cas_catalog(3, table_groups=(0, 1, 1))
    assert outcome(catalog.commit(0, {1: 1, 2: 1})).success
    assert [table.version for table in catalog.tables] == [0, 1, 1]
    assert group_seq(catalog, 1) == 1


# -- the catalog itself -----------------------------------------------------------------------------------------------------------


def test_views_share_the_state_and_draw_latencies_of_their_own() -> None:
    catalog = cas_catalog()
    view = seen_through(catalog, fixed_provider(catalog_read=50.0))
    commit_to(view, 0)
    assert spend(catalog.read())[0] == [CATALOG_READ]
    latencies, snapshot = spend(view.read())
    assert latencies == [50.0]
    assert snapshot.tables is catalog.tables
    assert catalog.seq == 1


def test_fresh_is_the_same_catalog_before_its_first_commit() -> None:
    catalog = cas_catalog(2, linearization=0.25, table_groups=(0, 1))
    commit_to(catalog, 0)
    fresh = catalog.fresh()
    assert (fresh.seq, fresh.counters.commit_success) == (0, 0)
    assert fresh.tables == (TableMetadata(0, 0, 2, (0, 0)), TableMetadata(1, 0, 2, (0, 0)))
    assert (fresh.table_groups, fresh.linearization) == ((0, 1), 0.25)
    commit_to(fresh, 1, group=1)
    assert (group_seq(catalog, 0), group_seq(catalog, 1)) == (1, 0)


@pytest.mark.parametrize("linearization", [-0.1, 1.1])
def test_a_linearization_outside_the_latency_is_refused(linearization: float) -> None:
    with pytest.raises(ValueError, match="linearization"):
        CASCatalog(fixed_provider(), 1, (1,), linearization=linearization)


@pytest.mark.parametrize(("num_tables", "partitions"), [(0, ()), (2, (1,)), (1, (1, 1))])
def test_tables_without_a_partition_count_each_are_refused(num_tables: int, partitions: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one value per table"):
        CASCatalog(fixed_provider(), num_tables, partitions)


def test_a_store_without_compare_and_swap_cannot_hold_it() -> None:
    profile = StorageProfile("readable", 0.0, {"*": FixedLatency(1.0)}, {}, cas=None)
    with pytest.raises(UnsupportedOperationError, match="readable"):
        CASCatalog(ProfiledProvider(profile, Stream(0)), 1, (1,))


# -- the instant catalog ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency_ms", [1.0, 0.25])
def test_the_instant_catalog_takes_its_one_latency_for_everything(latency_ms: float) -> None:
    catalog = InstantCatalog(1, (1,), latency_ms)
    assert spend(catalog.read())[0] == [latency_ms]
    assert spend(catalog.commit(0, {0: 1})) == ([latency_ms], CommitResult(True, latency_ms, 1))
    assert spend(catalog.commit(0, {0: 1})) == ([latency_ms], CommitResult(False, latency_ms, 1))


def test_the_instant_catalog_takes_a_millisecond_by_default_and_conflicts_like_any_other() -> None:
    catalog = InstantCatalog(2, (1, 1))
    timeline = interleave([catalog.commit(0, {0: 1}), catalog.commit(0, {1: 1})])
    assert [timeline.results[i].success for i in range(2)] == [True, False]
    assert timeline.ends_ms == {0: 1.0, 1: 1.0}


@pytest.mark.parametrize("limit_bytes", [3_000, 3_999])
def test_the_instant_catalog_refuses_metadata_beyond_its_limit_for_good(limit_bytes: int) -> None:
    """The first commit adds a second snapshot, which makes metadata of 3,000 bytes; the next one would make 4,000 of it."""
    model = TableModel(snapshots=1, metadata_bytes=1_000, metadata_bytes_per_snapshot=1_000)
    catalog = InstantCatalog(1, (1,), table_model=model, metadata_limit_bytes=limit_bytes)
    changes = {0: (TableChange(Traits(kind=1, data=1)),)}
    assert outcome(catalog.commit(0, {0: 1}, 5.0, changes=changes)).success
    assert outcome(catalog.commit(1, {0: 2}, 7.0, changes=changes)) == CommitResult(False, 1.0, 1, METADATA_TOO_LARGE)
    assert catalog.counters.metadata_limit_reached_ms == 8.0
    assert catalog.seq == 1


def test_the_instant_catalog_has_groups_and_linearization() -> None:
    catalog = InstantCatalog(2, (1, 1), 8.0, table_groups=(0, 1), linearization=0.25)
    assert spend(catalog.commit(0, {1: 1}))[0] == [2.0, 6.0]
    assert (group_seq(catalog, 0), group_seq(catalog, 1)) == (0, 1)
