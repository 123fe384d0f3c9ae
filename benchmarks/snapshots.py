"""Measure the cost of a catalog read by catalog size. Snapshots share tables with the catalog, so it should be constant."""

from __future__ import annotations

import statistics
import time

from benchmarks.measure import Row
from endive.catalog import InstantCatalog

_READS = 2_000
_ROUNDS = 31


def measure_snapshots(shorter: float) -> Row:
    """Return medians over rounds that alternate between a small and a large catalog."""
    small = InstantCatalog(1, (1,))
    large = InstantCatalog(1_000, (1_000,) * 1_000)
    reads = int(_READS / shorter)
    small_ns, large_ns = [], []
    for _ in range(_ROUNDS):
        small_ns.append(_ns_per_read(small, reads))
        large_ns.append(_ns_per_read(large, reads))
    one, million = statistics.median(small_ns), statistics.median(large_ns)
    return {"ns_per_read_1x1": one, "ns_per_read_1000x1000": million, "ratio": million / one, "reads": reads, "rounds": _ROUNDS}


def _ns_per_read(catalog: InstantCatalog, reads: int) -> float:
    before = time.process_time_ns()
    for _ in range(reads):
        for _ in catalog.read(0.0):
            pass
    return (time.process_time_ns() - before) / reads
