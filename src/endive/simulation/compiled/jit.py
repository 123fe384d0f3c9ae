"""Numba, set up: where compiled code is cached, and which functions of the model it compiles.

The arithmetic of the model (``endive.randomness``, ``endive.costs``) is plain Python that the reference engine runs as it is; here
the same functions are made known to Numba. The cache lies in the user's cache directory under a fingerprint of the code, so a
change of any function compiles anew, a read-only installation works, and processes that start at once find whole files only
(Numba writes each to a temporary name and renames it).
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "ENDIVE_CACHE_DIR"


def cache_directory() -> Path:
    """Where compiled code is kept."""
    chosen = os.environ.get(CACHE_VARIABLE)
    root = Path(chosen) if chosen else Path(platformdirs.user_cache_dir("endive", appauthor=False))
    return root / "kernels" / _fingerprint()


def _fingerprint() -> str:
    """Of the code that is compiled: that of this folder and the arithmetic of the model."""
    from endive.utils import fingerprint

    return fingerprint("randomness.py", "costs.py", "simulation/compiled")


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(cache_directory())

import numba  # noqa: E402
from numba.extending import register_jitable  # noqa: E402

from endive import costs, randomness  # noqa: E402

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
    costs.lower_bound,
    costs.pick,
):
    register_jitable(_function)

jit = numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False)
