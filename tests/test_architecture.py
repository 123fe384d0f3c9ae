"""Imports point one way: arithmetic, model, simulation, config, runs, analysis, studies, pipeline, report, serve, cli."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import endive
from endive.transaction.paths import COMMIT_PATHS
from endive.workload import ARRIVAL_KINDS

PACKAGE = Path(endive.__file__).parent
MODULES = {
    "endive." + path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path != PACKAGE / "__init__.py"
}

LAYERS = (
    ("version", "formatting", "input_files", "output_files", "cache_directory"),
    ("arithmetic",),
    ("randomness", "steps", "storage", "table", "catalog", "transaction", "conflict_detector", "workload"),
    ("simulation",),
    ("config", "protocols", "test_utils"),
    ("runs",),
    ("analysis",),
    ("studies",),
    ("calibrate",),
    ("pipeline",),
    ("lab",),
    ("report",),
    ("results",),
    ("api",),
    ("serve",),
    ("cli", "main", "__main__", "saturation_analysis"),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
MODEL = LAYERS[1] + LAYERS[2]
ALLOWED = {"endive.config": {"endive.runs.identity"}}
"""A name that is offered where scripts look for it, and looked up only when it is asked for."""


def part(module: str) -> str:
    """The part of the package that a module belongs to: endive.storage.provider is of storage."""
    return f"{module}.".split(".")[1]


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules that a file imports, wherever in it; names imported from the package itself are modules or its version."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they lead"
            assert node.module is not None
            if node.module == "endive":
                yield from (f"endive.{alias.name}" for alias in node.names if alias.name not in ("__version__", "UNSUPPORTED"))
            else:
                yield node.module


def test_all_parts_have_a_place() -> None:
    assert {part(module) for module in MODULES} <= set(LEVEL)
    assert len(MODULES) > 40


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    own = LEVEL[part(module)]
    wrong = {name for name in imports(MODULES[module]) if name.startswith("endive.") and LEVEL[part(name)] > own}
    assert wrong - ALLOWED.get(module, set()) == set()


def test_a_name_of_a_module_exists_once() -> None:
    """A command may have the name of the module that does its work, and a step of the compiled engine that of its reference."""
    twins = ("endive.cli.", "endive.simulation.compiled.")
    names = Counter(path.stem for module, path in MODULES.items() if not module.startswith(twins) and path.stem != "__init__")
    assert [name for name, times in names.items() if times > 1] == []


@pytest.mark.parametrize("module", [module for module in MODULES if part(module) in MODEL])
def test_the_model_knows_no_engine_and_no_files_of_results(module: str) -> None:
    foreign = {name.partition(".")[0] for name in imports(MODULES[module])} - {"endive", *sys.stdlib_module_names}
    assert foreign <= {"numpy"}


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("simpy", ("endive.simulation.reference",)),
        ("numba", ("endive.simulation.compiled",)),
        ("pyspark", ("endive.pipeline", "endive.api", "endive.results")),
        ("pydantic", ("endive.config", "endive.protocols", "endive.runs", "endive.pipeline", "endive.lab")),
        ("typer", ("endive.cli", "endive.saturation_analysis")),
        ("rich", ("endive.cli", "endive.api")),
        ("altair", ("endive.report",)),
        ("starlette", ("endive.serve", "endive.lab")),
        ("uvicorn", ("endive.serve", "endive.lab")),
        ("obstore", ("endive.calibrate",)),
        ("pyiceberg", ("endive.calibrate", "endive.pipeline.iceberg_tables", "endive.lab")),
    ],
)
def test_a_library_is_used_in_its_place_only(library: str, allowed: tuple[str, ...]) -> None:
    users = [module for module, path in MODULES.items() if library in {name.partition(".")[0] for name in imports(path)}]
    assert [user for user in users if not user.startswith(allowed)] == []


def test_the_reference_engine_is_where_simpy_is() -> None:
    assert "simpy" in set(imports(MODULES["endive.simulation.reference"]))


def loaded_by(statement: str) -> set[str]:
    """The libraries that a fresh interpreter has loaded after a statement."""
    code = f"{statement}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import endive", "import endive.config"])
def test_importing_is_cheap(statement: str) -> None:
    loaded = loaded_by(statement)
    assert "endive" in loaded
    assert loaded.isdisjoint({"numba", "llvmlite", "pyspark", "py4j", "altair", "vl_convert", "pandas", "scipy"})


@cache
def string_literals(path: Path) -> tuple[tuple[str, ast.AST], ...]:
    """Return the string literals of a module with the node that each is part of, docstrings excluded."""
    return tuple(
        (node.value, parent)
        for parent in ast.walk(ast.parse(path.read_text()))
        for node in ast.iter_child_nodes(parent)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not isinstance(parent, ast.Expr)
    )


def spelled_names(path: Path) -> Iterator[str]:
    """The names of files of results that a module spells, docstrings and comments aside."""
    for text, _ in string_literals(path):
        yield from re.findall(FILE_NAMES, text)


FILE_NAMES = (
    r"\b(?:results\.parquet|(?:summary|provenance|_manifest|_state|frontier|tune)\.json|cfg\.toml|version\.txt"
    r"|trace\.parquet|by_run|by_experiment|report\.html)\b|\bpart-"
)
"""A document may have a default that is such a name; a test may spell them all."""


@pytest.mark.parametrize("module", [module for module in MODULES if module not in ("endive.runs.layout", "endive.config.schema")])
def test_names_of_files_are_spelled_in_one_place(module: str) -> None:
    assert list(spelled_names(MODULES[module])) == []


def test_a_spelled_name_would_be_found() -> None:
    assert {"results.parquet", "by_run", "part-"} <= set(spelled_names(MODULES["endive.runs.layout"]))


PROGRAM = "endive"
"""Name of the program, which the simplified commit path shares."""


def spelled_commit_paths(path: Path) -> list[str]:
    """Return the names of commit paths that a module spells. The program's name counts where something is compared with it."""
    choices = (ast.Compare, ast.Dict, ast.BoolOp, ast.IfExp, ast.Tuple, ast.Set)
    return [
        text for text, parent in string_literals(path) if text in COMMIT_PATHS and (text != PROGRAM or isinstance(parent, choices))
    ]


@pytest.mark.parametrize("module", [module for module in MODULES if module != "endive.transaction.paths"])
def test_commit_paths_are_named_in_one_module(module: str) -> None:
    assert spelled_commit_paths(MODULES[module]) == []


def test_a_spelled_commit_path_would_be_found() -> None:
    assert {"iceberg", "pyiceberg"} <= set(spelled_commit_paths(MODULES["endive.transaction.paths"]))


ORDINARY_WORDS = {"rate", "schedule", "trace", "writers"}
"""Keys of arrival kinds that are also words for other things: they count where they are a key."""


def spelled_arrival_kinds(path: Path) -> list[str]:
    """Return the keys of arrival kinds that a module spells; ``rate`` is the name of a quantity everywhere."""
    return [
        text
        for text, parent in string_literals(path)
        if text in ARRIVAL_KINDS and (text not in ORDINARY_WORDS or (isinstance(parent, ast.Subscript) and text != "rate"))
    ]


@pytest.mark.parametrize("module", [module for module in MODULES if module != "endive.workload.arrivals"])
def test_arrival_kinds_are_named_in_one_module(module: str) -> None:
    assert spelled_arrival_kinds(MODULES[module]) == []


def test_a_spelled_arrival_kind_would_be_found() -> None:
    assert {"inter_arrival", "periodic", "closed"} <= set(spelled_arrival_kinds(MODULES["endive.workload.arrivals"]))


ROOT = PACKAGE.parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def named_in_the_map() -> tuple[set[str], set[str]]:
    """What CONTRIBUTING's map names: of the package, and of the project."""
    block = CONTRIBUTING.partition("```text\n")[2].partition("```")[0]
    inside, outside = set(), set()
    for line in block.splitlines():
        indented = line.startswith("  ") and not line.startswith("   ")
        names = {name for name in line.strip().split("  ")[0].split() if name.endswith(("/", ".py"))}
        if indented:
            inside |= names
        elif line and not line.startswith(" "):
            outside |= names
    return inside, outside


def test_the_map_of_the_tree_is_the_tree() -> None:
    inside, outside = named_in_the_map()
    there = {f"{path.name}/" if path.is_dir() else path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert inside == there - {"__init__.py", "__pycache__/"}
    assert {name.partition("/")[0] for name in outside} == {
        path.name
        for path in ROOT.iterdir()
        if path.is_dir() and (any(path.glob("*.py")) or path.name in ("src", "docs", "examples"))
    }


def places_of_changes() -> dict[str, list[str]]:
    """The rows of CONTRIBUTING's table: for each change the files and folders that it names."""
    table = CONTRIBUTING.partition("## Where a change goes")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in table.splitlines() if line.startswith("| ")][1:]
    return {change: re.findall(r"`([\w/]+(?:/|\.py|\.md))`", places) for change, places in rows}


def test_every_change_has_four_places_at_most_and_they_exist() -> None:
    changes = places_of_changes()
    assert list(changes) == [
        *("operation", "catalog kind", "column", "metric", "figure"),
        *("store profile", "command", "backoff kind", "arrival kind", "commit path", "commit protocol", "failure kind"),
    ]
    for change, places in changes.items():
        found = [place for place in places if (PACKAGE / place).exists() or (ROOT / place).exists()]
        missing = [place for place in places if place not in found and place not in ("lower.py", "__init__.py")]
        assert missing == [], change
        assert 1 <= len(set(found)) <= 4, change


def test_tests_mirror_the_package() -> None:
    """Every folder of the package has one of tests, and every folder of tests belongs to one, or tests what several do."""
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    tested = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert tested - folders <= {"verification", "benchmarks", "fuzz_inputs"}
    assert folders <= tested


@pytest.mark.parametrize("statement", ["import endive.main", "import endive; endive.run"])
def test_windows_is_refused_with_a_sentence(statement: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.platform = 'win32'; {statement}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(endive.UNSUPPORTED)
    assert statement != "import endive.main" or "Traceback" not in done.stderr
