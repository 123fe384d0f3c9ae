"""Compilation of kernels from their functions, on small examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import from_dtype, types

from endive.arithmetic.draws import SMALLEST, quantile_cell
from endive.simulation.compiled.compilation import compile_object_code, compile_plainly
from endive.simulation.compiled.features import inlined, jit, replaces
from endive.simulation.compiled.kernel_cache import Kernel, KernelError, NativeKernel, PlainKernel
from endive.simulation.compiled.streams import cell_from_bits

HAS_EXTRA = True
RUN = np.dtype([("total", "f8"), ("calls", "i8")])


def original(x: float) -> float:
    mantissa, exponent = math.frexp(x)
    return mantissa * 2.0**exponent


@replaces(original)
def replacement(x: float) -> float:
    return x


def plain(x: float) -> float:
    """A function without a mark, which is compiled with its callers; it calls one that kernels replace."""
    return math.exp(x) + original(x)


@jit
def add(run: Any, amount: int) -> None:
    run.total += plain(3.0) * amount
    run.calls += 1


@inlined
def twice(run: Any) -> None:
    add(run, 1)
    add(run, 2)


@jit
def extra(run: Any) -> None:
    run.no_such_field += 1


@jit
def begin(run: Any) -> None:
    if HAS_EXTRA:
        extra(run)
    else:
        twice(run)


@jit
def advance(run: Any, count: int) -> int:
    for _ in range(count):
        add(run, 10)
    return run.calls  # type: ignore[no-any-return]


def entries(first: Callable[[Any], None]) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    run: Any = from_dtype(RUN)
    return {"begin": (first, (run,)), "advance": (advance, (run, types.int64))}


def natively(first: Callable[[Any], None] = begin, **constants: bool) -> Kernel:
    return NativeKernel(compile_object_code(entries(first), constants))


def plainly(first: Callable[[Any], None] = begin, **constants: bool) -> Kernel:
    return PlainKernel(**compile_plainly(entries(first), constants))


@pytest.mark.parametrize("built", [natively, plainly])
def test_a_branch_on_a_feature_that_is_not_wanted_is_not_compiled(built: Callable[..., Kernel]) -> None:
    run = np.zeros(1, RUN)
    kernel = built(HAS_EXTRA=False)
    kernel.begin(run)
    assert run[0].item() == (3 * plain(3.0), 2)
    assert kernel.advance(run, 3) == 5
    once = plain(3.0)
    assert run[0].item() == (3 * once + 10 * once + 10 * once + 10 * once, 5)


@pytest.mark.parametrize("built", [natively, plainly])
def test_a_branch_on_a_feature_that_is_wanted_is(built: Callable[..., Kernel]) -> None:
    with pytest.raises(Exception, match="no_such_field"):
        built(HAS_EXTRA=True).begin(np.zeros(1, RUN))


@jit
def call_helper(run: Any) -> None:
    run.total, run.calls = math.frexp(run.total)


def test_a_kernel_that_calls_a_helper_of_numba_is_not_linked() -> None:
    """The helper exists only in processes that have imported Numba, so a kernel from the cache could not call it."""
    with pytest.raises(KernelError, match="cannot be linked"):
        natively(call_helper)
    run = np.zeros(1, RUN)
    run["total"] = 12.0
    plainly(call_helper).begin(run)
    assert run[0].item() == (0.75, 4)


def test_parts_stay_plain_functions() -> None:
    class Run:
        total, calls = 0.0, 0

    run = Run()
    add(run, 2)
    assert (run.total, run.calls) == (2 * plain(3.0), 1)


def test_the_cell_of_a_quantile_is_read_off_the_bits_of_a_number() -> None:
    for p in (*(0.5 * (k / 4000.0) ** 12.0 for k in range(400, 4001)), SMALLEST, 0.25, 0.25 - 2.0**-54):
        assert cell_from_bits(p) == quantile_cell(p)
