"""What a study is about: its headline, its first figure, and the names of its scenarios in all of it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from endive.config.sweep_file import Sweep
from endive.report.answer import answer_question, answer_study, warn_study
from endive.report.figures import build_figure, build_report_figures
from endive.report.sections import list_dimensions, title_study
from endive.report.study_data import Study
from endive.runs.execute import complete_run
from endive.runs.plan import keep_study, plan_sweep, remaining_work
from tests.pipeline.runs import document
from tests.report.studies import measured


def run_study(folder: Path, question: str, more: str, baseline: str = "today", comment: str = "", **overrides: Any) -> Path:
    """A small study, run to its end; returns the directory of its experiments."""
    base = document("study", **overrides).model_dump(mode="json", exclude_unset=True, exclude_none=True)
    text = f'[sweep]\nseeds = "0-2"\nquestion = "{question}"\n'
    text += f'baseline = "{baseline}"\n' if "[scenario" in more else ""
    tree = {**tomllib.loads(text + more), "base": {name: base[name] for name in base if name != "experiment"}}
    path, root = folder / "study.toml", folder / "out"
    path.write_text(f"{comment}{tomli_w.dumps(tree)}")
    sweep = Sweep(path)
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    for run in remaining_work(plan, root).todo:
        assert complete_run(run.point.document, run.seed, root, run.point.experiment).state == "done"
    return root


SCENARIOS = """
[scenario."less work".set]
workload.upkeep.runtime.value = 50
[scenario.fewer_writers.set]
workload.ingest.rate = 1.0
"""


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return measured(run_study(tmp_path_factory.mktemp("scenarios"), "success(upkeep)", SCENARIOS))


def test_the_answer_begins_with_the_question_and_names_every_scenario(scenarios: Study) -> None:
    first = answer_study(scenarios)[0]
    assert re.match(r"Success of upkeep is [\d.–%]+ in `today`; it is higher in ", first)
    assert all(f"`{name}` (" in first for name in ("less work", "fewer_writers"))


def test_the_title_of_a_report_is_the_question_of_its_study(scenarios: Study, tmp_path: Path) -> None:
    """It was the name of the directory."""
    assert title_study(scenarios) == "Success of upkeep by configuration"
    more = '[axes]\n"storage.provider" = ["s3", "s3x"]\n'
    asked = run_study(tmp_path, "success(upkeep)", more, comment="# Which store commits\n# the most? More of it.\n")
    assert title_study(measured(asked)) == "Which store commits the most?"


def test_scenarios_are_a_dimension_with_the_baseline_first(scenarios: Study) -> None:
    assert scenarios.scenarios == ("today", "less work", "fewer_writers")
    assert [each.label for each in scenarios.series] == ["today", "less work", "fewer_writers"]
    assert list_dimensions(scenarios) == {"scenario": {name: name for name in scenarios.scenarios}}
    assert scenarios.axis is None, "the rate differs between scenarios, but is no axis"
    assert list(scenarios.experiments["param_scenario"].unique()) != []


def test_the_first_figure_shows_the_question_in_order(scenarios: Study) -> None:
    figures = build_report_figures(scenarios)
    assert figures[0].name == "question"
    assert (figures[0].title, figures[0].kind) == ("Success of upkeep", "bars")
    assert figures[0].data["y"].is_monotonic_decreasing
    assert set(figures[0].data["series"]) == {"today", "less work", "fewer_writers"}
    row = figures[0].data.set_index("series").loc["today"]
    table = scenarios.experiments
    chosen = table[(table["series"] == "today") & (table["workload_class"] == "upkeep") & (table["operation_type"] == "all")]
    assert row["y"] == chosen["success_rate"].iloc[0]


def test_a_new_name_of_a_scenario_reaches_the_report(tmp_path: Path) -> None:
    more = "[scenario.quick.set]\nworkload.upkeep.runtime.value = 50\n"
    root = run_study(tmp_path, "success(upkeep)", more)
    assert [each.label for each in measured(root).series] == ["today", "quick"]
    run_study(tmp_path, "p50(ingest)", more.replace("quick", '"half the work"'), baseline="before")
    again = measured(root)
    assert [each.label for each in again.series] == ["before", "half the work"]
    assert len(again.manifest.experiments) == 2
    assert re.match(r"The p50 time to commit of ingest is [\d.]+ m?s in `before`; `half the work` ", answer_study(again)[0])


def test_along_an_axis_both_ends_are_reported(tmp_path: Path) -> None:
    more = '[axes]\n"workload.ingest.rate" = [2.0, 9.0]\n'
    study = measured(run_study(tmp_path, "success(upkeep)", more + "[scenario.quick.set]\nworkload.upkeep.runtime.value = 50\n"))
    record = answer_study(study)
    assert re.match(r"At ingest rate 9/s, success of upkeep is [\d.–%]+ in `today`; it is ", record[0])
    assert any(
        re.match(r"At ingest rate 2/s, success of upkeep is [\d.–%]+ in `today`; it is ", sentence) for sentence in record[:3]
    )
    assert build_report_figures(study)[0].name == "frontier"
    assert "question" not in [figure.name for figure in build_report_figures(study)]
    assert build_figure(study, "question").kind == "line"


def test_without_scenarios_every_configuration_is_reported_the_best_first(tmp_path: Path) -> None:
    study = measured(run_study(tmp_path, "p50(ingest)", '[axes]\n"storage.provider" = ["s3", "s3x"]\n'))
    record = answer_study(study)[0]
    assert record.startswith("The p50 time to commit of ingest is ")
    assert record.index("with S3 Express") < record.index("with S3.")
    assert build_report_figures(study)[0].name == "question"


def test_configurations_that_are_equal_are_reported_by_their_names(tmp_path: Path) -> None:
    """Their order was that of hashes, which every change of the model changes."""
    axes = '[axes]\n"transaction.retry" = [100, 20, 90]\n"workload.ingest.rate" = [1.0, 2.0]\n'
    study = measured(run_study(tmp_path, "success(ingest)", axes))
    for table in (study.experiments, study.experiments.iloc[::-1]):
        record = answer_question(replace(study, experiments=table))
        assert [re.findall(r"maximum retries (\d+)", sentence) for sentence in record] == [["20", "90", "100"]] * 2


BOTTLENECKS = """
[scenario.wide.set]
catalog.workers = 64
[scenario.narrow.set]
catalog.workers = 1
catalog.commit = { median = 1_000.0, sigma = 0.1 }
"""


def test_a_report_of_several_experiments_names_the_bottleneck_and_the_first_day_of_the_limit(tmp_path: Path) -> None:
    service: dict[str, Any] = {
        "catalog__type": "service",
        "catalog__metadata_limit_bytes": 1_000_000_000,
        "transaction__commit_path": "iceberg",
    }
    study = measured(run_study(tmp_path, "success", BOTTLENECKS, **service))
    (busy,) = (line for line in warn_study(study) if line.startswith("Utilization"))
    (limited,) = (line for line in warn_study(study) if "reaches the limit" in line)
    assert re.match(r"Utilization of the catalog's worker is [\d.]+% in `narrow`\. The catalog is the bottleneck", busy)
    assert re.match(r"In `(today|wide|narrow)`, metadata.json reaches the limit of 1 GB on day [\d,]+ if growth continues", limited)
