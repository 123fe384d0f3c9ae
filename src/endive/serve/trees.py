"""Configurations as the page has them: nested tables with the canonical keys of a file, and only those that are given."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tomli_w

from endive.config.aliases import canonical
from endive.config.errors import ConfigError, Problem
from endive.config.load import check_document, read_toml
from endive.config.parts import ASKED, code_path
from endive.config.schema import Document

Tree = dict[str, Any]
_REMOVALS = 6
"""How often keys that a change has made useless are looked for: some are seen only when others are gone."""


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
        _table(tree, section)["retry_policy"] = policy
    for table, key in _places_of_files(tree):
        table[key] = str((path.parent / table[key]).resolve())
    for part in tree.get("parts", {}).values():
        file, name = code_path(part["code"], path.parent)
        part["code"] = f"{file.resolve()}:{name}"
    for name in ("output_path",):
        tree.get("simulation", {}).pop(name, None)
    return tree


def _take_policies(tree: Tree) -> list[tuple[str, Any]]:
    """Take retry policies away for the time of translation, which would write out what they stand for."""
    classes = tree.get("workload")
    sections = ["transaction", *(f"workload.{name}" for name in (classes if isinstance(classes, dict) else ()))]
    found = []
    for section in sections:
        table = get(tree, section)
        if isinstance(table, dict) and "retry_policy" in table:
            found.append((section, table.pop("retry_policy")))
    return found


def _table(tree: Tree, key: str) -> Tree:
    for part in key.split("."):
        tree = tree.setdefault(part, {})
    return tree


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
    return "effect" in problem.message and not related and get(tree, problem.key) is not None


def as_toml(tree: Tree, heading: str = "") -> str:
    """Write a configuration as a file, with a comment on top."""
    text = tomli_w.dumps(_ordered(tree))
    return f"{''.join(f'# {line}' + chr(10) for line in heading.splitlines())}{text}"


def _ordered(tree: Tree) -> Tree:
    """Sections in the order of the schema."""
    known = [name for name in Document.model_fields if name in tree]
    return {name: tree[name] for name in [*known, *(name for name in tree if name not in known)] if tree[name] != {}}


def get(tree: Any, key: str) -> Any:
    """Return what stands under a dotted key; None if there is nothing."""
    for part in key.split("."):
        if not isinstance(tree, dict) or part not in tree:
            return None
        tree = tree[part]
    return tree


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
