"""Features of the kernel: what a configuration needs. Each set of features is a kernel of its own, compiled when it is needed.

A part of the kernel asks for a feature by its constant, which is true here and has its value in each kernel that is built::

    if HAS_ICEBERG and cls.commit_path == ICEBERG:

Where it is false the branch is dropped before anything is compiled, with all that only it calls. A condition on a feature must
stand first in its ``if``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

HAS_ENDIVE = True
"""Some class commits on the path ``endive``."""
HAS_ICEBERG = True
"""Some class commits on the path ``iceberg``."""
HAS_PYICEBERG = True
"""Some class commits on the path ``pyiceberg``."""
HAS_FILES = True
"""The files of tables are kept account of."""
HAS_CAS = True
"""The catalog is replaced by compare-and-swap."""
HAS_LOG = True
"""The catalog is a log that is appended to."""
HAS_SERVICE = True
"""The catalog is behind a service."""
HAS_LIMITS = True
"""A pointer is written at a limited rate, or metadata has a limit of size."""
HAS_FAILURES = True
"""Requests, answers or clients fail."""
HAS_LIST_APPENDS = True
"""Manifest lists are appended to (ML+)."""
HAS_CLIENTS = True
"""Some class has clients that compute, keep table handles, or back off in another way than exponentially by a share."""
HAS_COMMITTERS = True
"""Some class has a committer, to which its writers hand over."""


@dataclass(frozen=True, order=True)
class Features:
    """What a kernel can do. Field names are those of the constants, in lower case, without ``HAS_``."""

    endive: bool = False
    iceberg: bool = False
    pyiceberg: bool = False
    files: bool = False
    cas: bool = False
    log: bool = False
    service: bool = False
    limits: bool = False
    failures: bool = False
    list_appends: bool = False
    clients: bool = False
    committers: bool = False

    @property
    def name(self) -> str:
        """A name for files and messages, e.g. ``endive-cas``."""
        return "-".join(field.name for field in fields(self) if getattr(self, field.name))

    @classmethod
    def named(cls, name: str) -> Features:
        """The features that bear this name."""
        return cls(**dict.fromkeys(name.split("-"), True))

    @property
    def constants(self) -> dict[str, bool]:
        """The values of the constants above."""
        return {f"HAS_{field.name.upper()}": getattr(self, field.name) for field in fields(self)}


ALL = Features(*(True for _ in fields(Features)))
"""The largest kernel."""
