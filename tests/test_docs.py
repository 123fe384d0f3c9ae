"""The documentation holds: its code runs, its configurations are valid, its links lead somewhere, its tables are complete."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from endive import __version__
from endive.catalog import CatalogCounters
from endive.config import load_document
from endive.config.load import check_document
from endive.config.sweep_file import Sweep
from endive.main import app
from endive.protocols.reader import parse_protocol
from endive.runs.execute import run_experiment
from endive.runs.plan import plan_sweep
from endive.simulation import RESULT_SCHEMA, TRACE_SCHEMA, RunCounters, Summary
from endive.storage.prices import load_prices
from endive.storage.profiles import parse_profile
from endive.transaction import ManifestListCounters
from tests.pipeline.runs import document, run_all

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").rglob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_SOURCE = re.compile(r"`((?:\w+/)*\w+\.py)`")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path, language: str) -> Iterator[tuple[int, str]]:
    """The code blocks of a page in a language, and the lines that they begin at."""
    text = path.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match[1] == language:
            yield text.count("\n", 0, match.start(2)) + 1, match[2]


def prose(path: Path) -> str:
    return _BLOCK.sub("", path.read_text(encoding="utf-8"))


def python_pages() -> list[Path]:
    return [page for page in PAGES if any(blocks(page, "python"))]


def toml_blocks() -> list[Any]:
    return [pytest.param(text, id=f"{name_of(page)}:{line}") for page in PAGES for line, text in blocks(page, "toml")]


@pytest.mark.parametrize("page", python_pages(), ids=name_of)
def test_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "documentation"}
    for line, code in blocks(page, "python"):
        exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)


def completed(tree: dict[str, Any]) -> dict[str, Any]:
    """A fragment with the sections that it leaves out."""
    if "simulation" in tree:
        return tree
    tree = {"simulation": {"duration_ms": 1000.0}, "storage": {"provider": "s3x"}, **tree}
    if "workload" not in tree:
        tree["transaction"] = {"inter_arrival": {"scale": 100.0}, **tree.get("transaction", {})}
    return tree


@pytest.mark.parametrize("text", toml_blocks())
def test_configurations_are_valid(text: str, tmp_path: Path) -> None:
    tree = tomllib.loads(text)
    if "read" in tree:
        parse_profile(tree, "documentation")
    elif "commit" in tree:
        assert parse_protocol(text, "documentation", "documentation").protocol
    elif "stores" in tree:
        (tmp_path / "prices.toml").write_text(text, encoding="utf-8")
        assert load_prices(tmp_path / "prices.toml").stores
    elif "sweep" in tree:
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
        (tmp_path / "study.toml").write_text(text, encoding="utf-8")
        assert plan_sweep(Sweep(tmp_path / "study.toml")).runs > 0
    else:
        check_document(completed(tree), "documentation")


def test_the_error_message_shown_is_the_one_given() -> None:
    page = ROOT / "docs/guides/configuration.md"
    shown = next(text for _, text in blocks(page, "text"))
    tree = tomllib.loads(next(code for _, code in blocks(page, "python") if "wrong.toml" in code).split('"""')[1])
    with pytest.raises(ValueError, match="unknown key") as error:
        check_document(tree, "wrong.toml")
    assert shown.strip() == str(error.value)


def calls(page: Path) -> Iterator[list[str]]:
    """The words of every call of ``endive`` that a page shows."""
    for _, text in blocks(page, "console"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True) if line.startswith("$ ") else []
            words = [word for word in words if not re.fullmatch(r"[A-Z_]+=.*", word)]
            if words[:1] == ["endive"]:
                yield words[1:]


@pytest.mark.parametrize("page", [page for page in PAGES if any(calls(page))], ids=name_of)
def test_commands_that_pages_show_exist(page: Path) -> None:
    for words in calls(page):
        command: Any = typer.main.get_command(app)
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)} | {"--help", "[OPTIONS]"}
        assert {word for word in words if re.match("-{1,2}[a-z]", word)} <= known, words
        if getattr(command, "commands", {}):
            assert not words or words[0].startswith("-"), f"no such command: {words}"
        for word in words:
            assert not word.startswith("examples/") or (ROOT / word).exists(), word


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(prose(page)):
        if not target.startswith(("http:", "https:", "#")):
            assert (page.parent / target.partition("#")[0]).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_source_files_that_pages_name_are_there(page: Path) -> None:
    """Paths are relative to the package, to the repository, or within a folder of the compiled engine."""
    folders = [ROOT / "src/endive", ROOT, ROOT / "src/endive/simulation/compiled"]
    for name in _SOURCE.findall(prose(page)):
        assert any((folder / name).exists() for folder in folders), name


def test_reference_of_keys_is_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate.py"))
    committed = generate["PAGE"].read_text(encoding="utf-8")
    assert committed == generate["page"](), "run python docs/generate.py"


def test_reference_of_commands_is_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate.py"))
    committed = generate["CLI_PAGE"].read_text(encoding="utf-8")
    assert committed == generate["cli_page"](), "run python docs/generate.py"


def test_the_columns_on_their_page_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate.py"))
    committed = (ROOT / "docs/reference/columns.md").read_text(encoding="utf-8")
    assert committed == generate["columns_page"](), "run python docs/generate.py"


def test_the_metrics_on_the_page_of_definitions_are_up_to_date() -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate.py"))
    committed = (ROOT / "docs/explanation/statistics.md").read_text(encoding="utf-8")
    assert committed == generate["statistics_page"](), "run python docs/generate.py"


@pytest.mark.parametrize("name", ["page", "cli_page"])
def test_links_within_a_reference_lead_to_its_headings(name: str) -> None:
    generate = runpy.run_path(str(ROOT / "docs/generate.py"))
    text = generate[name]()
    headings = {generate["_anchor"](line.lstrip("# ")) for line in text.splitlines() if line.startswith("#")}
    assert {target[1:] for target in _LINK.findall(text) if target.startswith("#")} <= headings


def test_the_gallery_removes_results_of_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_all([document("new")], tmp_path, range(1))
    with monkeypatch.context() as before:
        before.setattr("endive.runs.execute.code_version", lambda: "another")
        run_all([document("old")], tmp_path, range(1))
    (tmp_path / "notes").mkdir()
    runpy.run_path(str(ROOT / "docs/make_gallery.py"))["remove_old"](tmp_path)
    assert [path.name.partition("-")[0] for path in sorted(tmp_path.iterdir())] == ["new", "notes"]


def test_every_study_is_in_the_gallery_with_a_figure() -> None:
    gallery = runpy.run_path(str(ROOT / "docs/make_gallery.py"))
    text = (ROOT / "docs/gallery/README.md").read_text(encoding="utf-8")
    answers = json.loads(gallery["ANSWERS"].read_text(encoding="utf-8"))
    assert text == gallery["page"](answers), "run python docs/make_gallery.py"
    for study in gallery["STUDIES"]:
        assert (ROOT / "examples" / study.kind / f"{study.name}.toml").exists()
        if study.name in answers:
            assert 1_000 < (ROOT / "docs/gallery" / f"{study.name}.png").stat().st_size < 120_000


def summary_keys() -> set[str]:
    summary = Summary(1000.0).to_dict(RunCounters.collect(CatalogCounters(), ManifestListCounters()))
    return {*summary, *summary["total"], *summary["counters"]}


@pytest.mark.parametrize("name", sorted({*RESULT_SCHEMA.names, *TRACE_SCHEMA.names, *summary_keys()}))
def test_every_column_and_key_of_the_output_is_described(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs/reference/columns.md").read_text(encoding="utf-8")


def test_every_key_of_the_provenance_is_described(tmp_path: Path) -> None:
    text = (ROOT / "docs/reference/columns.md").read_text(encoding="utf-8")
    document = load_document(ROOT / "examples/mixed.toml", {"simulation.duration_ms": 1000.0, "simulation.engine": "reference"})
    for key in run_experiment(document, root=tmp_path).provenance:
        assert f"`{key}`" in text


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    document = load_document(example, {"simulation.duration_ms": 30_000.0, "simulation.engine": "reference"})
    assert run_experiment(document, root=tmp_path).rows > 0


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_examples_are_in_the_guide_to_configurations(example: Path) -> None:
    assert f"](../../examples/{example.name})" in (ROOT / "docs/guides/configuration.md").read_text(encoding="utf-8")


def overrides_in(example: Path) -> Iterator[Any]:
    for line in example.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            given = dict(re.findall(r"--set (\S+?)=([\w.]+)", line))
            if given:
                yield pytest.param(example, given, id=f"{example.name} {given}")


@pytest.mark.parametrize(("example", "given"), [case for example in EXAMPLES for case in overrides_in(example)])
def test_overrides_that_examples_suggest_are_valid(example: Path, given: dict[str, str]) -> None:
    load_document(example, {key: int(value) if value.isdigit() else value for key, value in given.items()})


def test_versions_agree() -> None:
    """The code is of the first heading of the changelog; the citation is of the latest release."""
    headings = re.findall(r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert __version__.removesuffix(".dev0") == headings[0][0]
    assert __version__.endswith(".dev0") == (headings[0][1] == "in progress")
    released, date = next(heading for heading in headings if heading[1] != "in progress")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {released}\n" in citation
    assert f"\ndate-released: {date}\n" in citation


def test_the_site_has_every_page() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (*PAGES[3:], *(ROOT / "docs").rglob("*.ipynb"))]
    assert [page for page in pages if page not in site] == []


def test_the_changelog_of_a_release_is_short() -> None:
    releases = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[2:]
    assert releases
    assert all(release.count("\n") <= 60 for release in releases)
