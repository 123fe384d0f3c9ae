"""Some fifty damaged directories in one root: each is named, and what is whole is consolidated, measured and reported."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from endive.pipeline.consolidate import consolidate
from endive.pipeline.metrics import StudyTables, current_tables, last_options
from endive.runs.metric_tables import read_state, read_tables, write_tables
from endive.runs.stored import PipelineError, find_experiments
from endive.studies.measure import MetricsOptions
from tests.cli import invoke
from tests.pipeline.damages import DAMAGES, Damage, loop
from tests.pipeline.runs import document, local_session, run_all, run_commands_without_spark

WHOLE = 3
SEEDS = 2


def directory_of(root: Path, name: str, made: Path) -> Path:
    """A directory for each damage, named so that the hash stays that of the configuration."""
    number = list(DAMAGES).index(name)
    return root / f"damage{number:02d}-{made.name.rpartition('-')[2]}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment of two seeds."""
    folder = tmp_path_factory.mktemp("made")
    run_all([document(simulation__duration_ms=4_000.0)], folder, range(SEEDS))
    (experiment,) = find_experiments(folder)
    return experiment.directory


@pytest.fixture(scope="module")
def root(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Whole experiments, and one for each damage."""
    found = tmp_path_factory.mktemp("outer") / "inner" / "root"
    for number in range(WHOLE):
        shutil.copytree(made, found / f"whole{number}-{made.name.rpartition('-')[2]}")
    for name, damage in DAMAGES.items():
        directory = directory_of(found, name, made)
        shutil.copytree(made, directory)
        damage.do(directory)
    return found


def named(root: Path, made: Path) -> dict[str, tuple[str, int | None, Damage]]:
    return {name: (directory_of(root, name, made).name, damage.seed, damage) for name, damage in DAMAGES.items()}


def outside(root: Path) -> set[Path]:
    top = root.parents[1]
    return {path for path in top.rglob("*") if not path.is_relative_to(root)}


def test_verify_names_each_damage(root: Path, made: Path) -> None:
    answer = invoke("experiments", "verify", str(root), "--json")
    assert answer.exit_code == 1, answer.stderr
    problems = json.loads(answer.stdout)["problems"]
    for name, (experiment, seed, damage) in named(root, made).items():
        own = [each["problem"] for each in problems if (each["experiment"], each["seed"]) == (experiment, seed)]
        assert any(damage.says.replace("`", "") in problem.replace("`", "") for problem in own), (name, own)
    assert {each["experiment"] for each in problems} == {experiment for experiment, _, _ in named(root, made).values()}
    assert [each["problem"] for each in problems if len(each["problem"]) >= 500] == []


def test_undamaged_runs_are_consolidated_measured_and_reported(root: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_commands_without_spark(monkeypatch)
    before = outside(root)
    answer = invoke("consolidate", str(root), "--json")
    assert answer.exit_code == 1, answer.stderr
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    data = json.loads(answer.stdout)
    whole = SEEDS * (WHOLE + len(DAMAGES)) - sum(damage.lost for damage in DAMAGES.values())
    assert data["runs"] == whole
    where = {problem["where"].partition(" ")[0] for problem in data["problems"]}
    unfinished = {name for name, damage in DAMAGES.items() if damage.says == "no results"}
    lost = {experiment for name, (experiment, _, damage) in named(root, made).items() if damage.lost and name not in unfinished}
    assert lost <= where
    assert data["unfinished_runs"] == len(unfinished)

    answer = invoke("metrics", str(root), "--json")
    assert answer.exit_code == 1, answer.stderr
    assert json.loads(answer.stdout)["runs"] == whole
    assert lost <= {line.split(" ")[1].rstrip(":") for line in answer.stderr.splitlines() if line.startswith("error: ")}

    answer = invoke("report", str(root), "--json")
    assert answer.exit_code == 1, answer.stderr
    assert lost <= {line.split(" ")[1].rstrip(":") for line in answer.stderr.splitlines() if line.startswith("error: ")}
    page = (root / "report.html").read_text()
    assert f"{whole} runs of" in page
    assert "damaged results are omitted" in page
    assert outside(root) == before
    assert not list(root.rglob("*.tmp"))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def garble(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:4] + bytes(byte ^ 0x5A for byte in content[4:-4]) + content[-4:])


def replace(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def parts(root: Path) -> list[Path]:
    return sorted((root / "consolidated").rglob("part-*.parquet"))


DERIVED: dict[str, Callable[[Path], object]] = {
    "a table of metrics truncated": lambda root: truncate(root / "metrics" / "by_run.parquet"),
    "a table of metrics garbled": lambda root: garble(root / "metrics" / "saturation.parquet"),
    "a table of metrics missing": lambda root: (root / "metrics" / "over_time.parquet").unlink(),
    "the state of metrics a list": lambda root: (root / "metrics" / "_state.json").write_text("[]"),
    "a part truncated": lambda root: truncate(parts(root)[0]),
    "a part garbled, of the same size": lambda root: garble(parts(root)[1]),
    "a part missing": lambda root: parts(root)[2].unlink(),
    "a part that links to itself": lambda root: replace(parts(root)[0], loop),
    "a part that is a pipe": lambda root: replace(parts(root)[0], os.mkfifo),
    "a part that is a directory": lambda root: replace(parts(root)[0], Path.mkdir),
    "a further part that is a pipe": lambda root: os.mkfifo(parts(root)[0].with_name("part-00007.parquet")),
    "a table of metrics that is a pipe": lambda root: replace(root / "metrics" / "by_run.parquet", os.mkfifo),
    "the state of metrics a pipe": lambda root: replace(root / "metrics" / "_state.json", os.mkfifo),
}


@pytest.fixture
def small(made: Path, tmp_path: Path) -> Path:
    """A copy of the experiment in a root of its own."""
    root = tmp_path / "root"
    shutil.copytree(made, root / made.name)
    return root


def measured(root: Path) -> StudyTables:
    return current_tables(root, local_session)


def consolidated(root: Path) -> dict[str, bytes]:
    consolidate(root, local_session)
    return {str(path.relative_to(root)): path.read_bytes() for path in parts(root)}


@pytest.mark.parametrize("damage", DERIVED)
def test_damaged_derived_files_are_written_again(damage: str, small: Path) -> None:
    before, dataset = measured(small), consolidated(small)
    DERIVED[damage](small)
    assert measured(small) == before
    assert read_tables(small) == before.tables
    assert consolidated(small) == dataset


@pytest.mark.parametrize("lock", ["consolidated/.lock", "metrics/.lock"])
def test_a_lock_that_is_a_link_is_rejected_and_its_target_unchanged(lock: str, small: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    (small / lock).parent.mkdir()
    elsewhere.write_text("kept")
    (small / lock).symlink_to(elsewhere)
    with pytest.raises(OSError, match="must not be a link"):
        (consolidated if lock.startswith("consolidated") else measured)(small)
    assert elsewhere.read_text() == "kept"
    elsewhere.unlink()
    with pytest.raises(OSError, match="must not be a link"):
        (consolidated if lock.startswith("consolidated") else measured)(small)
    assert not elsewhere.exists()


@pytest.mark.parametrize("name", ["two\nlines-0123abcd", "a b", "\x1b[31mred", "\u202eturned", "-x", "x" * 255])
def test_names_that_no_experiment_has_are_problems_that_can_be_printed(name: str, made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / name)
    answer = invoke("experiments", "verify", str(tmp_path))
    expected = 0 if name.startswith("xx") else 1
    assert answer.exit_code == expected
    assert all(character == "\n" or character.isprintable() for character in answer.stderr)
    if expected:
        assert "its directory does not have the name of an experiment" in answer.stderr
        assert all(line.startswith("error: ") for line in answer.stderr.splitlines())


def test_a_link_in_the_place_of_a_damaged_run_is_removed_and_not_followed(made: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    shutil.copytree(made, root / made.name)
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    (root / made.name / "7").symlink_to(elsewhere)
    answer = invoke("experiments", "remove", str(root), "--incomplete", "--yes")
    assert answer.exit_code == 0, answer.stderr
    assert not (root / made.name / "7").exists()
    assert (elsewhere / "precious").exists()


def test_links_in_the_dataset_are_not_written_through(small: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (small / "consolidated").mkdir()
    name = next(iter(find_experiments(small))).name
    (small / "consolidated" / f"experiment={name}").symlink_to(outside)
    with pytest.raises(PipelineError, match="leads out of"):
        consolidated(small)
    assert list(outside.iterdir()) == []
    shutil.rmtree(small / "consolidated")
    (small / "consolidated").symlink_to(outside)
    with pytest.raises(PermissionError, match="leads out of"):
        consolidated(small)
    assert list(outside.iterdir()) == []


def test_leftovers_are_listed_and_removed(small: Path) -> None:
    run = next(iter(find_experiments(small))).runs[0]
    left = run.directory / ".results.parquet.00000000-1-1-0123456789ab.tmp"
    left.touch()
    answer = invoke("experiments", "remove", str(small), "--incomplete", "--json")
    assert json.loads(answer.stdout)["files"] == []  # of another machine, and fresh
    os.utime(left, (1.0, 1.0))
    answer = invoke("experiments", "remove", str(small), "--incomplete", "--yes", "--json")
    assert json.loads(answer.stdout) == {"removed": True, "directories": [], "files": [str(left)]}
    assert not left.exists()
    assert run.problem() is None


def tables(value: int) -> dict[str, pa.Table]:
    return {view: pa.table({"x": [value]}) for view in ("runs", "experiments", "saturation", "distributions", "over_time")}


def test_tables_of_metrics_appear_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tables(tmp_path, tables(1), {"of": "one"})
    broken = {**tables(2), "over_time": None}
    with pytest.raises((AttributeError, TypeError)):
        write_tables(tmp_path, broken, {"of": "two"})
    found = read_tables(tmp_path)
    assert found is not None
    assert {table["x"][0].as_py() for table in found.values()} == {1}
    assert not list((tmp_path / "metrics").glob(".*.tmp"))
    write_tables(tmp_path, tables(3), {"of": "three"})
    assert read_state(tmp_path) == {"of": "three"}
    (tmp_path / "metrics" / "by_run.parquet").write_bytes(b"PAR1")
    assert read_tables(tmp_path) is None


@pytest.mark.parametrize("text", ["[]", "3", '{"options": 3}', '{"options": {"warmup_ms": "x"}}'])
def test_a_damaged_state_of_metrics_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "_state.json").write_text(text)
    assert last_options(tmp_path) == MetricsOptions()
