"""What a client does to a table, access by access: counted by attempt, and delayed by kind."""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

CATALOG_READS = "catalog_reads"
CATALOG_SWAPS = "catalog_swaps"
_KINDS = (
    (re.compile(r"\.metadata\.json$"), "metadata"),
    (re.compile(r"(^|/)snap-[^/]*\.avro$"), "manifest_list"),
    (re.compile(r"-m\d+\.avro$"), "manifest_file"),
)


def file_kind(location: str) -> str:
    """The kind of a file by its name, in the words of the simulator's columns; `other` are data and delete files."""
    return next((kind for pattern, kind in _KINDS if pattern.search(location)), "other")


@dataclass(frozen=True)
class Delays:
    """How long each access takes, in ms; by default as long as it takes."""

    catalog_read_ms: float = 0.0
    catalog_swap_ms: float = 0.0
    read_ms: float = 0.0
    write_ms: float = 0.0
    """Of a file that is written or deleted."""

    def of(self, access: str) -> float:
        """The delay of an access; that of data files is part of the runtime."""
        if access.startswith("other"):
            return 0.0
        if access == CATALOG_READS:
            return self.catalog_read_ms
        if access == CATALOG_SWAPS:
            return self.catalog_swap_ms
        if access.endswith("_reads"):
            return self.read_ms
        return self.write_ms


NO_DELAYS = Delays()


@dataclass
class Accesses:
    """The accesses of one operation: those before its first attempt, of each attempt, and after its success.

    Attempts end with a swap of the catalog's pointer. With delays, an access lasts until its delay has passed since the last one
    ended: so the client's own computing is part of its accesses and adds no time of its own, unless it takes longer than they do.
    The client's wait after a lost swap is not computing and is not shortened.

    State: one counter for each phase and the end of the last access, owned by this object; clients' threads call `happened`
    in parallel.
    """

    delays: Delays = NO_DELAYS
    phases: list[Counter[str]] = field(default_factory=lambda: [Counter()])
    last_end: float = field(default_factory=time.monotonic)
    """When the last access ended, on the clock of `time.monotonic`."""
    _waits: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def happened(self, access: str) -> None:
        """Count an access and take its time."""
        with self._lock:
            self.phases[-1][access] += 1
        delay_ms = self.delays.of(access)
        if delay_ms:
            self._sleep(delay_ms)

    def took(self, seconds: float) -> None:
        """Take account of an access that took its time elsewhere: what follows begins so much later."""
        with self._lock:
            self.last_end += seconds

    def work(self, runtime_ms: float) -> None:
        """Take the time of a client's own work, after which its first attempt begins."""
        self._sleep(runtime_ms)
        self.next_phase()

    def next_phase(self, waits: bool = False) -> None:
        """What follows belongs to the next attempt, before which the client waits, or to what comes after the last."""
        with self._lock:
            self.phases.append(Counter())
            self._waits = waits

    def attempts(self) -> int:
        """How many attempts have ended."""
        return len(self.phases) - 2

    def table(self) -> list[dict[str, int]]:
        """The counts of each phase, in the order of names."""
        with self._lock:
            return [dict(sorted(phase.items())) for phase in self.phases]

    def _sleep(self, delay_ms: float) -> None:
        with self._lock:
            now = time.monotonic()
            end = max(now, (now if self._waits else self.last_end) + delay_ms / 1000.0)
            self._waits = False
        time.sleep(end - now)
        with self._lock:
            self.last_end = end
