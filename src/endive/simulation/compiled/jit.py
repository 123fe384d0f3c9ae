"""Mark the functions of the kernel, which are compiled together, once per set of features.

A marked function operates on numbers and records, in the subset of Python that Numba compiles. Marking a function does not compile
it or import Numba: ``native`` compiles it when a kernel is needed that is not in the cache. A marked function may call other marked
functions and any function of ``endive.arithmetic``, which need no mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

INLINE = "__endive_inline__"
"""Attribute of a marked function: whether it is inlined."""
REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions that kernels call instead of functions of ``endive.arithmetic``, by replaced function."""


def jit(function: Function) -> Function:
    """Mark a function of the kernel."""
    setattr(function, INLINE, False)
    return function


def inlined(function: Function) -> Function:
    """Mark a function of the kernel for inlining; for small functions or functions with few callers."""
    setattr(function, INLINE, True)
    return function


def replaces(original: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a function that kernels call instead of an equivalent function that Numba compiles to slower code."""

    def mark(function: Function) -> Function:
        REPLACED[original] = jit(function)
        return function

    return mark


word: Any = np.uint64
"""Conversion of keys, ordinals and indices to the 64-bit words of ``endive.arithmetic``."""
