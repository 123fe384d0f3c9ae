"""Read configuration files: translate aliases of keys, fill in defaults of protocols, and report all problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from endive import input_files
from endive.config.checks import cross_checks
from endive.config.components import add_sources
from endive.config.errors import ConfigError, Problem, nearest, problems_of
from endive.config.schema import Document
from endive.input_files import DEEPEST, UnreadableError
from endive.protocols import reader
from endive.transaction.paths import ICEBERG_RETRY_PROPERTIES, RETRY_POLICY
from endive.transaction.protocol_path import SERVICE_POINTS, Protocol
from endive.workload.arrivals import TRACE


def read_toml(path: Path) -> Tree:
    """Return the content of a TOML file. Raises ConfigError if the file is not readable."""
    try:
        return input_files.read_toml(path)
    except UnreadableError as error:
        raise ConfigError(str(path), [Problem("", str(error))]) from None


def load_document(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Document:
    """Load and check a configuration file, with some dotted keys overridden."""
    path = Path(path)
    return check_document(read_toml(path), str(path), path.parent, overrides)


def check_document(tree: Tree, source: str, directory: Path = Path(), overrides: Mapping[str, Any] | None = None) -> Document:
    """Check the content of a configuration file, and return the document. Paths in the file are relative to ``directory``."""
    studies = [name for name in STUDIES if name in tree]
    if studies and "simulation" not in tree:
        name = studies[0]
        raise ConfigError(source, [Problem("", f"is a study ([{name}]), not a configuration; run it with `endive {name}`")])
    for key, value in (overrides or {}).items():
        tree = with_override(tree, source, key, value)
    for key in tree:
        if not input_files.is_text(key):
            raise ConfigError(source, [Problem(ascii(key)[1:-1], "contains an unpaired surrogate")])
    tree, spelling, problems = canonical(tree)
    for section in ("storage", "catalog"):
        table = tree.get(section)
        provider = table.get("provider") if isinstance(table, dict) else None
        if isinstance(provider, str) and provider.endswith(".toml"):
            tree[section]["provider"] = str(directory / provider)
    for cls in classes_of(tree).values():
        path = cls.get(TRACE.key) if isinstance(cls, dict) else None
        if isinstance(path, str) and path:
            cls[TRACE.key] = str(directory / path)
    problems += add_sources(tree, directory)
    unreadable = resolve_protocols(tree, directory)
    problems += unreadable
    document, broken = None, {"transaction", "workload"} if unreadable else set()
    try:
        document = Document.model_validate(tree) if not unreadable else None
    except ValidationError as error:
        problems += problems_of(error, tree, Document, tuple(ALIASES))
        broken |= {str(item["loc"][0]) for item in error.errors()}
    problems += cross_checks(document or _make_valid_part(tree, broken), broken)
    if document is None or problems:
        as_spelled = [replace(problem, key=spelling.get(problem.key, problem.key)) for problem in problems]
        raise ConfigError(source, {str(problem): problem for problem in as_spelled}.values())
    return document


STUDIES = ("sweep", "frontier")
"""Tables that mark a file as a study. Each has the name of the command that runs the study."""


def with_override(tree: Tree, source: str, key: str, value: Any) -> Tree:
    """Set a dotted key in the content of a file. Raises ConfigError if the key cannot be set."""
    try:
        return override(tree, key, value)
    except UnknownClassError as unknown:
        hint = nearest(unknown.name, unknown.known) if unknown.known else "the file has no classes"
        message = f"unknown class {unknown.name!r}, and an override cannot add a class; {hint}"
        raise ConfigError(source, [Problem(key, message, value)]) from None
    except KeyError:
        raise ConfigError(source, [Problem(key, "cannot be set: a parent key is not a table", value)]) from None


def _make_valid_part(tree: Tree, broken: set[str]) -> Document:
    """Return a document that contains the valid sections, and defaults for all others."""
    sections = {
        name: TypeAdapter[Any](cast(Any, field.annotation)).validate_python(tree[name])
        for name, field in Document.model_fields.items()
        if name in tree and name not in broken
    }
    return Document.model_construct(**sections)


def parse_assignment(text: str) -> tuple[str, Any]:
    """Parse ``key=value`` from the command line. A value that is not TOML is a string."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError("--set", [Problem("", f"{text!r} must have the form key=value")])
    try:
        return key, input_files.parse_toml(f"value = {value}")["value"]
    except UnreadableError:
        return key, value.strip()


Tree = dict[str, Any]

ALIASES: dict[str, str] = {
    "catalog.mode": "catalog.type",
    "catalog.group_size_distribution": "catalog.group_sizes",
    "partition.num_partitions": "catalog.partitions.num_partitions",
    "partition.partitions_per_txn_mean": "transaction.partitions_per_txn",
    "partition.selection.distribution": "transaction.partition_selection.distribution",
    "partition.selection.zipf_alpha": "transaction.partition_selection.alpha",
    "storage.MIN_LATENCY": "storage.min_latency_ms",
    "storage.min_latency": "storage.min_latency_ms",
    "storage.MAX_PARALLEL": "storage.max_parallel",
    "transaction.max_parallel": "storage.max_parallel",
    "transaction.max_retries": "transaction.retry",
    "transaction.ntable.zipf": "transaction.tables_per_txn.zipf",
    "transaction.seltbl.zipf": "transaction.table_selection.alpha",
}
"""Keys of the schema by alias."""

_MANIFEST = {
    "commit.manifest.min-count-to-merge": "min_count_to_merge",
    "commit.manifest.target-size-bytes": "target_bytes",
    "commit.manifest-merge.enabled": "merge_manifests",
}
EXPIRY_PROPERTIES = {
    "history.expire.max-snapshot-age-ms": "max_snapshot_age_ms",
    "history.expire.min-snapshots-to-keep": "min_snapshots_to_keep",
}
_PROPERTIES = {
    **{old: ("transaction", new) for old, new in {**ICEBERG_RETRY_PROPERTIES, **EXPIRY_PROPERTIES}.items()},
    **{old: ("table", new) for old, new in _MANIFEST.items()},
}
"""Section and key that correspond to each Iceberg table property."""
_TIMES = {"every": "every_ms", "start": "start_ms", "end": "end_ms"}
_OF_CLASSES = {**ICEBERG_RETRY_PROPERTIES, **EXPIRY_PROPERTIES, **_TIMES}
ALIASES |= {f"{section}.{old}": f"{section}.{new}" for old, (section, new) in _PROPERTIES.items()}

ICEBERG_RETRY: Tree = {
    "retry": 4,
    "retry_backoff": {"enabled": True, "base_ms": 100.0, "multiplier": 2.0, "max_ms": 60_000.0, "jitter": 0.1},
    "total_timeout_ms": 1_800_000.0,
}
"""Settings that ``retry_policy = "iceberg"`` selects."""

_OLD_SECTIONS = {
    "partition": ("enabled", "num_partitions", "partitions_per_txn_mean", "selection"),
    "partition.selection": ("distribution", "zipf_alpha"),
    "transaction.ntable": ("zipf",),
    "transaction.seltbl": ("zipf",),
}
"""Keys of the sections that exist only as aliases."""


def canonical(document: Tree) -> tuple[Tree, dict[str, str], list[Problem]]:
    """Translate aliases. Return the document, the alias of each translated key, and the problems of aliases."""
    document = _copy(document)
    problems = _check_old_sections(document)
    spelling: dict[str, str] = {}
    partition = document.get("partition")
    if isinstance(partition, dict):
        enabled = partition.pop("enabled", True)
        if not isinstance(enabled, bool):
            problems.append(Problem("partition.enabled", "should be true or false", enabled))
        elif not enabled:
            document.pop("partition")
        elif value_at(document, "transaction.partitions_per_txn") is None:
            partition.setdefault("partitions_per_txn_mean", 1)
    alpha = value_at(document, "transaction.seltbl.zipf")
    if alpha is not None and isinstance(value_at(document, "transaction.table_selection"), dict):
        message = "is an alias of transaction.table_selection; keep one of them"
        problems.append(Problem("transaction.seltbl.zipf", message, alpha))
        _remove(document, "transaction.seltbl.zipf")
    for old, new in (*ALIASES.items(), *_class_aliases(document)):
        value = value_at(document, old)
        if value is None:
            continue
        _remove(document, old)
        if value_at(document, new) is not None:
            problems.append(Problem(old, f"is an alias of {new}; keep one of them", value))
        elif not _put(document, new, value):
            problems.append(
                Problem(old, f"is an alias of {new}, which is set to a value that is not a table; keep one of them", value)
            )
        else:
            spelling[new] = old
            if old == "transaction.seltbl.zipf":
                _put(document, "transaction.table_selection.distribution", "zipf")
    if document.get("partition") == {}:
        document.pop("partition")
    for section in (document.get("transaction"), *classes_of(document).values()):
        if isinstance(section, dict) and section.get("retry_policy") == RETRY_POLICY:
            fill_defaults(section, ICEBERG_RETRY)
    return document, spelling, problems


def _class_aliases(document: Tree) -> list[tuple[str, str]]:
    """Return the aliases of class keys: Iceberg's table properties for retries, and names of times without the unit."""
    names = _class_names(document)
    return [(f"workload.{name}.{old}", f"workload.{name}.{new}") for name in names for old, new in _OF_CLASSES.items()]


def _class_names(document: Tree) -> list[str]:
    return [name for name in classes_of(document) if "." not in name]


def classes_of(document: Tree) -> Tree:
    """Return the classes of a document by name; empty if ``workload`` is not a table."""
    classes = document.get("workload")
    return classes if isinstance(classes, dict) else {}


def _spellings(aliases: Mapping[str, str], meaning: str) -> list[str]:
    return [old for old, new in aliases.items() if new == meaning]


def fill_defaults(section: Tree, defaults: Tree) -> None:
    """Fill in the defaults of keys that are not set, including those in nested tables."""
    for key, value in defaults.items():
        if isinstance(value, dict) and isinstance(section.get(key), dict):
            fill_defaults(section[key], value)
        else:
            section.setdefault(key, _copy(value))


def override(document: Tree, key: str, value: Any) -> Tree:
    """Return the document with a dotted key set and its aliases removed. ``--set`` and sweeps use this function.

    An Iceberg table property (``commit.retry.num-retries``) applies to all classes and overrides their settings.

    Raises:
        KeyError: If a parent of the key is not a table.
        UnknownClassError: If the document does not have the class of the key.
    """
    if key in _PROPERTIES:
        section, meaning = _PROPERTIES[key]
        own = [f"workload.{name}.{meaning}" for name in _class_names(document) if section == "transaction"]
        spelled = dict(_class_aliases(document))
        given = [each for each in own if any(value_at(document, old) is not None for old in (each, *_spellings(spelled, each)))]
        for each in (f"{section}.{meaning}", *given):
            document = override(document, each, value)
        return document
    parts = key.split(".")
    if len(parts) > DEEPEST:
        raise KeyError(key)
    document = _copy(document)
    if parts[0] == "workload" and len(parts) > 1 and parts[1] not in classes_of(document):
        raise UnknownClassError(parts[1], tuple(classes_of(document)))
    spellings = {**ALIASES, **dict(_class_aliases(document))}
    meaning = spellings.get(key, key)
    for other in (meaning, *(old for old, new in spellings.items() if f"{new}.".startswith(f"{meaning}."))):
        if other != key and value_at(document, other) is not None:
            _remove(document, other)
    if not _put(document, key, value):
        raise KeyError(key)
    return document


class UnknownClassError(KeyError):
    """Raised for a key of a workload class that does not exist, because only files can create classes."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name)
        self.name = name
        self.known = known


def _check_old_sections(document: Tree) -> list[Problem]:
    """Report and remove unknown keys of the sections that exist only as aliases."""
    problems: list[Problem] = []
    for section, keys in _OLD_SECTIONS.items():
        table = value_at(document, section)
        if table is None:
            continue
        if not isinstance(table, dict):
            problems.append(Problem(section, "should be a table", table))
            _remove(document, section)
            continue
        for key in [key for key in table if key not in keys]:
            problems.append(Problem(f"{section}.{key}", f"unknown key; {nearest(key, keys)}"))
            del table[key]
        if not table:
            _remove(document, section)
    return problems


def _copy(value: Any) -> Any:
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def value_at(document: Tree, key: str) -> Any:
    """Return the value of a dotted key, or None if it is not set."""
    node: Any = document
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def _put(document: Tree, key: str, value: Any) -> bool:
    *path, last = key.split(".")
    node: Any = document
    for part in path:
        node = node.setdefault(part, {})
        if not isinstance(node, dict):
            return False
    node[last] = value
    return True


def _remove(document: Tree, key: str) -> None:
    """Remove a key, and the tables that are empty without it."""
    first, _, rest = key.partition(".")
    if rest:
        _remove(document[first], rest)
    if not rest or not document[first]:
        del document[first]


def resolve_protocols(tree: Tree, directory: Path) -> list[Problem]:
    """Make the paths of protocol files absolute, fill in the defaults of protocols, and return the problems of the files."""
    problems: list[Problem] = []
    transaction = tree.get("transaction")
    shared = transaction if isinstance(transaction, dict) else {}
    for key, section in (("transaction", shared), *((f"workload.{name}", cls) for name, cls in classes_of(tree).items())):
        name = section.get("commit_path") if isinstance(section, dict) else None
        if not isinstance(name, str) or not reader.is_protocol(name):
            continue
        if name.endswith(".toml"):
            name = section["commit_path"] = str(directory / name)
        try:
            found = reader.find_protocol(name)
        except ConfigError as error:
            problems += [Problem(f"{key}.commit_path", f"{error.source}: {each}") for each in error.problems]
            continue
        own = section is not shared
        fill_defaults(section, {key: value for key, value in found.settings.items() if not (own and key in shared)})
        _fill_catalog(tree, found.protocol)
    return problems


def _fill_catalog(tree: Tree, protocol: Protocol) -> None:
    catalog = tree.setdefault("catalog", {})
    if not isinstance(catalog, dict):
        return  # reported by the schema
    if protocol.commit_point in SERVICE_POINTS:
        catalog.setdefault("type", "service")
    if catalog.get("type") == "service":
        catalog.setdefault("writes_metadata", False)
    tables = catalog.get("num_tables", 1)
    catalog.setdefault("num_groups", 1 if protocol.scope == "lake" else tables)
