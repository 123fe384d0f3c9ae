"""Mark the functions of the kernel, and define the features for which kernels are compiled.

Each set of features has its own kernel, which is compiled when a configuration first needs it. A kernel function tests a feature by
its constant. The constant is True in this module and has its actual value in each compiled kernel::

    if HAS_ICEBERG and cls.commit_path == ICEBERG:

If the constant is False, the branch is removed before compilation, together with all functions that only this branch calls. A
feature must be the first condition of its ``if``.

A marked function operates on numbers and records, in the subset of Python that Numba compiles. Marking a function neither compiles
it nor imports Numba. ``compilation`` compiles it when a kernel is needed that is not in the cache. A marked function can call other
marked functions, and any function of ``endive.arithmetic`` without a mark.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

HAS_ENDIVE = True
"""True if a class uses the commit path ``endive``."""
HAS_ICEBERG = True
"""True if a class uses the commit path ``iceberg``."""
HAS_PYICEBERG = True
"""True if a class uses the commit path ``pyiceberg``."""
HAS_PROTOCOL = True
"""True if a class uses a declarative commit protocol."""
HAS_FILES = True
"""True if the catalog tracks the metadata files of tables."""
HAS_CAS = True
"""True if the catalog commits by compare-and-swap of an object."""
HAS_LOG = True
"""True if the catalog appends commits to a log."""
HAS_SERVICE = True
"""True if the catalog is a service."""
HAS_LIMITS = True
"""True if the catalog limits writes of its commit pointer or the metadata size, or its database reports conflicts."""
HAS_FAILURES = True
"""True if requests, responses or clients can fail, or clients cancel operations."""
HAS_LIST_APPENDS = True
"""True if transactions append to manifest lists (ML+)."""
HAS_CLIENTS = True
"""True if clients of a class use CPU time, cache table handles, or use a backoff kind other than ``exponential``."""
HAS_COMMITTERS = True
"""True if a class has a committer, to which its writers hand off file batches."""


FEATURES = tuple(name.removeprefix("HAS_").lower() for name in globals() if name.startswith("HAS_"))
"""Names of all features. The feature of a commit path has the name of the path."""


@dataclass(frozen=True)
class Features:
    """Features of one kernel."""

    names: frozenset[str]

    @classmethod
    def select(cls, **needed: bool) -> Features:
        """Return the set of the features that are needed."""
        return cls(frozenset(name for name, is_needed in needed.items() if is_needed))

    @classmethod
    def named(cls, name: str) -> Features:
        """Return the features of the kernel with a given name."""
        return cls(frozenset(name.split("-")))

    @property
    def name(self) -> str:
        """Name of the kernel in file names and messages, for example ``endive-cas``."""
        return "-".join(name for name in FEATURES if name in self.names)

    @property
    def constants(self) -> dict[str, bool]:
        """Values of the ``HAS_`` constants of this module in the kernel."""
        return {f"HAS_{name.upper()}": name in self.names for name in FEATURES}


ALL = Features(frozenset(FEATURES))
"""All features, which only the largest kernel has."""


Function = TypeVar("Function", bound=Callable[..., Any])

INLINE = "__endive_inline__"
"""Attribute of a kernel function that is True if its callers inline the function."""
REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions that kernels call instead of equivalent functions of ``endive.arithmetic``, by the replaced function."""


def jit(function: Function) -> Function:
    """Mark a function as part of the kernel."""
    setattr(function, INLINE, False)
    return function


def inlined(function: Function) -> Function:
    """Mark a function as part of the kernel, and inline its calls. Use this for small functions or functions with few callers."""
    setattr(function, INLINE, True)
    return function


def replaces(original: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a function that kernels call instead of ``original``.

    Use this if Numba compiles ``original``, which is equivalent, to slower code.
    """

    def mark(function: Function) -> Function:
        REPLACED[original] = jit(function)
        return function

    return mark


word: Any = np.uint64
"""Conversion of keys and indices to the unsigned 64-bit integers that ``endive.arithmetic`` uses."""
