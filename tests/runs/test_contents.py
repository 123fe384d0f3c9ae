"""Runs that the model cannot have written are named, whatever their checksums say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.config.load import check_document
from endive.runs.contents import results_problem
from endive.runs.execute import run_experiment
from endive.runs.stored import StoredRun
from tests.cli import invoke
from tests.pipeline.damages import rewrite, seal
from tests.pipeline.runs import document


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    """A finished run with a trace."""
    files = run_experiment(document(simulation__duration_ms=4_000.0), root=tmp_path, seed=0, trace=True).files
    return StoredRun(files.results.parent)


def edit(column: str, change: Callable[[list[Any]], None]) -> Callable[[StoredRun], None]:
    """Change the values of a column, with a checksum that fits."""

    def do(run: StoredRun) -> None:
        table = pq.read_table(run.results)
        values = table.column(column).to_pylist()
        change(values)
        place = table.schema.get_field_index(column)
        rewrite(run.directory, table.set_column(place, table.schema.field(place), pa.array(values, table.schema.field(place).type)))

    return do


def first_of(status: str, column: str, value: Any) -> Callable[[StoredRun], None]:
    """Set a column of the first transaction with a status."""

    def do(run: StoredRun) -> None:
        place = pq.read_table(run.results).column("status").to_pylist().index(status)
        edit(column, lambda values: values.__setitem__(place, value))(run)

    return do


def swap_rows(run: StoredRun) -> None:
    table = pq.read_table(run.results)
    order = list(range(table.num_rows))
    order[3], order[4] = order[4], order[3]
    rewrite(run.directory, table.take(pa.array(order)))


def twice(run: StoredRun) -> None:
    first_of("committed", "installs", 2)(run)
    first_of("committed", "duplicates", 1)(run)


def flip_bit(name: str) -> Callable[[StoredRun], None]:
    def do(run: StoredRun) -> None:
        content = bytearray((run.directory / name).read_bytes())
        place = content.index(b"0") if name.endswith(".json") else len(content) // 2
        content[place] ^= 1
        (run.directory / name).write_bytes(bytes(content))

    return do


def drop_events(run: StoredRun) -> None:
    path = run.directory / "trace.parquet"
    pq.write_table(pq.read_table(path).slice(5), path)


DAMAGES: dict[str, tuple[Callable[[StoredRun], None], str]] = {
    "time components that do not add up": (first_of("committed", "t_backoff", 7.0), "do not add up"),
    "a commit before the submission": (first_of("committed", "t_commit", 0.0), "t_commit is not"),
    "a start of committing before the submission": (first_of("committed", "t_commit_start", 0.0), "t_commit_start is before"),
    "a commit of a transaction in flight": (first_of("in_flight", "t_commit", 5.0), "t_commit is set"),
    "rows out of order": (swap_rows, "out of order"),
    "other retries than in the summary": (first_of("committed", "n_retries", 40), "n_retries is"),
    "an unknown class": (first_of("committed", "workload_class", "other"), "workload_class contains 'other'"),
    "an aborted transaction whose commit took effect": (first_of("aborted", "installs", 1), "but its commit took effect"),
    "a commit that did not take effect": (first_of("committed", "installs", 0), "did not take effect"),
    "a commit that took effect twice without a lost response": (twice, "took effect twice"),
    "files left behind by a commit": (first_of("committed", "orphaned_files", 3), "orphaned_files is not 0"),
    "more restarts than real conflicts": (first_of("committed", "n_restarts", 90), "n_restarts exceeds"),
    "a later start of committing": (first_of("committed", "commit_latency", 0.0), "is not the end"),
    "a transaction that occurs twice": (
        edit("txn_id", lambda ids: ids.__setitem__(1, ids[0])),
        "some transactions have no row or two rows",
    ),
    "a transaction without a number": (edit("txn_id", lambda ids: ids.__setitem__(1, None)), "txn_id is missing"),
    "a reason without an abort": (first_of("committed", "abort_reason", "commit_timeout"), "abort_reason is set"),
    "a time that is not a number": (first_of("committed", "total_latency", float("nan")), "total_latency"),
    "a flipped bit in the summary": (flip_bit("summary.json"), "summary"),
    "a flipped bit in the trace": (flip_bit("trace.parquet"), "the checksum of trace.parquet does not match"),
    "events dropped from the trace": (drop_events, "the checksum of trace.parquet does not match"),
}


def test_a_run_as_it_was_written_has_no_problem(run: StoredRun) -> None:
    assert results_problem(run) is None


@pytest.mark.parametrize("name", DAMAGES)
def test_a_run_that_the_model_cannot_write_is_named(run: StoredRun, name: str) -> None:
    damage, problem = DAMAGES[name]
    damage(run)
    assert problem in (results_problem(StoredRun(run.directory)) or "")
    result = invoke("experiments", "verify", str(run.directory.parents[1]), "--json")
    assert result.exit_code == 1
    assert problem in json.loads(result.stdout)["problems"][0]["problem"]


def test_another_number_of_rows_is_named(run: StoredRun) -> None:
    table = pq.read_table(run.results)
    pq.write_table(table.slice(1), run.results)
    seal(run.directory)
    assert f"it has {table.num_rows - 1} rows, but {table.num_rows} were recorded" in (results_problem(run) or "")


def test_a_client_of_a_closed_loop_that_submits_too_early_is_named(tmp_path: Path) -> None:
    tree: dict[str, Any] = {
        "simulation": {"duration_ms": 2_000.0},
        "storage": {"provider": "instant"},
        "experiment": {"label": "closed"},
        "transaction": {"runtime": {"distribution": "fixed", "value": 100.0}},
        "workload": {"writers": {"closed": {"clients": 2}, "operation": "fast_append"}},
    }
    files = run_experiment(check_document(tree, "test"), root=tmp_path, seed=0).files
    run = StoredRun(files.results.parent)
    assert results_problem(run) is None

    def merge_clients(clients: list[Any]) -> None:
        clients[:] = [0] * len(clients)

    edit("client", merge_clients)(run)
    assert "was submitted before the previous transaction of its client ended" in (results_problem(StoredRun(run.directory)) or "")
