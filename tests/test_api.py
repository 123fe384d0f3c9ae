"""The names that ``import endive`` gives: configurations from dicts, runs, sweeps, comparisons, frontiers, tuning."""

from __future__ import annotations

import gc
import inspect
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

import endive
from endive.config.load import load_document
from endive.report import ReportError
from endive.runs.execute import run_experiment
from endive.runs.layout import RESULTS, run_directory

TREE: dict[str, Any] = {
    "simulation": {"duration_ms": 30_000},
    "storage": {"provider": "s3"},
    "catalog": {"num_tables": 1},
    "transaction": {
        "commit_path": "iceberg",
        "retry": 4,
        "real_conflict_probability": 0,
        "runtime": {"mean": 500, "sigma": 0.5},
        "inter_arrival": {"scale": 250.0},
    },
}
SCENARIOS = {"today": {}, "S3 Express": {"storage.provider": "s3x"}}


@pytest.fixture(scope="module")
def study() -> endive.Study:
    return endive.run(TREE, seeds=2, scenarios=SCENARIOS, warmup_ms=5_000)


@pytest.fixture(scope="module")
def comparison() -> endive.Comparison:
    config = endive.load(TREE)
    return endive.compare({"S3": config, "S3 Express": config.set({"storage.provider": "s3x"})}, seeds=3, warmup_ms=5_000)


def test_a_dict_and_a_file_are_the_same_configuration(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(TREE))
    read = endive.load(tmp_path / "mine.toml")
    assert read == endive.load(TREE)
    assert read.hash == endive.load(read.to_dict()).hash
    assert load_document(tmp_path / "mine.toml") == read.document


def test_a_dict_is_checked_like_a_file(tmp_path: Path) -> None:
    wrong = {**TREE, "storage": {"provider": "s4"}, "catalog": {"num_table": 1}}
    (tmp_path / "wrong.toml").write_text(tomli_w.dumps(wrong))
    with pytest.raises(endive.ConfigError) as of_file:
        endive.load(tmp_path / "wrong.toml")
    with pytest.raises(endive.ConfigError) as of_dict:
        endive.load(wrong)
    assert of_dict.value.problems == of_file.value.problems
    assert "num_tables" in str(of_dict.value)


def test_values_of_numpy_and_tuples_are_plain_values() -> None:
    config = endive.load(TREE, {"catalog.num_tables": np.int64(2), "simulation.duration_ms": np.float64(1000.0)})
    assert config.to_dict()["catalog"] == {"num_tables": 2}
    assert type(config.to_dict()["catalog"]["num_tables"]) is int


def test_setting_a_key_leaves_the_original_as_it_was() -> None:
    config = endive.load(TREE)
    changed = config.set({"transaction.retry": 9})
    assert (config.document.transaction.retry, changed.document.transaction.retry) == (4, 9)
    assert config.hash != changed.hash
    with pytest.raises(endive.ConfigError, match="retri"):
        config.set({"transaction.retri": 9})


def test_runs_are_those_of_the_command(study: endive.Study, tmp_path: Path) -> None:
    """The rows of each seed are the same bytes as those of a run of the same configuration by itself."""
    found = dict.fromkeys(study.to_pandas("runs")["experiment"])
    config = endive.load(TREE)
    expected = run_experiment(config.document, root=tmp_path, seed=1)
    names = [name for name in found if name.endswith(config.hash)]
    assert len(names) == 1
    assert (run_directory(study.path / names[0], 1) / RESULTS).read_bytes() == expected.files.results.read_bytes()


def test_tables_of_a_study(study: endive.Study) -> None:
    overview = study.to_pandas()
    assert list(overview["configuration"]) == ["today", "S3 Express"]
    assert (overview["n_seeds"] == 2).all()
    rows = study.to_pandas("transactions")
    assert study.to_arrow("transactions").num_rows == len(rows) == study.data.provenance()["transactions"]
    assert set(rows["seed"]) == {0, 1}
    assert study.to_arrow().column_names == list(overview.columns)
    with pytest.raises(ValueError, match="tables are overview"):
        study.to_pandas("nothing")


def test_figures_of_a_study(study: endive.Study, tmp_path: Path) -> None:
    assert "latency_distribution" in study.figures
    chart = study.figure("latency_distribution")
    assert chart.save(tmp_path / "mine.svg").read_text().startswith("<svg")
    shown = chart._repr_mimebundle_()
    (kind,) = (kind for kind in shown if kind.startswith("application/vnd.vegalite."))  # the version is that of Altair
    assert shown[kind]["datasets"]
    with pytest.raises(ReportError, match="formats are"):
        chart.save(tmp_path / "mine.gif")
    with pytest.raises(ReportError, match="unknown figure"):
        study.figure("nothing")


def test_summary_names_the_scenarios_and_the_window(study: endive.Study) -> None:
    text = study.summary()
    assert "S3 Express" in text
    assert "The first 5 s of 30 s" in text


def test_results_are_displayed_in_short(study: endive.Study, comparison: endive.Comparison) -> None:
    for result in (study, comparison, endive.load(TREE), study.figure()):
        assert len(repr(result)) < 200
        assert repr(result).startswith("<endive.")
    assert "<table" in study._repr_html_()
    assert "<table" in comparison._repr_html_()


def test_a_report_is_one_file(study: endive.Study, tmp_path: Path) -> None:
    assert "<html" in study.report(tmp_path / "mine.html").read_text()[:200]


def test_temporary_runs_go_with_the_study() -> None:
    study = endive.run(TREE, warmup_ms=0.0)
    path = study.path
    assert path.is_dir()
    del study
    gc.collect()
    assert not path.exists()


def test_runs_in_a_directory_are_reused(tmp_path: Path) -> None:
    first = endive.run(TREE, seeds="3-4", directory=tmp_path, warmup_ms=0.0)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob(RESULTS)}
    again = endive.run(TREE, seeds=[3, 4], directory=tmp_path, warmup_ms=0.0)
    assert len(stamps) == 2
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob(RESULTS)} == stamps
    pd.testing.assert_frame_equal(first.to_pandas(), again.to_pandas())
    opened = endive.Study(tmp_path)  # tables are current, so that no Spark is needed
    pd.testing.assert_frame_equal(first.to_pandas("experiments"), opened.to_pandas("experiments"))


def test_a_failed_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr("endive.runs.execute.execute_run", broken)
    with pytest.raises(RuntimeError, match=r"2 of 2 runs failed; .* no luck"):
        endive.run(TREE, seeds=2)


def test_comparison_has_verdicts(comparison: endive.Comparison, tmp_path: Path) -> None:
    table = comparison.to_pandas()
    success = table[(table["metric"] == "time_to_commit_p50_ms") & (table["configuration"] == "S3 Express")].iloc[0]
    assert success["better"]
    assert comparison.names == ("S3", "S3 Express")
    assert comparison.summary().startswith("`S3 Express` is better than")
    assert comparison.figure("throughput_per_s").save(tmp_path / "bars.svg").is_file()
    with pytest.raises(ReportError, match="is not compared"):
        comparison.figure("nothing")


def test_scenarios_of_a_study_are_compared(study: endive.Study) -> None:
    found = endive.compare(study, question="time_to_commit_p50", warmup_ms=5_000)
    assert found.names == ("today", "S3 Express")
    assert set(found.to_pandas()["metric"]) == {"time_to_commit_p50_ms"}


def test_frontier_finds_the_known_load() -> None:
    """One compare-and-swap at a time takes as long as a load of it: success falls below half at a rate between."""
    tree = {**TREE, "table": {"start": "empty"}}  # two seeds that start between different merges differ too much
    found = endive.frontier(
        tree, vary="transaction.rate", until="success < 50%", low=4, tolerance=1.0, seeds=2, max_seeds=2, warmup_ms=5_000
    )
    assert found.load is not None
    assert 4.0 < found.load < 64.0
    assert found.summary().startswith("success falls below 50% at ")
    assert {"load", "value", "low", "high", "seeds", "verdict"} == set(found.to_pandas().columns)
    assert found.figure().to_pandas()["load"].is_unique


def test_tune_returns_settings_that_load() -> None:
    found = endive.tune(
        TREE, "throughput", vary={"storage.provider": ["s3", "s3x"]}, candidates=2, rounds=(2,), seeds=2, warmup_ms=5_000
    )
    assert found.best is not None
    assert endive.load(TREE, found.best).document.transaction.retry >= 2
    assert "today" in set(found.to_pandas()["configuration"])
    assert found.figure().title


def test_code_is_allowed_in_the_block_only() -> None:
    from endive.config.components import code_is_allowed

    before = code_is_allowed()
    with endive.allow_code():
        assert code_is_allowed()
    assert code_is_allowed() is before


@pytest.mark.parametrize("name", endive.__all__)
def test_public_names_are_documented(name: str) -> None:
    """Every public name has a docstring with an example; public methods have a docstring."""
    found = getattr(endive, name)
    text = inspect.getdoc(found) or ""
    assert text
    assert "Example:" in text
    members: list[Callable[..., Any]] = (
        [] if not inspect.isclass(found) else [getattr(found, each) for each in vars(found) if not each.startswith("_")]
    )
    assert all(inspect.getdoc(each) for each in members)


def test_files_of_examples_exist() -> None:
    """An example reads a file of the repository, or `endive.toml`, which `endive init` writes."""
    texts = [inspect.getdoc(endive) or "", *(inspect.getdoc(getattr(endive, name)) or "" for name in endive.__all__)]
    files = {file for text in texts for file in re.findall(r'"([\w/.]+\.toml)"', text)}
    root = Path(__file__).resolve().parent.parent
    assert "endive.toml" in files
    assert [file for file in files - {"endive.toml"} if not (root / file).is_file()] == []


def test_help_shows_every_name() -> None:
    text = pydoc.plain(pydoc.render_doc(endive))
    assert [name for name in endive.__all__ if f"{name}(" not in text] == []
    assert set(endive.__all__) <= set(dir(endive))
    with pytest.raises(AttributeError, match="nothing"):
        _ = endive.nothing


def test_the_reference_has_every_public_name() -> None:
    page = (Path(__file__).resolve().parent.parent / "docs/reference/python.md").read_text(encoding="utf-8")
    shown = [line.removeprefix("::: endive.") for line in page.splitlines() if line.startswith("::: ")]
    assert sorted(shown) == sorted(endive.__all__)
