"""``endive pack``: an archive of a study that checks itself when it is unpacked."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

import endive
from endive.main import app
from endive.runs.layout import FIGURES_FOLDER, METRICS_FOLDER, PACK_LOCK, PACK_MANIFEST, REPORT, RESULTS
from endive.runs.pack import check_pack, lock_versions, pack_study
from tests.test_api import SCENARIOS, TREE

RUN = CliRunner()


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a small study."""
    folder = tmp_path_factory.mktemp("pack")
    endive.run(TREE, seeds=2, scenarios=SCENARIOS, directory=folder / "root", warmup_ms=5_000)
    (folder / "root" / "notes.txt").write_text("not part of the study")
    done = RUN.invoke(app, ["pack", str(folder / "root"), "-o", str(folder / "study.zip"), "--json"])
    assert done.exit_code == 0, done.output
    return folder / "study.zip"


@pytest.fixture
def unpacked(packed: Path, tmp_path: Path) -> Path:
    with ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    return tmp_path / "study"


def test_the_archive_has_all_of_the_study(unpacked: Path) -> None:
    assert len(list(unpacked.rglob(RESULTS))) == 4
    assert (unpacked / REPORT).is_file()
    assert list((unpacked / METRICS_FOLDER).glob("*.parquet"))
    assert list((unpacked / FIGURES_FOLDER).glob("*.png"))
    assert f"endive=={endive.__version__}" in (unpacked / PACK_LOCK).read_text().splitlines()
    assert not (unpacked / "notes.txt").exists()
    assert not (unpacked.parent / "notes.txt").exists()


def test_an_unpacked_study_is_verified_and_opens(unpacked: Path) -> None:
    done = RUN.invoke(app, ["experiments", "verify", str(unpacked), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"checked": 4, "problems": []}
    assert list(endive.Study(unpacked).to_pandas()["configuration"]) == ["today", "S3 Express"]


@pytest.mark.parametrize("change", ["append", "remove", "manifest", "escape"])
def test_a_change_is_noticed(change: str, unpacked: Path) -> None:
    figure = next((unpacked / FIGURES_FOLDER).glob("*.svg"))
    manifest = unpacked / PACK_MANIFEST
    if change == "append":
        figure.write_text(figure.read_text() + " ")
    elif change == "remove":
        figure.unlink()
    elif change == "manifest":
        manifest.write_text("{}")
    else:
        manifest.write_text(json.dumps({"sha256": {"../other": "0"}}))
    done = RUN.invoke(app, ["experiments", "verify", str(unpacked)])
    assert done.exit_code == 1
    assert {"append": "differs", "remove": "is missing", "manifest": "damaged", "escape": "outside of"}[change] in done.output


def test_the_same_study_gives_the_same_archive(unpacked: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pack_study(unpacked, tmp_path / name / "study.zip")
    assert (tmp_path / "a/study.zip").read_bytes() == (tmp_path / "b/study.zip").read_bytes()


def test_a_directory_that_was_not_packed_has_nothing_to_check(tmp_path: Path) -> None:
    assert check_pack(tmp_path) == []


def test_a_single_run_is_refused(unpacked: Path) -> None:
    done = RUN.invoke(app, ["pack", str(next(unpacked.rglob(RESULTS)).parent)])
    assert done.exit_code == 2
    assert "directory of experiments" in done.output


def test_the_lock_names_the_dependencies() -> None:
    names = {line.partition("==")[0] for line in lock_versions()}
    assert {"endive", "numba", "llvmlite", "pyspark", "py4j", "numpy"} <= names
    assert "pytest" not in names
