"""The exponential of kernels: the bits of the C library, at all sizes."""

from __future__ import annotations

import math
import platform
import random

import pytest

from endive.simulation.compiled.exponential import agrees_with_library, compiled_exp

NEAR = [0.0, -0.0, 1.0, -1.0, 2.0**-54, -(2.0**-55), 1e-300, 5e-324, 511.9, -511.9, 512.0, 709.78, -708.4, -740.0, -800.0]


@pytest.mark.skipif(not agrees_with_library(), reason="kernels call the exp of this C library")
def test_extreme_numbers_are_left_to_the_c_library() -> None:
    assert [compiled_exp()(x) for x in NEAR] == [math.exp(x) for x in NEAR]
    assert compiled_exp()(710.0) == math.inf
    assert compiled_exp()(-math.inf) == 0.0
    assert math.isnan(compiled_exp()(math.nan))


@pytest.mark.skipif(not agrees_with_library(), reason="kernels call the exp of this C library")
def test_bits_agree_near_the_edges_of_cells() -> None:
    rng = random.Random(2)
    edges = [(k + 0.5) * math.log(2.0) / 128 for k in range(-4000, 4000)]
    xs = [edge * (1.0 + rng.uniform(-4e-16, 4e-16)) for edge in edges]
    assert [compiled_exp()(x) for x in xs] == [math.exp(x) for x in xs]


def test_another_machine_calls_its_own_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not agrees_with_library.__wrapped__()


def test_a_library_that_rounds_otherwise_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math, "exp", lambda x: math.nextafter(compiled_exp()(x), math.inf))
    assert not agrees_with_library.__wrapped__()
