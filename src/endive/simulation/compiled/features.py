"""Features of the kernel. Each set of features is a separate kernel, compiled when a configuration first needs it.

A function of the kernel tests a feature by its constant, which is true here and has its value in each kernel that is compiled::

    if HAS_ICEBERG and cls.commit_path == ICEBERG:

If it is false, the branch is dropped before compilation, together with all functions that only it calls. A condition on a feature
must be the first in its ``if``.
"""

from __future__ import annotations

from dataclasses import dataclass

HAS_ENDIVE = True
"""Some class commits on the path ``endive``."""
HAS_ICEBERG = True
"""Some class commits on the path ``iceberg``."""
HAS_PYICEBERG = True
"""Some class commits on the path ``pyiceberg``."""
HAS_PROTOCOL = True
"""Some class follows a declarative protocol."""
HAS_FILES = True
"""The catalog tracks the files of tables."""
HAS_CAS = True
"""The catalog is replaced by compare-and-swap."""
HAS_LOG = True
"""The catalog is a log that is appended to."""
HAS_SERVICE = True
"""The catalog is behind a service."""
HAS_LIMITS = True
"""A pointer is written at a limited rate, metadata has a limit of size, or the database of a service reports conflicts."""
HAS_FAILURES = True
"""Requests, responses or clients fail, or clients cancel operations."""
HAS_LIST_APPENDS = True
"""Manifest lists are appended to (ML+)."""
HAS_CLIENTS = True
"""Some class has clients that compute, keep table handles, or use another kind of backoff than ``exponential``."""
HAS_COMMITTERS = True
"""Some class has a committer, to which its writers hand files over."""


FEATURES = tuple(name.removeprefix("HAS_").lower() for name in globals() if name.startswith("HAS_"))
"""Names of all features. Those of commit paths are the names of the paths."""


@dataclass(frozen=True)
class Features:
    """The features of a kernel."""

    names: frozenset[str]

    @classmethod
    def select(cls, **needed: bool) -> Features:
        """Return the features that are needed."""
        return cls(frozenset(name for name, is_needed in needed.items() if is_needed))

    @classmethod
    def named(cls, name: str) -> Features:
        """Return the features of a kernel by its name."""
        return cls(frozenset(name.split("-")))

    @property
    def name(self) -> str:
        """Name of the kernel for files and messages, for example ``endive-cas``."""
        return "-".join(name for name in FEATURES if name in self.names)

    @property
    def constants(self) -> dict[str, bool]:
        """Values of the constants of this module."""
        return {f"HAS_{name.upper()}": name in self.names for name in FEATURES}


ALL = Features(frozenset(FEATURES))
"""Features of the largest kernel."""
