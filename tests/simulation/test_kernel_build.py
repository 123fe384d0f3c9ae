"""How a kernel is put together out of its parts, shown on small ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import from_dtype, types

from endive.arithmetic.draws import quantile_cell
from endive.simulation.compiled.build import build
from endive.simulation.compiled.cache import Kernel
from endive.simulation.compiled.jit import inlined, jit

HAS_EXTRA = True
RUN = np.dtype([("total", "f8"), ("calls", "i8")])


def plain(x: float) -> float:
    """Not marked: compiled with whatever calls it. Has what kernels compute in their own way, where a difference would show."""
    total = math.exp(x)
    for k in range(1, 400):
        cell, where = quantile_cell(0.5 * (k / 400.0) ** 12.0)
        total += cell + where + math.exp(x * k / 40.0)
    return total


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


def built(**constants: bool) -> Kernel:
    run: Any = from_dtype(RUN)
    entries: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "begin": (begin, (run,)),
        "advance": (advance, (run, types.int64)),
    }
    return Kernel(build(entries, constants))


def test_a_branch_on_a_feature_that_is_not_wanted_is_not_compiled() -> None:
    run = np.zeros(1, RUN)
    kernel = built(HAS_EXTRA=False)
    kernel.begin(run)
    assert run[0].item() == (3 * plain(3.0), 2)
    assert kernel.advance(run, 3) == 5
    once = plain(3.0)
    assert run[0].item() == (3 * once + 10 * once + 10 * once + 10 * once, 5)


def test_a_branch_on_a_feature_that_is_wanted_is() -> None:
    with pytest.raises(Exception, match="no_such_field"):
        built(HAS_EXTRA=True)


def test_kernels_that_one_process_builds_share_what_does_not_ask_for_a_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: dict[Any, Any] = {}
    monkeypatch.setattr("endive.simulation.compiled.build._parts", parts)
    built(HAS_EXTRA=False, HAS_MORE=False)
    first = dict(parts)
    built(HAS_EXTRA=False, HAS_MORE=True)
    assert parts == first, "nothing asks for HAS_MORE"
    with pytest.raises(Exception, match="no_such_field"):
        built(HAS_EXTRA=True)
    assert {function.__name__ for function, asked in parts if ("HAS_EXTRA", True) in asked} == {"begin"}
    assert {function.__name__ for function, asked in parts if not asked} >= {"add", "twice", "advance", "plain"}


def test_parts_stay_plain_functions() -> None:
    class Run:
        total, calls = 0.0, 0

    run = Run()
    add(run, 2)
    assert (run.total, run.calls) == (2 * plain(3.0), 1)
