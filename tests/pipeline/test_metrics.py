"""Metrics against a naive computation of their definitions with pandas, and what reaches the driver."""

from __future__ import annotations

import json
import math
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from scipy import optimize, stats

from endive.analysis.estimates import SHARES, estimate_metric
from endive.analysis.run_metrics import RATES
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.metrics import load_tables, measure_study
from endive.pipeline.query import query
from endive.runs.identity import Value
from endive.runs.layout import METRICS_TABLES
from endive.runs.stored import Experiment, Inventory, PipelineError, take_inventory
from endive.studies.experiment_tables import LoadAxis, find_load_axis, make_saturation_table
from endive.studies.measure import MetricsOptions
from endive.studies.tables import Metrics, discard_units
from tests.analysis.test_warmup import naive as naive_mser5
from tests.cli import assert_fits, invoke, narrow_invoke, strict
from tests.pipeline.runs import DURATION_MS, document, run_all

ROWS_OF_A_RUN = 9
"""Ingest has two operations and upkeep one: three pairs, two classes, three operations, and all."""
TIMES = ("catalog_read_ms", "t_runtime", "per_attempt_io_ms", "conflict_io_ms", "t_backoff", "catalog_commit_ms")
ACCESSES = (
    "metadata_reads",
    "metadata_writes",
    "manifest_list_reads",
    "manifest_list_writes",
    "manifest_list_appends",
    "file_deletes",
    "manifest_file_reads",
    "manifest_file_writes",
)


@pytest.fixture(scope="module")
def dataset(finished_experiments: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Experiments that tests measure; they write tables of metrics beside them."""
    root = tmp_path_factory.mktemp("metrics") / "experiments"
    shutil.copytree(finished_experiments, root)
    return root


def measure(root: Path, options: MetricsOptions) -> Metrics:
    return measure_study(LocalThreads(1), root, options).metrics


PERIOD_MS = 900.0


def naive_entry_warmup(rate: float) -> float:
    """Ingest works for a lognormal time with mean 500 and sigma 0.5, upkeep, every 900 ms, for 1,500 ms."""
    ingest = stats.lognorm(0.5, scale=500.0 * math.exp(-0.125))
    upkeep = 1000.0 / 900.0

    def entering(t: float) -> float:
        return rate * float(ingest.cdf(t)) + (upkeep if t >= 1500.0 else 0.0) - 0.95 * (rate + upkeep)

    return 1500.0 if entering(1500.0) >= 0.0 > entering(1499.9) else float(optimize.brentq(entering, 0.0, 60_000.0))


def naive_window(runs: list[pd.DataFrame], rate: float, end_ms: float) -> tuple[float, float]:
    """The warm-up extended to whole periods of upkeep, and as many whole periods as fit."""
    periods = math.ceil(naive_warmup(runs, rate, end_ms) / PERIOD_MS - 1e-9)
    return periods * PERIOD_MS, math.floor(end_ms / PERIOD_MS) * PERIOD_MS


def naive_warmup(runs: list[pd.DataFrame], rate: float, end_ms: float) -> float:
    """From where entries are stationary, MSER-5 on how many are committing in 300 parts of the run, all seeds together."""
    least, width = naive_entry_warmup(rate), end_ms / 300
    inside = np.zeros(300)
    for rows in runs:
        entered = rows[rows.t_commit_start >= 0]
        ends = entered.t_submit + entered.total_latency
        for part in range(300):
            overlap = np.minimum(ends, (part + 1) * width) - np.maximum(entered.t_commit_start, part * width)
            inside[part] += float(np.maximum(overlap, 0.0).sum()) / width
    first = math.ceil(least / width)
    cut, _ = naive_mser5([float(value) for value in inside[first:]])
    return min((first + cut) * width, end_ms / 2) if cut else least


def naive_time_to_commit(entered: pd.DataFrame, share: float) -> float:
    """The value of the place in order, an abort being never; where something is unfinished it has to lie within its bounds."""
    if len(entered) < 5 / (1 - share) or (entered.status == "in_flight").sum() > len(entered) * (1 - share) / 2:
        return math.nan
    if (entered.status == "in_flight").any():
        return -1.0
    waits = np.where(entered.status == "committed", entered.t_commit - entered.t_commit_start, math.inf)
    return float(np.sort(waits)[math.ceil(share * len(waits) - 1e-9) - 1])


def naive_retries(entered: pd.DataFrame) -> float:
    """For each class and operation the sum over k of the Kaplan-Meier share that needs more than k retries."""
    total = 0.0
    for _, rows in entered.groupby(["workload_class", "operation_type"]):
        unfinished = rows.status == "in_flight"
        share = 1.0
        for k in range(rows.n_retries.max()):
            at_risk = ((rows.n_retries >= k) & ~(unfinished & (rows.n_retries == k))).sum()
            ended = ((rows.n_retries == k) & ~unfinished).sum()
            share *= 1.0 - ended / at_risk
            total += share * len(rows)
    return total if total - retries_so_far(entered) <= 0.05 * total else math.nan


def retries_so_far(entered: pd.DataFrame) -> float:
    return float(entered.n_retries.sum())


def naive_metrics(rows: pd.DataFrame, start_ms: float, end_ms: float) -> dict[str, float]:
    """SPEC section 7, word for word."""
    window = rows[(rows.t_commit_start >= start_ms) & (rows.t_commit_start <= end_ms)]
    committed, aborted = window[window.status == "committed"], window[window.status == "aborted"]
    unfinished = int((window.status == "in_flight").sum())
    all_committed = rows[rows.status == "committed"]
    in_time = ((all_committed.t_commit >= start_ms) & (all_committed.t_commit <= end_ms)).sum()
    seconds = (end_ms - start_ms) / 1000
    nan, n = math.nan, len(window)
    found: dict[str, Any] = {
        "transactions": n,
        "committed": len(committed),
        "aborted": len(aborted),
        "in_flight": unfinished,
        "working": (rows.t_commit_start < 0).sum(),
        "throughput_per_s": in_time / seconds,
        "offered_per_s": n / seconds,
        "throughput_ratio": in_time / n if n else nan,
        "success_low": len(committed) / n if n else nan,
        "success_high": (len(committed) + unfinished) / n if n else nan,
        "success_rate": (len(committed) + unfinished / 2) / n if n else nan,
        "retries_per_txn": naive_retries(window) / n if n else nan,
        "overhead": (committed.commit_latency / committed.total_latency).mean(),
        "aborted_validation_exception": (aborted.abort_reason == "validation_exception").sum(),
        "aborted_max_retries_exceeded": (aborted.abort_reason == "max_retries_exceeded").sum(),
        "aborted_commit_timeout": (aborted.abort_reason == "commit_timeout").sum(),
    }
    for percent in (50, 95):
        value = naive_time_to_commit(window, percent / 100)
        if value != -1.0:
            found[f"time_to_commit_p{percent}_ms"] = value if math.isfinite(value) else nan
    for latency in ("commit_latency", "total_latency"):
        found[f"{latency}_mean_ms"] = committed[latency].mean()
        for percent in (50, 95, 99):
            enough = len(committed) >= 5 / (1 - percent / 100) - 1e-9
            found[f"{latency}_p{percent}_ms"] = committed[latency].quantile(percent / 100) if enough else nan
    found |= {f"mean_{name}": committed[name].mean() for name in TIMES}
    found |= {name: window[name].sum() for name in (*ACCESSES, "n_retries", "n_restarts", "false_conflicts", "real_conflicts")}
    found |= {f"{name}_per_txn": window[name].mean() for name in ACCESSES}
    return {name: float(value) for name, value in found.items()}


def naive_runs(root: Path, warmup_ms: float | None, cooldown_ms: float) -> dict[tuple[str, int, str, str], dict[str, float]]:
    found = {}
    end = DURATION_MS - cooldown_ms
    for experiment in sorted(root.glob("mixed-*")):
        runs = {int(path.parent.name): pq.read_table(path).to_pandas() for path in experiment.glob("*/results.parquet")}
        answer = json.loads(next(experiment.glob("*/provenance.json")).read_text())["parameters"]
        rate = float(answer["workload"]["ingest"]["rate"])
        start, stop = naive_window(list(runs.values()), rate, end) if warmup_ms is None else (warmup_ms, end)
        for seed, rows in runs.items():
            for cls, operation in product(("all", *rows.workload_class.unique()), ("all", *rows.operation_type.unique())):
                chosen = rows[
                    ((rows.workload_class == cls) | (cls == "all")) & ((rows.operation_type == operation) | (operation == "all"))
                ]
                if len(chosen):
                    numbers = naive_metrics(chosen, start, stop)
                    found[experiment.name, seed, cls, operation] = {"warmup_ms": start, **numbers}
    return found


@pytest.mark.parametrize(("warmup_ms", "cooldown_ms"), [(None, 0.0), (3_000.0, 2_000.0), (0.0, 0.0)])
def test_metrics_are_their_definitions(dataset: Path, warmup_ms: float | None, cooldown_ms: float) -> None:
    measured = measure(dataset, MetricsOptions(warmup_ms, cooldown_ms))
    expected = naive_runs(dataset, warmup_ms, cooldown_ms)
    rows = {
        (row["experiment"], row["seed"], row["workload_class"], row["operation_type"]): row for row in measured.runs.to_pylist()
    }
    assert rows.keys() == expected.keys()
    assert len(rows) == 12 * ROWS_OF_A_RUN
    for key, numbers in expected.items():
        found = {name: math.nan if rows[key][name] is None else float(rows[key][name]) for name in numbers}
        assert found == pytest.approx(numbers, rel=1e-9, nan_ok=True), key
    assert any(numbers["aborted"] for numbers in expected.values())
    assert any(numbers["in_flight"] for numbers in expected.values()) or cooldown_ms > 0.0
    if warmup_ms is None:
        assert any(numbers["warmup_ms"] for numbers in expected.values())


def test_the_decomposition_adds_up_to_the_latency(dataset: Path) -> None:
    for row in measure(dataset, MetricsOptions(0.0)).runs.to_pylist():
        if row["committed"]:
            assert sum(row[f"mean_{name}"] for name in TIMES) == pytest.approx(row["total_latency_mean_ms"], rel=1e-9)


def test_experiments_are_means_over_seeds_with_intervals_of_student(dataset: Path) -> None:
    measured = measure(dataset, MetricsOptions(2_000.0))
    runs = measured.runs.to_pandas()
    for row in measured.experiments.to_pylist():
        chosen = runs[
            (runs.experiment == row["experiment"])
            & (runs.workload_class == row["workload_class"])
            & (runs.operation_type == row["operation_type"])
        ]
        assert (row["n_seeds"], row["few_seeds"]) == (3, False)
        for name in ("throughput_per_s", "offered_per_s", "overhead", "mean_t_runtime", "aborted"):
            values = chosen[name].dropna()
            assert row[name] == pytest.approx(values.mean(), rel=1e-9)
            width = stats.t.ppf(0.975, len(values) - 1) * values.std() / math.sqrt(len(values))
            assert row[f"{name}_hw"] == pytest.approx(width, rel=1e-9, abs=1e-12)
        rows = chosen.astype(object).where(chosen.notna(), None).to_dict("records")
        for name in (*RATES, "warmup_ms"):
            found = estimate_metric(rows, name)
            number = found is not None and found.kind == "number"
            assert row[name] == (pytest.approx(found.mean) if found is not None and number else None), name
            assert row.get(f"{name}_n", 3) == (0 if found is None else found.n), name
            if name in SHARES and found is not None:
                assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((found.low, found.high))
    assert {row["param_storage_provider"] for row in measured.experiments.to_pylist()} == {"s3", "s3x"}
    assert measured.experiments.schema.field("param_catalog_num_tables").type == pa.int64()


def test_saturation_by_curve(dataset: Path) -> None:
    measured = measure(dataset, MetricsOptions(2_000.0))
    assert measured.axis == LoadAxis("param_workload_ingest_rate")
    curves = {row["param_storage_provider"]: row for row in measured.saturation.to_pylist()}
    assert set(curves) == {"s3", "s3x"}
    assert all((row["n_loads"], row["n_seeds"], row["few_seeds"]) == (2, 3, False) for row in curves.values())
    assert {row["bound"] for row in curves.values()} <= {"crossed", "at_or_below", "above"}


@pytest.mark.parametrize("key", ["workload.ingest.rate", "param_workload_ingest_rate"])
def test_the_load_may_be_named(dataset: Path, key: str) -> None:
    assert measure(dataset, MetricsOptions(0.0, load=key)).axis == LoadAxis("param_workload_ingest_rate")


def manifest_of(*parameters: dict[str, Value]) -> Inventory:
    return Inventory({f"e{i}": Experiment("e", str(i), "v", 1.0, dict(each)) for i, each in enumerate(parameters)})


def test_the_load_is_the_one_rate_that_varies() -> None:
    one: dict[str, Value] = {"param_workload_a_rate": 1.0, "param_storage_provider": "s3"}
    two: dict[str, Value] = {"param_workload_a_rate": 2.0}
    assert find_load_axis(manifest_of(one, two), None) == LoadAxis("param_workload_a_rate")
    assert "no arrival rate varies" in str(find_load_axis(manifest_of(one, one), None))
    third: dict[str, Value] = {"param_workload_a_rate": 2.0, "param_workload_b_inter_arrival_scale": 50.0}
    assert "several" in str(find_load_axis(manifest_of(one, third), None))


def test_curves_are_reported_apart_by_all_that_varies_and_by_duration_only_if_need_be() -> None:
    def point(provider: str, rate: float, duration_ms: float) -> dict[str, Value]:
        return {
            "param_storage_provider": provider,
            "param_workload_a_rate": rate,
            "param_simulation_duration_ms": duration_ms,
            "param_catalog_num_tables": 1,
        }

    points = [point(provider, rate, 1000.0 / rate) for provider in ("s3", "s3x") for rate in (1.0, 2.0, 4.0)]

    def table(*parameters: dict[str, Value]) -> pa.Table:
        manifest = manifest_of(*parameters)
        ratio = {1.0: 1.0, 2.0: 1.0, 4.0: 0.9}
        rows = [
            {
                **each,
                "experiment": f"e{i}",
                "code_version": "v",
                "workload_class": "all",
                "operation_type": "all",
                "success_high": 1.0,
                "success_high_low": 0.999,
                "success_high_high": 1.0,
                "success_high_n": 5,
                "throughput_ratio": ratio[float(each["param_workload_a_rate"])],
                "throughput_ratio_low": ratio[float(each["param_workload_a_rate"])] - 0.01,
                "throughput_ratio_high": ratio[float(each["param_workload_a_rate"])] + 0.01,
                "throughput_ratio_n": 5,
                "backlog_grows": False,
                "transactions": 1000.0,
                "throughput_per_s": 1.0,
                "n_seeds": 5,
            }
            for i, each in enumerate(parameters)
        ]
        return make_saturation_table(pa.Table.from_pylist(rows), manifest, LoadAxis("param_workload_a_rate"))

    curves = table(*points).to_pylist()
    assert [row["param_storage_provider"] for row in curves] == ["s3", "s3x"]
    for row in curves:
        assert (row["n_loads"], row["bound"], row["reason"]) == (3, "crossed", "throughput")
        assert row["saturation_load"] == pytest.approx(2.0 * 2**0.5)
        assert (row["saturation_low"], row["saturation_high"]) == (2.0, 4.0)  # the last that carries, the first that does not
    longer = [point("s3", 1.0, 5000.0), *points]
    assert "param_simulation_duration_ms" in table(*longer).column_names


def test_times_between_arrivals_are_rates() -> None:
    axis = LoadAxis("param_transaction_inter_arrival_scale")
    assert axis.load(250.0) == 4.0
    assert LoadAxis("param_workload_w_closed_clients").load(8) == 8.0


def test_an_unknown_load_is_an_error(dataset: Path) -> None:
    with pytest.raises(PipelineError, match="param_workload_ingest_rate"):
        measure(dataset, MetricsOptions(load="workload.ingest.rat"))


def test_no_window_is_an_error(dataset: Path) -> None:
    with pytest.raises(PipelineError, match="leave nothing"):
        measure(dataset, MetricsOptions(warmup_ms=15_000.0, cooldown_ms=5_000.0))


def equal(left: Metrics, right: Metrics) -> bool:
    return all(getattr(left, name).equals(getattr(right, name)) for name in METRICS_TABLES)


def test_metrics_on_spark_and_in_threads_are_equal_for_any_number_of_tasks(spark: SparkSession, dataset: Path) -> None:
    found = []
    for executor, tasks in ((spark, 1), (spark, 8), (LocalThreads(2), 2)):
        discard_units(dataset, [])
        found.append(measure_study(executor, dataset, MetricsOptions(), tasks=tasks).metrics)
    assert equal(found[0], found[1])
    assert equal(found[0], found[2])


def test_no_rows_of_transactions_reach_the_driver(spark: SparkSession, dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql.classic.dataframe import DataFrame

    collected: list[int] = []

    def counted(name: str) -> None:
        original = getattr(DataFrame, name)

        def wrapper(self: Any, *arguments: Any, **options: Any) -> Any:
            rows = original(self, *arguments, **options)
            collected.append(rows.num_rows if isinstance(rows, pa.Table) else len(rows))
            return rows

        monkeypatch.setattr(DataFrame, name, wrapper)

    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("rows are taken to the driver one by one")

    for name in ("collect", "toPandas", "toArrow", "take", "tail"):
        counted(name)
    for name in ("toLocalIterator", "foreach"):
        monkeypatch.setattr(DataFrame, name, forbidden)
    discard_units(dataset, [])
    measured = measure_study(spark, dataset, MetricsOptions()).metrics
    transactions = sum(experiment.rows for experiment in take_inventory(dataset).experiments.values())
    assert transactions > 1_000
    assert sum(collected) == measured.runs.num_rows == 12 * ROWS_OF_A_RUN


def test_tables_are_written_whole_as_parquet_and_csv(dataset: Path) -> None:
    measured = measure(dataset, MetricsOptions(1_000.0))
    names = {path.name for path in (dataset / "metrics").iterdir()}
    tables = {f"{name}.{kind}" for name in METRICS_TABLES.values() for kind in ("parquet", "csv")}
    assert names - {".lock", "units"} == {*tables, "_state.json"}
    read = load_tables(dataset)
    assert read["runs"].equals(measured.runs)
    frame = pd.read_csv(dataset / "metrics" / "by_run.csv")
    assert np.allclose(frame.throughput_per_s, measured.runs.to_pandas().throughput_per_s, rtol=1e-12)


def test_a_class_that_a_seed_lacks_counts_as_zero(tmp_path: Path) -> None:
    rare = document(workload__upkeep={"rate": 0.02, "operation": "validated_overwrite", "runtime": {"mean": 10.0}})
    run_all([rare], tmp_path, range(4))
    measured = measure(tmp_path, MetricsOptions(0.0))
    upkeep = [row for row in measured.runs.to_pylist() if (row["workload_class"], row["operation_type"]) == ("upkeep", "all")]
    counts = [row["transactions"] for row in upkeep]
    assert len(counts) == 4
    assert 0 in counts
    assert any(counts)
    (mean,) = [
        row["transactions"]
        for row in measured.experiments.to_pylist()
        if (row["workload_class"], row["operation_type"]) == ("upkeep", "all")
    ]
    assert mean == pytest.approx(sum(counts) / 4)


def test_one_seed_is_flagged_and_a_run_without_transactions_is_measured(tmp_path: Path) -> None:
    run_all([document(simulation__duration_ms=1.0)], tmp_path, [0])
    measured = measure(tmp_path, MetricsOptions())
    (row,) = measured.experiments.to_pylist()
    assert (row["transactions"], row["success_rate"], row["few_seeds"], row["throughput_per_s_hw"]) == (0, None, True, None)
    assert measured.remark is not None
    assert measured.saturation.num_rows == 0


def test_sql_sees_all_views(spark: SparkSession, dataset: Path) -> None:
    measure(dataset, MetricsOptions(0.0))
    manifest = take_inventory(dataset)
    both = """SELECT t.n AS a, r.n AS b FROM (SELECT count(*) n FROM transactions WHERE status = 'committed') t,
              (SELECT sum(committed) n FROM runs WHERE workload_class = 'all' AND operation_type = 'all') r"""
    (row,) = query(spark, dataset, manifest, both, 10)[0].to_pylist()
    assert row["a"] == row["b"] > 0
    for view, rows in (("experiments", 4 * ROWS_OF_A_RUN), ("saturation", 2)):
        assert query(spark, dataset, manifest, f"SELECT count(*) AS n FROM {view}", 10)[0].to_pylist() == [{"n": rows}]
    found, more = query(spark, dataset, manifest, "SELECT txn_id FROM transactions", 7)
    assert (found.num_rows, more) == (7, True)
    with pytest.raises(PipelineError, match="nothing"):
        query(spark, dataset, manifest, "SELECT nothing FROM transactions", 7)


# -- the command ---------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("commands_share_spark")
def test_metrics_writes_and_prints_tables(dataset: Path) -> None:
    result = invoke("metrics", str(dataset), "--json", "--warmup", "1000")
    assert result.exit_code == 0
    answer = strict(result.stdout)
    assert (answer["runs"], len(answer["experiments"]), len(answer["saturation"])) == (12, 4, 2)
    assert all(row["warmup_ms"] == 1000.0 for row in answer["experiments"])
    shown = narrow_invoke("metrics", str(dataset), "--warmup", "1000")
    assert_fits(shown.output.splitlines())
    assert "Saturation over ingest rate (transactions/s)" in shown.stdout


@pytest.mark.usefixtures("commands_share_spark")
def test_the_command_answers_queries_without_measuring_again(dataset: Path) -> None:
    sql = "SELECT param_storage_provider AS provider FROM runs JOIN experiments USING (experiment) GROUP BY 1 ORDER BY 1"
    assert invoke("metrics", str(dataset)).exit_code == 0
    before = (dataset / "metrics" / "by_run.parquet").stat().st_mtime_ns
    result = invoke("metrics", str(dataset), "--sql", sql, "--json")
    assert result.exit_code == 0
    assert [row["provider"] for row in strict(result.stdout)] == ["s3", "s3x"]
    assert (dataset / "metrics" / "by_run.parquet").stat().st_mtime_ns == before
    assert invoke("metrics", str(dataset), "--sql", "SELECT 1 AS one", "--warmup", "500").stdout.split() == ["one", "1"]
    assert (dataset / "metrics" / "by_run.parquet").stat().st_mtime_ns != before
    assert json.loads((dataset / "metrics" / "_state.json").read_text())["options"]["warmup_ms"] == 500.0


@pytest.mark.usefixtures("commands_share_spark")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--load", "catalog.num_table"), "no experiment has this numeric parameter"),
        (("--warmup", "20000"), "leave nothing"),
        (("--warmup", "-1"), "warmup"),
        (("--sql", "SELECT nothing FROM runs"), "nothing"),
    ],
)
def test_wrong_calls_of_metrics_end_with_2(dataset: Path, arguments: tuple[str, ...], message: str) -> None:
    result = invoke("metrics", str(dataset), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.usefixtures("commands_share_spark")
def test_a_wrong_column_is_one_line_without_a_stack_trace(dataset: Path, capfd: pytest.CaptureFixture[str]) -> None:
    result = invoke("metrics", str(dataset), "--sql", "SELECT nothing FROM runs")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: --sql: ")
    assert "`nothing` cannot be resolved" in line
    assert capfd.readouterr().err == ""


def test_without_runs_there_is_nothing_to_measure(tmp_path: Path) -> None:
    result = invoke("metrics", str(tmp_path), "--json")
    assert result.exit_code == 2
    assert "no finished run" in result.stderr
    assert strict(result.stdout)["errors"]
