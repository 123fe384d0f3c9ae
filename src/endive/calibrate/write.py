"""An imported configuration as files: TOML with comments, and the ranges of its assumptions beside it."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tomli_w

from endive.calibrate.imported import Imported

_COMMENTS = {
    "storage": "the store",
    "catalog": "one table, whose pointer is swapped in the store",
    "table": "the table as it is at the end of the history",
    "transaction": "retries as the table's properties say, Iceberg's defaults otherwise",
}


def configuration_text(imported: Imported) -> str:
    """Return the text of the configuration file."""
    lines = [_comment(f"Made by endive import from {imported.source}.")]
    lines += [_comment(note) for note in imported.notes]
    lines += ["#", "# What a history cannot tell, and what is assumed:"]
    lines += [_comment(f"- {each.about}: {each.assumed}") for each in imported.assumptions]
    seen = {f"workload.{cls.name}": f"{len(cls.commits):,} commits, {cls.process.words}" for cls in imported.classes}
    comments = {**_COMMENTS, **seen}
    sections = {section: content for section, content in imported.tree.items() if section != "workload"}
    sections |= {f"workload.{name}": content for name, content in imported.tree["workload"].items()}
    for section, content in sections.items():
        lines += ["", *([f"# {comments[section]}"] if section in comments else []), _dumped(section, content)]
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    """One line of a comment, whatever a table's names have in them."""
    return "# " + " ".join(text.encode("utf-8", "replace").decode().split())


def _dumped(section: str, content: dict[str, Any]) -> str:
    """A section; keys with dots in them are Iceberg's names and are written as such."""
    plain = {key: value for key, value in content.items() if "." not in key}
    dotted = [f"{key} = {json.dumps(value)}" for key, value in content.items() if "." in key]
    flat = [f"{key} = {_inline(value)}" for key, value in plain.items()]
    return "\n".join([f"[{section}]", *flat, *dotted])


def _inline(value: Any) -> str:
    """A TOML value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return tomli_w.dumps({"x": value}).partition(" = ")[2].rstrip()


def assumptions_path(configuration: Path) -> Path:
    """Where the ranges of a configuration's assumptions lie."""
    return configuration.with_suffix(".assumptions.json")


def assumptions_text(imported: Imported) -> str:
    """Return the assumptions with their ranges, as JSON."""
    made = {"source": imported.source, "start_ms": imported.start_ms, "assumptions": [asdict(a) for a in imported.assumptions]}
    return json.dumps(made, indent=2) + "\n"
