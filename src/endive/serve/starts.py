"""What the page may start from: the file that was given, configurations beside it, recipes and examples.

What the page names must stand in them: files only those that configurations of the user's do, code only that of the file that
was given, if the user allowed it to be run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endive.config.errors import ConfigError
from endive.reading import UnreadableError, first_sentence, leading_comment
from endive.serve.trees import Tree, files_of, read_tree
from endive.transaction.paths import ICEBERG, RETRY_POLICY

_MOST_FILES = 40
DEFAULT: Tree = {
    "simulation": {"duration_ms": "1h"},
    "storage": {"provider": "s3"},
    "catalog": {"type": "cas", "num_tables": 1},
    "transaction": {"commit_path": ICEBERG.name, "retry_policy": RETRY_POLICY},
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
    code: bool = False
    """Whether it may have parts of one's own."""

    def tree(self) -> Tree:
        """Read it. Raises ConfigError."""
        return DEFAULT if self.path is None else read_tree(self.path, code=self.code)

    def described(self) -> dict[str, Any]:
        """For the page."""
        return {"name": self.name, "group": self.group, "title": self.title, "about": self.about}


class Starts:
    """All that can be started from, looked up when the server starts; files that they name may be named by the page too.

    With ``code`` the file that was given may have parts of one's own, which the page may then name as well. Raises ConfigError if
    that file is none.
    """

    def __init__(self, given: Path | None, directory: Path, examples: Path, *, code: bool = False) -> None:
        found = [*_given(given, code), *_beside(directory, given), *_shipped(examples)]
        self.all = list({start.name: start for start in found}.values())
        """In the order in which they are offered; the first is what the page opens with."""
        self.files = frozenset(name for start in found if start.group == "your files" for name in _named_files(start))
        self.parts: Tree = {} if given is None else found[0].tree().get("parts", {})
        """Parts of the user's own by kind, as the file that was given has them."""

    def find(self, name: str) -> Start | None:
        """The start of a name."""
        return next((start for start in self.all if start.name == name), None)

    def foreign_file(self, tree: Tree) -> str | None:
        """Return a file that a configuration names though no file of the user's does; None if there is none."""
        return next((name for name in sorted(files_of(tree)) if name not in self.files), None)

    def foreign_code(self, tree: Tree) -> str | None:
        """Return the key of what is not as in the parts of the file that was given, numbers aside; None if all is."""
        return _differing(tree.get("parts", {}), self.parts, "parts")


def _differing(sent: Any, known: Any, key: str) -> str | None:
    """Return the key of what was sent though it is not known, or is known otherwise; one number may stand for another."""
    if isinstance(sent, dict) and isinstance(known, dict):
        inside = (_differing(value, known.get(name), f"{key}.{name}") for name, value in sent.items())
        return next((each for each in inside if each is not None), None)
    if isinstance(sent, int | float) and isinstance(known, int | float):
        return None
    return None if type(sent) is type(known) and sent == known else key


def _named_files(start: Start) -> frozenset[str]:
    try:
        return files_of(start.tree())
    except ConfigError:
        return frozenset()


def _given(path: Path | None, code: bool) -> Iterator[Start]:
    if path is not None:
        yield Start(f"file:{path.name}", "your files", path.name, _comment(path), path.resolve(), code)
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
