"""``endive experiments verify`` of a whole study: damage to its metrics, its plan and its samples of rows is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from endive.config.sweep_file import KeptRows, Sweep
from endive.pipeline.jobs import LocalThreads
from endive.pipeline.metrics import assemble_study
from endive.pipeline.sweep import run_sweep
from endive.runs.layout import measured_units
from endive.runs.plan import keep_study, plan_sweep, remaining_work
from endive.studies.measure import MetricsOptions
from tests.cli import invoke
from tests.pipeline.damages import change_record, rewrite
from tests.pipeline.sweeps import sweep_file


def make_study(folder: Path, rows: KeptRows) -> Path:
    """Run a small study and measure it."""
    root = folder / rows
    sweep = Sweep(sweep_file(folder, seeds=2, duration_ms=4_000.0), rows=rows)
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    run_sweep(LocalThreads(1), remaining_work(plan, root), root)
    assert assemble_study(root, MetricsOptions()) is not None
    return root


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("studies")
    return {"all": make_study(folder, "all"), "sample": make_study(folder, "sample")}


def copy_of(study: Path, tmp_path: Path) -> Path:
    shutil.copytree(study, tmp_path / "study")
    return tmp_path / "study"


def problems_of(root: Path) -> list[str]:
    answer = invoke("experiments", "verify", str(root), "--json")
    found = [each["problem"] for each in json.loads(answer.stdout)["problems"]]
    assert answer.exit_code == (1 if found else 0)
    return found


def flip(path: Path, share: float) -> None:
    """Change one bit of a file."""
    content = bytearray(path.read_bytes())
    content[int(share * len(content))] ^= 4
    path.write_bytes(bytes(content))


def unit(root: Path) -> Path:
    return min(measured_units(root).glob("*.parquet"))


def flip_unit(share: float) -> Callable[[Path], object]:
    return lambda root: flip(unit(root), share)


def swap_units(root: Path) -> None:
    """Give two files of rows each the content of the other."""
    first, second = sorted(measured_units(root).glob("*.parquet"))[:2]
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def sampled_run(root: Path) -> Path:
    """A run of which some rows are kept."""
    return next(path.parent for path in sorted(root.rglob("results.parquet")) if pq.read_metadata(path).num_rows > 1)


def change_ids(root: Path, change: Callable[[list[int]], list[int]]) -> None:
    """Give rows of a run other transaction ids, with checksums that fit."""
    run = sampled_run(root)
    table = pq.read_table(run / "results.parquet")
    ids = pa.array(change(table.column("txn_id").to_pylist()), pa.int64())
    rewrite(run, table.set_column(table.schema.get_field_index("txn_id"), "txn_id", ids))


def drop_row(root: Path) -> None:
    """Keep one row less of a sample, with checksums that fit."""
    run = sampled_run(root)
    table = pq.read_table(run / "results.parquet")
    rewrite(run, table.slice(1))
    change_record(run, kept=table.num_rows - 1)


def record_as_sample(root: Path) -> None:
    """Record that all rows of a run are a sample."""
    run = sampled_run(root)
    change_record(run, rows_kept="sample", kept=pq.read_metadata(run / "results.parquet").num_rows)


def change_plan(root: Path, **values: object) -> None:
    path = root / "studies" / "study.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize("rows", ["all", "sample"])
def test_nothing_is_wrong_with_a_study(studies: dict[str, Path], rows: str) -> None:
    assert problems_of(studies[rows]) == []


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    **{f"unit flipped at {share}": ("all", flip_unit(share), "metrics/units/") for share in (0.0, 0.3, 0.6, 0.9, 0.99)},
    "unit truncated": ("all", lambda root: unit(root).write_bytes(unit(root).read_bytes()[:-9]), "metrics/units/"),
    "units swapped": ("all", swap_units, "metrics/units/"),
    "unit flipped, rows not kept": ("sample", lambda root: flip(unit(root), 0.5), "its metrics are missing or damaged"),
    "unit missing, rows not kept": ("sample", lambda root: unit(root).unlink(), "its metrics are missing or damaged"),
    "table flipped": ("all", lambda root: flip(root / "metrics" / "by_run.parquet", 0.4), "metrics/by_run.parquet: corrupt"),
    "spreadsheet edited": ("all", lambda root: flip(root / "metrics" / "by_run.csv", 0.6), "metrics/by_run.csv: corrupt"),
    "table missing": ("all", lambda root: (root / "metrics" / "over_time.csv").unlink(), "metrics/over_time.csv is missing"),
    "state flipped": (
        "all",
        lambda root: flip(root / "metrics" / "_state.json", 0.2),
        "metrics/_state.json is missing or damaged",
    ),
    "state missing": ("all", lambda root: (root / "metrics" / "_state.json").unlink(), "metrics/_state.json is missing"),
    "plan edited": ("all", lambda root: change_plan(root, seeds=[0]), "damaged: study.json: `record_sha256`"),
    "plan truncated": ("all", lambda root: (root / "studies" / "study.json").write_text("{"), "damaged: study.json is not JSON"),
    "file of the study damaged": ("all", lambda root: (root / "studies" / "study.toml").write_text("x ="), "damaged: study.toml"),
    "row of another transaction": (
        "sample",
        lambda root: change_ids(root, lambda ids: [ids[0] + 1, *ids[1:]]),
        "is not one of the",
    ),
    "row twice": ("sample", lambda root: change_ids(root, lambda ids: [ids[0], ids[0], *ids[2:]]), "of the sample, each once"),
    "all rows, recorded as a sample": ("all", record_as_sample, "is not one of the sample"),
    "row missing": ("sample", drop_row, "of the sample, each once"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(studies: dict[str, Path], tmp_path: Path, name: str) -> None:
    rows, damage, says = DAMAGES[name]
    root = copy_of(studies[rows], tmp_path)
    damage(root)
    assert any(says in problem for problem in problems_of(root)), problems_of(root)


@pytest.mark.parametrize("what", ["0", "."])
def test_runs_that_are_planned_and_missing_are_counted(studies: dict[str, Path], tmp_path: Path, what: str) -> None:
    root = copy_of(studies["all"], tmp_path)
    experiment = min(path.parent for path in root.glob("*/cfg.toml"))
    change_plan(root, writer="")
    shutil.rmtree(experiment / what if what != "." else experiment)
    plan = json.loads((root / "studies" / "study.json").read_text())
    del plan["record_sha256"]
    (root / "studies" / "study.json").write_text(json.dumps(plan))
    missing = 1 if what == "0" else 2
    assert problems_of(root) == [f"incomplete: {missing} of its 12 runs have no results; run the same `endive sweep` command again"]
