"""``endive consolidate --to iceberg``: runs as Iceberg tables, no row twice and none missing, whoever writes and is killed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession
from sqlalchemy.exc import OperationalError
from typer.testing import CliRunner

from endive.main import app
from endive.pipeline import iceberg_tables
from endive.pipeline.iceberg_tables import IcebergExport, export_study, list_runs, parse_target
from endive.pipeline.jobs import LocalThreads
from endive.runs.layout import RESULTS
from endive.runs.stored import PipelineError

TARGET = parse_target("lake.lab.study")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def open_catalog(tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
    """Opens a catalog in SQLite; two objects of it are two drivers."""
    (tmp_path / "warehouse").mkdir()
    place = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    with ExitStack() as stack:
        yield lambda: stack.enter_context(SqlCatalog("lake", **place))


@pytest.fixture
def catalog(open_catalog: Callable[[], Catalog]) -> Catalog:
    return open_catalog()


def export(root: Path, catalog: Catalog) -> IcebergExport:
    return export_study(root, TARGET, catalog, lambda: nullcontext(LocalThreads(2)))


def rows_of(catalog: Catalog, suffix: str) -> pa.Table:
    return catalog.load_table(TARGET.table(suffix)).scan().to_arrow()


def expected(root: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(path) for path in sorted(root.rglob(RESULTS))])


def check(root: Path, catalog: Catalog) -> None:
    """The tables have the rows of all runs once."""
    stored, found = expected(root), rows_of(catalog, "transactions")
    assert found.num_rows == stored.num_rows
    keys = found.select(["experiment", "seed", "txn_id"]).to_pylist()
    assert len({tuple(key.values()) for key in keys}) == len(keys)
    for column in ("t_submit", "commit_latency", "n_retries"):
        assert sorted(found.column(column).to_pylist()) == sorted(stored.column(column).to_pylist())
    runs = rows_of(catalog, "runs")
    assert sum(runs.column("rows").to_pylist()) == stored.num_rows
    assert runs.num_rows == len(list(root.rglob(RESULTS))) == len(list_runs(catalog.load_table(TARGET.table("transactions"))))
    metrics = rows_of(catalog, "metrics")
    total = metrics.filter(pc.and_(pc.equal(metrics["workload_class"], "all"), pc.equal(metrics["operation_type"], "all")))
    assert total.num_rows == runs.num_rows


def test_runs_become_tables_and_a_second_call_changes_nothing(experiments: Path, catalog: Catalog) -> None:
    first = export(experiments, catalog)
    check(experiments, catalog)
    assert (first.runs_added, first.runs_present, first.problems) == (12, 0, ())
    names = [TARGET.table(each) for each in ("transactions", "metrics", "runs")]
    snapshots = [catalog.load_table(name).current_snapshot() for name in names]
    again = export(experiments, catalog)
    assert (again.runs_added, again.runs_present) == (0, 12)
    assert [catalog.load_table(name).current_snapshot() for name in names] == snapshots
    parameters = json.loads(rows_of(catalog, "runs").column("parameters")[0].as_py())
    assert parameters["param_storage_provider"] in ("s3", "s3x")


def test_new_runs_are_added(experiments: Path, catalog: Catalog, tmp_path: Path) -> None:
    late = sorted(experiments.iterdir())[0]
    late.rename(tmp_path / late.name)
    export(experiments, catalog)
    (tmp_path / late.name).rename(late)
    assert export(experiments, catalog).runs_added == 3
    check(experiments, catalog)


def test_two_drivers_at_once_write_every_run_once(
    experiments: Path, tmp_path: Path, open_catalog: Callable[[], Catalog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other driver commits after this one has looked and before it commits: its commit is rejected, and it looks again."""
    mine, other = open_catalog(), open_catalog()
    interrupting(monkeypatch, lambda: export(experiments, other), at=2)
    done = export(experiments, mine)
    check(experiments, mine)
    assert (done.runs_added, done.runs_present) == (0, 12), "the other driver added them"
    data = [path for path in (tmp_path / "warehouse").rglob("data/*.parquet") if "transactions" in str(path)]
    assert len(data) == 12, "the files of the driver that lost are deleted"


@pytest.mark.parametrize("step", ["_add_files", "_replace_rows", "_make_runs_table"])
def test_a_killed_driver_is_finished_by_the_next(
    step: str, experiments: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(iceberg_tables, step, killed)
        with pytest.raises(KeyboardInterrupt):
            export(experiments, catalog)
    export(experiments, catalog)
    check(experiments, catalog)


def interrupting(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], at: int) -> None:
    """Let another driver act after the ``at``-th look at the runs of a table, once."""
    looks: list[int] = []
    original = iceberg_tables.list_runs

    def look(table: Any) -> set[tuple[str, int]]:
        found = original(table)
        looks.append(1)
        if len(looks) == at:
            act()
        return found

    monkeypatch.setattr(iceberg_tables, "list_runs", look)


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """A DuckDB that reads Iceberg metadata, with extensions from PyPI."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    for name in ("avro", "iceberg"):
        folder = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
        connection.load_extension(str(next(folder.glob("extensions/*/*.duckdb_extension"))))
    return connection


def test_spark_and_duckdb_read_the_same_aggregates(experiments: Path, catalog: Catalog, spark: SparkSession) -> None:
    export_study(experiments, TARGET, catalog, lambda: nullcontext(spark))
    check(experiments, catalog)
    table = catalog.load_table(TARGET.table("transactions"))
    here = rows_of(catalog, "transactions").group_by("status").aggregate([("txn_id", "count"), ("n_retries", "sum")])
    wanted = sorted((row["status"], row["txn_id_count"], row["n_retries_sum"]) for row in here.to_pylist())
    sql = "SELECT status, count(txn_id), sum(n_retries) FROM transactions GROUP BY status ORDER BY status"
    connection = connect_duckdb()
    connection.execute(f"CREATE VIEW transactions AS FROM iceberg_scan('{table.metadata_location}')")
    assert [(status, count, int(retries)) for status, count, retries in connection.execute(sql).fetchall()] == wanted
    files = table.inspect.data_files().column("file_path").to_pylist()
    spark.read.parquet(*files).createOrReplaceTempView("transactions")
    assert [tuple(row) for row in spark.sql(sql).collect()] == wanted


def test_the_command_writes_tables_and_closes_the_catalog(
    experiments: Path, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Catalog] = []
    monkeypatch.setattr(catalog, "close", lambda: closed.append(catalog))
    monkeypatch.setattr(iceberg_tables, "open_catalog", lambda _: catalog)
    monkeypatch.setattr("endive.pipeline.session.spark_session", lambda *_: nullcontext(LocalThreads(2)))
    done = CliRunner().invoke(app, ["consolidate", str(experiments), "--to", "iceberg", "lake.lab.study", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["tables"] == ["lab.study_transactions", "lab.study_metrics", "lab.study_runs"]
    assert closed == [catalog]
    check(experiments, catalog)


def test_a_catalog_that_another_driver_creates_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two drivers that open a new SQL catalog, one is told that the tables of the catalog exist already."""
    create = SqlCatalog.create_tables
    calls: list[int] = []

    def lose_once(self: SqlCatalog) -> None:
        create(self)
        calls.append(1)
        if len(calls) == 1:
            self.close()
            raise OperationalError("CREATE TABLE iceberg_tables", None, RuntimeError("table iceberg_tables already exists"))

    monkeypatch.setattr(SqlCatalog, "create_tables", lose_once)
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/catalog.db")
    with iceberg_tables.open_catalog(TARGET) as opened:
        assert opened.list_namespaces() == []


def test_a_catalog_that_cannot_be_opened_is_an_error_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/missing/catalog.db")
    with pytest.raises(PipelineError, match="unable to open") as raised:
        iceberg_tables.open_catalog(TARGET)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["lake", "lake.study", ".a.b", "a..b"])
def test_a_target_has_three_parts(text: str) -> None:
    with pytest.raises(PipelineError, match=r"CATALOG\.NAMESPACE\.TABLE"):
        parse_target(text)


def test_another_format_is_refused(experiments: Path) -> None:
    done = CliRunner().invoke(app, ["consolidate", str(experiments), "--to", "delta", "lake.lab.study"])
    assert done.exit_code == 2
    assert "iceberg" in done.output
