"""Tracking of metadata files for a catalog without it: files in snapshots after successful and failed commits."""

from __future__ import annotations

import numpy as np
import pytest

from endive.catalog import CASCatalog
from endive.catalog.base import AccountedCatalog
from endive.table import TableChange, TableFiles, TableModel
from endive.table.operations import Traits
from tests.interleave import fixed_provider, outcome

MODEL = TableModel(manifests=3)
CHANGE = TableChange(Traits(kind=1, data=2))


def accounted(tables: int = 2, linearization: float = 1.0) -> AccountedCatalog:
    return AccountedCatalog(CASCatalog(fixed_provider(), tables, (2,) * tables, linearization=linearization), MODEL)


def files(catalog: AccountedCatalog) -> list[TableFiles]:
    found = [table.files for table in outcome(catalog.read()).tables]
    assert all(each is not None for each in found)
    return [each for each in found if each is not None]


def test_tables_start_in_the_state_of_their_model() -> None:
    assert files(accounted()) == [TableFiles.initial(MODEL)] * 2


def test_a_commit_that_is_installed_changes_the_files_of_the_tables_that_it_writes() -> None:
    catalog = accounted()
    assert outcome(catalog.commit(0, {1: 1}, changes={1: (CHANGE, CHANGE)})).success
    first, second = files(catalog)
    assert first == TableFiles.initial(MODEL)
    assert second == TableFiles.initial(MODEL).after(CHANGE).after(CHANGE)
    assert second.data == 3 + 2 * 2
    assert outcome(catalog.commit(1, {1: 2}, changes={1: (CHANGE,)})).success
    assert files(catalog)[1] == second.after(CHANGE)
    assert outcome(catalog.commit(2, {0: 1})).success  # without changes: the files stay as they are
    assert files(catalog) == [TableFiles.initial(MODEL), second.after(CHANGE)]


@pytest.mark.parametrize("linearization", [1.0, 0.5])
def test_a_commit_that_is_refused_changes_nothing(linearization: float) -> None:
    catalog = accounted(linearization=linearization)
    outcome(catalog.commit(0, {0: 1}, changes={0: (CHANGE,)}))
    before = files(catalog)
    assert before[0] == TableFiles.initial(MODEL).after(CHANGE)
    assert not outcome(catalog.commit(0, {0: 1}, changes={0: (CHANGE, CHANGE)})).success
    assert files(catalog) == before


def test_a_commit_advances_the_partitions_that_it_writes_and_no_others() -> None:
    catalog = accounted()
    assert outcome(catalog.commit(0, {0: 1}, partitions_written={0: frozenset({1})})).success
    assert [table.partition_versions for table in outcome(catalog.read()).tables] == [(0, 1), (0, 0)]


def test_a_commit_does_not_change_an_earlier_snapshot() -> None:
    catalog = accounted()
    before = outcome(catalog.read())
    outcome(catalog.commit(0, {0: 1}, changes={0: (CHANGE,)}))
    assert before.tables[0].files == TableFiles.initial(MODEL)
    assert outcome(catalog.read()).tables[0].files != before.tables[0].files


def test_views_of_transactions_share_files_and_counters() -> None:
    catalog = accounted()
    one, other = (catalog.bind(np.random.RandomState(seed)) for seed in (1, 2))
    assert outcome(one.commit(0, {0: 1}, changes={0: (CHANGE,)})).success
    assert files(other)[0] == TableFiles.initial(MODEL).after(CHANGE)
    assert (one.seq, other.seq, catalog.seq) == (1, 1, 1)
    assert other.counters == catalog.counters
