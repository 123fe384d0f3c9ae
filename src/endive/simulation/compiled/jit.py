"""Marks for the functions of the kernel, which are compiled together, once for each set of features.

A *part* is a plain function of numbers and records, in the subset of Python that Numba compiles. Marking it neither compiles it nor
imports Numba: ``native`` does, when a kernel is needed that was not compiled before. A part may call other parts, and any function
of the model's arithmetic: those are compiled with it, without being marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

INLINE = "__endive_inline__"
"""Attribute of a part: whether its code is written out where it is called."""
REPLACED: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Functions of the model's arithmetic, and the parts that a kernel calls in their place."""


def jit(function: Function) -> Function:
    """Mark a part of the kernel."""
    setattr(function, INLINE, False)
    return function


def inlined(function: Function) -> Function:
    """Mark a part of the kernel whose code is written out where it is called: a small one, or one with few callers."""
    setattr(function, INLINE, True)
    return function


def replaces(original: Callable[..., Any]) -> Callable[[Function], Function]:
    """Mark a part that kernels call in place of a function that has the same values and that Numba compiles to slower code."""

    def mark(function: Function) -> Function:
        REPLACED[original] = jit(function)
        return function

    return mark


word: Any = np.uint64
"""Convert keys, ordinals and indices to the 64-bit words that the functions of the model's arithmetic work on."""
