"""What the kernel is made of: functions that are marked here and compiled together, once for each set of features.

A *part* is a plain function of numbers and records, in the subset of Python that Numba compiles. Marking it does not compile it,
nor import Numba: ``build.py`` does, when a kernel is needed that was not compiled before. A part may call other parts, and any
function of the model's arithmetic: those are compiled with it, without being marked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

INLINE = "__endive_inline__"
"""The attribute that marks a part, and says whether it is written out where it is called."""


def jit(function: Function) -> Function:
    """Mark a part of the kernel."""
    setattr(function, INLINE, False)
    return function


def inlined(function: Function) -> Function:
    """Mark a part of the kernel that is so small, or called from so few places, that it is written out wherever it is called."""
    setattr(function, INLINE, True)
    return function


word: Any = np.uint64
"""Keys, ordinals and indices as the 64-bit words that the functions of the model's arithmetic work on."""
