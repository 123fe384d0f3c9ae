"""Requests of catalogs and transactions to an object store: kind, version, offset and size that a custom provider receives."""

from __future__ import annotations

from typing import Any

import pytest

from endive.catalog import AppendCatalog, CASCatalog
from endive.storage import CATALOG, MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA, ProfiledProvider, StorageProvider
from endive.transaction import CommitPolicy, FastAppendTransaction
from endive.transaction.policy import ObjectSizes
from tests.interleave import commit_to, fixed_provider, outcome, run_transaction

Calls = list[tuple[Any, ...]]
READ = ("slowest_read", CATALOG, 777, 1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Record all requests to providers, in order."""
    calls: Calls = []
    for name in ("cas_ms", "append_ms", "compaction_ms", "slowest_read_ms", "slowest_write_ms"):
        method = getattr(ProfiledProvider, name)

        def record(self: StorageProvider, *arguments: Any, name: str = name, method: Any = method) -> Any:
            calls.append((name.removesuffix("_ms"), *arguments))
            return method(self, *arguments)

        monkeypatch.setattr(ProfiledProvider, name, record)
    return calls


def test_a_pointer_is_read_and_swapped_as_a_whole(asked: Calls) -> None:
    catalog = CASCatalog(fixed_provider(), 1, (1,), size_bytes=777)
    outcome(catalog.read())
    assert outcome(catalog.commit(0, {0: 1})).success
    assert not outcome(catalog.commit(0, {0: 1})).success
    assert asked == [READ, ("cas", CATALOG, 0, 777), ("cas", CATALOG, 0, 777)]


def test_a_log_is_appended_to_where_it_ends_and_compacted_as_of_its_last_commit(asked: Calls) -> None:
    catalog = AppendCatalog(fixed_provider(), 1, (1,), size_bytes=777, log_entry_bytes=50, compaction_max_entries=2)
    for version in (1, 2, 3):
        assert outcome(catalog.commit(version - 1, {0: version})).success
    assert asked == [
        *(("append", CATALOG, 0, 50), READ),
        *(("append", CATALOG, 50, 50), READ),
        *(("compaction", CATALOG, 2, 777), ("append", CATALOG, 100, 50), READ),
    ]


def test_a_transaction_reads_and_writes_files_of_the_sizes_in_its_policy(asked: Calls) -> None:
    policy = CommitPolicy(table_metadata_inlined=False, sizes=ObjectSizes(11, 22, 33), max_parallel=2)
    tables = frozenset({0, 1, 2})
    catalog = CASCatalog(fixed_provider(), 3, (1, 1, 1), size_bytes=777)
    run_transaction(FastAppendTransaction(0, 0.0, 50.0, tables), catalog, policy=policy)
    assert asked == [
        READ,
        *(("slowest_read", TABLE_METADATA, 11, 2), ("slowest_read", TABLE_METADATA, 11, 1)),
        *(("slowest_read", MANIFEST_LIST, 22, 2), ("slowest_read", MANIFEST_LIST, 22, 1)),
        *(("slowest_write", MANIFEST_FILE, 33, 2), ("slowest_write", MANIFEST_FILE, 33, 1)),
        *(("slowest_write", MANIFEST_LIST, 22, 2), ("slowest_write", MANIFEST_LIST, 22, 1)),
        *(("slowest_write", TABLE_METADATA, 11, 2), ("slowest_write", TABLE_METADATA, 11, 1)),
        ("cas", CATALOG, 0, 777),
    ]


def test_entries_are_appended_to_a_manifest_list_where_it_ended_when_the_manifest_was_begun(asked: Calls) -> None:
    policy = CommitPolicy(manifest_list_entry_bytes=40)
    catalog = CASCatalog(fixed_provider(), 1, (1,))
    commit_to(catalog, 0)
    run_transaction(FastAppendTransaction(0, 0.0, 50.0, frozenset({0})), catalog, policy=policy, ml_append_mode=True)
    assert ("append", MANIFEST_LIST, 0, 40) in asked
