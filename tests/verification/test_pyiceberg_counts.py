"""PyIceberg does today what was measured when its counts were checked in."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.iceberg import golden, python_cases
from verification.iceberg.python_cases import CASES, PythonCase

GOLDEN = golden.load(golden.PYTHON)
NAMED = {golden.case_name(case): case for case in CASES}


def _is_quick(case: PythonCase) -> bool:
    """Some for each operation; all of them are for `make verify`."""
    if case.intervening != "append":
        return case.operation in ("overwrite_serializable", "delete")
    return case.commits in ((), (3, 5)) or case.late


QUICK = {name: case for name, case in NAMED.items() if _is_quick(case)}


@pytest.mark.parametrize(("name", "case"), QUICK.items(), ids=QUICK)
def test_counts_are_the_golden_ones(tmp_path: Path, name: str, case: PythonCase) -> None:
    assert python_cases.measure(tmp_path, case).document() == GOLDEN[name]


def test_every_case_has_golden_counts() -> None:
    assert set(GOLDEN) == set(NAMED)


@pytest.mark.parametrize("commits", [1, 3, 5])
def test_a_serializable_overwrite_reads_a_list_and_a_manifest_for_each_append(commits: int) -> None:
    attempts = GOLDEN[f"pyiceberg overwrite_serializable commits={commits}"]["attempts"]
    assert attempts["manifest_list_reads"] == [2, commits + 2]
    assert attempts["manifest_file_reads"] == [2, commits + 2]
    assert attempts["metadata_writes"] == [0, 1]
