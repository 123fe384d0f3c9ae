"""What the page may start from: the file that was given, configurations beside it, recipes and examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.config.errors import ConfigError
from endive.reading import UnreadableError, first_sentence, leading_comment
from endive.serve.trees import Tree, files_of, read_tree

_MOST_FILES = 40
DEFAULT: Tree = {
    "simulation": {"duration_ms": "1h"},
    "storage": {"provider": "s3"},
    "catalog": {"type": "cas", "num_tables": 1},
    "transaction": {"commit_path": "iceberg", "retry_policy": "iceberg"},
    "workload": {
        "ingest": {"writers": 12, "every_ms": "10s", "operation": "merge_append", "runtime": {"median": "3s", "sigma": 0.4}},
        "compaction": {
            "periodic": {"interval_ms": "10min", "phase_ms": "5min"},
            "operation": "rewrite_files",
            "runtime": {"median": "2min", "sigma": 0.3},
        },
    },
}
"""A table in S3 that twelve jobs append to every ten seconds, and that is compacted every ten minutes."""


@dataclass(frozen=True)
class Start:
    """A configuration to start from. ``name`` is unique, ``group`` says where it is from, ``about`` what it is."""

    name: str
    group: str
    title: str
    about: str
    path: Path | None

    def tree(self) -> Tree:
        """Read it. Raises ConfigError."""
        return DEFAULT if self.path is None else read_tree(self.path)

    def described(self) -> dict[str, Any]:
        """For the page."""
        return {"name": self.name, "group": self.group, "title": self.title, "about": self.about}


class Starts:
    """All that can be started from, looked up when the server starts; files that they name may be named by the page too."""

    def __init__(self, given: Path | None, directory: Path, examples: Path) -> None:
        found = [*_given(given), *_beside(directory, given), *_shipped(examples)]
        self._by_name = {start.name: start for start in found}
        self.files = frozenset(name for start in found if start.group == "your files" for name in _named_files(start))

    @property
    def all(self) -> list[Start]:
        """In the order in which they are offered; the first is what the page opens with."""
        return list(self._by_name.values())

    def find(self, name: str) -> Start | None:
        """The start of a name."""
        return self._by_name.get(name)

    def foreign_file(self, tree: Tree) -> str | None:
        """Return a file that a configuration names though no file of the user's does; None if there is none."""
        return next((name for name in sorted(files_of(tree)) if name not in self.files), None)


def _named_files(start: Start) -> frozenset[str]:
    try:
        return files_of(start.tree())
    except ConfigError:
        return frozenset()


def _given(path: Path | None) -> Iterator[Start]:
    if path is not None:
        yield Start(f"file:{path.name}", "your files", path.name, _comment(path), path.resolve())
    yield Start("default", "to begin with", "Twelve writers and a compaction", "One table in S3, Iceberg's own commit path.", None)


def _beside(directory: Path, given: Path | None) -> Iterator[Start]:
    """Configurations in the directory; files that are something else are passed over."""
    for path in sorted(directory.glob("*.toml"))[:_MOST_FILES]:
        if given is not None and path.resolve() == given.resolve():
            continue
        try:
            read_tree(path)
        except (ConfigError, OSError):
            continue
        yield Start(f"file:{path.name}", "your files", path.name, _comment(path), path.resolve())


def _shipped(examples: Path) -> Iterator[Start]:
    for group, folder in (("recipes", examples / "recipes"), ("examples", examples)):
        for path in sorted(folder.glob("*.toml")):
            yield Start(f"{group}:{path.stem}", group, path.stem.replace("_", " "), _comment(path), path)


def _comment(path: Path) -> str:
    """What a file says of itself in the first sentence of its comment."""
    try:
        return first_sentence(leading_comment(path))
    except UnreadableError:
        return ""
