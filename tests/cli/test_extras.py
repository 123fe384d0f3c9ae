"""A command whose extra is not installed prints the line to type."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from typer.testing import CliRunner

from endive.main import app

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RECIPE = str(ROOT / "examples/recipes/rest.toml")
LAB = ("pyiceberg", "endive.lab.rest_api")
"""PyIceberg, and the module that imports it, which may be imported already."""
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
EXTRAS = ("probe", "iceberg", "notebook", "docs", "screen", "lab")


@pytest.mark.parametrize(
    ("modules", "words", "extra"),
    [
        (("obstore", "obstore.store"), ["probe", ".", "--yes"], "probe"),
        (("pyiceberg", "pyiceberg.catalog"), ["probe", "mine", "--yes"], "probe"),
        (("pyiceberg", "pyiceberg.catalog"), ["import", "db.events"], "iceberg"),
        (("pyiceberg", "pyiceberg.catalog"), ["consolidate", ".", "--to", "iceberg", "lake.lab.study"], "iceberg"),
        (("SALib", "SALib.analyze"), ["screen", RECIPE, "--for", "success"], "screen"),
        (LAB, ["lab", RECIPE, "--", "true"], "lab"),
        (LAB, ["observe", "-o", "client.toml", "--", "true"], "lab"),
    ],
)
def test_the_missing_extra_is_named(
    modules: tuple[str, ...], words: list[str], extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert f"`pip install 'endive[{extra}]'`" in " ".join(done.output.split())
    assert extra in PROJECT["optional-dependencies"]


def list_requirements(names: tuple[str, ...] = EXTRAS) -> list[str]:
    extras = [each for name in names for each in PROJECT["optional-dependencies"][name]]
    return [each for each in (*PROJECT["dependencies"], *extras) if not each.startswith("endive[")]


@pytest.mark.parametrize("requirement", list_requirements())
def test_dependencies_have_both_bounds(requirement: str) -> None:
    assert re.search(r">=[\d.]+,<[\d.]+", requirement), requirement


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_all_requirements_can_be_installed(python: str) -> None:
    assert f'"{python}"' in re.findall(r"python: (\[.+\])", WORKFLOW)[0]
    needed = [Requirement(each) for each in list_requirements((*EXTRAS, "dev"))]
    both = ({"python_version": python}, None)  # None is this Python: it has no metadata of packages that it does not install
    names = [each.name for each in needed if each.marker is None or all(each.marker.evaluate(where) for where in both)]
    supported = {name: SpecifierSet(metadata(name)["Requires-Python"] or "") for name in names}
    assert [f"{name}: {versions}" for name, versions in supported.items() if python not in versions] == []
