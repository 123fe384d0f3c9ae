"""Runs for tests: configurations as trees, rows as tables."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from endive.catalog import StoredCatalog
from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.simulation import RESULT_SCHEMA, RunCounters, SimulationConfig
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from endive.simulation.row_invariants import RowInvariants

Engine = type[CompiledEngine] | type[ReferenceEngine]
ENGINES: tuple[Engine, ...] = (ReferenceEngine, CompiledEngine)


def config_of(tree: dict[str, Any]) -> SimulationConfig:
    """A run from the content of a file."""
    return build_simulation_config(check_document(tree, "generated"))


def table_of(engine: Engine, config: SimulationConfig) -> tuple[pa.Table, RunCounters]:
    """Return the rows of a run, which satisfy the row invariants, and its counters."""
    batches: list[pa.RecordBatch] = []
    counters = engine(config, batches.append).run()
    invariants = RowInvariants(frozenset(cls.name for cls in config.workload.config.workload_classes))
    for batch in batches:
        invariants.check(batch)
    return pa.Table.from_batches(batches, schema=RESULT_SCHEMA), counters


def frame_of(engine: Engine, tree: dict[str, Any]) -> pd.DataFrame:
    """The rows of a run."""
    frame: pd.DataFrame = table_of(engine, config_of(tree))[0].to_pandas()
    return frame


def run_with_catalog(config: SimulationConfig) -> tuple[pd.DataFrame, RunCounters, StoredCatalog]:
    """A run of the reference engine with its catalog as it is at the end."""
    batches: list[pa.RecordBatch] = []
    engine = ReferenceEngine(config, batches.append)
    counters = engine.run()
    catalog = engine._catalog
    assert isinstance(catalog, StoredCatalog)
    return pa.Table.from_batches(batches, schema=RESULT_SCHEMA).to_pandas(), counters, catalog
