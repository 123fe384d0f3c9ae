"""One run of the compiled engine: lower the configuration, let the kernel advance, hand on its rows."""

from __future__ import annotations

import dataclasses

import numpy as np

from endive.catalog import CatalogCounters
from endive.simulation.compiled import layout
from endive.simulation.compiled.layout import FINISHED, HANDOVERS_FULL, HISTORY_FULL, ROWS_FULL, SLOTS_FULL, point
from endive.simulation.compiled.lower import features_of, lower
from endive.simulation.compiled.native.kernel_cache import load_kernel
from endive.simulation.compiled.room import with_more_handovers, with_more_slots, with_room_in_history
from endive.simulation.compiled.rows import to_batch
from endive.simulation.config import SimulationConfig
from endive.simulation.rows import BATCH_ROWS, Progress, Sink
from endive.simulation.summary import RunCounters
from endive.transaction import ManifestListCounters
from endive.workload import HandOverCounters

_EVENTS_AT_ONCE = 1_000_000
"""How many events the kernel takes before it looks up: often enough for progress and Ctrl-C."""


class CompiledEngine:
    """One run of the compiled engine."""

    def __init__(self, config: SimulationConfig, sink: Sink, progress: Progress | None = None) -> None:
        self._config = config
        self._world = lower(config)
        self._kernel = load_kernel(features_of(config))
        self._names = [cls.name for cls in config.workload.config.workload_classes]
        self._sink = sink
        self._progress = progress

    def run(self) -> RunCounters:
        """Run to the end and return what happened at the catalog."""
        run = self._world.run[0]
        self._kernel.begin(self._world.run)
        outcome = -1
        while outcome != FINISHED:
            outcome = self._kernel.advance(self._world.run, _EVENTS_AT_ONCE)
            if outcome == ROWS_FULL:
                self._flush()
            elif outcome == HISTORY_FULL:
                self._world = with_room_in_history(self._world)
            elif outcome == SLOTS_FULL:
                self._world = with_more_slots(self._world, 2 * len(self._world.txns))
            elif outcome == HANDOVERS_FULL:
                self._world = with_more_handovers(self._world)
            if self._progress is not None:
                self._progress(float(run["now_ms"]))
        self._add_in_flight()
        self._flush()
        return self._counters()

    def _flush(self) -> None:
        """Hand on the rows. A batch keeps the memory that they are in, unless it uses less than half of it.

        New memory is zero: kernels leave the words alone that belong to features they do not have.
        """
        run, words, tables = self._world.run[0], self._world.rows, self._world.row_tables
        rows = int(run["rows_used"])
        if 2 * rows >= len(tables):
            self._world = point(self._world._replace(rows=np.zeros(words.shape, words.dtype)))
        else:
            words = words[:, :rows].copy()
        if rows:
            self._sink(to_batch(words[:, :rows], tables[:rows], self._names))
        run["rows_used"] = 0

    def _add_in_flight(self) -> None:
        """Rows for what the end of the run cut off, in order of their numbers."""
        world, end_ms = self._world, self._config.duration_ms
        live = np.flatnonzero(world.txns["txn_id"] >= 0)
        live = live[np.argsort(world.txns["txn_id"][live])]
        txns = world.txns[live]
        committing = txns["status"] == layout.COMMITTING
        txns["commit_latency_ms"][committing] += end_ms - txns["commit_started_ms"][committing]
        txns["now_ms"] = end_ms
        txns["status"] = layout.IN_FLIGHT
        words = txns.view(np.int64).reshape(len(txns), layout.TXN.itemsize // 8)[:, : len(world.rows)].T
        tables = world.touched["table"][live]
        run, position = world.run[0], 0
        while position < len(txns):
            row = int(run["rows_used"])
            count = min(BATCH_ROWS - row, len(txns) - position)
            self._world.rows[:, row : row + count] = words[:, position : position + count]
            self._world.row_tables[row : row + count] = tables[position : position + count]
            run["rows_used"] += count
            position += count
            if run["rows_used"] == BATCH_ROWS:
                self._flush()

    def _counters(self) -> RunCounters:
        kinds = (CatalogCounters, ManifestListCounters, HandOverCounters)
        names = [field.name for kind in kinds for field in dataclasses.fields(kind)]
        return RunCounters({name: self._world.run[0][name].item() for name in names})
