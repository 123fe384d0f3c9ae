"""``endive examples``, as a user calls it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from endive.cli.examples import Example, examples_folder, find_examples
from endive.config import load_document
from endive.config.study import frontier_options
from endive.config.sweep_file import Sweep
from endive.report import ReportError
from endive.runs.plan import plan_sweep
from endive.studies.frontier import read_question
from endive.version import code_version
from tests.cli import files, invoke, strict

EXAMPLES = {example.name: example for example in find_examples()}
GALLERY = {
    "load_by_provider",
    "catalog_latency",
    "tables",
    "groups",
    "backoff",
    "catalog_designs",
    "inlining",
    "merge_append_starvation",
    "maintenance",
    "maintenance_paths",
    "uncommittable",
    "uncommittable_iceberg",
}


def test_all_studies_of_the_gallery_are_listed() -> None:
    listed = {each["name"]: each for each in strict(invoke("examples", "--json").stdout)}
    assert listed.keys() >= GALLERY
    assert listed.keys() == EXAMPLES.keys()
    assert len(listed) == sum(1 for _ in find_examples()), "two examples have the same name"
    text = invoke("examples").stdout
    assert all(f"{name} " in text for name in listed)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=lambda example: example.name)
def test_every_example_is_valid_and_has_a_question(example: Example) -> None:
    assert 20 < len(example.question) < 140
    assert example.question[-1] in ".?:"
    if example.kind == "sweep":
        whole, short = plan_sweep(Sweep(example.path)), plan_sweep(Sweep(example.path, quick=True))
        assert 0 < short.runs < whole.runs
        assert len(short.seeds) >= 3
    elif example.kind == "frontier":
        for quick in (False, True):
            assert read_question(example.path, frontier_options({}), {}, quick=quick).search.seeds > 1
    else:
        load_document(example.path)


@pytest.mark.parametrize("example", [each for each in EXAMPLES.values() if each.kind != "run"], ids=lambda each: each.name)
def test_every_study_has_a_quick_form(example: Example) -> None:
    assert example.has_quick_form


def test_an_example_can_be_shown() -> None:
    assert invoke("examples", "show", "backoff").stdout == EXAMPLES["backoff"].path.read_text()
    assert strict(invoke("examples", "show", "backoff", "--json").stdout)["kind"] == "sweep"


@pytest.mark.parametrize("command", ["run", "show"])
def test_an_unknown_example_ends_with_2(command: str) -> None:
    result = invoke("examples", command, "bakoff")
    assert result.exit_code == 2
    assert "unknown example 'bakoff'; did you mean 'backoff'?" in result.stderr


def test_a_configuration_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "short.toml"
    text = (examples_folder() / "mixed.toml").read_text()
    path.write_text(text.replace("duration_ms = 1_800_000", 'duration_ms = 30_000\nengine = "reference"'))
    monkeypatch.setattr("endive.cli.examples.find_examples", lambda: iter([Example("short", "run", path)]))
    answer = strict(invoke("examples", "run", "short", "-o", str(tmp_path / "out"), "--json").stdout)
    assert answer["summary"]["total"]["transactions"] > 0
    assert Path(answer["files"][0]).is_file()


def test_a_frontier_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "short.toml"
    path.write_text(
        '# Where?\n[frontier]\nvary = "workload.w.rate"\nuntil = "success < 99.9%"\nfrom = 0.5\nto = 1\nseeds = 2\nmax_seeds = 2\n'
        '[base]\nsimulation = { duration_ms = 5_000, engine = "reference" }\nstorage = { provider = "instant" }\n'
        'workload.w = { rate = 1.0, operation = "fast_append", runtime = { mean = 100 } }\n'
    )
    monkeypatch.setattr("endive.cli.examples.find_examples", lambda: iter([Example("short", "frontier", path)]))
    answer = strict(invoke("examples", "run", "short", "-o", str(tmp_path / "out"), "--json").stdout)
    assert {point["load"] for point in answer["points"]} >= {0.5, 1.0}
    assert "frontier.json" in files(tmp_path / "out")


def test_an_example_reports_only_results_of_this_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "short.toml"
    path.write_text(
        '# When?\n[sweep]\nseeds = [0]\n[base]\nsimulation = { duration_ms = 5_000, engine = "reference" }\n'
        'storage = { provider = "instant" }\n'
        'workload.w = { rate = 1.0, operation = "fast_append", runtime = { mean = 100 } }\n[axes]\n"workload.w.rate" = [1, 2]\n'
    )
    asked: dict[str, Any] = {}

    def load_study(folder: Path, **options: Any) -> None:
        asked.update(options)
        raise ReportError("far enough")

    monkeypatch.setattr("endive.cli.examples.find_examples", lambda: iter([Example("short", "sweep", path)]))
    monkeypatch.setattr(
        "endive.pipeline.session.starting_session",
        lambda options: nullcontext(SimpleNamespace(begin=lambda: None, get=lambda: None)),
    )
    monkeypatch.setattr("endive.pipeline.sweep.run_sweep", lambda *arguments, **options: ())
    monkeypatch.setattr("endive.report.study_data.load_study", load_study)
    assert "far enough" in invoke("examples", "run", "short", "-o", str(tmp_path / "out")).stderr
    assert asked["code_version"] == code_version()
