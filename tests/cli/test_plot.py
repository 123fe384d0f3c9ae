"""``endive plot``, as a user calls it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from endive.config.load import check_document
from endive.runs.execute import run_experiment
from tests.cli import files, invoke, strict
from tests.pipeline.runs import document


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a label. Not to be changed: ``run`` is a copy."""
    root = tmp_path_factory.mktemp("run")
    tree = document().model_dump(mode="json", exclude_unset=True, exclude_none=True)
    del tree["experiment"]
    run_experiment(check_document(tree, "test"), root=root, seed=3)
    return root


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run" / "results.parquet"


def test_all_figures_are_written_beside_the_run(run: Path) -> None:
    result = invoke("plot", str(run), "--format", "png,svg")
    assert result.exit_code == 0
    printed = result.stdout.split()
    assert len(printed) >= 2 * 6
    assert all(Path(path).is_file() for path in printed)
    assert {path for path in files(run.parent) if path.startswith("figures/")} == {f"figures/{Path(path).name}" for path in printed}
    assert "Values from a single seed have no interval." in result.stderr


def test_one_figure_where_it_is_wanted(run: Path, tmp_path: Path) -> None:
    result = invoke("plot", str(run), "--figure", "time_parts", "-o", str(tmp_path / "paper"), "--json")
    assert result.exit_code == 0
    (answer,) = strict(result.stdout)["figures"]
    assert answer["figure"] == "time_parts"
    assert answer["definition"]
    assert files(tmp_path / "paper") == {"time_parts.png", "time_parts.svg", "time_parts.pdf"}
    assert {Path(path).name for path in answer["files"]} == files(tmp_path / "paper")


def test_a_figure_for_a_column_with_a_curve_of_theory(run: Path, tmp_path: Path) -> None:
    curve = tmp_path / "prediction.csv"
    curve.write_text("x,y\n0,5\n20,5\n")
    asked = ("--width", "3.3in", "--height", "5in", "--no-title", "--theory", str(curve))
    result = invoke("plot", str(run), "--figure", "commit_rate_time", *asked, "--format", "svg", "-o", str(tmp_path / "paper"))
    assert result.exit_code == 0, result.stderr
    drawing = (tmp_path / "paper" / "commit_rate_time.svg").read_text()
    assert 'width="3.3in" height="5in"' in drawing
    assert ">prediction<" in drawing
    assert "Commit rate over time" not in drawing


@pytest.mark.parametrize("moment", [("--at", "10s", "--span", "2s"), ("--txn", "40"), ("--figure", "timeline")])
def test_the_timeline_of_a_run(run: Path, tmp_path: Path, moment: tuple[str, ...]) -> None:
    result = invoke("plot", str(run), *moment, "-o", str(tmp_path / "paper"), "--format", "svg")
    assert result.exit_code == 0, result.stderr
    assert files(tmp_path / "paper") == {"timeline.svg"}


def test_figures_are_listed_with_missing_requirements(run: Path) -> None:
    answer = {row["figure"]: row for row in strict(invoke("plot", str(run), "--list", "--json").stdout)}
    assert answer["time_parts"]["missing"] is None
    assert "no numeric parameter" in answer["success_load"]["missing"]
    assert answer["timeline"]["title"]
    assert "not in this study" in invoke("plot", str(run), "--list").stdout
    assert not (run.parent / "figures").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "success_load"), "no numeric parameter varies"),
        (("--figure", "sucess"), "unknown figure 'sucess'"),
        (("--format", "jpg"), "formats are png, svg, pdf"),
        (("--width", "wide"), "--width wide: expected a number"),
        (("--figure", "time_parts", "--width", "0.2in"), "time_parts does not fit into 0.2in"),
        (("--theory", "curve.csv"), "--theory needs exactly one figure"),
        (("--figure", "commit_rate_time", "--theory", "none.csv"), "none.csv: expected a CSV file"),
        (("--at", "soon"), "expected a number with ms"),
        (("--at", "1h"), "the run lasts 20s"),
        (("--txn", "99999"), "no transaction 99999"),
        (("--load", "catalog.num_table"), "no experiment has this numeric parameter"),
        (("--code-version", "nobody"), "no results of version 'nobody'"),
    ],
)
def test_wrong_calls_of_plot_end_with_2(run: Path, arguments: tuple[str, ...], message: str) -> None:
    result = invoke("plot", str(run), *arguments, "--json")
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")
    assert message in strict(result.stdout)["errors"][0]["message"]


def test_nothing_to_draw(tmp_path: Path) -> None:
    result = invoke("plot", str(tmp_path))
    assert result.exit_code == 2
    assert "no finished run" in result.stderr


def test_figures_are_not_written_through_a_link_that_leads_elsewhere(run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (run.parent / "figures").symlink_to(tmp_path / "elsewhere")
    result = invoke("plot", str(run), "--figure", "time_parts", "--format", "svg")
    assert result.exit_code == 1
    assert "leads out of" in result.stderr
    assert files(tmp_path / "elsewhere") == set()
    assert invoke("plot", str(run), "--figure", "time_parts", "--format", "svg", "-o", str(run.parent / "figures")).exit_code == 0
