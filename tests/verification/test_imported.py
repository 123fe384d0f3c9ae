"""A small real table of PyIceberg is imported: two writers that wait for their commits, and one that overwrites.

``python -m verification --only imported`` makes larger ones, with Java's library too, and asks whether their models are close.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.iceberg.imported import ImportedCase, ImportedRow, compare, make
from verification.iceberg.real_table import Job, Written

CASE = ImportedCase(
    "small",
    (
        Job("pyiceberg", "fast_append", 2, (0.0, 20.0), operations=15),
        Job("pyiceberg", "overwrite_serializable", every_ms=1_000.0, operations=2),
    ),
    access_ms=15.0,
    seconds=300.0,
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Written]:
    folder = tmp_path_factory.mktemp("real")
    return folder, make(None, CASE, folder)


@pytest.fixture(scope="module")
def rows(written: tuple[Path, Written]) -> dict[str, ImportedRow]:
    return {row.measure: row for row in compare(CASE, *written)}


def test_reports_are_those_of_the_commits(written: tuple[Path, Written]) -> None:
    assert len(written[1].reports) + len(written[1].failures) == 32
    assert len(written[1].reports) >= 2
    assert {report["operation"] for report in written[1].reports} <= {"append", "overwrite"}


def test_import_reports_the_operations_of_the_table(written: tuple[Path, Written], rows: dict[str, ImportedRow]) -> None:
    answer = rows["what import says"].observed
    appends = next(text for text in answer["classes"] if text.startswith("append: fast_append"))
    # how arrivals look depends on how busy this machine is; ``make verify`` checks that on larger tables
    made = sum(report["operation"] == "append" for report in written[1].reports)
    assert int(appends.split()[2]) >= made > 0
    assert any("commit_path = 'pyiceberg'" in text for text in answer["assumptions"])
    assert not any("could not be read" in text for text in answer["assumptions"])


def test_models_are_compared_as_they_are_and_detuned(rows: dict[str, ImportedRow]) -> None:
    assert {"the model", "latencies 0.7 times as long", "latencies 1.3 times as long"} <= set(rows)
