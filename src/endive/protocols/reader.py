"""Read protocol files, built-in or custom.

``commit_path = "delta-rs"`` selects a built-in protocol. ``commit_path = "my_client.toml"`` selects a file.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from endive.config.errors import ConfigError, Problem, problems_of
from endive.input_files import UnreadableError, is_predicate, parse_toml, read_text
from endive.protocols.protocol_file import ProtocolDocument, StepSection, contradictions, discovering_step, phases_of
from endive.transaction.protocol_path import CONFLICT_LEVELS, Protocol, ProtocolStep, ProtocolSteps

_PHASE_OF_KEY = {"checkpoints.steps": "checkpoint"}


@dataclass(frozen=True)
class ProtocolFile:
    """Protocol that was read from a file, with the origin and the text of the file."""

    protocol: Protocol
    document: ProtocolDocument
    text: str

    @property
    def date(self) -> str:
        """Date of the protocol's sources, as text."""
        date = self.document.date
        return date.isoformat() if isinstance(date, datetime.date) else date

    @property
    def settings(self) -> dict[str, Any]:
        """Default values that the protocol sets for keys of ``[transaction]``."""
        retries = self.document.retries
        found: dict[str, Any] = {"retry": retries.limit, "retry_backoff": retries.backoff.model_dump(exclude_unset=True)}
        for name in ("total_timeout_ms", "operation_timeout_ms"):
            if getattr(retries, name) is not None:
                found[name] = getattr(retries, name)
        return found

    @property
    def content(self) -> dict[str, Any]:
        """Keys of the protocol that change results.

        The hash of an experiment contains these keys, but not names, sources and defaults.
        """
        about = {"name", "client", "version", "source", "date", "status", "description"}
        tree = self.document.model_dump(mode="json", exclude=about, exclude_defaults=True)
        tree["operations"] = sorted(self.document.operations)
        return tree


def is_protocol(name: str) -> bool:
    """Return whether a value of ``commit_path`` selects a protocol: a built-in protocol or a file."""
    return name.endswith(".toml") or name in builtin_names()


@cache
def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in protocols."""
    folder = resources.files("endive.protocols").joinpath("data")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def find_protocol(name: str) -> ProtocolFile:
    """Return the built-in protocol with this name, or the protocol in the file at this path.

    Raises:
        ConfigError: If there is no such protocol, or if its file is invalid. The message contains every problem.
    """
    if name.endswith(".toml"):
        return load_protocol(Path(name))
    if name not in builtin_names():
        from endive.config.errors import nearest

        raise ConfigError(name, [Problem("", f"unknown protocol; {nearest(name, builtin_names())}")])
    return _load_builtin(name)


@cache
def _load_builtin(name: str) -> ProtocolFile:
    text = resources.files("endive.protocols").joinpath("data", f"{name}.toml").read_text(encoding="utf-8")
    return parse_protocol(text, f"{name}.toml", name)


def load_protocol(path: Path) -> ProtocolFile:
    """Read a protocol from a file.

    Raises:
        ConfigError: If the file is invalid.
    """
    try:
        text = read_text(path)
    except UnreadableError as error:
        raise ConfigError(str(path), [Problem("", str(error))]) from None
    return parse_protocol(text, str(path), path.stem)


@lru_cache(maxsize=64)
def parse_protocol(text: str, where: str, name: str) -> ProtocolFile:
    """Return the protocol that the text of a file describes.

    Raises:
        ConfigError: If the text is invalid. The message contains each key with its line and the reason.
    """
    try:
        tree = parse_toml(text)
    except UnreadableError as error:
        raise ConfigError(where, [Problem("", str(error))]) from None
    try:
        document = ProtocolDocument.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(where, _with_lines(problems_of(error, tree, ProtocolDocument), text)) from None
    problems = contradictions(document)
    if problems:
        raise ConfigError(where, _with_lines(problems, text))
    return ProtocolFile(_build(document, document.name or name), document, text)


def describe(found: ProtocolFile) -> str:
    """Return the content of a protocol as canonical text for hashes."""
    return json.dumps(found.content, sort_keys=True)


def _with_lines(problems: list[Problem], text: str) -> list[Problem]:
    """Return the problems, with the line of each key that is in the file."""
    found = []
    for problem in problems:
        line = line_of(problem.key, text)
        found.append(problem if line is None else replace(problem, message=_add_line(problem.message, line)))
    return found


def _add_line(message: str, line: int) -> str:
    return f"(line {line}) {message}" if is_predicate(message) else f"line {line}: {message}"


_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\"' -]+?)\s*\]\]?\s*(?:#.*)?$")


def line_of(key: str, text: str) -> int | None:
    """Return the line of a dotted key in the text of a TOML file, or the line of its table if the key is missing.

    For an array of tables such as ``load``, the line is that of the first table. A key of a missing table has no line.
    """
    repeated: dict[str, int] = {}
    table, found, length = "", None, 0
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            table = header[2]
            if header[1] == "[[":
                repeated[table] = repeated.get(table, -1) + 1
                table = f"{table}.{repeated[table]}"
        path = table
        if header is None:
            own = line.partition("=")[0].strip().strip("\"'")
            path = f"{table}.{own}" if table else own
            if "=" not in line:
                continue
        shared = path if f"{key}.".startswith(f"{path}.") else key if f"{path}.".startswith(f"{key}.") else ""
        if len(shared) > length:
            found, length = number, len(shared)
    return found


def _build(document: ProtocolDocument, name: str) -> Protocol:
    commit, conflicts, checkpoints = document.commit, document.conflicts, document.checkpoints
    return Protocol(
        name=name,
        client=document.client or name,
        commit_point=commit.point,
        scope=commit.scope,
        operations=frozenset(document.operations),
        steps=MappingProxyType({_PHASE_OF_KEY.get(key, key): _steps(document, key) for key in phases_of(document)}),
        unpublished_limit=commit.unpublished_limit,
        conflicts=MappingProxyType(
            {
                level: MappingProxyType({operation: frozenset(against) for operation, against in getattr(conflicts, level).items()})
                for level in CONFLICT_LEVELS
            }
        ),
        rebases=conflicts.rebases,
        checkpoint_every=checkpoints.every,
        checkpoint_by_writer=checkpoints.by == "writer",
        limited_operations=frozenset(document.retries.operation_timeout_for),
    )


def _steps(document: ProtocolDocument, phase: str) -> ProtocolSteps:
    shown = discovering_step(document, phase)
    return tuple(_step(step, step.discovers or place == shown) for place, step in enumerate(phases_of(document)[phase]))


def _step(section: StepSection, discovers: bool) -> ProtocolStep:
    return ProtocolStep(
        operation=section.operation,
        object=section.object,
        size_bytes=section.bytes,
        bytes_per_file=section.bytes_per_file,
        bytes_per_version=section.bytes_per_version,
        count=section.number,
        per_version_behind=section.per_version_behind,
        per_attempt=section.per_attempt,
        per_file=section.per_file,
        per_log_entry=section.per_log_entry,
        parallel=section.parallel,
        attempts=section.attempts,
        discovers=discovers,
        checks=section.checks,
        with_next=section.with_next,
        publishes=section.publishes,
    )
