"""The runner: engines, their choice, and the reasons in the log."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from endive.catalog import CASCatalog
from endive.config import load_simulation_config
from endive.conflict_detector import ProbabilisticConflictDetector
from endive.randomness import RandomSource
from endive.simulation import Simulation, SimulationConfig
from endive.simulation.config import EngineName
from endive.simulation.runner import EngineError
from endive.storage import ExponentialLatency, FixedLatency, LatencyDistribution, ProfiledProvider, StorageResult, create_provider
from endive.transaction import Backoff, CommitPolicy, FastAppendTransaction
from endive.workload import OpenArrivals, UniformTableSelector, Workload, WorkloadClass, WorkloadConfig


class Twice(LatencyDistribution):
    """A distribution of the user's own."""

    def sample(self, rng: RandomSource) -> float:
        return 2.0 + rng.random_sample()


class OwnProvider(ProfiledProvider):
    """A provider of the user's own."""

    def read(self, key: str, expected_size_bytes: int) -> Generator[float, None, StorageResult]:
        yield 1.0
        return StorageResult(True, 1.0, expected_size_bytes)


class OwnTransaction(FastAppendTransaction):
    """An operation of the user's own."""

    operation_type: ClassVar[str] = "own"


class OwnSelector(UniformTableSelector):
    """A selector of the user's own."""


class OwnDetector(ProbabilisticConflictDetector):
    """A detector of the user's own."""

    def bind(self, rng: RandomSource) -> OwnDetector:
        return self


class OwnCatalog(CASCatalog):
    """A catalog of the user's own."""


def config_with(**changes: Any) -> SimulationConfig:
    storage = changes.pop("storage", create_provider("instant", np.random.RandomState(0)))
    catalog = changes.pop("catalog", CASCatalog)(storage, 1, (1,))
    detector = changes.pop("detector", ProbabilisticConflictDetector(0.0))
    cls = WorkloadClass("c", OpenArrivals(ExponentialLatency(20.0)), FixedLatency(5.0))
    workload = WorkloadConfig(classes=(dataclasses.replace(cls, **changes),))
    return SimulationConfig(2_000.0, 1, storage, catalog, Workload(workload, 1), detector)


def test_built_in_parts_are_compiled() -> None:
    assert Simulation(config_with(), among_many=True).engine == "compiled"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"runtime": Twice()}, "runtime of class 'c' Twice"),
        ({"arrivals": OpenArrivals(Twice())}, "inter-arrival time of class 'c' Twice"),
        ({"operations": {OwnTransaction: 1.0}}, "operation OwnTransaction"),
        ({"table_selector": OwnSelector()}, "table selector of class 'c' OwnSelector"),
        ({"detector": OwnDetector(0.0)}, "detector of class 'c' OwnDetector"),
        ({"catalog": OwnCatalog}, "catalog OwnCatalog"),
        (
            {"storage": OwnProvider(create_provider("instant", np.random.RandomState(0)).profile, np.random.RandomState(0))},
            "OwnProvider",
        ),
    ],
)
def test_parts_of_the_users_own_run_on_the_reference_engine_and_the_log_says_why(
    changes: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_with(**changes)
    with caplog.at_level(logging.INFO):
        statistics = Simulation(config).run()
    assert reason in caplog.text
    assert statistics.committed > 50
    with pytest.raises(EngineError, match="compiled engine cannot run this"):
        Simulation(dataclasses.replace(config, engine="compiled")).run()


def test_a_trace_is_written_by_the_reference_engine() -> None:
    traced: list[pa.RecordBatch] = []
    rows: list[pa.RecordBatch] = []
    Simulation(config_with()).stream(rows.append, trace=traced.append)
    assert sum(batch.num_rows for batch in traced) > sum(batch.num_rows for batch in rows) > 0
    with pytest.raises(EngineError, match="no trace"):
        Simulation(dataclasses.replace(config_with(), engine="compiled")).stream(rows.append, trace=traced.append)


def test_a_run_in_memory_is_the_same_on_both_engines_and_twice_over() -> None:
    config = config_with()
    simulation = Simulation(config)
    first = simulation.run()
    assert first.transactions == simulation.run().transactions
    assert first.transactions == Simulation(dataclasses.replace(config, engine="reference")).run().transactions
    assert first.committed == len(first.to_dataframe().query("status == 'committed'"))


def test_rows_come_in_batches_of_equal_size_from_both_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    from endive.simulation import columns
    from endive.simulation.compiled import engine, lower

    for module in (columns, engine, lower):
        monkeypatch.setattr(module, "BATCH_ROWS", 7)
    sizes = []
    for name in ("reference", "compiled"):
        batches: list[pa.RecordBatch] = []
        Simulation(dataclasses.replace(config_with(), engine=name)).stream(batches.append)
        sizes.append([batch.num_rows for batch in batches])
    assert sizes[0] == sizes[1]
    assert set(sizes[0][:-1]) == {7}


def test_slots_are_recycled_so_that_memory_follows_the_work_in_flight() -> None:
    from endive.simulation.compiled.engine import CompiledEngine
    from endive.simulation.compiled.lower import INITIAL_SLOTS

    config = dataclasses.replace(config_with(), duration_ms=200_000.0)
    run = CompiledEngine(config, lambda batch: None)
    run.run()
    assert run._world.run[0]["next_id"] > 5 * INITIAL_SLOTS
    assert len(run._world.txns) == INITIAL_SLOTS


def test_more_slots_are_made_when_more_is_in_flight() -> None:
    config = config_with(arrivals=OpenArrivals(FixedLatency(0.5)), runtime=FixedLatency(1_500.0))
    compiled, reference = (
        Simulation(dataclasses.replace(config, engine=engine)).run().to_dataframe() for engine in ("compiled", "reference")
    )
    assert (reference["status"] == "in_flight").sum() > 1_024
    assert compiled.equals(reference)


def test_a_policy_is_taken_whole() -> None:
    backoff = Backoff(enabled=True, upwards=True)
    policy = CommitPolicy(backoff=backoff, timeout_from_retry=1)
    assert dataclasses.replace(config_with(), policy=policy).commit_policy is policy


def test_the_fields_of_backoff_make_a_policy_and_must_not_contradict_one() -> None:
    config = dataclasses.replace(config_with(), backoff_enabled=True, backoff_base_ms=3.0)
    assert config.commit_policy == CommitPolicy(backoff=Backoff(enabled=True, base_ms=3.0))
    with pytest.raises(ValueError, match=r"contradict policy\.backoff"):
        dataclasses.replace(config, policy=CommitPolicy())


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("duration_ms", [0.0, -5.0])
def test_a_run_of_no_length_has_no_rows_on_either_engine(duration_ms: float, drain: bool) -> None:
    for engine in ("reference", "compiled"):
        config = dataclasses.replace(config_with(), duration_ms=duration_ms, drain=drain, engine=engine)
        assert Simulation(config).run().to_table().num_rows == 0


FILE = """
[simulation]
duration_ms = 20_000
seed = 1
[storage]
provider = "s3"
[transaction]
retry = 8
real_conflict_probability = 0.0
runtime = { distribution = "fixed", value = 200.0 }
[workload.w]
rate = 20
operation = "validated_overwrite"
[workload.own]
rate = 1
retry = 3
real_conflict_probability = 0.5
operation = "validated_overwrite"
"""


@pytest.fixture
def loaded(tmp_path: Path) -> SimulationConfig:
    path = tmp_path / "run.toml"
    path.write_text(FILE)
    return load_simulation_config(path)


def frame(config: SimulationConfig) -> pd.DataFrame:
    rows: pd.DataFrame = Simulation(config).run().to_table().to_pandas()
    return rows


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_retries_of_a_loaded_configuration_can_be_replaced(loaded: SimulationConfig, engine: EngineName) -> None:
    rows = frame(dataclasses.replace(loaded, max_retries=0, engine=engine))
    assert rows[rows.workload_class == "w"].n_retries.max() == 0
    assert rows[rows.workload_class == "own"].n_retries.max() > 0, "a class with a value of its own keeps it"


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_the_detector_of_a_loaded_configuration_can_be_replaced(loaded: SimulationConfig, engine: EngineName) -> None:
    rows = frame(dataclasses.replace(loaded, conflict_detector=ProbabilisticConflictDetector(1.0), engine=engine))
    assert (rows[rows.workload_class == "w"].abort_reason == "validation_exception").any()


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_manifest_list_appends_need_a_store_that_can_append(loaded: SimulationConfig, engine: EngineName) -> None:
    with pytest.raises(ValueError, match=r"ml_append_mode needs an object store with append support; .*Use s3x, azure"):
        dataclasses.replace(loaded, ml_append_mode=True, engine=engine)


@pytest.mark.parametrize("engine", ["reference", "compiled"])
def test_a_catalog_has_the_tables_of_the_workload(loaded: SimulationConfig, engine: EngineName) -> None:
    topology = dataclasses.replace(loaded.workload.config, num_tables=3, partitions_per_table=(1, 1, 1), table_groups=None)
    with pytest.raises(ValueError, match="the workload has 3 tables, but the catalog has only 1"):
        dataclasses.replace(loaded, workload=Workload(topology), engine=engine)
