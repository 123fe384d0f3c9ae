"""Load the custom components of a configuration: object stores, catalogs and transactions, given by file and class.

[parts.catalog]
code = "queue_catalog.py:QueueCatalog"      # or "queue_catalog:QueueCatalog"; relative to this file
options = { service_ms = 50.0 }             # arguments of the class

Reading a configuration also reads the source code of its components. The source code is copied to Spark workers and to the results,
and its hash is part of the identity of the experiment. The code runs only when a simulation is built, and only after
``allow_code``, because it runs with the permissions of the user. Modules that the code imports must be installed where it runs.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import sys
import types
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from endive.catalog import Catalog
from endive.config.errors import ConfigError, Problem
from endive.config.schema import ComponentSection, Document
from endive.input_files import UnreadableError, read_text
from endive.storage import StorageProvider
from endive.transaction import OPERATIONS, Transaction

KINDS: Mapping[str, type] = {"provider": StorageProvider, "catalog": Catalog, "transaction": Transaction}
"""Base class of each component, by key of ``[parts]``."""
MOST_BYTES = 2**20
ASKED = "loads custom code, which runs with your permissions. Use --allow-code to allow it."
"""Error message for code that the user has not permitted."""
_SOURCE = "configuration"


class _Permission:
    """The user's permission to run code from configurations in this process."""

    granted = False


def allow_code(allowed: bool = True) -> None:
    """Permit or forbid running code from configurations in this process. Only the user may give this permission."""
    _Permission.granted = allowed


def code_is_allowed() -> bool:
    """Return whether code from configurations may run in this process."""
    return _Permission.granted


def code_path(code: str, directory: Path) -> tuple[Path, str]:
    """Return the file and the class name of ``FILE.py:CLASS`` or ``MODULE:CLASS``, relative to a directory."""
    place, _, name = code.rpartition(":")
    return directory / (place if place.endswith(".py") else f"{place.replace('.', '/')}.py"), name


def add_sources(tree: dict[str, Any], directory: Path) -> list[Problem]:
    """Add the source code of each custom component to the tree without running it, and return the problems."""
    parts = tree.get("parts")
    problems = []
    for kind, part in parts.items() if isinstance(parts, dict) else ():
        code = part.get("code") if isinstance(part, dict) else None
        if not isinstance(code, str) or ":" not in code:
            continue  # reported by the schema
        path, _ = code_path(code, directory)
        if "source" in part:
            problems.append(
                Problem(f"parts.{kind}.source", "must not be set, because Endive reads it from the file given by `code`")
            )
        try:
            part["source"] = read_text(path, MOST_BYTES)
            ast.parse(part["source"])
        except (RecursionError, MemoryError):  # raised by Python for code that is nested too deeply
            problems.append(Problem(f"parts.{kind}.code", f"{path} is nested too deeply", code))
        except (UnreadableError, SyntaxError, ValueError) as error:
            problems.append(Problem(f"parts.{kind}.code", f"{path}: {error}", code))
    return problems


def components_identity(document: Document) -> dict[str, Any]:
    """Return what identifies the custom components of an experiment: class, options, and hash of the source code."""
    return {
        kind: {
            "code": part.code.rpartition(":")[2],
            "options": part.options,
            **({"classes": part.classes} if part.classes is not None else {}),
            "source": hashlib.sha256((part.source or "").encode()).hexdigest()[:12],
        }
        for kind, part in custom_components(document).items()
    }


def custom_components(document: Document) -> dict[str, ComponentSection]:
    """Return the custom components of a document, by kind."""
    return {kind: part for kind in KINDS if (part := getattr(document.parts, kind)) is not None}


def load_class(kind: str, part: ComponentSection) -> type[Any]:
    """Run the code of a custom component, and return its class.

    Raises:
        ConfigError: If code is not permitted, or the class does not exist or has the wrong base class.
    """
    if not code_is_allowed():
        raise ConfigError(_SOURCE, [Problem(f"parts.{kind}.code", ASKED)])
    return _load_code(kind, part.code, part.source or "")


@cache
def _load_code(kind: str, code: str, source: str) -> type[Any]:
    """Run the code of a component once per process, and return the component's class."""
    wanted, name = KINDS[kind], code.rpartition(":")[2]
    module = types.ModuleType(f"endive_part_{hashlib.sha256(source.encode()).hexdigest()[:12]}")
    sys.modules[module.__name__] = module  # dataclasses resolve their annotations in this module
    filename = f"<{code}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except Exception as error:
        raise _make_error(kind, f"cannot be loaded: {type(error).__name__}: {error}", code) from error
    found = module.__dict__.get(name)
    if not (isinstance(found, type) and issubclass(found, wanted)):
        classes = [value for value in module.__dict__.values() if isinstance(value, type) and issubclass(value, wanted)]
        own = ", ".join(each.__name__ for each in classes if each.__module__ == module.__name__)
        raise _make_error(
            kind, f"must name a subclass of {wanted.__module__}.{wanted.__name__}; the file has {own or 'none'}", code
        )
    operation = getattr(found, "operation_type", None)
    if kind == "transaction" and operation not in OPERATIONS:
        raise _make_error(kind, f"has operation_type = {operation!r}, but must be one of {', '.join(OPERATIONS)}", code)
    return found


def _make_error(kind: str, message: str, code: str) -> ConfigError:
    return ConfigError(_SOURCE, [Problem(f"parts.{kind}.code", message, code)])


def make_component(kind: str, part: ComponentSection, offered: Mapping[str, Any]) -> Any:
    """Create a custom component with its options and with the ``offered`` arguments that its class accepts.

    Raises:
        ConfigError: If the class cannot be created with these arguments.
    """
    made = load_class(kind, part)
    wanted = inspect.signature(made).parameters
    arguments = {name: value for name, value in offered.items() if name in wanted} | dict(part.options)
    try:
        return made(**arguments)
    except Exception as error:
        message = f"the component cannot be created with these options and {', '.join(offered)}: {type(error).__name__}: {error}"
        raise ConfigError(_SOURCE, [Problem(f"parts.{kind}.options", message, dict(part.options))]) from error
