"""Count the accesses of a client to a table by attempt, and delay them by kind."""

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
    """Return the kind of a file by its name, in the terms of the simulator's columns; `other` for data and delete files."""
    return next((kind for pattern, kind in _KINDS if pattern.search(location)), "other")


@dataclass(frozen=True)
class Delays:
    """Minimum duration of each access, in ms; 0 by default."""

    catalog_read_ms: float = 0.0
    catalog_swap_ms: float = 0.0
    read_ms: float = 0.0
    write_ms: float = 0.0
    """Delay of a file write or delete."""

    def of(self, access: str) -> float:
        """Return the delay of an access; accesses to data files have none, because they are part of the runtime."""
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
    """Counts of the accesses of one operation: before its first attempt, in each attempt, and after its success.

    Attempts end with a swap of the catalog pointer. With delays, an access ends when its delay has passed since the end of the
    previous access. Client CPU time is therefore part of the accesses, unless it exceeds their delays. The client's backoff after a
    lost swap is not shortened.

    State: one counter per phase and the end of the last access, owned by this object; threads of clients call `happened` in
    parallel.
    """

    delays: Delays = NO_DELAYS
    phases: list[Counter[str]] = field(default_factory=lambda: [Counter()])
    last_end: float = field(default_factory=time.monotonic)
    """End of the last access, on the clock of `time.monotonic`."""
    _waits: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def happened(self, access: str) -> None:
        """Count an access, and wait for its delay."""
        with self._lock:
            self.phases[-1][access] += 1
        delay_ms = self.delays.of(access)
        if delay_ms:
            self._sleep(delay_ms)

    def took(self, seconds: float) -> None:
        """Add the duration of an access that was executed elsewhere to the end of the last access."""
        with self._lock:
            self.last_end += seconds

    def work(self, runtime_ms: float) -> None:
        """Wait for the runtime of a client, after which its first attempt begins."""
        self._sleep(runtime_ms)
        self.next_phase()

    def next_phase(self, waits: bool = False) -> None:
        """Start the next phase: an attempt (after a backoff if ``waits``), or the phase after the last attempt."""
        with self._lock:
            self.phases.append(Counter())
            self._waits = waits

    def attempts(self) -> int:
        """Return the number of attempts that have ended."""
        return len(self.phases) - 2

    def table(self) -> list[dict[str, int]]:
        """Return the counts of each phase, ordered by name."""
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
