"""Room for more in the arrays of a run: transactions in flight, hand-overs, snapshots of tables."""

from __future__ import annotations

import numpy as np

from endive.simulation.compiled import layout
from endive.simulation.compiled.layout import World, aligned, point

INITIAL_HANDOVERS = 1024


def with_more_slots(world: World, slots: int) -> World:
    """The same run with room for so many transactions in flight."""
    old = len(world.txns)
    txns = aligned(slots, layout.TXN)
    txns[:old] = world.txns
    txns["txn_id"][old:] = -1
    txns["next_free"][old:] = np.arange(old + 1, slots + 1)
    run = world.run[0]
    txns["next_free"][-1] = run["free_head"]
    run["free_head"] = old
    touched = aligned((slots, *world.touched.shape[1:]), layout.TOUCHED)
    touched[:old] = world.touched
    partitions = np.zeros((slots, *world.partitions_touched.shape[1:]), layout.PARTITION)
    partitions[:old] = world.partitions_touched
    heap = _heap(world, slots, len(world.handovers))
    requests = np.zeros(slots if run["catalog_kind"] == layout.SERVICE else 0, layout.REQUEST)
    requests[: len(world.requests)] = world.requests
    return point(world._replace(txns=txns, touched=touched, partitions_touched=partitions, heap=heap, requests=requests))


def _heap(world: World, slots: int, handovers: int) -> layout.Array:
    """Return the same queue with room for an event of each slot, source and hand-over, and two of each committer."""
    size = slots + len(world.sources) + 2 * len(world.committers) + handovers
    heap = aligned(size, layout.EVENT, ahead=1)  # the four children of an event are in one line
    heap[: len(world.heap)] = world.heap
    return heap


def with_more_handovers(world: World) -> World:
    """The same run with room for twice as many hand-overs."""
    old = len(world.handovers)
    handovers = np.zeros(max(2 * old, INITIAL_HANDOVERS), layout.HANDOVER)
    handovers[:old] = world.handovers
    handovers["next"][old:] = np.arange(old + 1, len(handovers) + 1)
    run = world.run[0]
    handovers["next"][-1] = run["handover_free"]
    run["handover_free"] = old
    return point(world._replace(handovers=handovers, heap=_heap(world, len(world.txns), len(handovers))))


def with_room_in_history(world: World) -> World:
    """The same run with room for more snapshots: those that nobody will look back to are dropped."""
    run = world.run[0]
    first, end = int(run["history_first"]), int(run["history_end"])
    live = world.txns["txn_id"] >= 0
    needed = min(int(world.txns["history_start"][live].min(initial=end)), end)
    kept = slice(needed - first, end - first)
    length = len(world.history) if end - needed <= len(world.history) // 2 else 2 * len(world.history)
    while length < end - needed + 2 * (int(run["max_tables"]) + int(run["in_batches"])):
        length *= 2
    history = np.zeros(length, layout.HISTORY)
    partitions = np.zeros((length, world.history_partitions.shape[1]), np.int64)
    history[: end - needed] = world.history[kept]
    partitions[: end - needed] = world.history_partitions[kept]
    run["history_first"] = needed
    return point(world._replace(history=history, history_partitions=partitions))
