"""Every latency of a built-in object store states its source or that it is an assumption."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import endive.storage

PROFILES = sorted((Path(endive.storage.__file__).parent / "profile_data").glob("*/*.toml"))
EVIDENCE = ("https://", "VLDB", "assumption", "data not published", "by definition")


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_source_has_a_reference_or_is_an_assumption(path: Path) -> None:
    parts = tomllib.loads(path.read_text())["source"].split("; ")
    assert [part for part in parts if "as in set" in part] == []
    assert any(word in part for part in parts for word in EVIDENCE)
    assert [part for part in parts if ":" in part and not any(word in part for word in EVIDENCE)] == []
