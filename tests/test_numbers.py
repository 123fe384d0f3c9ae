"""Numbers in the documentation: a sample is made again here; ``python docs/check_numbers.py`` makes all of them."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def numbers() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_numbers", ROOT / "docs" / "check_numbers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_numbers"] = module
    spec.loader.exec_module(module)
    return module


PAGE = """
Save this as `a.toml`:

```toml
x = 1
```

```console
$ endive run a.toml --set \\
      b=2    # a remark
one   1.5 s
[...]
three 3
$ ls
a.toml
```
"""


def test_commands_and_files_of_a_page_are_found(numbers: ModuleType) -> None:
    file, command = numbers.shown_in("page", PAGE)
    assert file == ("a.toml", "x = 1\n")
    assert (command.command, command.lines) == ("endive run a.toml --set        b=2", ("one   1.5 s", "[...]", "three 3"))


def test_missing_output_lines_are_reported(numbers: ModuleType) -> None:
    *_, command = numbers.shown_in("page", PAGE)
    assert numbers.missing(command, ["one 2.7 s", "two", "three  3"]) == []
    assert numbers.missing(command, ["one 2.7 s", "three 4"]) == ["three 3"]
    assert numbers.rewritten(command, ["one   1.5 s", "two", "three 4"]) == ["one   1.5 s", "[...]", "three 4"]


def test_rows_of_tables_are_checked_against_their_command(numbers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    row = "| simple | 51 appends/s (48 to 57) | `endive frontier a.toml` |"
    answer = {"load": 6.88, "low": 6.2, "high": 12.34}
    monkeypatch.setattr(numbers, "run", lambda command, folder, errors: [json.dumps(answer)])
    found = list(numbers.check_rows("page", f"| form |\n{row}\n", Path()))
    assert found == [(row, "| simple | 6.9 appends/s (6.2 to 12) | `endive frontier a.toml` |")]
    assert list(numbers.check_rows("page", found[0][1], Path())) == []


def test_the_frontiers_of_the_guide_are_rows_that_are_checked(numbers: ModuleType) -> None:
    guide = (ROOT / "docs/guides/decisions.md").read_text(encoding="utf-8")
    assert len(numbers._ROW.findall(guide)) == guide.count("| `endive frontier examples/frontier/") == 4


def test_the_first_run_of_the_tutorial_prints_its_block(numbers: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    first = next(
        each for each in numbers.shown_in("docs/tutorial.md", page) if isinstance(each, numbers.Shown) and " run " in each.command
    )
    assert numbers.missing(first, numbers.run(first.command, tmp_path)) == []
