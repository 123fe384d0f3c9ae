"""Collect the presets of the page: the file of ``endive serve FILE``, configurations in its directory, recipes and examples.

The page can use only files that the user's configurations refer to and, with ``--allow-code``, only the custom code of FILE.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.config.errors import ConfigError
from endive.input_files import UnreadableError, first_sentence, leading_comment
from endive.serve.messages import Tree
from endive.serve.page_configuration import files_of, read_tree
from endive.transaction.paths import ICEBERG, RETRY_POLICY
from endive.workload.arrivals import PERIODIC_JOB, WRITERS

_MOST_FILES = 40
DEFAULT: Tree = {
    "simulation": {"duration_ms": "1h"},
    "storage": {"provider": "s3"},
    "catalog": {"type": "service", "num_tables": 1, "workers": 16},
    "transaction": {"commit_path": ICEBERG.name, "retry_policy": RETRY_POLICY},
    "workload": {
        "ingest": {WRITERS.key: 12, "every_ms": "10s", "operation": "merge_append", "runtime": {"median": "3s", "sigma": 0.4}},
        "compaction": {
            PERIODIC_JOB.key: {"interval_ms": "10min", "phase_ms": "5min"},
            "operation": "rewrite_files",
            "runtime": {"median": "2min", "sigma": 0.3},
            "real_conflict_probability": 0.0,
        },
        "expiry": {
            PERIODIC_JOB.key: {"interval_ms": "10min"},
            "operation": "expire_snapshots",
            "max_snapshot_age_ms": "1h",
            "runtime": {"distribution": "fixed", "value": 0},
        },
    },
}
"""One table in S3 with a REST catalog: twelve writers that append every 10 s, compaction and snapshot expiration every 10 min."""


@dataclass(frozen=True)
class Preset:
    """Preset configuration. Preset of the page. ``name`` is unique, ``group`` is the origin, ``about`` the description."""

    name: str
    group: str
    title: str
    about: str
    path: Path | None
    code: bool = False
    """True if the configuration may have custom components."""

    def tree(self) -> Tree:
        """Read the configuration. Raises ConfigError."""
        return DEFAULT if self.path is None else read_tree(self.path, code=self.code)

    def to_json(self) -> dict[str, str]:
        """Return the entry of the page's menu."""
        return {"name": self.name, "group": self.group, "title": self.title, "about": self.about}


class Presets:
    """Presets, collected when the server starts.

    Args:
        given: FILE of ``endive serve FILE``.
        directory: Directory whose configurations are offered.
        examples: Directory of the recipes and examples of the package.
        code: Whether FILE may have custom components, which the page may then use as well.

    Raises:
        ConfigError: If FILE is not a valid configuration.
    """

    def __init__(self, given: Path | None, directory: Path, examples: Path, *, code: bool = False) -> None:
        found = [*_given(given, code), *_beside(directory, given), *_shipped(examples)]
        self.all = list({preset.name: preset for preset in found}.values())
        """Presets in the order of the menu; the page opens with the first preset."""
        self.files = frozenset(name for preset in found if preset.group == "your files" for name in _files(preset))
        self.parts: Tree = {} if given is None else found[0].tree().get("parts", {})
        """Custom components of FILE, by kind."""

    def find(self, name: str) -> Preset | None:
        """Return the preset with a name."""
        return next((preset for preset in self.all if preset.name == name), None)

    def foreign_file(self, tree: Tree) -> str | None:
        """Return a file that a configuration refers to but none of the user's files does, or None."""
        return next((name for name in sorted(files_of(tree)) if name not in self.files), None)

    def foreign_code(self, tree: Tree) -> str | None:
        """Return the first key of ``[parts]`` that differs from FILE in more than a number, or None."""
        return _find_difference(tree.get("parts", {}), self.parts, "parts")


def _find_difference(sent: Any, known: Any, key: str) -> str | None:
    """Return the first key whose value differs from the known one; numbers may differ."""
    if isinstance(sent, dict) and isinstance(known, dict):
        inside = (_find_difference(value, known.get(name), f"{key}.{name}") for name, value in sent.items())
        return next((each for each in inside if each is not None), None)
    if isinstance(sent, int | float) and isinstance(known, int | float):
        return None
    return None if type(sent) is type(known) and sent == known else key


def _files(preset: Preset) -> frozenset[str]:
    try:
        return files_of(preset.tree())
    except ConfigError:
        return frozenset()


def _given(path: Path | None, code: bool) -> Iterator[Preset]:
    if path is not None:
        yield Preset(f"file:{path.name}", "your files", path.name, _comment(path), path.resolve(), code)
    yield Preset(
        "default", "default", "Twelve writers and maintenance", "One table in S3 with a REST catalog, Iceberg's commit path.", None
    )


def _beside(directory: Path, given: Path | None) -> Iterator[Preset]:
    """Yield the configurations of the directory; other files are skipped."""
    for path in sorted(directory.glob("*.toml"))[:_MOST_FILES]:
        if given is not None and path.resolve() == given.resolve():
            continue
        try:
            read_tree(path)
        except (ConfigError, OSError):
            continue
        yield Preset(f"file:{path.name}", "your files", path.name, _comment(path), path.resolve())


def _shipped(examples: Path) -> Iterator[Preset]:
    for group, folder in (("recipes", examples / "recipes"), ("examples", examples)):
        for path in sorted(folder.glob("*.toml")):
            yield Preset(f"{group}:{path.stem}", group, path.stem.replace("_", " "), _comment(path), path)


def _comment(path: Path) -> str:
    """Return the first sentence of the leading comment of a file."""
    try:
        return first_sentence(leading_comment(path))
    except UnreadableError:
        return ""
