"""Loading a study: what lies at a path, what varies, what cannot be shown."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from endive.config.load import check_document
from endive.pipeline.metrics import load_tables
from endive.report import ReportError, phrases
from endive.report.answer import answer_study
from endive.report.configurations import choose_axis, make_series, varying_parameters
from endive.report.study_data import Study, load_study
from endive.report.style import MOST_SERIES
from endive.runs.execute import run_experiment
from endive.runs.identity import Value
from endive.runs.records import seal_record
from endive.runs.stored import Experiment, Inventory
from tests.cli import invoke
from tests.pipeline.runs import document, run_all
from tests.report.studies import measured, one_experiment


def test_a_sweep_has_the_tables_that_were_written(mixed: Study, mixed_root: Path) -> None:
    written = load_tables(mixed_root)
    for name in ("runs", "experiments", "distributions", "over_time"):
        frame, table = getattr(mixed, name), written[name].to_pandas()
        pd.testing.assert_frame_equal(frame.drop(columns=["series", "x"]), table)
    assert mixed.kind == "sweep"
    assert mixed.provenance()["runs"] == 18
    assert mixed.provenance()["seeds"] == [0, 1, 2]


def test_tables_that_are_up_to_date_are_not_made_again(mixed_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("a session was made")

    monkeypatch.setattr("endive.pipeline.session.spark_session", forbidden)
    from endive.report.study_data import load_study

    assert load_study(mixed_root).kind == "sweep"


def test_the_axis_is_the_rate_and_stores_are_the_configurations(mixed: Study) -> None:
    assert mixed.axis is not None
    assert (mixed.axis.title, mixed.axis.values) == ("ingest rate (transactions/s)", (2.0, 6.0, 12.0))
    assert [each.label for each in mixed.series] == ["S3", "S3 Express"]
    assert [each.colour for each in mixed.series] == [0, 1]
    assert mixed.classes == ("ingest", "upkeep")
    assert set(mixed.saturation["series"]) == {"S3", "S3 Express"}


def test_another_load_may_be_named(mixed_root: Path) -> None:
    with pytest.raises(ReportError, match="no experiment has this numeric parameter"):
        measured(mixed_root, load="workload.ingest.rat")


def test_a_run_is_measured_as_in_a_sweep(mixed: Study, mixed_root: Path) -> None:
    directory = next(mixed_root.glob("mixed-*"))
    apart = ["experiment", "series", "x", "warmup_by", "warmup_settled", "needed_ms"]
    of_sweep = mixed.runs[(mixed.runs["experiment"] == directory.name) & (mixed.runs["seed"] == 1)]
    duration, warmup, length = (float(of_sweep[name].iloc[0]) for name in ("duration_ms", "warmup_ms", "window_ms"))
    for path in (directory / "1", directory / "1" / "results.parquet"):
        study = measured(path, warmup_ms=warmup, cooldown_ms=duration - warmup - length)
        assert (study.kind, len(study.single_runs)) == ("run", 1)
        mine = study.runs.drop(columns=apart).reset_index(drop=True)
        pd.testing.assert_frame_equal(mine, of_sweep.drop(columns=apart).reset_index(drop=True))


def test_an_experiment_has_means_over_its_seeds(mixed: Study, mixed_root: Path) -> None:
    directory = next(mixed_root.glob("mixed-*"))
    study = measured(directory)
    assert (study.kind, study.axis, len(study.series)) == ("experiment", None, 1)
    columns = ["workload_class", "operation_type", "n_seeds", "throughput_per_s", "throughput_per_s_hw", "success_rate"]
    of_sweep = mixed.experiments[mixed.experiments["experiment"] == directory.name]
    pd.testing.assert_frame_equal(study.experiments[columns].reset_index(drop=True), of_sweep[columns].reset_index(drop=True))


def test_a_run_without_a_label(tmp_path: Path) -> None:
    tree = document().model_dump(mode="json", exclude_unset=True, exclude_none=True)
    del tree["experiment"]
    run_experiment(check_document(tree, "test"), root=tmp_path, seed=5)
    study = measured(tmp_path / "results.parquet")
    assert (study.kind, study.name) == ("run", "results, seed 5")
    assert measured(tmp_path).runs["seed"].unique().tolist() == [5]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no such file"):
        measured(tmp_path / "nowhere")
    with pytest.raises(ReportError, match=r"no finished run; run `endive run"):
        measured(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ReportError, match="parquet"):
        measured(tmp_path / "notes.txt")


def test_experiments_without_a_finished_run(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=500.0)
    (directory,) = tmp_path.glob("mixed-*")
    (directory / "0" / "results.parquet").unlink()
    with pytest.raises(ReportError, match="no finished run in 1 experiment;"):
        measured(tmp_path)
    with pytest.raises(ReportError, match="no finished run; run `endive run"):
        measured(directory)


def test_a_run_with_empty_provenance_is_reported(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=500.0)
    (directory,) = tmp_path.glob("mixed-*")
    (directory / "0" / "provenance.json").write_text("{}")
    with pytest.raises(ReportError, match=r"provenance\.json: `seed` is missing"):
        measured(directory / "0")


def test_a_damaged_run_is_reported(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=500.0)
    (directory,) = tmp_path.glob("mixed-*")
    with (directory / "0" / "results.parquet").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ReportError, match="corrupt"):
        measured(directory / "0")


def test_a_damaged_seed_is_named_and_the_other_seeds_are_reported(tmp_path: Path) -> None:
    run_all([document(simulation__duration_ms=3_000.0)], tmp_path, range(3))
    (experiment,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    (experiment / "1" / "results.parquet").write_bytes(b"PAR1")
    answer = invoke("report", str(experiment), "--json")
    assert answer.exit_code == 1, answer.stderr
    assert [problem["where"] for problem in json.loads(answer.stdout)["problems"]] == [f"{experiment.name} seed 1"]
    assert "seed 1: corrupt" in answer.stderr
    assert (experiment / "report.html").is_file()
    assert set(load_study(experiment).runs["seed"]) == {0, 2}
    assert invoke("compare", str(experiment), str(experiment)).exit_code == 2
    for seed in (0, 2):
        (experiment / str(seed) / "results.parquet").write_bytes(b"PAR1")
    assert invoke("report", str(experiment)).exit_code == 2


def test_a_sweep_of_which_no_run_can_be_used(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=500.0)
    (directory,) = tmp_path.glob("mixed-*")
    with (directory / "0" / "results.parquet").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ReportError, match=r"none of its runs can be used \(mixed-.* seed 0: corrupt"):
        measured(tmp_path)
    run_all([document(simulation__duration_ms=2_000.0)], tmp_path, [0])
    assert measured(tmp_path).provenance()["experiments"] == 1


def test_versions_are_not_mixed(tmp_path: Path) -> None:
    one_experiment(tmp_path, seeds=1, simulation__duration_ms=2_000.0)
    (directory,) = tmp_path.glob("mixed-*")
    answer = json.loads((directory / "0" / "provenance.json").read_text())
    name = "0" * 12
    other = tmp_path / f"mixed-{name}"
    shutil.copytree(directory, other)
    older = seal_record({**answer, "code_version": "0.0.1+older", "experiment_hash": name})
    (other / "0" / "provenance.json").write_text(json.dumps(older))
    with pytest.raises(ReportError, match=r"0\.0\.1\+older \(1 experiment\).*--code-version"):
        measured(tmp_path)
    assert measured(tmp_path, code_version="older").code_version == "0.0.1+older"
    with pytest.raises(ReportError, match="no results of version 'nobody'"):
        measured(tmp_path, code_version="nobody")


def manifest_of(*parameters: dict[str, Value]) -> Inventory:
    return Inventory({f"e{i}": Experiment("label", f"{i:012}", "v", 1.0, dict(each)) for i, each in enumerate(parameters)})


def labels_of(manifest: Inventory) -> list[str]:
    import pyarrow as pa

    rows = [
        {"experiment": name, "workload_class": "all", "operation_type": "all", "throughput_per_s": float(place)}
        for place, name in enumerate(manifest.experiments)
    ]
    return [each.label for each in make_series(manifest, choose_axis(manifest, None), pa.Table.from_pylist(rows))]


def test_a_parameter_that_follows_another_is_not_in_the_label() -> None:
    points: list[dict[str, Value]] = [
        {"param_storage_provider": name, "param_catalog_provider": name, "param_workload_w_rate": rate}
        for name in ("s3x", "s3")
        for rate in (1.0, 2.0)
    ]
    assert varying_parameters(manifest_of(*points)) == ["param_storage_provider", "param_workload_w_rate"]
    assert labels_of(manifest_of(*points)) == ["S3", "S3 Express"]


def test_a_mix_of_operations_is_reported_whole() -> None:
    prefix = "param_transaction_operation_types_"
    first: dict[str, Value] = {f"{prefix}fast_append": 1.0, f"{prefix}merge_append": 0.0}
    second: dict[str, Value] = {f"{prefix}fast_append": 3.0, f"{prefix}merge_append": 1.0}
    rates: list[dict[str, Value]] = [{**each, "param_workload_w_rate": rate} for each in (first, second) for rate in (1.0, 2.0)]
    assert labels_of(manifest_of(*rates)) == ["100% fast append", "75% fast append + 25% merge append"]


def test_commit_paths_and_operations_of_a_class_are_reported_in_words() -> None:
    operation, path = "param_workload_maintenance_operation", "param_workload_maintenance_commit_path"
    merged, partitions = "param_table_merge_manifests", "param_workload_maintenance_partitions_per_txn"
    points: list[dict[str, Value]] = [
        {merged: False, path: "endive", operation: "validated_overwrite", partitions: 1000},
        {merged: False, path: "iceberg", operation: "validated_overwrite", partitions: 1},
        {merged: False, path: "iceberg", operation: "rewrite_files", partitions: 1},
        {merged: True, path: "iceberg", operation: "rewrite_files", partitions: 1},
    ]
    assert set(labels_of(manifest_of(*points))) == {
        "validated overwrite, endive path, no manifest merging",
        "validated overwrite, iceberg path, no manifest merging",
        "compaction, iceberg path, no manifest merging",
        "compaction, iceberg path, manifest merging",
    }


def test_without_backoff_nothing_else_is_reported_of_it() -> None:
    enabled, first = "param_transaction_retry_backoff_enabled", "param_transaction_retry_backoff_base_ms"
    points: list[dict[str, Value]] = [
        {enabled: on, first: ms, "param_workload_w_rate": 1.0} for on, ms in ((False, 100.0), (True, 100.0), (True, 1000.0))
    ]
    labels = labels_of(manifest_of(*points, *({**each, "param_workload_w_rate": 2.0} for each in points)))
    assert set(labels) == {"no backoff", "initial backoff = 100 ms", "initial backoff = 1 s"}


def test_every_operation_has_a_name() -> None:
    from endive.table import OPERATION_WORDS
    from endive.transaction import OPERATIONS

    assert set(OPERATION_WORDS) == set(OPERATIONS)


def test_times_between_arrivals_become_rates() -> None:
    points: list[dict[str, Value]] = [{"param_transaction_inter_arrival_scale": scale} for scale in (500.0, 2000.0)]
    axis = choose_axis(manifest_of(*points), None)
    assert axis is not None
    assert (axis.title, axis.values) == ("offered load (transactions/s)", (0.5, 2.0))


def test_without_a_rate_the_number_with_most_values_is_the_axis() -> None:
    points: list[dict[str, Value]] = [
        {"param_catalog_num_tables": tables, "param_catalog_latency_ms": latency}
        for tables in (1, 4, 16)
        for latency in (1.0, 50.0)
    ]
    axis = choose_axis(manifest_of(*points), None)
    assert axis is not None
    assert (axis.title, axis.load, axis.scale) == ("tables", None, "log")
    assert labels_of(manifest_of(*points)) == ["catalog latency = 1 ms", "catalog latency = 50 ms"]


def test_runs_that_differ_only_in_their_duration_are_different_configurations(tmp_path: Path) -> None:
    points = [(2.0, 2_000.0), (2.0, 4_000.0), (6.0, 4_000.0)]
    run_all([document(workload__ingest__rate=rate, simulation__duration_ms=ms) for rate, ms in points], tmp_path, range(3))
    study = measured(tmp_path)
    assert [each.label for each in study.series] == ["duration = 2 s", "duration = 4 s"]
    assert sorted(study.saturation["series"]) == ["duration = 2 s", "duration = 4 s"]
    first, *rest = answer_study(study)
    assert re.match(r"Duration 4 s reaches [\d.]+× the commit rate of duration 2 s: ", first), first
    parts = [text for sentence in rest for text in re.findall(r"[\d.]+% (?:with|at) [^,;.]+", sentence)]
    assert len(set(parts)) == len(parts)


def test_a_duration_that_follows_from_the_load_is_no_configuration() -> None:
    points: list[dict[str, Value]] = [
        {"param_workload_ingest_rate": rate, "param_simulation_duration_ms": ms} for rate, ms in ((1.0, 8_000.0), (4.0, 2_000.0))
    ]
    assert len(labels_of(manifest_of(*points))) == 1


def test_labels_in_prose_have_no_equals_sign() -> None:
    labels = {
        "S3, tables = 16": "S3, 16 tables",
        "tables = 1": "1 table",
        "catalog latency = 1 ms": "catalog latency 1 ms",
        "partitions per transaction = 1": "1 partition per transaction",
        "maximum retries = 4": "maximum retries 4",
        "lost responses = 0.05": "5% lost responses",
        "stream rate = 0.25/s": "stream rate 0.25/s",
    }
    assert {label: phrases.phrase_label(label) for label in labels} == labels


def test_latencies_have_a_unit() -> None:
    assert phrases.name_value("param_catalog_commit_median", 2) == "catalog commit median = 2 ms"
    assert phrases.name_value("param_catalog_commit_sigma", 0.5) == "catalog commit sigma = 0.5"


def test_the_best_and_the_worst_of_many_configurations_are_drawn() -> None:
    import pyarrow as pa

    count = 3 * MOST_SERIES
    points: list[dict[str, Value]] = [{"param_storage_provider": f"own-{i:02}"} for i in range(count)]
    manifest = manifest_of(*points)
    rows = [
        {"experiment": f"e{i}", "workload_class": "all", "operation_type": "all", "throughput_per_s": float((7 * i) % count)}
        for i in range(count)
    ]
    series = make_series(manifest, None, pa.Table.from_pylist(rows))
    drawn = [each for each in series if each.colour is not None]
    assert len(drawn) == MOST_SERIES
    assert [each.colour for each in drawn] == list(range(MOST_SERIES))
    best, worst = ({each.label for each in series if each.experiments == (f"e{i}",)} for i in (17, 0))
    assert (7 * 17) % count == count - 1
    assert best | worst <= {each.label for each in drawn}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("param_workload_hot_tables_rate", ("hot tables rate", "transactions/s")),
        ("param_workload_ingest_max_restarts", ("ingest max restarts", "")),
        ("param_workload_ingest_runtime_mean", ("ingest mean job duration", "ms")),
        ("param_workload_ingest_tables_per_txn_zipf", ("ingest tables per txn zipf", "")),
        ("param_workload_nightly_batch_commit_path", ("nightly batch commit path", "")),
    ],
)
def test_every_key_of_a_class_is_reported_with_the_name_of_the_class(column: str, expected: tuple[str, str]) -> None:
    assert phrases.name_parameter(column) == expected


def test_values_have_readable_names() -> None:
    assert phrases.name_value("param_catalog_workers", 0) == "no queue"
    assert phrases.name_value("param_catalog_workers", 4) == "catalog workers = 4"
    assert phrases.name_value("param_failures_lost_answer", 0.05) == "lost responses = 0.05"
    assert phrases.title_parameter("param_failures_lost_answer") == "lost responses (share)"


def test_every_commit_path_has_a_word() -> None:
    assert [phrases.name_value("param_transaction_commit_path", path) for path in ("endive", "iceberg", "pyiceberg")] == [
        "endive path",
        "iceberg path",
        "pyiceberg path",
    ]
