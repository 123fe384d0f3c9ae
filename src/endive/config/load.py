"""From a file to a checked document: read, translate, validate, and report all that is wrong at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from endive.config.aliases import ALIASES, Tree, canonical, override
from endive.config.checks import cross_checks
from endive.config.errors import ConfigError, Problem, closest, nearest
from endive.config.schema import Document


def read_toml(path: Path) -> Tree:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(str(path), [Problem("", "there is no such file")]) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), [Problem("", f"cannot be read: {error}")]) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), [Problem("", f"is not TOML: {error}")]) from error


def load_document(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Document:
    """A checked document from a file, with dotted keys overridden."""
    path = Path(path)
    return check_document(read_toml(path), str(path), path.parent, overrides)


def check_document(tree: Tree, source: str, directory: Path = Path(), overrides: Mapping[str, Any] | None = None) -> Document:
    """A checked document from its content. Paths in it are relative to ``directory``."""
    for key, value in (overrides or {}).items():
        try:
            tree = override(tree, key, value)
        except KeyError:
            raise ConfigError(source, [Problem(key, "cannot be set: a part of it is not a table", value)]) from None
    tree, spelling, problems = canonical(tree)
    for section in ("storage", "catalog"):
        table = tree.get(section)
        provider = table.get("provider") if isinstance(table, dict) else None
        if isinstance(provider, str) and provider.endswith(".toml"):
            tree[section]["provider"] = str(directory / provider)
    document, broken = None, set()
    try:
        document = Document.model_validate(tree)
    except ValidationError as error:
        items = error.errors()
        problems += _unique([_problem(item, tree) for item in items if not _other_branch(item)])
        broken = {str(item["loc"][0]) for item in items}
    problems += cross_checks(document or _sound_part(tree, broken), broken)
    if document is None or problems:
        as_spelled = [replace(problem, key=spelling.get(problem.key, problem.key)) for problem in problems]
        raise ConfigError(source, {str(problem): problem for problem in as_spelled}.values())
    return document


def _sound_part(tree: Tree, broken: set[str]) -> Document:
    """The sections that are right for themselves; the others are as if they were left out, and not to be looked at."""
    sections = {
        name: TypeAdapter[Any](cast(Any, field.annotation)).validate_python(tree[name])
        for name, field in Document.model_fields.items()
        if name in tree and name not in broken
    }
    return Document.model_construct(**sections)


def parse_assignment(text: str) -> tuple[str, Any]:
    """``key=value`` as the command line gives it; the value is TOML, or else a string."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise ConfigError("--set", [Problem("", f"{text!r} is not of the form key=value")])
    try:
        return key, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key, value.strip()


def _problem(item: Any, tree: Tree) -> Problem:
    """One error of pydantic in our words."""
    kind, value = item["type"], item["input"]
    location = _in_file(item["loc"], tree, kind)
    key = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        return Problem(key, f"no such key; {nearest(str(location[-1]), _siblings(location))}")
    if kind == "missing":
        return Problem(key, "is missing")
    shown = None if isinstance(value, dict | BaseModel) else value
    if kind in ("model_type", "dict_type"):
        return Problem(key, "should be a table", shown)
    if kind == "string_pattern_mismatch":
        return Problem(key, f"should match {item['ctx']['pattern']}", shown)
    message = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if kind == "literal_error" and isinstance(value, str):
        allowed = [word.strip("'") for word in item["ctx"]["expected"].replace(" or ", ", ").split(", ")]
        message += closest(value, allowed)
    return Problem(key, message[:1].lower() + message[1:], shown)


def _in_file(location: Sequence[str | int], tree: Tree, kind: str) -> list[str | int]:
    """The parts of a location that are keys of the file; pydantic also names the branches of unions."""
    found: list[str | int] = []
    node: Any = tree
    for part in location:
        if (isinstance(node, dict) and part in node) or (isinstance(node, list) and isinstance(part, int)):
            node = node[cast(Any, part)]
        elif not (kind == "missing" and part == location[-1]):
            continue
        found.append(part)
    return found


def _other_branch(item: Any) -> bool:
    """Whether this is the complaint of a branch of a union that takes no table, where a table is given."""
    return item["type"] == "int_type" and isinstance(item["input"], dict) and item["loc"][-1] == "constrained-int"


def _siblings(location: Sequence[str | int]) -> list[str]:
    """The keys that are allowed beside the last part of a location."""
    model: Any = Document
    for part in location[:-1]:
        model = _member(model, str(part))
        if model is None:
            return []
    prefix = ".".join(str(part) for part in location[:-1])
    old = [alias.rpartition(".")[2] for alias in ALIASES if alias.rpartition(".")[0] == prefix]
    return [*model.model_fields, *old]


def _member(model: type[BaseModel], name: str) -> type[BaseModel] | None:
    """The section under a key of a section (of a table of sections: any of them)."""
    if model is Document and name == "workload":
        return _Classes
    if model is _Classes:
        from endive.config.schema import ClassSection

        return ClassSection
    field = model.model_fields.get(name)
    return None if field is None else _section_in(field.annotation)


class _Classes(BaseModel):
    """Stands for the table of classes, whose keys are names."""


def _section_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is Union or get_args(annotation):
        for argument in get_args(annotation):
            found = _section_in(argument)
            if found is not None:
                return found
    return None


def _unique(problems: Sequence[Problem]) -> list[Problem]:
    """Each key once: branches of a union each complain of the same value."""
    by_key: dict[str, Problem] = {}
    for problem in problems:
        first = by_key.setdefault(problem.key, problem)
        if problem.message not in first.message:
            by_key[problem.key] = replace(first, message=f"{first.message}, or {problem.message}")
    return list(by_key.values())
