from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endive.catalog import CatalogSnapshot
from endive.catalog.snapshots import TableMetadata
from endive.conflict_detector import ConflictDetector, PartitionOverlapConflictDetector, ProbabilisticConflictDetector
from endive.randomness import Stream, run_key
from endive.transaction import (
    FastAppendTransaction,
    MergeAppendTransaction,
    ReadOnlyTransaction,
    Transaction,
    ValidatedOverwriteTransaction,
)

PARTITIONS = 4


def snapshot(*versions: tuple[int, ...]) -> CatalogSnapshot:
    """Return a snapshot with one table per tuple of partition versions; a table's version is their sum."""
    tables = tuple(TableMetadata(i, sum(partitions), len(partitions), partitions) for i, partitions in enumerate(versions))
    return CatalogSnapshot(sum(table.version for table in tables), tables, 0.0)


START = snapshot((0,) * PARTITIONS, (0,) * PARTITIONS)
CHANGED = snapshot((0, 0, 1, 0), (0,) * PARTITIONS)
"""Snapshot after a write to partition 2 of table 0."""


def overwrite(partitions: dict[int, frozenset[int]] | None, *tables: int) -> Transaction:
    return ValidatedOverwriteTransaction(1, 0.0, 10.0, frozenset(tables or (0,)), partitions)


class TestProbabilistic:
    @pytest.mark.parametrize(("probability", "expected"), [(0.0, {False}), (1.0, {True})])
    def test_zero_is_never_and_one_is_always(self, probability: float, expected: set[bool]) -> None:
        for rng in (Stream(run_key(1)), np.random.RandomState(1)):
            detector = ProbabilisticConflictDetector(probability, rng)
            assert {detector.is_real_conflict(overwrite(None), CHANGED, START) for _ in range(500)} == expected

    @pytest.mark.parametrize("probability", [0.02, 0.3, 0.9])
    def test_the_frequency_is_the_probability(self, probability: float) -> None:
        n = 20_000
        detector = ProbabilisticConflictDetector(probability, Stream(run_key(2)))
        real = sum(detector.is_real_conflict(overwrite(None), CHANGED, START) for _ in range(n))
        assert abs(real / n - probability) < 4.0 * math.sqrt(probability * (1.0 - probability) / n)

    @pytest.mark.parametrize("operation", [FastAppendTransaction, MergeAppendTransaction, ReadOnlyTransaction])
    def test_appends_and_readers_never_conflict_and_draw_nothing(self, operation: type[Transaction]) -> None:
        stream = Stream(run_key(3))
        detector = ProbabilisticConflictDetector(1.0, stream)
        assert not detector.is_real_conflict(operation(1, 0.0, 10.0, frozenset({0})), CHANGED, START)
        assert stream.draws == 0

    def test_one_decision_takes_one_draw(self) -> None:
        stream = Stream(run_key(4))
        ProbabilisticConflictDetector(0.5, stream).is_real_conflict(overwrite(None), CHANGED, START)
        assert stream.draws == 1

    def test_binding_keeps_the_probability_and_leaves_the_original_alone(self) -> None:
        own, other = Stream(run_key(5)), Stream(run_key(6))
        detector = ProbabilisticConflictDetector(1.0, own)
        bound = detector.bind(other)
        assert bound.is_real_conflict(overwrite(None), CHANGED, START)
        assert bound.real_conflict_probability == 1.0
        assert (own.draws, other.draws) == (0, 1)

    def test_each_decision_compares_the_next_draw_of_its_source(self) -> None:
        bound = ProbabilisticConflictDetector(0.3).bind(Stream(run_key(7)))
        sources: dict[ConflictDetector, Stream | np.random.RandomState] = {
            bound: Stream(run_key(7)),
            ProbabilisticConflictDetector(0.3, np.random.RandomState(9)): np.random.RandomState(9),
        }
        for detector, twin in sources.items():
            found = [detector.is_real_conflict(overwrite(None), CHANGED, START) for _ in range(50)]
            assert found == [twin.random_sample() < 0.3 for _ in range(50)]
            assert 0 < sum(found) < 50

    @pytest.mark.parametrize("probability", [-0.1, 1.0001, float("nan")])
    def test_invalid_probabilities_are_rejected(self, probability: float) -> None:
        with pytest.raises(ValueError, match="real_conflict_probability"):
            ProbabilisticConflictDetector(probability)


class TestPartitionOverlap:
    detector: ConflictDetector = PartitionOverlapConflictDetector()

    @pytest.mark.parametrize(
        ("partitions", "expected"),
        [
            ({0: frozenset({2})}, True),
            ({0: frozenset({1, 2, 3})}, True),
            ({0: frozenset({0, 1, 3})}, False),
            ({0: frozenset()}, False),
            (None, True),
        ],
    )
    def test_a_conflict_is_real_if_a_written_partition_has_changed(
        self, partitions: dict[int, frozenset[int]] | None, expected: bool
    ) -> None:
        assert self.detector.is_real_conflict(overwrite(partitions), CHANGED, START) is expected

    def test_changes_of_other_tables_do_not_conflict(self) -> None:
        assert not self.detector.is_real_conflict(overwrite(None, 1), CHANGED, START)
        assert not self.detector.is_real_conflict(overwrite({1: frozenset({2})}, 1), CHANGED, START)

    def test_a_table_that_is_written_in_no_partition_does_not_conflict(self) -> None:
        assert not self.detector.is_real_conflict(overwrite({1: frozenset({2})}, 0, 1), CHANGED, START)

    def test_one_conflicting_table_of_several_is_enough(self) -> None:
        partitions = {0: frozenset({2}), 1: frozenset({0})}
        assert self.detector.is_real_conflict(overwrite(partitions, 0, 1), CHANGED, START)

    def test_without_a_change_there_is_no_conflict(self) -> None:
        assert not self.detector.is_real_conflict(overwrite(None), START, START)

    @pytest.mark.parametrize("operation", [FastAppendTransaction, MergeAppendTransaction, ReadOnlyTransaction])
    def test_appends_and_readers_never_conflict(self, operation: type[Transaction]) -> None:
        append = operation(1, 0.0, 10.0, frozenset({0}), {0: frozenset({2})})
        assert not self.detector.is_real_conflict(append, CHANGED, START)

    def test_partitions_are_compared_whatever_the_versions_of_their_tables(self) -> None:
        before = CatalogSnapshot(0, (TableMetadata(0, 5, 2, (1, 1)),), 0.0)
        after = CatalogSnapshot(1, (TableMetadata(0, 5, 2, (1, 2)),), 0.0)
        assert self.detector.is_real_conflict(overwrite({0: frozenset({1})}), after, before)
        assert not self.detector.is_real_conflict(overwrite({0: frozenset({0})}), after, before)
        assert self.detector.is_real_conflict(overwrite(None), after, before)

    def test_it_needs_no_randomness(self) -> None:
        assert self.detector.bind(Stream(run_key(1))) is self.detector

    @settings(max_examples=200)
    @given(
        st.lists(st.tuples(*[st.integers(0, 2)] * PARTITIONS), min_size=3, max_size=3),
        st.dictionaries(st.integers(0, 2), st.frozensets(st.integers(0, PARTITIONS - 1)), min_size=1),
    )
    def test_changed_and_written_partitions_overlap_exactly_if_they_intersect(
        self, changes: list[tuple[int, ...]], written: dict[int, frozenset[int]]
    ) -> None:
        before, after = snapshot(*[(0,) * PARTITIONS] * 3), snapshot(*changes)
        changed = {(table, p) for table, versions in enumerate(changes) for p, version in enumerate(versions) if version}
        meets = any((table, p) in changed for table, partitions in written.items() for p in partitions)
        txn = overwrite(written, *written)
        assert self.detector.is_real_conflict(txn, after, before) is meets
