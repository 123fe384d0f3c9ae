from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from endive.randomness import RandomSource
from endive.storage import ExponentialLatency, FixedLatency, LatencyDistribution, LognormalLatency, UniformLatency
from endive.transaction import (
    FastAppendTransaction,
    MergeAppendTransaction,
    ReadOnlyTransaction,
    Transaction,
    ValidatedOverwriteTransaction,
)
from endive.workload import (
    ClosedArrivals,
    OpenArrivals,
    PeriodicArrivals,
    UniformPartitionSelector,
    Workload,
    WorkloadClass,
    WorkloadConfig,
    ZipfCount,
    ZipfPartitionSelector,
    ZipfTableSelector,
)

MIXED: Mapping[type[Transaction], float] = {
    FastAppendTransaction: 0.5,
    MergeAppendTransaction: 0.3,
    ValidatedOverwriteTransaction: 0.2,
}

INGEST = WorkloadClass(
    "ingest",
    OpenArrivals(ExponentialLatency(20.0)),
    LognormalLatency.from_mean(500.0, 1.0),
    MIXED,
    tables_per_txn=2,
    partitions_per_txn=2.5,
)
COMPACTION = WorkloadClass(
    "compaction",
    PeriodicArrivals(1000.0, 250.0),
    FixedLatency(5000.0),
    {ValidatedOverwriteTransaction: 1.0},
    partitions_per_txn=4,
)
BACKFILL = WorkloadClass("backfill", OpenArrivals(ExponentialLatency(100.0)), UniformLatency(10.0, 20.0))


def config_of(*classes: WorkloadClass, tables: int = 6, partitions: int = 10) -> WorkloadConfig:
    return WorkloadConfig(num_tables=tables, partitions_per_table=(partitions,) * tables, classes=classes)


def transactions(config: WorkloadConfig, n: int, seed: int = 42) -> list[Transaction]:
    return [txn for _, txn in islice(Workload(config, seed).generate(), n)]


@dataclass(frozen=True)
class Facts:
    """All properties of a transaction except its id."""

    workload_class: str
    operation: type[Transaction]
    submit_ms: float
    runtime_ms: float
    read: frozenset[int]
    written: frozenset[int]
    partitions: Mapping[int, frozenset[int]] | None
    group: int


def facts(txn: Transaction) -> Facts:
    return Facts(
        txn.workload_class,
        type(txn),
        txn.submit_time_ms,
        txn.runtime_ms,
        txn.tables_read,
        txn.tables_written,
        txn.partitions_written,
        txn.group,
    )


class TestGenerate:
    def test_times_increase_ids_count_and_delays_add_up(self) -> None:
        generated = list(islice(Workload(config_of(INGEST, COMPACTION, BACKFILL), 1).generate(), 500))
        times = [txn.submit_time_ms for _, txn in generated]
        assert times == sorted(times)
        assert times == pytest.approx(list(accumulate(delay for delay, _ in generated)), rel=1e-12)
        assert [txn.txn_id for _, txn in generated] == list(range(500))
        assert min(delay for delay, _ in generated) >= 0.0
        assert {txn.workload_class for _, txn in generated} == {"ingest", "compaction", "backfill"}

    def test_the_same_seed_gives_the_same_transactions_and_another_gives_others(self) -> None:
        config = config_of(INGEST, COMPACTION)
        workload = Workload(config, 7)
        one, again = ([facts(txn) for _, txn in islice(workload.generate(), 200)] for _ in range(2))
        assert one == again == [facts(txn) for txn in transactions(config, 200, 7)]
        other = [facts(txn) for txn in transactions(config, 200, 8)]
        assert [f.runtime_ms for f in one if f.workload_class == "ingest"] != [
            f.runtime_ms for f in other if f.workload_class == "ingest"
        ]

    def test_a_workload_without_a_seed_exposes_its_random_seed(self) -> None:
        config = config_of(INGEST)
        workload = Workload(config)
        made = [facts(txn) for _, txn in islice(workload.generate(), 50)]
        assert made == [facts(txn) for txn in transactions(config, 50, workload.seed)]

    @settings(max_examples=20)
    @given(st.permutations([INGEST, COMPACTION, BACKFILL]))
    def test_the_order_of_the_classes_makes_no_difference(self, classes: list[WorkloadClass]) -> None:
        expected = transactions(config_of(BACKFILL, COMPACTION, INGEST), 100)
        assert [facts(txn) for txn in transactions(config_of(*classes), 100)] == [facts(txn) for txn in expected]
        assert [cls.name for cls in config_of(*classes).workload_classes] == ["backfill", "compaction", "ingest"]

    def test_arrivals_of_the_same_moment_come_in_order_of_the_class_names(self) -> None:
        every = [WorkloadClass(name, PeriodicArrivals(10.0), FixedLatency(1.0)) for name in ("b", "c", "a")]
        assert [txn.workload_class for txn in transactions(config_of(*every), 9)] == ["a", "b", "c"] * 3

    def test_a_closed_class_cannot_be_listed(self) -> None:
        closed = WorkloadClass("closed", ClosedArrivals(3, FixedLatency(10.0)), FixedLatency(1.0))
        with pytest.raises(ValueError, match="closed"):
            next(Workload(config_of(INGEST, closed), 1).generate())

    def test_fields_of_the_configuration_make_one_class(self) -> None:
        config = WorkloadConfig(
            ExponentialLatency(20.0),
            FixedLatency(3.0),
            4,
            (2, 3, 4, 5),
            fast_append_weight=0.0,
            merge_append_weight=2.0,
            validated_overwrite_weight=0.0,
            tables_per_txn=3,
            partitions_per_txn=2,
            manifests_per_concurrent_commit=4.25,
        )
        for txn in transactions(config, 50):
            assert isinstance(txn, MergeAppendTransaction)
            assert txn.manifests_per_concurrent_commit == 4.25
            assert txn.workload_class == "default"
            assert len(txn.tables_written) == 3
            assert txn.partitions_written is not None
            assert {len(partitions) for partitions in txn.partitions_written.values()} == {2}

    def test_distributions_of_the_users_own_are_sampled(self) -> None:
        class Sawtooth(LatencyDistribution):
            def sample(self, rng: RandomSource) -> float:
                return 5.0 if rng.random_sample() < 0.5 else 7.0

        config = WorkloadConfig(Sawtooth(), Sawtooth(), 1, (1,))
        generated = list(islice(Workload(config, 1).generate(), 100))
        assert {round(delay, 9) for delay, _ in generated} == {5.0, 7.0}
        assert {txn.runtime_ms for _, txn in generated} == {5.0, 7.0}


class TestConfig:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: WorkloadConfig(FixedLatency(1.0), FixedLatency(1.0), 2, (1,)), r"one value per table \(2\), not 1"),
            (lambda: WorkloadConfig(FixedLatency(1.0), FixedLatency(1.0), 0, ()), r"one value per table \(0\), not 0"),
            (lambda: WorkloadConfig(), "inter_arrival and runtime"),
            (lambda: WorkloadConfig(FixedLatency(1.0)), "inter_arrival and runtime"),
            (lambda: config_of(INGEST, replace(BACKFILL, name="ingest")), "must be unique"),
            (lambda: replace(INGEST, operations={}), "ingest.*weight"),
            (lambda: replace(INGEST, operations={FastAppendTransaction: 0.0}), "ingest.*weight"),
            (lambda: replace(INGEST, operations={FastAppendTransaction: float("nan")}), "ingest.*weight"),
            (lambda: replace(INGEST, operations={FastAppendTransaction: 1.0, MergeAppendTransaction: -0.5}), "ingest.*weight"),
        ],
    )
    def test_invalid_classes_are_rejected(self, make: Callable[[], object], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            make()

    def test_tables_are_in_one_group_by_default(self) -> None:
        assert config_of(INGEST).groups == (0,) * 6
        assert replace(config_of(INGEST), table_groups=(1, 0, 1, 0, 0, 2)).groups == (1, 0, 1, 0, 0, 2)


class TestArrivals:
    def test_open_arrivals_are_drawn_one_interval_after_the_other(self) -> None:
        times = [
            txn.submit_time_ms for txn in transactions(config_of(replace(INGEST, arrivals=OpenArrivals(FixedLatency(8.0)))), 4)
        ]
        assert times == [8.0, 16.0, 24.0, 32.0]

    @pytest.mark.parametrize("phase_ms", [0.0, 250.0, 3000.0])
    def test_periodic_arrivals_come_at_the_phase_and_every_interval_after(self, phase_ms: float) -> None:
        config = config_of(replace(COMPACTION, arrivals=PeriodicArrivals(1000.0, phase_ms)))
        assert [txn.submit_time_ms for txn in transactions(config, 5)] == [phase_ms + 1000.0 * k for k in range(5)]

    def test_a_closed_class_has_a_source_for_each_client_with_draws_of_its_own(self) -> None:
        closed = replace(INGEST, arrivals=ClosedArrivals(3, ExponentialLatency(50.0)))
        sources = Workload(config_of(closed), 1).sources()
        assert len(sources) == 3
        assert all(source.closed for source in sources)
        assert len({source.next_delay_ms() for source in sources}) == 3
        assert len({source.make(0, 0.0)[0].runtime_ms for source in sources}) == 3

    def test_more_clients_do_not_change_the_first_ones(self) -> None:
        def work(clients: int) -> list[list[tuple[float, Facts]]]:
            closed = replace(INGEST, arrivals=ClosedArrivals(clients, ExponentialLatency(50.0)))
            sources = Workload(config_of(closed), 1).sources()
            return [[(source.next_delay_ms(), facts(source.make(i, 0.0)[0])) for i in range(5)] for source in sources]

        assert work(2) == work(6)[:2]

    def test_sources_are_ranked_in_their_order(self) -> None:
        closed = WorkloadClass("a", ClosedArrivals(4, FixedLatency(10.0)), FixedLatency(1.0))
        sources = Workload(config_of(closed, BACKFILL, INGEST), 1).sources()
        assert [source.rank for source in sources] == list(range(6))


class TestOperations:
    def test_operations_come_in_proportion_to_their_weights(self) -> None:
        counts = Counter(type(txn) for txn in transactions(config_of(INGEST), 5000))
        expected = [5000 * weight for weight in MIXED.values()]
        assert stats.chisquare([counts[operation] for operation in MIXED], expected).pvalue > 1e-4

    def test_only_proportions_of_weights_count(self) -> None:
        scaled = replace(INGEST, operations={operation: 64 * weight for operation, weight in MIXED.items()})
        one, other = (transactions(config_of(cls), 300) for cls in (INGEST, scaled))
        assert [facts(txn) for txn in one] == [facts(txn) for txn in other]

    def test_the_order_of_the_operations_makes_no_difference(self) -> None:
        turned = replace(INGEST, operations=dict(reversed(list(MIXED.items()))))
        one, other = (transactions(config_of(cls), 300) for cls in (INGEST, turned))
        assert [facts(txn) for txn in one] == [facts(txn) for txn in other]

    def test_an_operation_of_no_weight_never_comes(self) -> None:
        operations = {FastAppendTransaction: 0.0, MergeAppendTransaction: 1.0, ValidatedOverwriteTransaction: 0.0}
        assert {type(txn) for txn in transactions(config_of(replace(INGEST, operations=operations)), 500)} == {
            MergeAppendTransaction
        }

    def test_a_reader_writes_nothing(self) -> None:
        reader = replace(INGEST, operations={ReadOnlyTransaction: 1.0})
        for txn in transactions(config_of(reader), 50):
            assert len(txn.tables_read) == 2
            assert txn.tables_written == frozenset()
            assert txn.partitions_written is None


class TestTables:
    def test_a_class_keeps_to_its_tables(self) -> None:
        counts = Counter(
            table for txn in transactions(config_of(replace(BACKFILL, tables=(1, 4, 5))), 3000) for table in txn.tables_written
        )
        assert set(counts) == {1, 4, 5}
        assert stats.chisquare(list(counts.values())).pvalue > 1e-4

    def test_a_zipf_number_of_tables(self) -> None:
        counts = Counter(
            len(txn.tables_written) for txn in transactions(config_of(replace(BACKFILL, tables_per_txn=ZipfCount(1.5))), 5000)
        )
        weights = np.array([1.0 / k**1.5 for k in range(1, 7)])
        assert stats.chisquare([counts[k] for k in range(1, 7)], 5000 * weights / weights.sum()).pvalue > 1e-4

    def test_the_number_of_read_partitions_follows_from_the_write_fraction(self) -> None:
        half = replace(BACKFILL, tables_per_txn=4, table_selector=ZipfTableSelector(1.0, write_fraction=0.5))
        for txn in transactions(config_of(half), 50):
            assert (len(txn.tables_read), len(txn.tables_written)) == (4, 2)
            assert txn.tables_written < txn.tables_read


class TestPartitions:
    def test_partitions_are_not_tracked_by_default(self) -> None:
        assert {txn.partitions_written for txn in transactions(config_of(BACKFILL), 20)} == {None}

    def test_there_is_at_least_one(self) -> None:
        txns = transactions(config_of(replace(BACKFILL, partitions_per_txn=0.25)), 50)
        assert {len(partitions) for txn in txns for partitions in (txn.partitions_written or {}).values()} == {1}

    def test_every_written_table_has_its_own(self) -> None:
        for txn in transactions(config_of(INGEST), 100):
            assert txn.partitions_written is not None
            assert set(txn.partitions_written) == txn.tables_written

    def test_partitions_exist_in_their_table(self) -> None:
        config = WorkloadConfig(num_tables=3, partitions_per_table=(1, 4, 9), classes=(replace(BACKFILL, partitions_per_txn=6),))
        seen: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
        sizes: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
        for txn in transactions(config, 300):
            for table, partitions in (txn.partitions_written or {}).items():
                seen[table] |= partitions
                sizes[table].add(len(partitions))
        assert seen == {0: {0}, 1: set(range(4)), 2: set(range(9))}
        assert sizes == {0: {1}, 1: {4}, 2: {6}}

    @settings(max_examples=60)
    @given(st.integers(0, 9), st.integers(1, 10), st.floats(1.0, 12.0), st.integers(0, 1000))
    def test_a_class_keeps_to_its_range(self, first: int, length: int, mean: float, seed: int) -> None:
        end = min(first + length, 10)
        confined = replace(BACKFILL, partitions_per_txn=mean, partition_range=(first, end))
        for txn in transactions(config_of(confined), 10, seed):
            for partitions in (txn.partitions_written or {}).values():
                assert partitions <= set(range(first, end))
                assert len(partitions) >= min(int(mean), end - first)

    def test_the_whole_range_is_used_by_weight(self) -> None:
        confined = replace(BACKFILL, partitions_per_txn=1, partition_range=(5, 8), partition_selector=ZipfPartitionSelector(1.0))
        counts = Counter(
            p for txn in transactions(config_of(confined), 3300) for ps in (txn.partitions_written or {}).values() for p in ps
        )
        assert stats.chisquare([counts[p] for p in (5, 6, 7)], [1800, 900, 600]).pvalue > 1e-4

    def test_only_the_written_part_of_the_selection_counts(self) -> None:
        half = replace(BACKFILL, partitions_per_txn=4, partition_selector=UniformPartitionSelector(0.5))
        txns = transactions(config_of(half), 50)
        assert {len(partitions) for txn in txns for partitions in (txn.partitions_written or {}).values()} == {2}


SHARED = ("submit_ms", "operation", "runtime_ms", "read", "partitions")


class TestCommonRandomNumbers:
    """Changes of one part of a workload do not affect other parts."""

    @pytest.mark.parametrize(
        ("changed", "changes"),
        [
            (replace(INGEST, runtime=FixedLatency(3.0)), {"runtime_ms"}),
            (replace(INGEST, partitions_per_txn=6.5), {"partitions"}),
            (replace(INGEST, partitions_per_txn=None), {"partitions"}),
            (replace(INGEST, partition_selector=ZipfPartitionSelector(2.0)), {"partitions"}),
            (replace(INGEST, tables_per_txn=4), {"read", "partitions"}),
            (replace(INGEST, table_selector=ZipfTableSelector(2.0)), {"read", "partitions"}),
            (replace(INGEST, operations={ReadOnlyTransaction: 1.0}), {"operation", "partitions"}),
            (replace(INGEST, operations={FastAppendTransaction: 1.0}), {"operation"}),
            (replace(INGEST, arrivals=OpenArrivals(ExponentialLatency(2.0))), {"submit_ms"}),
            (replace(INGEST, arrivals=PeriodicArrivals(10.0)), {"submit_ms"}),
            (replace(INGEST, max_retries=1, manifests_per_concurrent_commit=9.0), set()),
        ],
    )
    def test_a_change_of_a_class_does_not_change_other_draws(self, changed: WorkloadClass, changes: set[str]) -> None:
        one = [facts(txn) for txn in transactions(config_of(INGEST), 200)]
        other = [facts(txn) for txn in transactions(config_of(changed), 200)]
        differing = {name for name in SHARED if [getattr(each, name) for each in one] != [getattr(each, name) for each in other]}
        assert differing == changes

    def test_a_faster_arrival_process_scales_the_same_draws(self) -> None:
        faster = replace(INGEST, arrivals=OpenArrivals(ExponentialLatency(5.0)))
        one, other = (transactions(config_of(cls), 100) for cls in (INGEST, faster))
        assert [txn.submit_time_ms for txn in one] == pytest.approx([4.0 * txn.submit_time_ms for txn in other], rel=1e-9)

    def test_another_class_leaves_the_transactions_as_they_were_but_for_ids(self) -> None:
        alone = transactions(config_of(INGEST), 200)
        beside = [txn for txn in transactions(config_of(INGEST, COMPACTION, BACKFILL), 400) if txn.workload_class == "ingest"]
        shared = min(len(alone), len(beside))
        assert shared > 100
        assert [facts(txn) for txn in alone[:shared]] == [facts(txn) for txn in beside[:shared]]
        assert [txn.txn_id for txn in alone[:shared]] != [txn.txn_id for txn in beside[:shared]]

    def test_another_name_gives_other_draws(self) -> None:
        one, other = (transactions(config_of(cls), 50) for cls in (INGEST, replace(INGEST, name="ingest2")))
        assert not {txn.runtime_ms for txn in one} & {txn.runtime_ms for txn in other}

    def test_the_streams_of_a_transaction_do_not_depend_on_how_it_came_to_be(self) -> None:
        closed_first, *_ = Workload(config_of(replace(INGEST, arrivals=ClosedArrivals(2, FixedLatency(1.0)))), 42).sources()
        (open_source,) = Workload(config_of(INGEST), 42).sources()
        for n in range(20):
            one, other = closed_first.make(n, 0.0)[0], open_source.make(n, 0.0)[0]
            assert facts(one) == facts(other)
