"""A run on disk: which files, what they say, and that they are enough to repeat it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive import __version__
from endive.config import Document, compute_experiment_hash, load_document
from endive.runs.execute import FinishedRun, place_run, prepare_run, run_experiment
from endive.runs.identity import parameters
from endive.simulation import RESULT_SCHEMA, TRACE_SCHEMA, Simulation
from endive.version import code_version, get_git_sha
from tests.cli import files, strict
from tests.config import BASE, built, checked

PROFILE = "read = { fixed_ms = 5.0 }\nwrite = { fixed_ms = 6.0 }\ncas = { median_ms = 7.0, sigma = 0.2 }\n"


def labelled(**overrides: Any) -> Document:
    return checked(overrides={"experiment.label": "exp", **{key.replace("__", "."): value for key, value in overrides.items()}})


def test_a_labelled_experiment_has_a_directory_with_one_for_each_seed(tmp_path: Path) -> None:
    document = labelled()
    for seed in (42, 43):
        run_experiment(document, root=tmp_path, seed=seed)
    name = f"exp-{compute_experiment_hash(document)}"
    names = ("results.parquet", "summary.json", "provenance.json")
    assert files(tmp_path) == {
        f"{name}/cfg.toml",
        f"{name}/version.txt",
        *(f"{name}/{seed}/{file}" for seed in (42, 43) for file in names),
    }


@pytest.mark.parametrize("name", ["out.summary.json", "out.cfg.toml", "out.provenance.json", "out.version.txt"])
def test_a_file_beside_the_results_that_no_run_wrote_is_not_replaced(tmp_path: Path, name: str) -> None:
    document = checked(overrides={"simulation.output_path": "out.parquet"})
    (tmp_path / name).write_text("important")
    with pytest.raises(PermissionError, match="was not written by Endive"):
        run_experiment(document, root=tmp_path)
    assert files(tmp_path) == {name}
    (tmp_path / name).unlink()
    for _ in range(2):
        run_experiment(document, root=tmp_path)


def test_a_file_that_is_not_a_result_is_not_replaced(tmp_path: Path) -> None:
    document = checked(overrides={"simulation.output_path": "notes.txt"})
    notes = tmp_path / "notes.txt"
    notes.write_text("important")
    with pytest.raises(PermissionError, match="was not written by Endive"):
        run_experiment(document, root=tmp_path)
    assert notes.read_text() == "important"
    assert sorted(tmp_path.iterdir()) == [notes]
    notes.unlink()
    first = run_experiment(document, root=tmp_path)
    assert run_experiment(document, root=tmp_path).files == first.files, "results of an earlier run are replaced"


def test_a_link_does_not_lead_out_of_the_output_directory(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "sub").symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="leads out of"):
        run_experiment(checked(overrides={"simulation.output_path": "sub/results.parquet"}), root=tmp_path / "out")


def test_files_without_a_label_are_beside_the_output_path(tmp_path: Path) -> None:
    finished = run_experiment(checked(overrides={"simulation.output_path": "sub/out.parquet"}), root=tmp_path, trace=True)
    assert finished.files.results == tmp_path / "sub" / "out.parquet"
    assert files(tmp_path) == {
        "sub/out.parquet",
        "sub/out.summary.json",
        "sub/out.provenance.json",
        "sub/out.trace.parquet",
        "sub/out.cfg.toml",
        "sub/out.version.txt",
    }


def test_results_have_the_schema_and_the_rows_of_the_run(tmp_path: Path) -> None:
    finished = run_experiment(labelled(), root=tmp_path)
    table = pq.read_table(finished.files.results)
    assert table.schema.equals(RESULT_SCHEMA)
    assert table.num_rows == finished.rows > 10
    assert table.equals(Simulation(built()).run().to_table())


def test_the_summary_counts_the_rows(tmp_path: Path) -> None:
    finished = run_experiment(labelled(), root=tmp_path)
    summary = strict(finished.files.summary.read_text())
    assert summary == finished.summary
    assert summary["total"]["transactions"] == finished.rows


def test_provenance_describes_the_run(tmp_path: Path) -> None:
    document = labelled()
    finished = run_experiment(document, root=tmp_path, seed=11)
    provenance = strict(finished.files.provenance.read_text())
    assert provenance == finished.provenance
    assert provenance["endive_version"] == __version__
    assert provenance["code_version"] == code_version()
    assert provenance["git_commit"] == get_git_sha()
    assert provenance["experiment_hash"] == compute_experiment_hash(document)
    assert provenance["seed"] == 11
    assert provenance["engine"] == "reference"
    assert provenance["repeat"] == "endive run cfg.toml --seed 11"
    assert {"numpy", "pyarrow", "simpy"} <= set(provenance["dependencies"])
    assert provenance["parameters"] == parameters(document)
    assert provenance["wall_time_s"] >= 0.0
    assert {"started", "python", "platform"} <= set(provenance)
    version = finished.files.version.read_text().strip()
    assert version == (get_git_sha() or code_version())


def test_a_repeated_run_gives_the_same_bytes(tmp_path: Path) -> None:
    one = run_experiment(labelled(), root=tmp_path / "one", trace=True)
    two = run_experiment(labelled(), root=tmp_path / "two", trace=True)
    assert one.files.results.read_bytes() == two.files.results.read_bytes()
    assert one.files.trace.read_bytes() == two.files.trace.read_bytes()
    assert one.files.config.read_bytes() == two.files.config.read_bytes()
    other = run_experiment(labelled(), root=tmp_path / "two", seed=8)
    assert other.files.results.read_bytes() != one.files.results.read_bytes()


def repeated(finished: FinishedRun, root: Path) -> FinishedRun:
    """The run again, from nothing but what it has left behind."""
    document = load_document(finished.files.config)
    seed = strict(finished.files.provenance.read_text())["seed"]
    return run_experiment(document, root=root, seed=seed)


@pytest.mark.parametrize("label", ["exp", None])
def test_the_written_configuration_and_seed_repeat_the_run(label: str | None, tmp_path: Path) -> None:
    overrides: dict[str, Any] = {
        "catalog.mode": "append",
        "catalog.num_tables": 3,
        "partition.num_partitions": 9,
        "transaction.ntable.zipf": 1.5,
        "workload.a.closed": {"clients": 2},
        "workload.b.rate": 5.0,
        "workload.c.operation": "merge_append",
    }
    if label is not None:
        overrides["experiment.label"] = label
    document = checked(overrides=overrides)
    first = run_experiment(document, root=tmp_path / "first", seed=5)
    again = repeated(first, tmp_path / "again")
    assert compute_experiment_hash(load_document(first.files.config)) == compute_experiment_hash(document)
    assert again.files.results.read_bytes() == first.files.results.read_bytes()
    assert again.files.config.read_bytes() == first.files.config.read_bytes()
    assert again.files.results.relative_to(tmp_path / "again") == first.files.results.relative_to(tmp_path / "first")
    assert first.provenance["repeat"] == f"endive run {first.files.config.name} --seed 5"


def test_a_seed_that_is_left_out_is_fresh_and_recorded(tmp_path: Path) -> None:
    text = BASE.replace("seed = 7\n", "")
    (tmp_path / "run.toml").write_text(text + '[experiment]\nlabel = "exp"\n')
    document = load_document(tmp_path / "run.toml")
    one, two = (run_experiment(document, root=tmp_path / "runs") for _ in range(2))
    assert one.provenance["seed"] != two.provenance["seed"]
    assert one.files.results.parent.name == str(one.provenance["seed"])
    assert one.files.config == two.files.config
    again = repeated(one, tmp_path / "again")
    assert again.files.results.read_bytes() == one.files.results.read_bytes()


def test_the_seed_is_not_in_the_written_configuration(tmp_path: Path) -> None:
    finished = run_experiment(labelled(), root=tmp_path)
    assert load_document(finished.files.config).simulation.seed is None


@pytest.mark.parametrize("label", ["exp", None])
def test_profile_files_are_copied_to_the_experiment(label: str | None, tmp_path: Path) -> None:
    """Two of the same name, one for the tables and one for the catalog, stay apart; a repeat needs neither of them."""
    overrides: dict[str, Any] = {} if label is None else {"experiment.label": label}
    for number, section in enumerate(("storage", "catalog")):
        path = tmp_path / section / "own.toml"
        path.parent.mkdir()
        path.write_text(PROFILE.replace("7.0", f"{20.0 + number}"))
        overrides[f"{section}.provider"] = str(path)
    document = checked(overrides=overrides)
    first = run_experiment(document, root=tmp_path / "first", seed=5)
    before = compute_experiment_hash(document)
    for section in ("storage", "catalog"):
        (tmp_path / section / "own.toml").unlink()
    copies = {path.name for path in first.files.config.parent.glob("*provider.toml")}
    prefix = "" if label else "results."
    assert copies == {f"{prefix}storage-provider.toml", f"{prefix}catalog-provider.toml"}
    assert compute_experiment_hash(load_document(first.files.config)) == before
    again = repeated(first, tmp_path / "again")
    assert again.files.results.read_bytes() == first.files.results.read_bytes()
    assert {path.name for path in again.files.config.parent.glob("*provider.toml")} == copies


def test_a_trace_has_the_events_of_the_run(tmp_path: Path) -> None:
    finished = run_experiment(labelled(), root=tmp_path, trace=True)
    trace = pq.read_table(finished.files.trace)
    assert trace.schema.equals(TRACE_SCHEMA)
    results = pq.read_table(finished.files.results)

    def count(event: str) -> int:
        return list(trace.column("event").to_pylist()).count(event)

    assert count("submit") == finished.rows
    assert count("commit") == results.column("status").to_pylist().count("committed")
    assert count("commit_failed") >= sum(results.column("n_retries").to_pylist()) > 0
    assert trace.column("time_ms").to_pylist() == sorted(trace.column("time_ms").to_pylist())


def test_a_traced_run_uses_the_reference_engine(tmp_path: Path) -> None:
    """Whatever ``auto`` would have chosen without a trace."""
    traced = run_experiment(labelled(simulation__engine="auto"), root=tmp_path, trace=True)
    assert traced.provenance["engine"] == "reference"


def test_a_run_without_arrivals_is_a_run(tmp_path: Path) -> None:
    document = labelled(simulation__duration_ms=0.001)
    finished = run_experiment(document, root=tmp_path, trace=True)
    assert finished.rows == 0
    table = pq.read_table(finished.files.results)
    assert (table.num_rows, table.schema.equals(RESULT_SCHEMA)) == (0, True)
    total = strict(finished.files.summary.read_text())["total"]
    assert (total["transactions"], total["committed"], total["n_retries"]) == (0, 0, 0)
    assert strict(finished.files.summary.read_text())["by_class_and_operation"] == []


def test_all_drained_transactions_finish(tmp_path: Path) -> None:
    cut = run_experiment(labelled(), root=tmp_path)
    drained = run_experiment(labelled(simulation__drain=True), root=tmp_path)
    assert cut.summary["total"]["in_flight"] > 0 == drained.summary["total"]["in_flight"]
    assert cut.rows == drained.rows


class FailingError(Exception):
    pass


@pytest.mark.parametrize("error", [FailingError, KeyboardInterrupt])
@pytest.mark.parametrize("trace", [False, True])
def test_a_run_that_breaks_off_leaves_no_results(error: type[BaseException], trace: bool, tmp_path: Path) -> None:
    def progress(now_ms: float) -> None:
        raise error

    with pytest.raises(error):
        run_experiment(labelled(simulation__duration_ms=1e9), root=tmp_path, trace=trace, progress=progress)
    assert files(tmp_path) == set()


def test_a_run_that_breaks_off_leaves_earlier_results_alone(tmp_path: Path) -> None:
    document = labelled(simulation__duration_ms=30_000.0)
    before = run_experiment(document, root=tmp_path)
    content = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}

    def progress(now_ms: float) -> None:
        raise FailingError

    with pytest.raises(FailingError):
        run_experiment(document, root=tmp_path, progress=progress)
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == content
    assert before.rows > 256


def test_results_appear_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the results are, the rest is too: a failure to write the rest takes the results with it."""

    def fail(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("endive.runs.execute.write_text", fail)
    with pytest.raises(OSError, match="No space left"):
        run_experiment(labelled(), root=tmp_path)
    assert files(tmp_path) == set()


def test_files_of_a_run_are_at_the_paths_of_the_layout() -> None:
    files = place_run(prepare_run(labelled(), seed=42), Path("experiments"))
    experiment = Path("experiments") / f"exp-{compute_experiment_hash(labelled())}"
    assert files.results == experiment / "42" / "results.parquet"
    assert files.config == experiment / "cfg.toml"
    assert files.version == experiment / "version.txt"


def test_progress_is_reported(tmp_path: Path) -> None:
    answer: list[float] = []
    run_experiment(labelled(simulation__duration_ms=30_000.0), root=tmp_path, progress=answer.append)
    assert answer == sorted(answer)
    assert 0.0 < answer[0] <= answer[-1] <= 30_000.0


def test_times_are_double_precision() -> None:
    times = [field for field in RESULT_SCHEMA if field.name.startswith("t_") or field.name.endswith(("_ms", "latency"))]
    assert len(times) >= 10
    assert all(field.type == pa.float64() for field in times)


@pytest.mark.parametrize("link", ["{name}", "{name}/7"])
def test_a_link_in_a_directory_of_experiments_is_not_written_through(link: str, tmp_path: Path) -> None:
    document, root, outside = labelled(), tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    place = root / link.format(name=f"exp-{compute_experiment_hash(document)}")
    place.parent.mkdir(parents=True)
    place.symlink_to(outside)
    with pytest.raises(PermissionError, match="leads out of"):
        run_experiment(document, root=root, seed=7)
    assert files(outside) == set()


def test_a_directory_of_experiments_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    run_experiment(labelled(), root=tmp_path / "root", seed=7)
    assert len(files(tmp_path / "real")) == 5
