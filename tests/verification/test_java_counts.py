"""Apache Iceberg Java does today what was measured when its counts were checked in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from endive.pipeline.java import NoJavaError
from verification.iceberg import golden
from verification.iceberg.counts import Counts
from verification.iceberg.gateway import NoIcebergError, iceberg_gateway
from verification.iceberg.java_cases import CASES, SNAPSHOT_OPERATIONS, JavaCase

pytestmark = pytest.mark.xdist_group("iceberg")
GOLDEN = golden.load(golden.JAVA)
NAMED = {golden.case_name(case): case for case in CASES}


def _is_quick(case: JavaCase) -> bool:
    """Some for each operation; all of them take minutes and are for `make verify`."""
    if case.operation not in SNAPSHOT_OPERATIONS:
        return len(case.commits) == 1
    usual = JavaCase(case.operation, case.intervening, format_version=case.format_version)
    return (case == usual and case.intervening in ("append", "equality_delete")) or (
        case.other_manifests == 148 and case.operation in ("overwrite_serializable", "merge_append")
    )


QUICK = {name: case for name, case in NAMED.items() if _is_quick(case)}


@pytest.fixture(scope="session")
def measured() -> Iterator[Mapping[str, Counts]]:
    try:
        with iceberg_gateway() as gateway:
            yield golden.measure_java(gateway, QUICK.values())
    except (NoIcebergError, NoJavaError) as missing:
        pytest.skip(f"the real Iceberg cannot be run here: {missing}")


@pytest.mark.parametrize("name", QUICK)
def test_counts_are_the_golden_ones(measured: Mapping[str, Counts], name: str) -> None:
    assert measured[name].document() == GOLDEN[name]


def test_every_case_has_golden_counts() -> None:
    assert set(GOLDEN) == set(NAMED)


def reads(name: str, kind: str) -> list[int]:
    counts: list[int] = GOLDEN[name]["attempts"][kind]
    return counts


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("java overwrite_serializable", "manifest_list_reads", [4, 7, 12]),
        ("java rewrite_files", "manifest_list_reads", [1, 1, 1]),
        ("java rewrite_files intervening=equality_delete", "manifest_list_reads", [4, 7, 12]),
        ("java rewrite_files intervening=equality_delete", "manifest_file_reads", [10, 10, 17]),
        ("java overwrite_serializable other_manifests=148", "manifest_file_reads", [157, 158, 163]),
    ],
)
def test_the_figures_that_conclusions_rest_on(name: str, kind: str, expected: list[int]) -> None:
    """As published for Iceberg's main branch; with 150 manifests, two of which hold what is removed."""
    assert reads(name, kind) == expected
