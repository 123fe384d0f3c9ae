"""``endive --help``: commands in the order of work, each with examples that its options allow."""

from __future__ import annotations

import re
import shlex

import pytest
from typer.main import get_command

from endive.cli.usage import EXAMPLES, GROUPS
from endive.main import app
from tests.cli import invoke

COMMANDS = getattr(get_command(app), "commands")  # noqa: B009


def test_every_command_has_its_place() -> None:
    assert [name for names in GROUPS.values() for name in names if name not in COMMANDS] == []
    assert set(COMMANDS) == {name for names in GROUPS.values() for name in names}
    text = invoke("--help").stdout
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert (
        text.index("  init ") < text.index("  validate ") < text.index("  run ") < text.index("  sweep ") < text.index("  report ")
    )


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if hasattr(command, "commands")])
def test_the_help_of_a_group_cuts_no_summary(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = " ".join(invoke(name, "--help").stdout.split())
    for each in COMMANDS[name].commands.values():
        assert " ".join(each.get_short_help_str(limit=400).split()) in text


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if not hasattr(command, "commands")])
def test_every_command_has_examples_with_options_that_it_has(name: str) -> None:
    text = invoke(name, "--help").stdout
    options = {option for parameter in COMMANDS[name].params for option in (*parameter.opts, *parameter.secondary_opts)}
    for line in EXAMPLES[name]:
        assert f"  {line}\n" in text
        words = shlex.split(line.partition(" > ")[0])
        assert words[:2] == ["endive", name]
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= options
