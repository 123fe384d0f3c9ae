"""What a directory knows of its studies: the file that repeats them, their plan, and names that change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from endive.config import load_document
from endive.config.sweep_file import Sweep
from endive.output_files import is_living
from endive.runs.execute import complete_run
from endive.runs.layout import study_file, study_plan
from endive.runs.plan import keep_study, plan_sweep, read_studies, remaining_work, study_of
from tests.config.test_load import PROFILE

TEXT = """
[sweep]
base = "base.toml"
seeds = "2-3"
question = "success"
[scenario.own]
set = { "storage.provider" = "own.toml" }
[quick]
seeds = [7]
"""
BASE = """
[simulation]
duration_ms = 500
engine = "reference"
[storage]
provider = "instant"
[workload.w]
rate = 20.0
operation = "fast_append"
"""


def study(folder: Path, text: str = TEXT, *, quick: bool = False) -> Sweep:
    folder.mkdir(exist_ok=True)
    (folder / "base.toml").write_text(BASE)
    (folder / "own.toml").write_text(PROFILE)
    path = folder / "study.toml"
    path.write_text(text)
    return Sweep(path, quick=quick)


def test_the_kept_file_repeats_the_study_from_anywhere(tmp_path: Path) -> None:
    sweep, root = study(tmp_path / "here"), tmp_path / "out"
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    again = Sweep(study_file(root, "study"), seeds="2-3")
    assert plan_sweep(again) == plan
    assert [each.name for each in again.scenarios] == ["baseline", "own"]
    (record,) = read_studies(root)
    assert (record.label, record.question, record.scenarios) == ("study", "success", ["baseline", "own"])
    assert record.arguments == ["--seeds", "2-3"]
    assert is_living(record.writer)
    assert is_living("00000000-1-1") is None


def test_a_quick_study_is_repeated_with_quick(tmp_path: Path) -> None:
    sweep = study(tmp_path, quick=True)
    keep_study(tmp_path / "out", sweep, plan_sweep(sweep))
    (record,) = read_studies(tmp_path / "out")
    assert record.arguments == ["--quick", "--seeds", "7-7"]
    assert plan_sweep(Sweep(study_file(tmp_path / "out", "study"), quick=True, seeds="7-7")) == plan_sweep(sweep)


def test_results_are_found_by_the_plan(tmp_path: Path) -> None:
    sweep, root = study(tmp_path / "here"), tmp_path / "out"
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    (record,) = read_studies(root)
    assert not any(path.exists() for path in record.results(root))
    for run in remaining_work(plan, root).todo:
        assert complete_run(run.point.document, run.seed, root, run.point.experiment).state == "done"
    assert len(record.results(root)) == 4
    assert all(path.exists() for path in record.results(root))


def test_a_renamed_scenario_keeps_its_runs(tmp_path: Path) -> None:
    sweep, root = study(tmp_path / "here"), tmp_path / "out"
    (point, _) = plan_sweep(sweep).points
    complete_run(point.document, 2, root, point.experiment)
    renamed = study(tmp_path / "here", TEXT.replace("question", 'baseline = "today"\nquestion'))
    keep_study(root, renamed, plan_sweep(renamed))
    (file,) = root.glob("study-*/cfg.toml")
    document = load_document(file)
    assert document.experiment.scenario == "today"
    assert document.simulation == point.document.simulation


def test_studies_are_reported_by_their_label(tmp_path: Path) -> None:
    sweep = study(tmp_path / "here")
    keep_study(tmp_path, sweep, plan_sweep(sweep))
    found = study_of(tmp_path, ["study-abc", "study-def"])
    assert found is not None
    assert study_of(tmp_path, ["study-abc", "other-def"]) is None
    study_plan(tmp_path, "study").write_text("{}")
    assert read_studies(tmp_path) == []


def test_records_of_studies_that_would_do_harm_are_passed_over(tmp_path: Path) -> None:
    """Reports have a command with the label and the arguments, and a watch looks at every run."""
    good: dict[str, Any] = {
        "label": "x",
        "seeds": [0],
        "experiments": {"x-00000000": {"values": {}}},
        "arguments": ["--seeds", "0-3"],
    }
    many: dict[str, Any] = {f"x-{number:08x}": {"values": {}} for number in range(4_000)}
    changes: list[dict[str, Any]] = [
        {"label": "../x"},
        {"label": "x; reboot"},
        {"arguments": ["--quick; reboot"]},
        {"arguments": ["$(reboot)"]},
        {"arguments": [""]},
        {"experiments": {"x-00000000": {"values": {}, "cpu_seconds": 1e308}}},
        {"experiments": {"x-00000000": {"values": {}, "cpu_seconds": -1.0}}},
        {"seeds": list(range(4_000)), "experiments": many},
    ]
    place = study_plan(tmp_path, "x")
    place.parent.mkdir()
    place.write_text(json.dumps(good))
    assert len(read_studies(tmp_path)) == 1
    for change in changes:
        place.write_text(json.dumps({**good, **change}))
        assert read_studies(tmp_path) == [], change
