"""From a file to a checked document: read, translate, validate, and report all that is wrong at once."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from endive.config.aliases import ALIASES, Tree, canonical, put
from endive.config.checks import cross_checks
from endive.config.errors import ConfigError, Problem, nearest
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
            tree = put(tree, key, value)
        except KeyError:
            raise ConfigError(source, [Problem(key, "cannot be set: a part of it is not a table", value)]) from None
    tree, problems = canonical(tree)
    provider = tree.get("storage", {}).get("provider") if isinstance(tree.get("storage"), dict) else None
    if isinstance(provider, str) and provider.endswith(".toml"):
        tree["storage"]["provider"] = str(directory / provider)
    try:
        document = Document.model_validate(tree)
    except ValidationError as error:
        problems += [_problem(item, tree) for item in error.errors()]
        raise ConfigError(source, _unique(problems)) from None
    problems += cross_checks(document)
    if problems:
        raise ConfigError(source, problems)
    return document


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
    location: Sequence[str | int] = [part for part in item["loc"] if not _is_branch(part, tree, item["loc"])]
    key = ".".join(str(part) for part in location)
    kind, value = item["type"], item["input"]
    if kind == "extra_forbidden":
        return Problem(key, f"no such key; {nearest(str(location[-1]), _siblings(location))}")
    if kind == "missing":
        return Problem(key, "is missing")
    message = item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return Problem(key, message[:1].lower() + message[1:], None if isinstance(value, dict | BaseModel) else value)


def _is_branch(part: str | int, tree: Tree, location: Sequence[str | int]) -> bool:
    """Whether a part of a location names a branch of a union and not a key of the file."""
    return isinstance(part, str) and (part in {"int", "float", "ZipfTables"} or "[" in part) and part not in tree


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
        by_key.setdefault(problem.key, problem)
    return list(by_key.values())
