"""The Spark data source: the rows of the engine, as a DataFrame."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from endive.config import ConfigError, build_simulation_config
from endive.pipeline.data_source import SCHEMA, EndiveDataSource, EndiveReader, parse_options, register, stream_batches
from endive.simulation import RESULT_SCHEMA, Simulation
from tests.config import BASE, built, checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[dict[str, Any]]


def simulated(seed: int, **overrides: Any) -> Rows:
    """The rows of a run as the engine hands them on."""
    document = checked(overrides={key.replace("__", "."): value for key, value in overrides.items()})
    batches: list[pa.RecordBatch] = []
    Simulation(build_simulation_config(document, seed_override=seed)).stream(batches.append)
    return [{**row, "seed": seed} for row in pa.Table.from_batches(batches, RESULT_SCHEMA).to_pylist()]


@pytest.fixture
def frame(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Four runs of the base configuration."""
    register(spark)
    path = tmp_path / "base.toml"
    path.write_text(BASE)
    return spark.read.format("endive").option("config", str(path)).option("seeds", "0-3").load()


def read(frame: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in frame.collect()]


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["seed"], row["txn_id"]))


def test_rows_are_those_of_the_engine(frame: DataFrame) -> None:
    assert in_order(read(frame)) == in_order([row for seed in range(4) for row in simulated(seed)])


def test_columns_are_those_of_results_and_the_seed(frame: DataFrame) -> None:
    assert frame.columns == [*RESULT_SCHEMA.names, "seed"]
    assert dict(frame.dtypes)["seed"] == "bigint"


def test_sql_reads_it_as_a_view(spark: SparkSession, frame: DataFrame) -> None:
    frame.createOrReplaceTempView("transactions")
    found = spark.sql("SELECT seed, count(*) AS n FROM transactions WHERE status = 'committed' AND seed < 2 GROUP BY seed")
    committed = {seed: sum(row["status"] == "committed" for row in simulated(seed)) for seed in range(2)}
    assert {row["seed"]: row["n"] for row in found.collect()} == committed


def test_sql_creates_a_view_of_a_simulation(spark: SparkSession) -> None:
    register(spark)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW runs USING endive OPTIONS (toml '{BASE}', seeds '5-5', set 'catalog.num_tables = 3')"
    )
    assert in_order(read(spark.table("runs"))) == in_order(simulated(5, catalog__num_tables=3))


def test_a_mistake_is_reported_when_the_frame_is_made(spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    register(spark)
    reader = spark.read.format("endive").option("toml", BASE).option("set.transaction.retries", "3")
    with pytest.raises(AnalysisException, match=r"option toml: transaction\.retries: unknown key; did you mean 'max_retries'"):
        reader.load()


def test_a_file_that_changes_after_load_changes_nothing(frame: DataFrame, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("nonsense")
    assert frame.count() == sum(len(simulated(seed)) for seed in range(4))


def test_the_guide_holds(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of the guide that need Spark, which the tests of the documentation leave out."""
    root = Path(__file__).resolve().parent.parent.parent
    text = (root / "docs/guides/spark.md").read_text(encoding="utf-8")
    shutil.copytree(root / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pyspark.sql.DataFrame.show", lambda frame: frame.collect())
    namespace: dict[str, Any] = {}
    for language, code in re.findall(r"^```(python|py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        code = code.replace('"experiments/*', f'"{tmp_path}/experiments/*')  # Spark was started elsewhere
        exec(compile(code, f"spark.md ({language})", "exec"), namespace)
    assert {row["seed"] for row in namespace["rows"].select("seed").distinct().collect()} == {1, 2}
    assert namespace["simulated"].filter("seed = 3").count() > 0


# what follows needs no Spark


def rows_for(options: dict[str, str]) -> Rows:
    """The rows of all tasks, run here."""
    reader = EndiveReader(parse_options(options))
    return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]


def test_batches_have_the_schema_that_is_declared() -> None:
    reader = EndiveReader(parse_options({"toml": BASE}))
    assert {batch.schema for batch in reader.read(reader.partitions()[0])} == {SCHEMA}
    declared = str(EndiveDataSource({"toml": BASE}).schema())
    assert declared.startswith("txn_id bigint, t_submit double, ")
    assert declared.endswith(f"{RESULT_SCHEMA.names[-1]} bigint, seed bigint")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ((7,),)),  # the seed of the configuration
        ({"set": "simulation.duration_ms = 1"}, ((7,),)),
        ({"seeds": "3"}, ((0,), (1,), (2,))),
        ({"seeds": "0-3"}, ((0,), (1,), (2,), (3,))),
        ({"seeds": "0-4", "partitions": "2"}, ((0, 2, 4), (1, 3))),
        ({"seeds": "0-1", "partitions": "9"}, ((0,), (1,))),
    ],
)
def test_seeds_are_dealt_to_tasks(options: dict[str, str], expected: tuple[tuple[int, ...], ...]) -> None:
    assert parse_options({"toml": BASE, **options}).chunks == expected


def test_without_any_seed_the_rows_are_still_the_same_each_time() -> None:
    assert parse_options({"toml": BASE.replace("seed = 7", "")}).chunks == ((0,),)


def test_values_are_set_by_lines_or_by_keys() -> None:
    lines = "# a comment\n\ncatalog.num_tables = 3\nstorage.provider = azure"
    expected = simulated(7, catalog__num_tables=3, storage__provider="azure")
    assert rows_for({"toml": BASE, "set": lines}) == expected
    assert rows_for({"toml": BASE, "set.catalog.num_tables": "3", "set.storage.provider": "azure"}) == expected


def test_lines_keep_the_case_of_keys() -> None:
    latency = "storage.T_CAS = { mean = 4.0, stddev = 0.0 }"
    document = parse_options({"toml": BASE.replace('provider = "s3x"', ""), "set": latency}).document
    assert "T_CAS" in document


def test_profile_files_are_found_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("read.fixed_ms = 5.0\nwrite.fixed_ms = 6.0\ncas.fixed_ms = 7.0\n")
    path = tmp_path / "base.toml"
    path.write_text(BASE.replace("s3x", "own.toml"))
    assert rows_for({"path": str(path)})[0]["catalog_read_ms"] == 5.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass exactly one of config, toml and a path to load; got none"),
        ({"toml": BASE, "config": "x.toml"}, "pass exactly one of config, toml and a path to load; got config and toml"),
        ({"config": "nowhere.toml"}, "nowhere.toml: no such file"),
        ({"toml": "x = = 1"}, "option toml is not TOML: Invalid value"),
        ({"toml": BASE, "seed": "3"}, """format("endive"): seed: unknown option; did you mean 'seeds'?"""),
        ({"toml": BASE, "seeds": "a-b"}, "option seeds: 'a-b' is neither a number of seeds such as 5 nor a range such as 0-4"),
        ({"toml": BASE, "partitions": "0"}, "option partitions should be a whole number above 0 (got '0')"),
        ({"toml": BASE, "set": "retry"}, "option set: 'retry' must have the form key=value"),
        ({"toml": BASE, "set": "catalog.num_table = 3"}, "option toml: catalog.num_table: unknown key; did you mean 'num_tables'?"),
    ],
)
def test_mistakes_are_reported(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_options(options)
    assert message in str(error.value)


def engines() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "endive-engine"]


def test_a_reader_that_leaves_early_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endive.simulation.columns.BATCH_ROWS", 4)
    batches = stream_batches(built())
    assert next(batches).num_rows == 4
    (engine,) = engines()
    batches.close()  # type: ignore[attr-defined]
    engine.join(60.0)
    assert not engine.is_alive()


def test_an_engine_that_fails_fails_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    def stream(self: Simulation, sink: Any) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(Simulation, "stream", stream)
    with pytest.raises(RuntimeError, match="out of luck"):
        list(stream_batches(built()))
