"""Consolidation: every row once, whatever happened before; nothing written that is there already."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from endive.pipeline.consolidate import consolidate
from endive.pipeline.query import transactions
from endive.runs.identity import flat_parameters
from endive.runs.stored import PipelineError, take_inventory
from endive.simulation import RESULT_SCHEMA
from tests.cli import environment, invoke, strict
from tests.pipeline.conftest import Sessions
from tests.pipeline.damages import change_record
from tests.pipeline.kills import run_until_killed
from tests.pipeline.runs import document, local_session, run_all

KEY = ["experiment", "seed", "txn_id"]


def sources(root: Path) -> pd.DataFrame:
    """All rows of all runs, read one by one."""
    frames: list[pd.DataFrame] = []
    for path in sorted(root.glob("*-*/*/results.parquet")):
        frame = pq.read_table(path).to_pandas()
        frames.append(frame.assign(experiment=path.parent.parent.name, seed=int(path.parent.name)))
    return pd.concat(frames).sort_values(KEY).reset_index(drop=True)


def consolidated(root: Path) -> pd.DataFrame:
    """All rows of the dataset, as anybody would read it: by its directory."""
    frames: list[pd.DataFrame] = []
    for path in sorted((root / "consolidated").rglob("*.parquet")):
        experiment, operation = (name.partition("=")[2] for name in path.parts[-3:-1])
        table = pq.ParquetFile(path).read()
        frames.append(table.to_pandas().assign(experiment=experiment, operation_type=operation))
    return pd.concat(frames).sort_values(KEY).reset_index(drop=True)


def assert_same_rows(root: Path) -> None:
    expected, found = sources(root), consolidated(root)
    columns = [*KEY, *(name for name in RESULT_SCHEMA.names if name != "txn_id")]
    assert not found.duplicated(KEY).any()
    pd.testing.assert_frame_equal(
        found[columns].map(_hashable), expected[columns].map(_hashable), check_dtype=False, check_exact=True
    )


def _hashable(value: Any) -> Any:
    return tuple(value) if hasattr(value, "__len__") and not isinstance(value, str) else value


def mtimes(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in (root / "consolidated").rglob("*") if path.is_file() and path.name != ".lock"}


def test_every_row_is_there_once_and_nothing_is_written_again(experiments: Path, sessions: Sessions) -> None:
    done = consolidate(experiments, sessions)
    assert_same_rows(experiments)
    assert (done.experiments, done.runs, done.parts_written, done.problems) == (4, 12, 4, ())
    assert done.rows == len(sources(experiments))
    before = mtimes(experiments)

    def no_session() -> Any:
        raise AssertionError("nothing is new, so there is no need of Spark")

    again = consolidate(experiments, no_session)
    assert mtimes(experiments) == before
    assert (again.parts_reused, again.parts_written, again.rows) == (4, 0, done.rows)


def test_parameters_are_typed_columns(experiments: Path, spark: SparkSession) -> None:
    inventory = take_inventory(experiments)
    frame = transactions(spark, experiments, inventory)
    types = dict(frame.dtypes)
    assert types["param_storage_provider"] == "string"
    assert types["param_catalog_num_tables"] == "bigint"
    assert types["param_workload_ingest_rate"] == "double"
    assert types["param_catalog_table_metadata_inlined"] == "boolean"
    counted = frame.groupBy("param_storage_provider", "param_workload_ingest_rate").count().collect()
    expected = {}
    for name, experiment in inventory.experiments.items():
        key = (experiment.parameters["param_storage_provider"], experiment.parameters["param_workload_ingest_rate"])
        expected[key] = int((sources(experiments)["experiment"] == name).sum())
    assert {(row[0], row[1]): row[2] for row in counted} == expected


def test_files_are_laid_out_by_experiment_and_operation_and_read_by_others(experiments: Path) -> None:
    consolidate(experiments, local_session)
    names = {path.name for path in experiments.glob("mixed-*")}
    folders = {path.parent.relative_to(experiments / "consolidated").as_posix() for path in experiments.rglob("part-*.parquet")}
    operations = ("fast_append", "merge_append", "validated_overwrite")
    assert folders == {f"experiment={name}/operation_type={operation}" for name in names for operation in operations}
    frame = pd.read_parquet(experiments / "consolidated")
    assert len(frame) == len(sources(experiments))
    assert set(frame["operation_type"]) == set(operations)


def test_only_new_runs_are_written(experiments: Path) -> None:
    consolidate(experiments, local_session)
    before = mtimes(experiments)
    run_all([document(workload__ingest__rate=2.0, storage__provider="s3")], experiments, [7])
    done = consolidate(experiments, local_session)
    assert_same_rows(experiments)
    assert (done.parts_reused, done.parts_written, done.runs) == (3, 1, 13)
    touched = {path.parent.parent for path, mtime in mtimes(experiments).items() if before.get(path) != mtime}
    assert len(touched) == 1


def test_full_parts_are_left_alone_when_seeds_come(experiments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.pipeline.consolidate.PART_ROWS", 1)
    done = consolidate(experiments, local_session)
    assert done.parts_written == 12
    before = mtimes(experiments)
    run_all([document(workload__ingest__rate=2.0, storage__provider="s3")], experiments, [7])
    consolidate(experiments, local_session)
    assert_same_rows(experiments)
    assert {path for path in before if path.suffix == ".parquet" and mtimes(experiments)[path] != before[path]} == set()


def test_a_run_that_changed_takes_the_place_of_the_old_one(experiments: Path) -> None:
    consolidate(experiments, local_session)
    first, second = sorted(experiments.glob("mixed-*"))[:2]
    shutil.copytree(first / "1", second / "1", dirs_exist_ok=True)
    answer = json.loads((second / "0" / "provenance.json").read_text())
    change_record(second / "1", parameters=answer["parameters"], experiment_hash=answer["experiment_hash"])
    consolidate(experiments, local_session)
    assert_same_rows(experiments)


def test_rows_of_removed_experiments_and_seeds_go(experiments: Path) -> None:
    consolidate(experiments, local_session)
    first, second = sorted(experiments.glob("mixed-*"))[:2]
    shutil.rmtree(first)
    shutil.rmtree(second / "0")
    done = consolidate(experiments, local_session)
    assert_same_rows(experiments)
    assert (done.experiments, done.runs) == (3, 8)
    assert not (experiments / "consolidated" / f"experiment={first.name}").exists()


def test_files_that_were_lost_are_written_again(experiments: Path) -> None:
    consolidate(experiments, local_session)
    lost, cut = sorted(experiments.rglob("part-*.parquet"))[:5:4]
    lost.unlink()
    cut.write_bytes(cut.read_bytes()[:100])
    consolidate(experiments, local_session)
    assert_same_rows(experiments)


# -- runs that are not whole ---------------------------------------------------------------------------------------------------


def truncate(run: Path) -> None:
    results = run / "results.parquet"
    results.write_bytes(results.read_bytes()[:-200])


def test_a_damaged_run_is_reported_and_left_out_until_it_is_whole(experiments: Path) -> None:
    run = sorted(experiments.glob("mixed-*"))[1] / "1"
    kept = run.parent.parent.parent / "kept"
    shutil.copytree(run, kept)
    truncate(run)
    for _ in range(2):  # it is reported every time
        done = consolidate(experiments, local_session)
        assert [problem.where for problem in done.problems] == [f"{run.parent.name} seed 1"]
        assert done.runs == 11
        assert not ((consolidated(experiments)["experiment"] == run.parent.name) & (consolidated(experiments)["seed"] == 1)).any()
    shutil.rmtree(run)
    shutil.copytree(kept, run)
    done = consolidate(experiments, local_session)
    assert (done.problems, done.runs) == ((), 12)
    assert_same_rows(experiments)


def test_unfinished_runs_are_counted_and_left_out(experiments: Path) -> None:
    (sorted(experiments.glob("mixed-*"))[0] / "1" / "results.parquet").unlink()
    done = consolidate(experiments, local_session)
    assert (done.unfinished_runs, done.runs, done.problems) == (1, 11, ())


# -- interruptions -------------------------------------------------------------------------------------------------------------

CONSOLIDATE = """
import sys
from endive.pipeline.consolidate import consolidate
from tests.pipeline.runs import local_session
consolidate(Path(sys.argv[1]), local_session, tasks=1)
"""


def test_killed_before_each_file_takes_its_place_each_row_is_there_once(experiments: Path) -> None:
    for moment in (1, 5, 9):  # before the first file, within the second part, before the last file
        assert run_until_killed(CONSOLIDATE, moment, experiments)
    found = consolidated(experiments)
    assert not found.duplicated(KEY).any()
    done = consolidate(experiments, local_session)
    assert (done.parts_written, done.parts_reused) == (1, 3)
    assert_same_rows(experiments)
    assert list(experiments.rglob("*.tmp")) == []


@pytest.mark.slow
def test_the_command_killed_on_spark_and_run_again_has_each_row_once(experiments: Path) -> None:
    command = [sys.executable, "-m", "endive", "consolidate", str(experiments), "--master", "local[1,4]"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    deadline = time.monotonic() + 120
    while not list(experiments.rglob("part-*.parquet")) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1.0)  # what Spark had started may end first
    consolidate(experiments, local_session)
    assert_same_rows(experiments)


def test_a_full_disk_is_reported_and_keeps_existing_files(experiments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consolidate(experiments, local_session)
    run_all([document(workload__ingest__rate=2.0, storage__provider="s3")], experiments, [7])
    before = mtimes(experiments)

    def no_space(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device", "part-00000.parquet")

    with monkeypatch.context() as patch:
        patch.setattr("endive.pipeline.consolidate._PartWriter", no_space)
        with pytest.raises(PipelineError, match=r"cannot be written: .*No space left"):
            consolidate(experiments, local_session)
    assert {path: time for path, time in before.items() if path in mtimes(experiments)}.items() <= mtimes(experiments).items()
    assert consolidate(experiments, local_session).runs == 13
    assert_same_rows(experiments)


def test_one_consolidation_at_a_time(experiments: Path) -> None:
    def meanwhile() -> Any:
        with pytest.raises(PipelineError, match="another `endive consolidate` is running"):
            consolidate(experiments, local_session)
        return local_session()

    assert consolidate(experiments, meanwhile).runs == 12


# -- smaller things ------------------------------------------------------------------------------------------------------------


def test_the_bytes_do_not_depend_on_the_number_of_tasks(experiments: Path, sessions: Sessions) -> None:
    found = []
    for executor, tasks in ((sessions, 1), (sessions, 8), (local_session, 3)):
        consolidate(experiments, executor, tasks=tasks)
        found.append({path.name: path.read_bytes() for path in experiments.rglob("part-*.parquet")})
        shutil.rmtree(experiments / "consolidated")
    assert found[0] == found[1] == found[2]


def test_parameters_that_would_share_a_name_do_not(tmp_path: Path) -> None:
    found = flat_parameters({"workload": {"a-b": {"rate": 1.0}, "a_b": {"rate": 2.0}, "A_b": {"rate": 3.0}}}, tmp_path)
    rates = [value for name, value in found.items() if "rate" in name]
    assert rates == [1.0, 2.0, 3.0]


def test_profile_files_are_named_in_parameters(tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'name = "mine"\nread = { fixed_ms = 5.0 }\nwrite = { fixed_ms = 6.0 }\ncas = { median_ms = 7.0, sigma = 0.2 }\n'
    )
    run_all([document(storage__provider=str(profile), simulation__duration_ms=500.0)], tmp_path / "out", [0])
    (run,) = (tmp_path / "out").glob("*/0/provenance.json")
    found = flat_parameters(json.loads(run.read_text())["parameters"], run.parent.parent)
    assert str(found["param_storage_provider"]).startswith("mine-")
    assert found["param_catalog_provider"] == found["param_storage_provider"]


# -- the command ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("commands_share_spark")
def test_consolidate_prints_the_number_of_parts(experiments: Path) -> None:
    result = invoke("consolidate", str(experiments), "--json")
    assert result.exit_code == 0
    answer = strict(result.stdout)
    assert (answer["runs"], answer["experiments"], answer["problems"]) == (12, 4, [])
    shown = invoke("consolidate", str(experiments))
    assert "0 parts written, 4 unchanged" in shown.stdout


@pytest.mark.usefixtures("commands_share_spark")
def test_the_command_fails_if_a_run_is_damaged(experiments: Path) -> None:
    truncate(sorted(experiments.glob("mixed-*"))[0] / "2")
    result = invoke("consolidate", str(experiments), "--json")
    assert result.exit_code == 1
    assert "seed 2: corrupt" in result.stderr
    assert len(strict(result.stdout)["problems"]) == 1


@pytest.mark.parametrize(("folder", "message"), [(".", "no finished run"), ("missing", "missing: no such directory")])
def test_a_folder_without_runs_is_an_error(tmp_path: Path, folder: str, message: str) -> None:
    result = invoke("consolidate", str(tmp_path / folder), "--json")
    assert result.exit_code == 2
    assert message in result.stderr
    assert strict(result.stdout)["errors"]
    assert list(tmp_path.iterdir()) == []
