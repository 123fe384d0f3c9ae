"""Damages of the directory of a run or an experiment, one at a time, to seed 0 or to the directory."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from endive.runs.identity import hash_parameters
from endive.runs.records import seal_record

RESULTS, PROVENANCE, SUMMARY = "results.parquet", "provenance.json", "summary.json"


@dataclass(frozen=True)
class Damage:
    """Damage of an experiment directory, and the expected message.

    ``says`` is a part of the output of ``verify``. ``seed`` is None if the damage affects the experiment. ``lost`` contains the
    runs, of seeds 0 and 1, that cannot be used.
    """

    do: Callable[[Path], object]
    says: str
    seed: int | None = 0
    lost: int = 1


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def change_record(run: Path, **values: Any) -> None:
    """Change the provenance of a run, with a matching checksum."""
    path = run / PROVENANCE
    path.write_text(json.dumps(seal_record({**json.loads(path.read_text()), **values})))


def change_parameters(run: Path, section: str, **values: Any) -> None:
    parameters = json.loads((run / PROVENANCE).read_text())["parameters"]
    change_record(run, parameters={**parameters, section: {**parameters[section], **values}})


def change_without_sealing(run: Path) -> None:
    """Change a parameter without updating the checksum of the record."""
    path = run / PROVENANCE
    path.write_text(path.read_text().replace('"num_tables": 2', '"num_tables": 7'))


def seal(run: Path) -> None:
    """Update the checksum of the results."""
    change_record(run, results_sha256=hashlib.sha256((run / RESULTS).read_bytes()).hexdigest())


def reseal(run: Path) -> None:
    """Update the checksum of a record; ignore other content."""
    with suppress(ValueError, TypeError, RecursionError):
        change_record(run)


def name_by_parameters(run: Path) -> Path:
    """Update the hash of the experiment to the run's parameters, in its record and its directory name.

    Returns the directory of the experiment.
    """
    try:
        answer = json.loads((run / PROVENANCE).read_bytes())
        name = hash_parameters(answer["parameters"])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return run.parent  # what is no record has no hash
    change_record(run, experiment_hash=name)
    return run.parent.rename(run.parent.with_name(f"{run.parent.name.rpartition('-')[0]}-{name}"))


def rewrite(run: Path, table: pa.Table) -> None:
    """Replace the rows, with a matching checksum."""
    pq.write_table(table, run / RESULTS)
    seal(run)


def set_column(run: Path, name: str, make: Callable[[pa.Array], pa.Array]) -> None:
    """Replace a column, with a matching checksum."""
    table = pq.read_table(run / RESULTS)
    column = make(table.column(name).combine_chunks())
    rewrite(run, table.set_column(table.schema.get_field_index(name), name, column))


def first_is(value: Any) -> Callable[[pa.Array], pa.Array]:
    return lambda column: pa.array([value, *column.to_pylist()[1:]], column.type)


def all_are(value: Any) -> Callable[[pa.Array], pa.Array]:
    return lambda column: pa.array([value] * len(column), column.type)


def flip_page(run: Path) -> None:
    """Damage a page, with a matching checksum."""
    content = bytearray((run / RESULTS).read_bytes())
    for place in range(40, len(content) // 2, 7):
        content[place] ^= 0x5A
    (run / RESULTS).write_bytes(bytes(content))
    seal(run)


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return a damage that replaces a file of the run."""

    def do(experiment: Path) -> None:
        path = experiment / "0" / name
        path.unlink(missing_ok=True)
        make(path)

    return do


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def of_run(do: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda experiment: do(experiment / "0")


def cfg(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def do(experiment: Path) -> None:
        (experiment / "cfg.toml").unlink()
        make(experiment / "cfg.toml")

    return do


def a_file_instead_of_the_run(experiment: Path) -> None:
    shutil.rmtree(experiment / "0")
    (experiment / "0").write_text("")


def a_loop_instead_of_the_run(experiment: Path) -> None:
    shutil.rmtree(experiment / "0")
    loop(experiment / "0")


def text(name: str, content: str) -> Callable[[Path], object]:
    return lambda experiment: (experiment / "0" / name).write_text(content)


def truncated(experiment: Path) -> None:
    path = experiment / "0" / RESULTS
    path.write_bytes(path.read_bytes()[:-200])


def cut_within_and_sealed(run: Path) -> None:
    (run / RESULTS).write_bytes((run / RESULTS).read_bytes()[:-200])
    seal(run)


def change_summary(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the summary, with a matching checksum."""
    tree = json.loads((run / SUMMARY).read_text())
    change(tree)
    (run / SUMMARY).write_text(json.dumps(tree))
    change_record(run, summary_sha256=hashlib.sha256((run / SUMMARY).read_bytes()).hexdigest())


def drop_from_record(run: Path, name: str) -> None:
    """Remove one of the checksums of a record."""
    tree = json.loads((run / PROVENANCE).read_text())
    del tree[name]
    (run / PROVENANCE).write_text(json.dumps(tree if name == "record_sha256" else seal_record(tree)))


def last_ends_later(run: Path) -> None:
    """Let the last row end after the run, with a matching checksum."""
    table = pq.read_table(run / RESULTS)
    rows = table.to_pylist()
    for name in ("t_submit", "t_commit_start", "t_commit"):
        rows[-1][name] += 1e6 if rows[-1][name] >= 0 else 0.0
    rewrite(run, pa.Table.from_pylist(rows, table.schema))


def edit(experiment: Path, old: str, new: str) -> None:
    path = experiment / "cfg.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


CORRUPT = "corrupt: the checksum of its results does not match"
CANNOT = "results cannot be read"
DAMAGES: dict[str, Damage] = {
    # results
    "results empty": Damage(text(RESULTS, ""), CORRUPT),
    "results garbage": Damage(text(RESULTS, "PAR1" + "x" * 500 + "PAR1"), CORRUPT),
    "results truncated": Damage(truncated, CORRUPT),
    "results truncated, checksum fits": Damage(of_run(cut_within_and_sealed), CANNOT),
    "results garbage in a page, checksum fits": Damage(of_run(flip_page), CANNOT),
    "results are a directory": Damage(replaced(RESULTS, Path.mkdir), "no results"),
    "results are a pipe": Damage(replaced(RESULTS, os.mkfifo), "no results"),
    "results link to themselves": Damage(replaced(RESULTS, loop), "no results"),
    "results missing": Damage(replaced(RESULTS, lambda path: None), "no results"),
    "another schema": Damage(of_run(lambda run: rewrite(run, pa.table({"x": [1]}))), "columns are not those"),
    "a column of another type": Damage(
        of_run(lambda run: set_column(run, "n_retries", lambda column: column.cast(pa.float64()))), "n_retries"
    ),
    "a further column": Damage(
        of_run(lambda run: rewrite(run, (t := pq.read_table(run / RESULTS)).append_column("more", t.column("txn_id")))),
        "columns are not those",
    ),
    "fewer rows than recorded": Damage(of_run(lambda run: rewrite(run, pq.read_table(run / RESULTS).slice(3))), "rows"),
    "a null where a number must be": Damage(of_run(lambda run: set_column(run, "t_submit", first_is(None))), "t_submit", lost=0),
    "a class that is null": Damage(of_run(lambda run: set_column(run, "workload_class", first_is(None))), "workload_class"),
    "a time that is no number": Damage(
        of_run(lambda run: set_column(run, "t_commit_start", first_is(float("nan")))), "t_commit_start", lost=0
    ),
    "a time without end": Damage(
        of_run(lambda run: set_column(run, "total_latency", first_is(float("inf")))), "total_latency", lost=0
    ),
    "a time beyond the model's": Damage(
        of_run(lambda run: set_column(run, "commit_latency", first_is(1e300))), "commit_latency", lost=0
    ),
    "a count below zero": Damage(of_run(lambda run: set_column(run, "n_retries", first_is(-5))), "n_retries", lost=0),
    "a count beyond the model's": Damage(
        of_run(lambda run: set_column(run, "manifest_file_reads", first_is(2**62))), "manifest_file", lost=0
    ),
    "an unknown status": Damage(of_run(lambda run: set_column(run, "status", first_is("won"))), "status", lost=0),
    "an operation that leads out": Damage(
        of_run(lambda run: set_column(run, "operation_type", all_are("../../../../OUTSIDE"))), "operation_type contains"
    ),
    "an operation that is null": Damage(of_run(lambda run: set_column(run, "operation_type", all_are(None))), "operation_type"),
    "another class of the configuration": Damage(
        of_run(lambda run: set_column(run, "workload_class", all_are("ingest"))), "summary.json: `by_class_and_operation", lost=0
    ),
    "another operation": Damage(
        of_run(lambda run: set_column(run, "operation_type", first_is("overwrite"))),
        "summary.json: `by_class_and_operation",
        lost=0,
    ),
    "a table that does not exist": Damage(
        of_run(lambda run: set_column(run, "tables_written", first_is([99]))), "tables_written contains the id of a table", lost=0
    ),
    "a transaction after the end": Damage(of_run(last_ends_later), "after the end of", lost=0),
    # provenance
    "provenance missing": Damage(replaced(PROVENANCE, lambda path: None), "no provenance"),
    "provenance empty": Damage(text(PROVENANCE, ""), "provenance.json is not JSON"),
    "provenance a list": Damage(text(PROVENANCE, "[]"), "provenance.json should be a table"),
    "provenance deeply nested": Damage(text(PROVENANCE, deep(100_000)), "provenance.json is nested"),
    "provenance nested within the limits of the parser": Damage(text(PROVENANCE, deep(900)), "provenance.json is nested"),
    "provenance that is not UTF-8": Damage(
        replaced(PROVENANCE, lambda path: path.write_bytes(b"\xff\xfe")), "provenance.json is not UTF-8"
    ),
    "provenance with a number of many digits": Damage(text(PROVENANCE, '{"rows": ' + "9" * 5_000 + "}"), "too many digits"),
    "provenance whose parameters are a number": Damage(
        of_run(lambda run: change_record(run, parameters=7)), "provenance.json: parameters"
    ),
    "provenance with a duration of text": Damage(
        of_run(lambda run: change_parameters(run, "simulation", duration_ms="x")), "provenance.json: parameters.simulation"
    ),
    "provenance with a list as a checksum": Damage(
        of_run(lambda run: change_record(run, results_sha256=[1])), "provenance.json: results_sha256"
    ),
    "provenance with a number as a version": Damage(
        of_run(lambda run: change_record(run, code_version=3)), "provenance.json: code_version"
    ),
    "provenance with rows of text": Damage(of_run(lambda run: change_record(run, rows="many")), "provenance.json: rows"),
    "provenance without a duration": Damage(
        of_run(lambda run: change_record(run, parameters={"simulation": {}})), "provenance.json: parameters.simulation.duration_ms"
    ),
    "provenance with an endless duration": Damage(
        of_run(lambda run: change_parameters(run, "simulation", duration_ms=1e300)), "provenance.json: parameters.simulation"
    ),
    "provenance with an unpaired surrogate": Damage(
        of_run(lambda run: change_parameters(run, "catalog", type="\ud800")), "provenance.json contains an unpaired surrogate"
    ),
    "provenance with another parameter": Damage(of_run(change_without_sealing), "record_sha256 is"),
    "provenance of another seed": Damage(of_run(lambda run: change_record(run, seed=1)), "provenance.json: seed"),
    "provenance of another experiment": Damage(
        of_run(lambda run: change_record(run, experiment_hash="0" * 8)), "provenance.json: experiment_hash"
    ),
    "provenance too large": Damage(text(PROVENANCE, " " * (17 * 2**20)), "provenance.json is larger than"),
    "provenance a pipe": Damage(replaced(PROVENANCE, os.mkfifo), "provenance.json is not a file"),
    "provenance a directory": Damage(replaced(PROVENANCE, Path.mkdir), "provenance.json cannot be read: Is a directory"),
    "provenance links to itself": Damage(replaced(PROVENANCE, loop), "provenance.json cannot be read"),
    "provenance without a checksum of the summary": Damage(
        of_run(lambda run: drop_from_record(run, "summary_sha256")), "`summary_sha256` is missing", lost=0
    ),
    "provenance without its own checksum": Damage(
        of_run(lambda run: drop_from_record(run, "record_sha256")), "`record_sha256` is missing", lost=0
    ),
    "provenance with other parameters, checksum fits": Damage(
        of_run(lambda run: change_parameters(run, "catalog", num_tables=7)), "parameters.catalog.num_tables", None, 0
    ),
    # summary: rows are there without it
    "summary of another duration, checksum fits": Damage(
        of_run(lambda run: change_summary(run, lambda tree: tree.update(duration_ms=1.0))), "summary.json: duration_ms", lost=0
    ),
    "summary with another time, checksum fits": Damage(
        of_run(lambda run: change_summary(run, lambda tree: tree["total"].update(t_backoff=1e9))), "total.t_backoff", lost=0
    ),
    "summary a list": Damage(text(SUMMARY, "[]"), "summary.json should be a table", lost=0),
    "summary with a service that is a number": Damage(
        of_run(lambda run: change_summary(run, lambda tree: tree.update(service=3))), "summary.json: `service` should be", lost=0
    ),
    "summary missing": Damage(replaced(SUMMARY, lambda path: None), "summary.json: no such file", lost=0),
    "summary a pipe": Damage(replaced(SUMMARY, os.mkfifo), "summary.json is not a file", lost=0),
    "summary counts other rows": Damage(text(SUMMARY, '{"total": {"transactions": 1}}'), "in the rows, but", lost=0),
    # the experiment
    "cfg.toml missing": Damage(cfg(lambda path: None), "cfg.toml is missing", None, 2),
    "cfg.toml garbage": Damage(cfg(lambda path: path.write_bytes(b"\xff\x00=")), "cfg.toml is not UTF-8 text", None, 2),
    "cfg.toml a pipe": Damage(cfg(os.mkfifo), "cfg.toml is not a file", None, 2),
    "cfg.toml a directory": Damage(cfg(Path.mkdir), "cfg.toml cannot be read: Is a directory", None, 2),
    "cfg.toml with another value": Damage(
        lambda experiment: edit(experiment, "num_tables = 2", "num_tables = 3"), "cfg.toml: its parameters have the hash", None, 0
    ),
    "cfg.toml with an unknown key": Damage(
        lambda experiment: edit(experiment, "[catalog]", "[catalog]\nunknown = 1"), "cfg.toml: catalog.unknown", None, 0
    ),
    "a folder that is nearly a seed": Damage(lambda experiment: (experiment / "²").mkdir(), "² is not a seed", None, 0),
    "a seed written twice": Damage(
        lambda experiment: shutil.copytree(experiment / "0", experiment / "00"), "00 is not a seed", None, 0
    ),
    "a file instead of a run": Damage(a_file_instead_of_the_run, "0 is not a directory", None),
    "a loop instead of a run": Damage(a_loop_instead_of_the_run, "0 is not a directory", None),
}
