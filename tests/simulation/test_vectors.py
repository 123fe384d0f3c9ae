"""Latencies that a kernel draws side by side: the values of the model's arithmetic, bit by bit."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm
from numba import from_dtype

from endive.arithmetic.draws import LOGNORMAL, QUANTILES, keyed_uniform, quantile
from endive.simulation.compiled.build import build
from endive.simulation.compiled.layout import CLASS, RUN, TXN
from endive.simulation.compiled.vectors import CAN_DRAW_TOGETHER, LANES, attempt_latencies

Drawn = tuple[bool, list[float]]


def _draw(run: Any, txn: Any, cls: Any) -> int:
    drawn, one, two, three, four = attempt_latencies(run, txn, cls)
    txn.times[0], txn.times[1], txn.times[2], txn.times[3] = one, two, three, four
    return int(drawn)


@pytest.fixture(scope="module")
def draw() -> Callable[[int, int, np.ndarray[Any, Any]], Drawn]:
    records = tuple(from_dtype(kind) for kind in (RUN, TXN, CLASS))
    code = build({"draw": (_draw, records)}, {})
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), llvm.Target.from_default_triple().create_target_machine(jit=True))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 5)(engine.get_function_address("draw"))
    run, txn, cls = (np.zeros(1, kind) for kind in (RUN, TXN, CLASS))
    table = np.array(QUANTILES)
    run["quantiles"] = table.ctypes.data
    owners = (engine, table)  # of the code and of the numbers, which have to outlive the calls

    def call(key: int, index: int, parameters: np.ndarray[Any, Any]) -> Drawn:
        assert len(owners) == 2
        txn["storage_key"], txn["storage_index"] = key, index
        cls["access"][0, list(LANES)] = parameters
        outcome, error = ctypes.c_int64(), ctypes.c_void_p()
        places = (outcome, error)
        assert entry(*(ctypes.addressof(each) for each in places), run.ctypes.data, txn.ctypes.data, cls.ctypes.data) == 0
        return bool(outcome.value), txn["times"][0, : len(LANES)].tolist()

    return call


@pytest.mark.skipif(not CAN_DRAW_TOGETHER, reason="kernels draw one by one on this machine")
def test_four_are_drawn_as_one_by_one(draw: Callable[..., Drawn]) -> None:
    rng = random.Random(3)
    for _ in range(5_000):
        key, index = rng.getrandbits(64), rng.randrange(10**6)
        parameters = [(LOGNORMAL, rng.uniform(-3.0, 8.0), rng.uniform(0.0, 2.0), rng.choice((0.0, 5.0, 60.0))) for _ in LANES]
        expected = [quantile(*given, keyed_uniform(key, index + lane)) for lane, given in enumerate(parameters)]
        assert draw(key, index, np.array(parameters)) == (True, expected)


@pytest.mark.skipif(not CAN_DRAW_TOGETHER, reason="kernels draw one by one on this machine")
def test_extreme_ones_are_not_drawn_together(draw: Callable[..., Drawn]) -> None:
    for place in range(len(LANES)):
        parameters = np.array([(LOGNORMAL, 3.0, 0.5, 0.0)] * len(LANES))
        assert draw(7, 11, parameters)[0]
        parameters[place] = (LOGNORMAL, 900.0, 0.0, 0.0)
        assert not draw(7, 11, parameters)[0]
