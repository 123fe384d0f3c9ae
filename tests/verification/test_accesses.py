"""Accesses are counted by kind of file and by attempt."""

from __future__ import annotations

import pytest

from verification.iceberg.accesses import CATALOG_READS, CATALOG_SWAPS, Accesses, Delays, file_kind


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("s3://b/t/metadata/00003-5a.metadata.json", "metadata"),
        ("memory://t/metadata/snap-17-1-5a.avro", "manifest_list"),
        ("file:///t/metadata/5a-m0.avro", "manifest_file"),
        ("file:///t/metadata/5a-m12.avro", "manifest_file"),
        ("file:///t/data/snap-shot-m0.parquet", "other"),
    ],
)
def test_a_file_is_known_by_its_name(location: str, kind: str) -> None:
    assert file_kind(location) == kind


def test_an_attempt_ends_where_the_next_begins() -> None:
    accesses = Accesses()
    accesses.happened(CATALOG_READS)
    accesses.next_phase()
    for access in (CATALOG_READS, "metadata_reads", CATALOG_SWAPS):
        accesses.happened(access)
    accesses.next_phase(waits=True)
    accesses.happened(CATALOG_READS)
    accesses.next_phase()
    assert accesses.attempts() == 2
    assert accesses.table() == [
        {"catalog_reads": 1},
        {"catalog_reads": 1, "catalog_swaps": 1, "metadata_reads": 1},
        {"catalog_reads": 1},
        {},
    ]


def test_each_kind_of_access_has_its_delay() -> None:
    delays = Delays(catalog_read_ms=1.0, catalog_swap_ms=2.0, read_ms=3.0, write_ms=4.0)
    kinds = (CATALOG_READS, CATALOG_SWAPS, "manifest_list_reads", "metadata_writes", "other_writes", "manifest_list_deletes")
    assert [delays.of(kind) for kind in kinds] == [1.0, 2.0, 3.0, 4.0, 0.0, 4.0]
