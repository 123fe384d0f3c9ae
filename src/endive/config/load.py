"""Loading of configuration files: read, translate aliases, validate, and report all problems at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from endive import input_files
from endive.config.aliases import ALIASES, Tree, UnknownClassError, canonical, classes_of, override
from endive.config.checks import cross_checks
from endive.config.components import add_sources
from endive.config.errors import ConfigError, Problem, nearest, problems_of
from endive.config.protocol_checks import resolve_protocols
from endive.config.schema import Document
from endive.input_files import UnreadableError
from endive.workload.arrivals import TRACE


def read_toml(path: Path) -> Tree:
    """Return the content of a TOML file. Raises ConfigError if it is not readable."""
    try:
        return input_files.read_toml(path)
    except UnreadableError as error:
        raise ConfigError(str(path), [Problem("", str(error))]) from None


def load_document(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Document:
    """Load and check a configuration file, with dotted keys overridden."""
    path = Path(path)
    return check_document(read_toml(path), str(path), path.parent, overrides)


def check_document(tree: Tree, source: str, directory: Path = Path(), overrides: Mapping[str, Any] | None = None) -> Document:
    """Check the content of a configuration file. Paths in it are relative to ``directory``."""
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
    problems += cross_checks(document or _sound_part(tree, broken), broken)
    if document is None or problems:
        as_spelled = [replace(problem, key=spelling.get(problem.key, problem.key)) for problem in problems]
        raise ConfigError(source, {str(problem): problem for problem in as_spelled}.values())
    return document


STUDIES = ("sweep", "frontier")
"""Tables that mark a file as a study, named like the command that runs it."""


def with_override(tree: Tree, source: str, key: str, value: Any) -> Tree:
    """Set a dotted key in the content of a file. Raises ConfigError if the key cannot be set."""
    try:
        return override(tree, key, value)
    except UnknownClassError as unknown:
        hint = nearest(unknown.name, unknown.known) if unknown.known else "the file has no classes"
        message = f"unknown class {unknown.name!r}; an override cannot add a class; {hint}"
        raise ConfigError(source, [Problem(key, message, value)]) from None
    except KeyError:
        raise ConfigError(source, [Problem(key, "cannot be set: a parent key is not a table", value)]) from None


def _sound_part(tree: Tree, broken: set[str]) -> Document:
    """Return a document of the valid sections; the others have their defaults."""
    sections = {
        name: TypeAdapter[Any](cast(Any, field.annotation)).validate_python(tree[name])
        for name, field in Document.model_fields.items()
        if name in tree and name not in broken
    }
    return Document.model_construct(**sections)


def parse_assignment(text: str) -> tuple[str, Any]:
    """Parse ``key=value`` of the command line; a value that is not TOML is a string."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError("--set", [Problem("", f"{text!r} must have the form key=value")])
    try:
        return key, input_files.parse_toml(f"value = {value}")["value"]
    except UnreadableError:
        return key, value.strip()
