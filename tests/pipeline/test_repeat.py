"""What a report tells to repeat it, as a reader would: its file and its commands alone, in an empty directory."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pytest

from tests.cli import invoke
from tests.cli.test_compare import CONFIG

SCENARIOS = """
[sweep]
seeds = "3-4"
base = "a.toml"
question = "success(merge)"
baseline = "today"

[scenario.today]
set = {}

[scenario.patient]
set = { "transaction.retry" = 9 }
"""


def _repeated(report: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Do what a report says in a new folder, with nothing but the report; returns where its last command found results."""
    page = report.read_text()
    file = re.search(r'<a class="file" [^>]*download="([^"]+)"', page)
    text = re.search(r'<pre id="repeat-file">(.*?)</pre>', page, re.DOTALL)
    data = re.search(r'<pre class="commands">(.*?)</pre>', page, re.DOTALL)
    assert file is not None
    assert text is not None
    assert data is not None
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path(file[1]).write_text(html.unescape(text[1]))
    for line in html.unescape(data[1]).splitlines():
        command = shlex.split(line, comments=True)
        if command[0] == "git":
            continue
        done = invoke(*command[1:])
        assert done.exit_code == 0, done.output
    return folder / command[-1]


def _results(root: Path) -> dict[str, bytes]:
    """The rows of each run below a directory."""
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("results.parquet")}


def _answer(report: Path) -> str:
    return report.read_text().partition('<div class="answer">')[2].partition("<nav")[0]


@pytest.mark.usefixtures("commands_share_spark")
def test_a_study_with_scenarios_is_repeated_from_its_report_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    Path("a.toml").write_text(CONFIG)
    Path("study.toml").write_text(SCENARIOS)
    assert invoke("sweep", "study.toml", "--seeds", "5-6", "--out", "first").exit_code == 0
    assert invoke("report", "first").exit_code == 0
    report = Path("first/report.html").rename(tmp_path / "report.html")
    first = _results(Path("first"))
    Path("first").rename("elsewhere")
    again = _repeated(report, tmp_path / "new", monkeypatch)
    assert len(first) == 4
    assert _results(again) == first
    assert _answer(again / "report.html") == _answer(report) != ""


def test_a_run_is_repeated_from_its_report_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    Path("a.toml").write_text(CONFIG)
    assert invoke("run", "a.toml", "--seed", "7", "--set", "transaction.retry=2").exit_code == 0
    run = next(Path("experiments").resolve().glob("mix-*/7"))
    assert invoke("report", str(run)).exit_code == 0
    again = _repeated(run / "report.html", tmp_path / "new", monkeypatch)
    assert _results(again) == _results(run) != {}
