"""The choice of an engine by ``auto``, and kernels that are not compiled yet."""

from __future__ import annotations

import dataclasses
import logging

import pyarrow as pa
import pytest

from endive.simulation import Simulation, SimulationConfig, runner
from endive.simulation.compiled import kernel_cache as cache
from endive.simulation.compiled.features import Features
from endive.simulation.runner import Choice, choose_engine
from tests.simulation.test_runner import config_with


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> list[Features]:
    """No kernel is compiled; which ones would be compiled beside a run is noted."""
    wanted: list[Features] = []
    monkeypatch.setattr(cache, "is_cached", lambda features: False)
    monkeypatch.setattr(cache, "compile_in_background", wanted.append)
    return wanted


def test_a_kernel_that_is_there_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "is_cached", lambda features: True)
    choice = choose_engine(config_with())
    assert (choice.engine, choice.compiles) == ("compiled", "no")


def test_a_short_run_does_not_wait_for_the_compiler(beside: list[Features], caplog: pytest.LogCaptureFixture) -> None:
    rows: list[pa.RecordBatch] = []
    with caplog.at_level(logging.INFO):
        Simulation(config_with()).stream(rows.append)
    assert rows
    assert beside == [Features.named("endive-cas")]
    assert "running on the reference engine: the reference engine takes about 0." in caplog.text
    assert "compiling the kernel takes about" in caplog.text


def test_a_long_run_does(beside: list[Features]) -> None:
    choice = choose_engine(dataclasses.replace(config_with(), duration_ms=3_600_000.0))
    assert (choice.engine, choice.compiles) == ("compiled", "first")


def test_so_does_one_among_many_and_one_that_asks_for_it(beside: list[Features]) -> None:
    assert choose_engine(config_with(), among_many=True).compiles == "first"
    assert choose_engine(dataclasses.replace(config_with(), engine="compiled")).compiles == "first"


def test_who_wants_a_trace_or_the_reference_engine_compiles_nothing(beside: list[Features]) -> None:
    rows: list[pa.RecordBatch] = []
    Simulation(config_with()).stream(rows.append, trace=rows.append)
    Simulation(dataclasses.replace(config_with(), engine="reference")).stream(rows.append)
    assert beside == []


def test_a_simulation_chooses_its_engine_once(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[SimulationConfig] = []

    def choose(config: SimulationConfig, *, among_many: bool) -> Choice:
        chosen.append(config)
        return Choice("reference", "for the test")

    monkeypatch.setattr(runner, "choose_engine", choose)
    simulation, rows = Simulation(config_with()), list[pa.RecordBatch]()
    assert simulation.choice == Choice("reference", "for the test")
    simulation.stream(rows.append)
    simulation.stream(rows.append)
    assert (simulation.engine, len(chosen)) == ("reference", 1)


def test_a_release_that_was_not_tested_compiles_nothing_in_the_background(
    beside: list[Features], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "UNTESTED_RELEASE", "numba 0.70.0 is outside the tested releases")
    choice = choose_engine(config_with())
    assert (choice.engine, choice.compiles) == ("reference", "no")
