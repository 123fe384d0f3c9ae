"""Read, check and change configurations of the page, and describe its form.

A configuration consists of nested tables with the canonical keys of a file and no defaults. The form comes from the JSON schema of
configurations (``endive schema``): each key has an input control with description, unit, bounds and default. The control of a
number, word or duration takes the plain value. Other values are entered as TOML.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w

from endive.catalog.kinds import CATALOG_KINDS
from endive.config.components import ASKED, code_path
from endive.config.errors import ConfigError, Problem
from endive.config.load import canonical, check_document, read_toml, value_at
from endive.config.schema import CLASS_KEYS, Document, json_schema
from endive.input_files import DEEPEST, UnreadableError, first_sentence, leading_comment
from endive.report import phrases
from endive.serve.messages import Tree
from endive.storage import builtin_profiles
from endive.table import OPERATION_CODES
from endive.transaction.paths import COMMIT_PATHS, ICEBERG, RETRY_POLICY
from endive.workload.arrivals import ARRIVAL_KINDS, PERIODIC_JOB, TRACE, WRITERS

_REMOVALS = 6
"""Maximum number of rounds that remove keys without effect. Some of these keys are detected only after others are removed."""


def read_tree(path: Path, *, code: bool = False) -> Tree:
    """Read a configuration, with canonical keys and absolute paths.

    Raises:
        ConfigError: If the file is not valid, or has custom components and ``code`` does not permit them.
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
    for table, key in _file_keys(tree):
        table[key] = str((path.parent / table[key]).resolve())
    for part in tree.get("parts", {}).values():
        file, name = code_path(part["code"], path.parent)
        part["code"] = f"{file.resolve()}:{name}"
    tree.get("simulation", {}).pop("output_path", None)
    return tree


def _take_policies(tree: Tree) -> list[tuple[str, Any]]:
    """Remove retry policies, which the translation of keys would expand, and return them by section."""
    classes = tree.get("workload")
    sections = ["transaction", *(f"workload.{name}" for name in (classes if isinstance(classes, dict) else ()))]
    found = []
    for section in sections:
        table = value_at(tree, section)
        if isinstance(table, dict) and "retry_policy" in table:
            found.append((section, table.pop("retry_policy")))
    return found


def files_of(tree: Tree) -> frozenset[str]:
    """Return the files that a configuration refers to: latency profiles and traces."""
    return frozenset(str(table[key]) for table, key in _file_keys(tree))


def _file_keys(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for section in ("storage", "catalog"):
        table = tree.get(section)
        if isinstance(table, dict) and isinstance(table.get("provider"), str) and table["provider"].endswith(".toml"):
            yield table, "provider"
    classes = tree.get("workload")
    sections = [tree.get("transaction"), *(classes.values() if isinstance(classes, dict) else ())]
    for section in sections:
        if isinstance(section, dict) and str(section.get("commit_path")).endswith(".toml"):
            yield section, "commit_path"
    for cls in classes.values() if isinstance(classes, dict) else ():
        if isinstance(cls, dict) and isinstance(cls.get(TRACE.key), str):
            yield cls, TRACE.key


def settle(tree: Tree, changed: str | None) -> tuple[Tree, Document, list[str]]:
    """Check a configuration, and remove the keys that have no effect after a change of the key ``changed``.

    Returns:
        The configuration, its document, and the removed keys.

    Raises:
        ConfigError: If the configuration is not valid for another reason.
    """
    nulls = [Problem(key, "must not be null; omit the key") for key in _nulls(tree, ())]
    if nulls:
        raise ConfigError("configuration", nulls)
    left_out: list[str] = []
    current = tree
    for _ in range(_REMOVALS):
        try:
            return current, check_document(current, "configuration"), left_out
        except ConfigError as error:
            idle = [problem.key for problem in error.problems if changed and _has_no_effect(problem, current, changed)]
            if not idle:
                raise
            current = copy.deepcopy(current)
            for key in idle:
                remove(current, key)
            left_out += idle
    return current, check_document(current, "configuration"), left_out


def _nulls(node: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys with the value null."""
    if node is None:
        yield ".".join(path)
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from _nulls(child, (*path, key))
    elif isinstance(node, list):
        for child in node:
            yield from _nulls(child, path)


def _has_no_effect(problem: Problem, tree: Tree, changed: str) -> bool:
    related = f"{changed}.".startswith(f"{problem.key}.") or f"{problem.key}.".startswith(f"{changed}.")
    return "effect" in problem.message and not related and value_at(tree, problem.key) is not None


def as_toml(tree: Tree) -> str:
    """Return a configuration as TOML, with sections in the order of the schema."""
    names = dict.fromkeys([*(name for name in Document.model_fields if name in tree), *tree])
    return tomli_w.dumps({name: tree[name] for name in names if tree[name] != {}})


def put(tree: Tree, key: str, value: Any) -> Tree:
    """Return a copy of the configuration with a dotted key set; conflicting values are replaced.

    Raises:
        ConfigError: If the key is nested too deeply.
    """
    *path, last = key.split(".")
    if len(path) >= DEEPEST:
        raise ConfigError("configuration", [Problem(f"{key[:40]}…", f"the key is nested more than {DEEPEST} deep")])
    made = copy.deepcopy(tree)
    node = made
    for part in path:
        if not isinstance(node.get(part), dict):
            node[part] = {}
        node = node[part]
    node[last] = value
    return made


def remove(tree: Tree, key: str) -> None:
    """Remove a dotted key, if present, and the tables that this leaves empty."""
    first, _, rest = key.partition(".")
    if first not in tree:
        return
    if rest and isinstance(tree[first], dict):
        remove(tree[first], rest)
        if not tree[first]:
            del tree[first]
    elif not rest:
        del tree[first]


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
    """Preset of the page: a configuration with a unique name, a group (its origin), a title and a description."""

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
        """Return a file that only this configuration refers to, and none of the user's files; None without such a file."""
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


_LEFT_OUT = {"simulation.seed", "simulation.output_path", "simulation.engine", "experiment"}
"""Keys that are not in the form, because the page chooses the seeds and stores the results."""
_TITLES = {
    "simulation": "Run",
    "storage": "Object store",
    "catalog": "Catalog",
    "table": "Table metadata (Iceberg clients)",
    "transaction": "Transactions (all classes)",
    "failures": "Failures",
}
_DEFAULTS: dict[str, Any] = {"simulation": {"duration_ms": "1h"}, "storage": {"provider": "s3"}}

Field = dict[str, Any]


@cache
def form() -> dict[str, Any]:
    """Return the sections of the form for a configuration and for a workload class, with their fields."""
    schema = json_schema()
    defaults = Document.model_validate(_DEFAULTS).model_dump(by_alias=True)
    tables = schema["properties"]
    sections = [
        {"name": name, "title": title, "fields": list(_fields(schema, _resolved(schema, tables[name]), name, "", defaults[name]))}
        for name, title in _TITLES.items()
    ]
    of_class = {key: schema["$defs"]["ClassSection"]["properties"][key] for key in CLASS_KEYS}
    inherited = schema["$defs"]["Transactions"]["properties"]
    for key, property_ in of_class.items():
        if "description" not in property_ and "description" in inherited.get(key, {}):
            of_class[key] = {**property_, "description": inherited[key]["description"]}
    return {
        "sections": sections,
        "class": list(_fields(schema, {"properties": of_class}, "workload", "", {})),
        "arrivals": [
            {
                "key": kind.key,
                "label": kind.label,
                "keys": [kind.key, *kind.companions],
                "example": dict(kind.example),
                "controls": [
                    {"path": each.path, "label": each.label, "quantity": each.quantity} for each in kind.numbers if each.label
                ],
            }
            for kind in ARRIVAL_KINDS.values()
        ],
        "operations": [{"value": name, "label": phrases.name_operation(name)} for name in OPERATION_CODES],
        "clients": [{"value": path.name, "label": path.client.removeprefix("the ")} for path in COMMIT_PATHS.values()],
        "stores": _stores(),
        "catalogs": [{"value": kind.name, "label": _CATALOGS.get(kind.name, kind.word)} for kind in CATALOG_KINDS.values()],
    }


_CATALOGS = {
    "cas": "catalog file (CAS)",
    "append": "catalog log (append)",
    "service": "service (REST, JDBC)",
    "instant": "ideal, fixed latency",
}


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in node:
        return node
    found: dict[str, Any] = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return found


def _fields(schema: dict[str, Any], section: dict[str, Any], name: str, prefix: str, defaults: Any) -> Iterator[Field]:
    for key, node in section["properties"].items():
        path = f"{prefix}{key}"
        if f"{name}.{path}" in _LEFT_OUT:
            continue
        default = defaults.get(key) if isinstance(defaults, dict) else None
        branches = [_resolved(schema, branch) for branch in node.get("anyOf", [node]) if branch.get("type") != "null"]
        field = {"path": path, "label": _label(name, path), "description": _plain(node.get("description", ""))}
        tables = [branch for branch in branches if branch.get("type") == "object" and "properties" in branch]
        if tables and len(branches) == 1:
            inside = list(_fields(schema, tables[0], name, f"{path}.", default or {}))
            yield {**field, "kind": "table", "fields": inside}
            continue
        yield {**field, **_control(f"{name}.{path}", branches), "default": _shown(default)}


def _control(key: str, branches: list[dict[str, Any]]) -> Field:
    """Return the input control for a key, with bounds or choices."""
    if key in ("storage.provider", "catalog.provider"):
        return {"kind": "choice", "options": _stores(), "open": True}
    first, bounds = branches[0], _bounds(branches[0])
    kinds = [branch.get("type") for branch in branches]
    choices = first.get("enum") or ([first["const"]] if "const" in first else [])
    if choices and len(branches) == 1:
        return {"kind": "choice", "options": [{"value": value, "label": _option(key, value)} for value in choices]}
    if kinds == ["boolean"]:
        return {"kind": "switch"}
    if kinds in (["integer"], ["number"]):
        return {"kind": "number", "whole": kinds == ["integer"], **bounds, "unit": _unit(key)}
    if len(branches) == 2 and kinds == ["number", "string"] and "pattern" in branches[1]:
        return {"kind": "duration", **bounds, "unit": "ms, unless the value has a unit, such as 90s, 4min or 1h"}
    if kinds == ["string"]:
        return {"kind": "text"}
    return {"kind": "toml"}


def _bounds(branch: dict[str, Any]) -> Field:
    names = {"minimum": "min", "maximum": "max", "exclusiveMinimum": "above"}
    return {short: branch[long] for long, short in names.items() if long in branch}


def _stores() -> list[dict[str, str]]:
    return [{"value": name, "label": phrases.name_value("storage_provider", name)} for name in builtin_profiles()]


def _option(key: str, value: Any) -> str:
    if key == "catalog.type":
        return _CATALOGS.get(str(value), str(value))
    return phrases.name_operation(value) if key.endswith(".operation") else str(value).replace("_", " ")


def _label(name: str, path: str) -> str:
    """Return the label of a key, without the name of its section: ``manifest size`` for ``table.manifest_bytes``."""
    last = path.rpartition(".")[2]
    if last.isupper():
        return last
    if "." in path:
        word, unit = last.removesuffix("_ms").removesuffix("_bytes").replace("_", " "), "bytes" if last.endswith("_bytes") else ""
    else:
        section = "transaction" if name == "workload" else name
        word, unit = phrases.name_parameter(f"param_{section}_{path}")
        word = word.removeprefix(f"{section} ")
    return f"{word} size" if unit == "bytes" and "size" not in word else word


def _unit(key: str) -> str:
    for suffix, unit in (("_bytes", "bytes"), ("_ms", "ms"), (".rate", "transactions per second"), ("_ms_per_mib", "ms per MiB")):
        if key.endswith(suffix):
            return unit
    return ""


def _shown(default: Any) -> Any:
    return default if isinstance(default, bool | int | float | str) else None


def _plain(text: str) -> str:
    return text.replace("`", "")
