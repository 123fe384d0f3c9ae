"""Custom components of a configuration: an object store, a catalog or a transaction, named by file and class.

[parts.catalog]
code = "queue_catalog.py:QueueCatalog"      # or "queue_catalog:QueueCatalog"; the file is looked for beside this one
options = { service_ms = 50.0 }             # arguments of the class

Reading a configuration reads the file as text, and that text travels with the document: to Spark's workers, to the copy beside
the results, and, by its hash, into the identity of the experiment. It is run only when a simulation is built, and only where
``allow_code`` was called: code can do whatever its user can. What the file imports must be installed where it runs.
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
"""Keys of ``[parts]``, and what a class must be a subclass of."""
MOST_BYTES = 2**20
ASKED = "is code, which runs with your permissions. Use --allow-code to permit it."
"""Message for code that the user has not permitted."""
_SOURCE = "[parts]"


class _Permission:
    """Permission to run code of configurations in this process, granted by the user."""

    granted = False


def allow_code(allowed: bool = True) -> None:
    """Let this process run code that configurations name, or forbid it. Only the user can know whether to trust it."""
    _Permission.granted = allowed


def code_is_allowed() -> bool:
    """Tell whether code that configurations name may be run in this process."""
    return _Permission.granted


def code_path(code: str, directory: Path) -> tuple[Path, str]:
    """Return the file that ``FILE.py:CLASS`` or ``MODULE:CLASS`` names, as seen from a directory, and the name of the class."""
    place, _, name = code.rpartition(":")
    return directory / (place if place.endswith(".py") else f"{place.replace('.', '/')}.py"), name


def add_sources(tree: dict[str, Any], directory: Path) -> list[Problem]:
    """Put the text of each part of one's own beside the name of its file; return what is wrong with them. Nothing is run."""
    parts = tree.get("parts")
    problems = []
    for kind, part in parts.items() if isinstance(parts, dict) else ():
        code = part.get("code") if isinstance(part, dict) else None
        if not isinstance(code, str) or ":" not in code:
            continue  # which the schema tells
        path, _ = code_path(code, directory)
        if "source" in part:
            problems.append(Problem(f"parts.{kind}.source", "is read from the file that code names"))
        try:
            part["source"] = read_text(path, MOST_BYTES)
            ast.parse(part["source"])
        except (RecursionError, MemoryError):  # by which Python refuses what is nested without end
            problems.append(Problem(f"parts.{kind}.code", f"{path}: is nested too deeply", code))
        except (UnreadableError, SyntaxError, ValueError) as error:
            problems.append(Problem(f"parts.{kind}.code", f"{path}: {error}", code))
    return problems


def components_identity(document: Document) -> dict[str, Any]:
    """Return what results depend on: the class of each custom component, its options, and the hash of its source."""
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
    """Return the parts that a document names, by kind."""
    return {kind: part for kind in KINDS if (part := getattr(document.parts, kind)) is not None}


def load_class(kind: str, part: ComponentSection) -> type[Any]:
    """Run the code of a part, and return its class. Raises ConfigError if that is not allowed, or it is no such class."""
    if not code_is_allowed():
        raise _refused(kind, ASKED, part.code)
    return _loaded(kind, part.code, part.source or "")


@cache
def _loaded(kind: str, code: str, source: str) -> type[Any]:
    """Run code once in a process, and return the class that it has."""
    wanted, name = KINDS[kind], code.rpartition(":")[2]
    module = types.ModuleType(f"endive_part_{hashlib.sha256(source.encode()).hexdigest()[:12]}")
    sys.modules[module.__name__] = module  # where dataclasses look for what their annotations mean
    filename = f"<{code}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(compile(source, filename, "exec"), module.__dict__)
    except Exception as error:
        raise _refused(kind, f"cannot be loaded: {type(error).__name__}: {error}", code) from error
    found = module.__dict__.get(name)
    if not (isinstance(found, type) and issubclass(found, wanted)):
        classes = [value for value in module.__dict__.values() if isinstance(value, type) and issubclass(value, wanted)]
        own = ", ".join(each.__name__ for each in classes if each.__module__ == module.__name__)
        raise _refused(kind, f"should name a subclass of {wanted.__module__}.{wanted.__name__}; it has {own or 'none'}", code)
    operation = getattr(found, "operation_type", None)
    if kind == "transaction" and operation not in OPERATIONS:
        raise _refused(kind, f"has operation_type = {operation!r}; rows need one of {', '.join(OPERATIONS)}", code)
    return found


def _refused(kind: str, message: str, code: str) -> ConfigError:
    return ConfigError(_SOURCE, [Problem(f"parts.{kind}.code", message, code)])


def make_component(kind: str, part: ComponentSection, offered: Mapping[str, Any]) -> Any:
    """Make a part of one's own: with its options, and with those of what is ``offered`` that its class takes by name.

    Raises ConfigError if the class wants something else.
    """
    made = load_class(kind, part)
    wanted = inspect.signature(made).parameters
    arguments = {name: value for name, value in offered.items() if name in wanted} | dict(part.options)
    try:
        return made(**arguments)
    except Exception as error:
        message = f"cannot be made with its options and {', '.join(offered)}: {type(error).__name__}: {error}"
        raise ConfigError(_SOURCE, [Problem(f"parts.{kind}.options", message, dict(part.options))]) from error
