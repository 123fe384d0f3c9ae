"""The page as a file: whole, of itself, safe, and with the numbers of the tables of metrics."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest

from endive.analysis.run_metrics import ALL
from endive.cache_directory import CACHE_VARIABLE
from endive.report import page as pages
from endive.report.encodings import DIGITS
from endive.report.figures import build_figures
from endive.report.page import encode_figure, render_page
from endive.report.sections import describe_reproduction, format_ranges, make_page
from endive.report.study_data import Study
from endive.runs.plan import PlannedExperiment, StudyRecord
from tests.report.synthetic import kinds, page_with
from tests.report.test_charts import frame

FOREIGN = re.compile(r"(?:src|href|url|action)\s*[=(]\s*[\"']?(?:https?:)?//", re.IGNORECASE)


def data_of(html: str) -> list[dict[str, Any]]:
    """What the script of the page draws from."""
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', html, re.DOTALL)
    assert found
    data: list[dict[str, Any]] = json.loads(found[1])
    return data


class Outline(HTMLParser):
    """What a reader meets: the elements with their attributes, and the text outside of scripts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._silent = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._silent = tag

    def handle_endtag(self, tag: str) -> None:
        self._silent = "" if tag == self._silent else self._silent

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data.replace("\u00a0", " ")

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(page_with(kinds()))


def test_the_page_needs_nothing_else(html: str) -> None:
    outline = Outline(html)
    assert not FOREIGN.search(html)
    assert not outline.all("img")
    assert not outline.all("iframe")
    assert [script for script in outline.all("script") if "src" in script] == []
    assert [link["href"] for link in outline.all("link")] == ["data:,"]
    assert "cdn" not in html.lower()
    policy = next(meta["content"] for meta in outline.all("meta") if meta.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy  # so that the default holds


def test_the_libraries_are_put_together_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Mock(return_value="// libraries")
    monkeypatch.setattr(pages, "_make_bundle", bundle)
    cache = tmp_path / "cache"
    for directory, times in ((cache, 1), (cache, 1), (tmp_path / "other", 2), (cache / "libraries", 3)):
        monkeypatch.setenv(CACHE_VARIABLE, str(directory))
        assert pages.bundle_libraries.__wrapped__() == "// libraries"
        assert bundle.call_count == times
    (kept,) = (cache / "libraries").glob("*.js")
    monkeypatch.setenv(CACHE_VARIABLE, str(kept))  # where no directory can be
    assert pages.bundle_libraries.__wrapped__() == "// libraries"


def test_the_libraries_are_in_it_once(html: str) -> None:
    assert html.count("window.vegaEmbed=") == 1
    assert len(html) < 1_200_000


def test_every_figure_has_its_title_definition_notes_table_and_place_in_the_contents(html: str) -> None:
    outline = Outline(html)
    targets = [link["href"] for link in outline.all("a")]
    sections = [section["id"] for section in outline.all("section")]
    for figure in kinds():
        assert figure.name in sections
        assert f"#{figure.name}" in targets
        assert all(words in outline.text for words in (figure.title, figure.definition, *figure.notes))
    assert len([each for each in outline.all("details") if each.get("class") == "table"]) == len(kinds())
    assert [link["download"] for link in outline.all("a") if "download" in link] == [f"{figure.name}.csv" for figure in kinds()]


def test_the_answer_comes_first(html: str) -> None:
    text = Outline(html).text
    assert text.index("It is so.") < text.index("Or not.") < text.index("Lines")


def test_words_cannot_become_markup() -> None:
    nasty = '</script><script>alert("x")</script><b>'
    figure = kinds()[0]
    data = figure.data.assign(series=figure.data["series"].map({"S3": nasty, "S3 Express": "S3 Express"}))
    page = page_with([figure.__class__(**{**vars(figure), "data": data, "title": nasty})], answer=[nasty])
    html = render_page(page)
    assert '<script>alert("x")' not in html
    assert data_of(html)[0]["legend"]["entries"][0]["name"] == nasty
    assert Outline(html).text.count(nasty) == 3  # answer, contents and heading


def test_filters_are_the_dimensions_of_the_configurations() -> None:
    dimensions = {"store": {"S3": "S3", "S3 Express": "S3 Express"}, "tables": {"S3": "tables = 1", "S3 Express": "tables = 1"}}
    found = encode_figure(kinds()[0], page_with([], dimensions=dimensions))["filters"]
    assert [(each["title"], each["values"]) for each in found] == [
        ("store", ["S3", "S3 Express"]),
        ("operation", [ALL, "fast_append"]),
        ("series", ["p50", "p99"]),
    ]
    assert found[1]["words"] == {ALL: ALL, "fast_append": "fast append"}


def test_small_multiples_share_their_scales_where_they_can_be_compared() -> None:
    lines = encode_figure(kinds()[0], page_with([]))
    assert [panel["value"] for panel in lines["panels"]] == ["p50", "p99"]
    assert len(lines["specs"]) == 1
    data = kinds()[0].data
    unlike = replace(kinds()[0], data=data.assign(y=data["y"].where(data["panel"] == "p50", 1000.0 * data["y"])))
    assert len(encode_figure(unlike, page_with([]))["specs"]) == 1  # on a logarithmic axis all are seen
    linear = replace(unlike, y=replace(unlike.y, scale="linear"))
    assert len(encode_figure(linear, page_with([]))["specs"]) == 2


def test_at_most_four_figures_are_visible_at_first(html: str) -> None:
    shown, _, more = html.partition('<details class="more-figures"')
    assert shown.count('<section class="figure"') == 4
    assert more.count('<section class="figure"') == len(kinds()) - 4
    assert f"More figures ({len(kinds()) - 4})" in more
    assert "more-figures" not in render_page(page_with(kinds()[:4])).partition("<body>")[2].partition("<script")[0]


def test_nothing_runs_but_the_scripts_of_the_page(html: str) -> None:
    """The policy names them by their hashes, and lets nothing be evaluated."""
    policy = next(str(meta["content"]) for meta in Outline(html).all("meta") if meta.get("http-equiv"))
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = next(rule for rule in policy.split("; ") if rule.startswith("script-src"))
    assert allowed == "script-src " + " ".join(f"'sha256-{each}'" for each in hashes)
    assert len(scripts) == 2
    assert "unsafe-eval" not in policy
    assert {"base-uri 'none'", "form-action 'none'", "img-src data:"} <= set(policy.split("; "))


def test_the_numbers_are_those_of_the_tables_of_metrics(mixed: Study) -> None:
    """From the file back to the table that `endive metrics` wrote."""
    data = {figure["name"]: frame(figure["rows"]) for figure in data_of(render_page(make_page(mixed, build_figures(mixed))))}
    table = pd.read_parquet(mixed.path / "metrics" / "by_experiment.parquet")
    totals = table[(table["workload_class"] == ALL) & (table["operation_type"] == ALL)].set_index("experiment")
    for name, metric in (("success_load", "success_rate"), ("retries", "retries_per_txn"), ("overhead", "overhead")):
        rows = data[name].set_index("experiment")
        assert len(rows) == len(totals) > 0
        expected = totals.loc[rows.index, metric]
        pd.testing.assert_series_equal(rows["y"], expected, check_names=False, check_dtype=False, rtol=10.0 ** (1 - DIGITS))


def test_configuration_and_provenance(mixed: Study) -> None:
    page = make_page(mixed, [])
    assert page.varied["storage.provider"] == "s3, s3x"
    assert page.varied["workload.ingest.rate"] == "2, 6, 12"
    common = tomllib.loads(page.configuration)
    assert common["catalog"]["num_tables"] == 2
    assert common["workload"]["ingest"]["operation_types"]["fast_append"] == 0.7
    assert "rate" not in common["workload"]["ingest"]
    assert "provider" not in common["storage"]
    assert page.provenance["code"] == mixed.code_version
    assert page.provenance["seeds"] == "0-2"
    assert page.provenance["engine"] == "reference"
    assert "numpy" in page.provenance["libraries"]
    assert f"endive report {mixed.path.name}-again" in page.reproduction.commands
    assert "for seed in 0 1 2; do endive run $cfg" in page.reproduction.commands
    assert len(page.runs) == len(mixed.manifest.experiments)
    record = json.loads((mixed.path / page.runs[0]["experiment"] / "0" / "provenance.json").read_text())
    assert page.runs[0]["SHA-256 of results"].split()[0] == record["results_sha256"][:12]
    for text in (*page.answer, *page.provenance.values()):
        assert text in Outline(render_page(page)).text


def _planned(study: Study, text: str, root: Path) -> Study:
    """A study that a file planned, of this text."""
    (root / "studies").mkdir(parents=True)
    (root / "studies" / "mixed.toml").write_text(text)
    planned = {name: PlannedExperiment(values={}) for name in study.manifest.experiments}
    record = StudyRecord(label="mixed", seeds=[0, 1, 2], experiments=planned, arguments=["--quick", "--seeds", "0-2"])
    return replace(study, record=record, path=root)


def test_a_study_is_repeated_by_the_file_in_the_page(mixed: Study, tmp_path: Path) -> None:
    """All of its runs, with the options that it was called with, and without the directory of its results."""
    page = make_page(_planned(mixed, "# a <study>\n[sweep]\n", tmp_path / "of"), [])
    assert page.reproduction.commands.splitlines()[-2:] == [
        "endive sweep mixed.toml --quick --seeds 0-2 --out of-again",
        "endive report of-again",
    ]
    assert (page.reproduction.file, page.reproduction.text) == ("mixed.toml", "# a <study>\n[sweep]\n")
    assert "# a &lt;study&gt;\n[sweep]" in render_page(page)


@pytest.mark.parametrize(
    ("named", "options"),
    [
        ('[base.storage]\nprovider = "/mine/store.toml"\n', ""),
        ('[axes]\n"catalog.provider" = ["s3", "/mine/store.toml"]\n', ""),
        ('[base.workload.load]\ntrace = "/mine/load.csv"\n', ""),
        ('[base.parts.catalog]\ncode = "/mine/parts.py:Catalog"\n', " --allow-code"),
    ],
)
def test_a_study_that_refers_to_files_is_repeated_in_its_directory(mixed: Study, tmp_path: Path, named: str, options: str) -> None:
    page = make_page(_planned(mixed, named, tmp_path / "of"), [])
    file = tmp_path / "of" / "studies" / "mixed.toml"
    assert (
        f"endive sweep of/{file.relative_to(file.parents[1])} --quick --seeds 0-2{options} --out of-again"
        in page.reproduction.commands
    )
    assert page.reproduction.file == ""
    assert "which says what was run" not in render_page(page)


def test_changes_that_no_commit_has_are_reported(mixed: Study) -> None:
    output = describe_reproduction(mixed, [{"git_commit": "0a1b-dirty"}]).commands
    assert output.startswith("git checkout 0a1b   # in a clone of Endive; the code had uncommitted changes\n")
    assert describe_reproduction(mixed, [{"git_commit": "0a1b"}]).commands.startswith(
        "git checkout 0a1b   # in a clone of Endive\n"
    )


@pytest.mark.parametrize(("middle", "rest"), [("", ""), ("; in between: b (2)", "; in between: b (2).")])
def test_a_headline_is_not_a_whole_page(middle: str, rest: str) -> None:
    """What lies between the best and the worst is set as text, and a long one smaller."""
    html = render_page(page_with([], answer=[f"a commits most{middle}.", "More; in between: c."]))
    assert ('<span class="rest">' in html) == bool(rest)
    assert html.count('class="rest"') == (1 if rest else 0)
    assert rest in html
    assert 'class="long"' in render_page(page_with([], answer=["a " * 100]))


def test_the_report_of_a_run_contains_the_command_that_repeats_it(single: Study, experiment_root: Path) -> None:
    page = make_page(single, [])
    assert page.reproduction.commands.splitlines()[-2:] == [
        "endive run mixed.toml --out mixed-again --seed 0",
        f"endive report mixed-again/{experiment_root.name}/0",
    ]
    assert page.reproduction.text == (experiment_root / "cfg.toml").read_text()
    assert page.varied == {}
    assert tomllib.loads(page.configuration)["storage"]["provider"] == "s3x"


def test_runs_without_provenance_are_skipped(mixed: Study, tmp_path: Path) -> None:
    lost = mixed.__class__(**{**vars(mixed), "path": tmp_path})
    page = make_page(lost, [])
    assert page.configuration == ""
    assert page.provenance["code"] == mixed.code_version
    assert "Python" not in page.provenance


@pytest.mark.parametrize(("seeds", "output"), [([0, 1, 2], "0-2"), ([4], "4"), ([7, 0, 1, 9], "0-1, 7, 9"), ([], "")])
def test_seeds_in_short(seeds: list[int], output: str) -> None:
    assert format_ranges(seeds) == output


@pytest.mark.parametrize("name", ["mixed", "single", "designs"])
def test_a_report_does_not_contain_the_path_of_its_study(name: str, request: pytest.FixtureRequest) -> None:
    """It had the absolute path, and with it the name of the user."""
    study = request.getfixturevalue(name)
    html = render_page(make_page(study, []))
    assert str(study.path.resolve().parent) not in html
    assert study.path.resolve().name in html or study.kind == "run"
