"""Configurations as the page has them: nested tables with the canonical keys of a file, and only those that are given."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from endive.config.aliases import canonical, value_at
from endive.config.errors import ConfigError, Problem
from endive.config.load import check_document, read_toml
from endive.config.parts import ASKED, code_path
from endive.config.schema import Document

Tree = dict[str, Any]
_REMOVALS = 6
"""How often keys that a change has made useless are looked for: some are seen only when others are gone."""
_QUICK_REFERENCE_S = 1.0
"""What the reference engine does in this time is not worth waiting for a kernel."""


@dataclass(frozen=True)
class Prepared:
    """A configuration that was checked: what it is, what was left out of it, and what one run of it costs."""

    tree: Tree
    document: Document
    left_out: tuple[str, ...]
    toml: str
    warnings: tuple[str, ...]
    assumed: tuple[str, ...]
    transactions: float
    cpu_s: float
    """Of one run, on the engine that it will be run by once that is compiled."""
    reference_s: float
    ready: bool
    """Whether its engine is there, and no kernel has to be compiled for it."""

    @property
    def patient(self) -> bool:
        """Whether to wait for a kernel rather than to take the reference engine."""
        return not self.ready and self.reference_s > _QUICK_REFERENCE_S

    @property
    def first_s(self) -> float:
        """What a run takes now."""
        return self.cpu_s if self.ready else self.reference_s


def read_tree(path: Path, *, code: bool = False) -> Tree:
    """Read a configuration for the page: canonical keys, files that it names by their whole paths.

    Raises ConfigError, also if it has parts of one's own, which are ``code``, and that is not allowed.
    """
    tree = read_toml(path)
    if tree.get("parts") and not code:
        raise ConfigError(str(path), [Problem("parts", ASKED)])
    check_document(tree, str(path), path.parent)
    policies = _take_policies(tree)
    tree, _, problems = canonical(tree)
    if problems:
        raise ConfigError(str(path), problems)
    for section, policy in policies:
        tree = put(tree, f"{section}.retry_policy", policy)
    for table, key in _places_of_files(tree):
        table[key] = str((path.parent / table[key]).resolve())
    for part in tree.get("parts", {}).values():
        file, name = code_path(part["code"], path.parent)
        part["code"] = f"{file.resolve()}:{name}"
    tree.get("simulation", {}).pop("output_path", None)
    return tree


def _take_policies(tree: Tree) -> list[tuple[str, Any]]:
    """Take retry policies away for the time of translation, which would write out what they stand for."""
    classes = tree.get("workload")
    sections = ["transaction", *(f"workload.{name}" for name in (classes if isinstance(classes, dict) else ()))]
    found = []
    for section in sections:
        table = value_at(tree, section)
        if isinstance(table, dict) and "retry_policy" in table:
            found.append((section, table.pop("retry_policy")))
    return found


def files_of(tree: Tree) -> frozenset[str]:
    """Return the files that a configuration names: profiles of stores, traces."""
    return frozenset(str(table[key]) for table, key in _places_of_files(tree))


def _places_of_files(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for section in ("storage", "catalog"):
        table = tree.get(section)
        if isinstance(table, dict) and isinstance(table.get("provider"), str) and table["provider"].endswith(".toml"):
            yield table, "provider"
    classes = tree.get("workload")
    for cls in classes.values() if isinstance(classes, dict) else ():
        if isinstance(cls, dict) and isinstance(cls.get("trace"), str):
            yield cls, "trace"


def settle(tree: Tree, changed: str | None) -> tuple[Tree, Document, list[str]]:
    """Check a configuration; where the key ``changed`` has made others useless, leave these out, and say which.

    Raises ConfigError with what is wrong apart from them.
    """
    nulls = [Problem(key, "is null, which no file can say; leave it out") for key in _nulls(tree, ())]
    if nulls:
        raise ConfigError("configuration", nulls)
    left_out: list[str] = []
    current = tree
    for _ in range(_REMOVALS):
        try:
            return current, check_document(current, "configuration"), left_out
        except ConfigError as error:
            useless = [problem.key for problem in error.problems if changed and _is_useless(problem, current, changed)]
            if not useless:
                raise
            current = copy.deepcopy(current)
            for key in useless:
                remove(current, key)
            left_out += useless
    return current, check_document(current, "configuration"), left_out


def _nulls(node: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys that a page has sent without a value."""
    if node is None:
        yield ".".join(path)
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from _nulls(child, (*path, key))
    elif isinstance(node, list):
        for child in node:
            yield from _nulls(child, path)


def _is_useless(problem: Problem, tree: Tree, changed: str) -> bool:
    related = f"{changed}.".startswith(f"{problem.key}.") or f"{problem.key}.".startswith(f"{changed}.")
    return "effect" in problem.message and not related and value_at(tree, problem.key) is not None


def as_toml(tree: Tree) -> str:
    """Write a configuration as a file, its sections in the order of the schema."""
    names = dict.fromkeys([*(name for name in Document.model_fields if name in tree), *tree])
    return tomli_w.dumps({name: tree[name] for name in names if tree[name] != {}})


def put(tree: Tree, key: str, value: Any) -> Tree:
    """Return the configuration with a dotted key set, whatever stood in the way; the one given stays as it is."""
    made = copy.deepcopy(tree)
    *path, last = key.split(".")
    node = made
    for part in path:
        if not isinstance(node.get(part), dict):
            node[part] = {}
        node = node[part]
    node[last] = value
    return made


def remove(tree: Tree, key: str) -> None:
    """Take a dotted key away, with the tables that it leaves empty, if it is there."""
    first, _, rest = key.partition(".")
    if first not in tree:
        return
    if rest and isinstance(tree[first], dict):
        remove(tree[first], rest)
        if not tree[first]:
            del tree[first]
    elif not rest:
        del tree[first]
