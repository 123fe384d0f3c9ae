"""Runs for tests: configurations as trees, rows as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from endive.analysis.history_check import check_counts, check_history, rules_of
from endive.catalog import StoredCatalog
from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.simulation import RESULT_SCHEMA, RunCounters, SimulationConfig
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.reference import ReferenceEngine
from endive.simulation.row_invariants import RowInvariants, RunLimits

Engine = type[CompiledEngine] | type[ReferenceEngine]
ENGINES: tuple[Engine, ...] = (ReferenceEngine, CompiledEngine)


def config_of(tree: dict[str, Any]) -> SimulationConfig:
    """Return a run from the content of a file."""
    return build_simulation_config(check_document(tree, "generated"))


def table_of(engine: Engine, config: SimulationConfig) -> tuple[pa.Table, RunCounters]:
    """Return the rows of a run, which satisfy the row invariants, and its counters."""
    batches: list[pa.RecordBatch] = []
    counters = engine(config, batches.append).run()
    check_rows(config, batches)
    return pa.Table.from_batches(batches, schema=RESULT_SCHEMA), counters


def check_rows(config: SimulationConfig, batches: Sequence[pa.RecordBatch]) -> None:
    """Check the row invariants of a whole run."""
    classes = config.workload.config.workload_classes
    closed = frozenset(cls.name for cls in classes if (cls.arrivals.waits or cls.arrivals.paced) and cls.committer is None)
    end_ms = math.inf if config.drain else config.duration_ms
    limits = RunLimits(config.workload.config.num_tables, end_ms)
    invariants = RowInvariants(frozenset(cls.name for cls in classes), closed, limits)
    for batch in batches:
        invariants.check(batch)
    invariants.check_complete()


def check_run(tree: dict[str, Any]) -> None:
    """Run a configuration on the reference engine and check the invariants of its rows and of its history.

    Raises:
        RowError: If a row violates an invariant.
        AssertionError: If the history violates one.
    """
    document = check_document(tree, "generated")
    config = build_simulation_config(document)
    rows: list[pa.RecordBatch] = []
    events: list[pa.RecordBatch] = []
    ReferenceEngine(config, rows.append, events.append).run()
    check_rows(config, rows)
    results, trace = ([each for batch in batches for each in batch.to_pylist()] for batches in (rows, events))
    problems = [*check_counts(results, trace), *check_history(results, trace, rules_of(document))]
    assert not problems, problems[0]


def frame_of(engine: Engine, tree: dict[str, Any]) -> pd.DataFrame:
    """Return the rows of a run."""
    frame: pd.DataFrame = table_of(engine, config_of(tree))[0].to_pandas()
    return frame


def run_with_catalog(config: SimulationConfig) -> tuple[pd.DataFrame, RunCounters, StoredCatalog]:
    """Run the reference engine; return its rows, its counters and the final catalog."""
    batches: list[pa.RecordBatch] = []
    engine = ReferenceEngine(config, batches.append)
    counters = engine.run()
    catalog = engine._catalog
    assert isinstance(catalog, StoredCatalog)
    check_rows(config, batches)
    return pa.Table.from_batches(batches, schema=RESULT_SCHEMA).to_pandas(), counters, catalog
