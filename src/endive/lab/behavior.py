"""Draw the latency and the failures of each request to the lab from the distributions of a configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from endive.arithmetic.draws import derive
from endive.catalog import ServiceSettings
from endive.randomness import Purpose, Stream, run_key
from endive.storage import FixedLatency, StorageProvider
from endive.storage.provider import CATALOG, MANIFEST_FILE, MANIFEST_LIST, TABLE_METADATA

_KINDS = (
    (re.compile(r"\.metadata\.json(\.gz)?$|(^|/)version-hint\.text$"), TABLE_METADATA),
    (re.compile(r"(^|/)snap-[^/]*\.avro$"), MANIFEST_LIST),
    (re.compile(r"\.avro$"), MANIFEST_FILE),
)
OTHER = "data"
"""Kind of all objects except Iceberg metadata."""
_NETWORK = ServiceSettings(network=FixedLatency(0.0), load=FixedLatency(0.0), commit=FixedLatency(0.0), check=FixedLatency(0.0))


@dataclass(frozen=True, slots=True)
class LabFailures:
    """Probabilities with which requests to the lab fail.

    Attributes:
        request_error: Probability that a request has no effect and gets the status 503.
        fatal_error: Probability that a request has no effect and gets the status 403.
        lost_answer: Probability that the lab processes a commit request, but does not send its response.
        slow_response: Probability that a response is delayed by ``slow_response_ms``.
        slow_response_ms: Delay of a slow response, in ms.
    """

    request_error: float = 0.0
    fatal_error: float = 0.0
    lost_answer: float = 0.0
    slow_response: float = 0.0
    slow_response_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Fate:
    """Latencies and failures of one request, drawn when the request arrives.

    Attributes:
        effect_ms: Time from the arrival of the request to its linearization point.
        success_ms: Time from the arrival of the request to its response, if the request succeeds.
        failure_ms: Time from the arrival of the request to its response, if its precondition fails.
        is_rejected: True if the request gets the status 503.
        is_failed: True if the request gets the status 403.
        is_lost: True if the lab does not send the response.
    """

    effect_ms: float
    success_ms: float
    failure_ms: float
    is_rejected: bool = False
    is_failed: bool = False
    is_lost: bool = False

    def response_ms(self, *, succeeded: bool) -> float:
        """Return the time from the arrival of a request to its response, which follows the linearization point."""
        return max(self.effect_ms, self.success_ms if succeeded else self.failure_ms)


@dataclass(frozen=True)
class Behavior:
    """Latencies and failures of the object store and of the catalog.

    Attributes:
        provider: Object store of the configuration; None for an object store without latency.
        service: Queue and service times of the catalog.
        catalog: Object store of the catalog file; None if the catalog is a service.
        linearization: Linearization point of a request, as a fraction of its latency.
        failures: Probabilities of failures.
        seed: Random seed.
    """

    provider: StorageProvider | None = None
    service: ServiceSettings = _NETWORK
    catalog: StorageProvider | None = None
    linearization: float = 1.0
    failures: LabFailures = field(default_factory=LabFailures)
    seed: int = 0

    @property
    def object_writes_per_s(self) -> float | None:
        """Maximum number of writes to one object per second; None for no limit."""
        return None if self.provider is None else self.provider.object_writes_per_s


class Draws:
    """Random latencies and failures of requests.

    Two sessions with the same seed differ, because the clients determine the order of requests.
    """

    def __init__(self, behavior: Behavior) -> None:
        self._behavior = behavior
        root = run_key(behavior.seed)
        stream = Stream(derive(root, Purpose.STORAGE))
        self._store = None if behavior.provider is None else behavior.provider.bind(stream)
        self._file = None if behavior.catalog is None else behavior.catalog.bind(Stream(derive(root, Purpose.CLIENT)))
        self._failures = Stream(derive(root, Purpose.FAILURE))
        self._service = Stream(derive(root, Purpose.CATALOG))

    def read(self, key: str, size_bytes: int) -> Fate:
        """Draw the latencies and failures of a read."""
        latency_ms = 0.0 if self._store is None else self._store.read_ms(object_kind(key), size_bytes)
        return self._fate(latency_ms, latency_ms, is_commit=False)

    def write(self, key: str, size_bytes: int) -> Fate:
        """Draw the latencies and failures of an unconditional write."""
        latency_ms = 0.0 if self._store is None else self._store.write_ms(object_kind(key), size_bytes)
        return self._fate(latency_ms, latency_ms, is_commit=False)

    def conditional_write(self, key: str, size_bytes: int) -> Fate:
        """Draw the latencies and failures of a conditional write, which are those of compare-and-swap if the store supports it."""
        if self._store is None:
            return self._fate(0.0, 0.0, is_commit=True)
        if not self._store.supports_cas:
            latency_ms = self._store.write_ms(object_kind(key), size_bytes)
            return self._fate(latency_ms, latency_ms, is_commit=True)
        drawn = self._store.cas_ms(object_kind(key), 0, size_bytes)
        return self._fate(drawn.success_ms, drawn.failure_ms, is_commit=True)

    def metadata_write_ms(self, size_bytes: int) -> float:
        """Draw the time that the catalog server takes to write a metadata file."""
        return 0.0 if self._store is None else self._store.write_ms(TABLE_METADATA, size_bytes)

    def network_ms(self) -> float:
        """Draw the one-way network latency between client and catalog."""
        return self._behavior.service.network.at(self._service.random_sample())

    def load_ms(self) -> float:
        """Draw the service time of a request that loads a table."""
        u = self._service.random_sample()
        return self._file.read_ms(CATALOG, 0) if self._file is not None else self._behavior.service.load.at(u)

    def commit_ms(self) -> tuple[float, float]:
        """Draw the service times of a commit request if it succeeds and if it loses the race."""
        u = self._service.random_sample()
        if self._file is not None:
            drawn = self._file.cas_ms(CATALOG, 0, 0)
            return drawn.success_ms, drawn.failure_ms
        return self._behavior.service.commit.at(u), self._behavior.service.check.at(u)

    def failures(self, *, is_commit: bool) -> Fate:
        """Draw the failures of a request to the catalog, without latencies."""
        return self._fate(0.0, 0.0, is_commit=is_commit)

    def _fate(self, success_ms: float, failure_ms: float, *, is_commit: bool) -> Fate:
        failures = self._behavior.failures
        effect_ms = success_ms * self._behavior.linearization
        rejected = self._happens(failures.request_error)
        failed = not rejected and self._happens(failures.fatal_error)
        lost = is_commit and self._happens(failures.lost_answer)
        slow_ms = failures.slow_response_ms if self._happens(failures.slow_response) else 0.0
        return Fate(effect_ms, success_ms + slow_ms, failure_ms + slow_ms, rejected, failed, lost and not rejected and not failed)

    def _happens(self, probability: float) -> bool:
        return probability > 0.0 and self._failures.random_sample() < probability


def object_kind(key: str) -> str:
    """Return the kind of Iceberg metadata in an object, from the suffix of its name; ``data`` for other objects."""
    return next((kind for pattern, kind in _KINDS if pattern.search(key)), OTHER)
