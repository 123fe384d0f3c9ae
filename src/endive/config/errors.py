"""Describe problems of a configuration: the key as in the file, the allowed values, and the nearest spelling."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError

from endive.input_files import in_short, state


@dataclass(frozen=True)
class Problem:
    """Problem of a configuration. ``key`` is dotted. ``value`` is the value in the file, or None if it is not printed."""

    key: str
    message: str
    value: Any = None

    @property
    def text(self) -> str:
        """Message with the value, without the key."""
        return self.message if self.value is None else f"{self.message} (got {in_short(repr(self.value))})"

    def __str__(self) -> str:
        return state(in_short(self.key), self.text, is_key=not self.key.startswith("--")) if self.key else self.text


class ConfigError(ValueError):
    """Raised if a configuration is invalid. ``problems`` lists every problem.

    Example:
        ```python
        try:
            endive.load({"storage": {"provider": "s4"}})
        except endive.ConfigError as error:
            for problem in error.problems:
                print(problem)
        ```
    """

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = [f"{source}: {problem}" if problem.key else state(source, str(problem)) for problem in self.problems]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, tuple[Problem, ...]]]:
        """Pickle the problems together with the message."""
        return type(self), (self.source, self.problems)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known spelling, or with all allowed values."""
    known = sorted(known)
    if not known:
        return "no value is allowed here"
    return closest(word, known).removeprefix("; ") or f"allowed: {', '.join(known)}"


def closest(word: str, known: Iterable[str]) -> str:
    """Return a hint with the nearest known spelling, or an empty string."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


Tree = dict[str, Any]
_PLAIN = {"int_type", "float_type", "string_type", "list_type", "bool_type"}
"""Error types of the branches of a union that do not accept a table."""
_MOST_REPORTED = 200
"""Maximum number of reported errors, because each error is compared with all others and with the allowed values."""


def problems_of(error: ValidationError, tree: Tree, model: type[BaseModel], aliases: Sequence[str] = ()) -> list[Problem]:
    """Return the problems that validation of a tree found, one per key.

    ``aliases`` are dotted keys that are accepted in addition to those of the model; they appear in hints for misspelled keys.
    """
    found = error.errors()
    items = found[:_MOST_REPORTED]
    problems = _each_key_once([_problem(item, tree, model, aliases) for item in items if not _of_other_branch(item, items)])
    more = len(found) - len(items)
    return [*problems, Problem("", f"and {more:,} more")] if more else problems


def _problem(item: Any, tree: Tree, model: type[BaseModel], aliases: Sequence[str]) -> Problem:
    kind, value = item["type"], item["input"]
    location = _in_file(item["loc"], tree, kind)
    key = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        return Problem(key, f"unknown key; {nearest(str(location[-1]), _keys_beside(location, model, aliases))}")
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
        message += closest(value, allowed) if len(allowed) > 1 else ""
    return Problem(key, message[:1].lower() + message[1:], shown)


def _in_file(location: Sequence[str | int], tree: Tree, kind: str) -> list[str | int]:
    """Return the parts of a location that are keys in the file, without the union branches that pydantic adds."""
    found: list[str | int] = []
    node: Any = tree
    for part in location:
        if (isinstance(node, dict) and part in node) or (isinstance(node, list) and isinstance(part, int)):
            node = node[cast(Any, part)]
        elif not (kind == "missing" and part == location[-1]):
            continue
        found.append(part)
    return found


def _of_other_branch(item: Any, items: Sequence[Any]) -> bool:
    """Return whether an error belongs to a union branch that does not accept a table, while another branch reports the error."""
    if item["type"] not in _PLAIN or not isinstance(item["input"], dict):
        return False
    before = item["loc"][:-1]
    return any(other is not item and other["loc"][: len(before)] == before for other in items)


def _keys_beside(location: Sequence[str | int], model: type[BaseModel], aliases: Sequence[str]) -> list[str]:
    """Return the keys that are allowed at the level of a location's last part."""
    annotations: list[Any] = [model]
    for part in location[:-1]:
        annotations = [below for annotation in annotations for below in _below(annotation, str(part))]
    prefix = ".".join(str(part) for part in location[:-1])
    old = [alias.rpartition(".")[2] for alias in aliases if alias.rpartition(".")[0] == prefix]
    sections = [each for annotation in annotations for each in _branches(annotation) if _is_section(each)]
    return [*(key for section in sections for _, key in _fields(section)), *old]


def _below(annotation: Any, name: str) -> Iterator[Any]:
    """Yield the annotations below a key: that of a field of a section, or those of the members of a table or list."""
    for branch in _branches(annotation):
        if _is_section(branch):
            yield from (branch.model_fields[field].annotation for field, key in _fields(branch) if name in (field, key))
        elif isinstance(get_origin(branch), type) and issubclass(get_origin(branch), Mapping | Sequence):
            yield get_args(branch)[-1]


def _branches(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _branches(argument)
    elif get_origin(annotation) is Annotated:
        yield from _branches(get_args(annotation)[0])
    else:
        yield annotation


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _fields(section: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield the fields of a section, each with its key in a file."""
    for name, field in section.model_fields.items():
        yield name, field.alias or name


def _each_key_once(problems: Sequence[Problem]) -> list[Problem]:
    """Merge the problems of each key, because every branch of a union reports the same value."""
    by_key: dict[str, Problem] = {}
    for problem in problems:
        first = by_key.setdefault(problem.key, problem)
        if problem.message not in first.message:
            by_key[problem.key] = replace(first, message=f"{first.message}, or {problem.message}")
    return list(by_key.values())
