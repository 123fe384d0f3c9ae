"""``endive protocols``: the list of commit protocols and the file of one."""

from __future__ import annotations

import json
import tomllib

from endive.protocols.reader import builtin_names
from tests.cli import invoke


def test_protocols_are_listed_with_version_source_and_date() -> None:
    rows = json.loads(invoke("protocols", "--json").stdout)
    assert [row["name"] for row in rows] == list(builtin_names())
    assert all(row["version"] and row["source"] and row["date"] for row in rows)
    shown = invoke("protocols").stdout
    assert all(row["name"] in shown for row in rows)


def test_the_file_of_a_protocol_is_shown() -> None:
    assert tomllib.loads(invoke("protocols", "show", "lance").stdout)["name"] == "lance"
    assert json.loads(invoke("protocols", "show", "lance", "--json").stdout)["retries"]["limit"] == 19


def test_an_unknown_protocol_gets_the_nearest_name() -> None:
    found = invoke("protocols", "show", "lanc")
    assert found.exit_code != 0
    assert "did you mean 'lance'" in found.stderr
