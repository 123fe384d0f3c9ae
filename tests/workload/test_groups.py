from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.storage import ExponentialLatency, FixedLatency
from endive.workload import (
    OpenArrivals,
    TableSelector,
    UniformTableSelector,
    Workload,
    WorkloadClass,
    WorkloadConfig,
    ZipfCount,
    ZipfTableSelector,
    assign_groups,
)
from endive.workload.classes import GroupSizes, group_sizes

RULES: tuple[GroupSizes, ...] = ("uniform", "longtail")
topologies = st.integers(1, 60).flatmap(lambda tables: st.tuples(st.just(tables), st.integers(1, tables)))
rules = st.sampled_from(RULES)
seeds = st.integers(0, 2**40)


def sizes_of(groups: tuple[int, ...]) -> list[int]:
    counts = Counter(groups)
    return [counts[group] for group in range(max(groups) + 1)]


class TestSizes:
    @settings(max_examples=300)
    @given(topologies, rules, seeds)
    def test_every_table_is_in_a_group_and_no_group_is_empty(self, topology: tuple[int, int], rule: GroupSizes, seed: int) -> None:
        tables, groups = topology
        sizes = sizes_of(assign_groups(tables, groups, rule, seed))
        assert len(sizes) == groups
        assert sum(sizes) == tables
        assert min(sizes) >= 1
        assert sizes == sorted(sizes, reverse=True)

    @settings(max_examples=200)
    @given(topologies, seeds)
    def test_uniform_groups_differ_by_at_most_one(self, topology: tuple[int, int], seed: int) -> None:
        sizes = sizes_of(assign_groups(*topology, "uniform", seed))
        assert max(sizes) - min(sizes) <= 1

    def test_long_tailed_groups_fall_as_one_over_their_rank(self) -> None:
        sizes = group_sizes(10_000, 20, "longtail")
        assert [sizes[0] / size for size in sizes] == pytest.approx(range(1, 21), rel=0.02)

    @pytest.mark.parametrize(("tables", "groups", "expected"), [(10, 3, [4, 3, 3]), (9, 3, [3, 3, 3]), (5, 4, [2, 1, 1, 1])])
    def test_uniform_sizes(self, tables: int, groups: int, expected: list[int]) -> None:
        assert group_sizes(tables, groups, "uniform") == expected


class TestAssignment:
    @pytest.mark.parametrize("rule", RULES)
    def test_it_follows_from_the_seed(self, rule: GroupSizes) -> None:
        assert assign_groups(40, 6, rule, 1) == assign_groups(40, 6, rule, 1)
        assert len({assign_groups(40, 6, rule, seed) for seed in range(20)}) == 20

    def test_every_table_is_equally_likely_to_be_in_the_small_group(self) -> None:
        counts = Counter(assign_groups(5, 2, "longtail", seed).index(1) for seed in range(2500))
        assert group_sizes(5, 2, "longtail") == [3, 2]
        first_of_two = [4, 3, 2, 1]  # pairs of five tables by their lower member
        assert stats.chisquare([counts[i] for i in range(4)], [250 * ways for ways in first_of_two]).pvalue > 1e-4

    @pytest.mark.parametrize("rule", RULES)
    def test_one_group_holds_all_and_as_many_groups_as_tables_hold_one_each(self, rule: GroupSizes) -> None:
        assert assign_groups(7, 1, rule, 3) == (0,) * 7
        assert assign_groups(7, 7, rule, 3) == tuple(range(7))

    @pytest.mark.parametrize("groups", [0, -1, 6])
    def test_too_few_or_too_many_groups_are_refused(self, groups: int) -> None:
        with pytest.raises(ValueError, match=f"num_groups is {groups}, but must be from 1 to 5"):
            assign_groups(5, groups, "uniform", 1)


selectors = st.sampled_from(
    [UniformTableSelector(), UniformTableSelector(0.5), ZipfTableSelector(1.2), ZipfTableSelector(2.0, 0.3)]
)
counts = st.one_of(st.integers(1, 8), st.floats(0.0, 3.0).map(ZipfCount))


class TestTransactionsOfGroups:
    @settings(max_examples=150)
    @given(st.data(), topologies, rules, seeds, counts, selectors)
    def test_a_transaction_never_leaves_its_group(
        self,
        data: st.DataObject,
        topology: tuple[int, int],
        rule: GroupSizes,
        seed: int,
        count: int | ZipfCount,
        selector: TableSelector,
    ) -> None:
        tables, n_groups = topology
        groups = assign_groups(tables, n_groups, rule, seed)
        own = data.draw(st.none() | st.lists(st.integers(0, tables - 1), min_size=1, unique=True).map(tuple))
        ingest = WorkloadClass(
            "ingest",
            OpenArrivals(FixedLatency(10.0)),
            FixedLatency(1.0),
            tables_per_txn=count,
            table_selector=selector,
            tables=own,
        )
        config = WorkloadConfig(num_tables=tables, partitions_per_table=(1,) * tables, classes=(ingest,), table_groups=groups)
        allowed = frozenset(range(tables) if own is None else own)
        for _, txn in islice(Workload(config, seed).generate(), 12):
            assert {groups[table] for table in txn.tables_read} == {txn.group}
            assert txn.tables_written <= txn.tables_read <= allowed
            assert txn.tables_written
            if isinstance(count, int):
                available = sum(groups[table] == txn.group for table in allowed)
                assert len(txn.tables_read) == min(count, available)

    def test_groups_are_hit_in_proportion_to_their_tables(self) -> None:
        config = WorkloadConfig(
            ExponentialLatency(10.0),
            FixedLatency(1.0),
            num_tables=10,
            partitions_per_table=(1,) * 10,
            tables_per_txn=2,
            table_groups=assign_groups(10, 3, "longtail", 4),
        )
        hits = Counter(txn.group for _, txn in islice(Workload(config, 1).generate(), 5000))
        expected = [500 * size for size in group_sizes(10, 3, "longtail")]
        assert stats.chisquare([hits[group] for group in range(3)], expected).pvalue > 1e-4


@pytest.mark.parametrize("sizes", ["uniform", "longtail"])
def test_the_most_groups_are_made_at_once(sizes: GroupSizes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regression test: group sizes were computed in quadratic time, so 100,000 groups took three minutes to check."""
    sums: list[float] = []

    def counted(values: Iterable[float]) -> float:
        sums.append(sum(values))
        assert len(sums) < 10, "sizes are added up again and again"
        return sums[-1]

    monkeypatch.setattr("endive.workload.classes.sum", counted, raising=False)
    assert sum(group_sizes(10**6, 10**5, sizes)) == 10**6
    assert sums
