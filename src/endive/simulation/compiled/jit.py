"""Numba, set up: where compiled code is cached, and which functions of the model it compiles.

The arithmetic of the model (``endive.randomness``, ``endive.costs``) is plain Python that the reference engine runs as it is; here
the same functions are made known to Numba. The cache lies in the user's cache directory under a fingerprint of the code, so a
change of any function compiles anew, a read-only installation works, and processes that start at once find whole files only
(Numba writes each to a temporary name and renames it).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
import platformdirs
from numba.extending import register_jitable

from endive import costs, randomness
from endive.utils import fingerprint

CACHE_VARIABLE = "ENDIVE_CACHE_DIR"


def cache_directory() -> Path:
    """Where compiled code is kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("endive", appauthor=False))
    return root / "kernels" / fingerprint("randomness.py", "costs.py", "table", "simulation/compiled")


def is_cached() -> bool:
    """Whether the kernel of this version was compiled before."""
    return any(cache_directory().rglob("*.nbc"))


for _function in (
    randomness.mix64,
    randomness.derive,
    randomness.keyed_uniform,
    randomness.normal_quantile,
    randomness.quantile,
    costs.backoff_ms,
    costs.manifests_to_merge,
    costs.whole_count,
    costs.fractional_count,
    costs.moment_of_effect_ms,
    costs.failed_answer_ms,
    costs.sized_median_ms,
    costs.merge_bins,
    costs.merged_away,
    costs.lower_bound,
    costs.pick,
):
    register_jitable(_function)

config: Any = numba.config
Function = TypeVar("Function", bound=Callable[..., Any])


_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}
"""Reference counting is off (``_nrt``): the kernel makes no arrays, and counting references costs more than its arithmetic."""


_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""What only other compiled functions call needs no way in from Python; making one takes a third of the time to compile."""


def jit(function: Function) -> Function:
    """A part of the kernel: compiled with whatever calls it."""
    compiled: Function = numba.njit(**_OPTIONS, **_INNER)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A part of the kernel that is so small that it is written out wherever it is called."""
    compiled: Function = numba.njit(**_OPTIONS, **_INNER, inline="always")(function)
    return compiled


def entry(function: Function) -> Function:
    """A function that is called from outside: compiled once, with all that it calls, and kept in the cache."""
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_directory())
    try:
        compiled: Function = numba.njit(cache=True, **_OPTIONS)(function)
    finally:
        config.CACHE_DIR = before
    return compiled


word: Any = np.uint64
"""Keys, ordinals and indices as the 64-bit words that the functions of ``endive.randomness`` work on."""
