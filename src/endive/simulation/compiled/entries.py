"""The entries of the kernel: which of its functions are called from outside, and with what."""

from __future__ import annotations

from numba import from_dtype, types

from endive.simulation.compiled import kernel
from endive.simulation.compiled.build import build
from endive.simulation.compiled.features import Features
from endive.simulation.compiled.layout import RUN


def object_code(features: Features) -> bytes:
    """Compile the kernel with these features."""
    run = from_dtype(RUN)
    return build({"begin": (kernel.begin, (run,)), "advance": (kernel.advance, (run, types.int64))}, features.constants)
