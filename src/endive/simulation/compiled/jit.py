"""Mark the functions of the kernel, which are compiled together, once for each set of features.

A marked function works on numbers and records, in the subset of Python that Numba compiles. Marking it neither compiles it nor
imports Numba: ``native`` does, when a kernel is needed that was not compiled before. It may call other marked functions, and any
function of ``endive.arithmetic``, which need no mark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

INLINE = "__endive_inline__"
"""Attribute of a marked function: whether it is inlined."""
REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions of ``endive.arithmetic``, and the functions that kernels call instead."""


def jit(function: Function) -> Function:
    """Mark a function of the kernel."""
    setattr(function, INLINE, False)
    return function


def inlined(function: Function) -> Function:
    """Mark a function of the kernel to be inlined: a small one, or one with few callers."""
    setattr(function, INLINE, True)
    return function


def replaces(original: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a function that kernels call instead of an equivalent one that Numba compiles to slower code."""

    def mark(function: Function) -> Function:
        REPLACED[original] = jit(function)
        return function

    return mark


word: Any = np.uint64
"""Convert keys, ordinals and indices to the 64-bit words that functions of ``endive.arithmetic`` work on."""
