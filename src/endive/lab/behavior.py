"""Sample latencies and failures of requests to the lab from the distributions of a configuration."""

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
"""Kind of an object that is not Iceberg metadata."""
_NETWORK = ServiceSettings(network=FixedLatency(0.0), load=FixedLatency(0.0), commit=FixedLatency(0.0), check=FixedLatency(0.0))


@dataclass(frozen=True, slots=True)
class LabFailures:
    """Probabilities of failures of a request.

    Attributes:
        request_error: Probability that a request gets a 503 response and has no effect.
        fatal_error: Probability that a request gets a 403 response and has no effect.
        lost_answer: Probability that the response to a commit request is lost after the request was processed.
        slow_response: Probability that a response is delayed by ``slow_response_ms``.
        slow_response_ms: Delay of a slow response.

    """

    request_error: float = 0.0
    fatal_error: float = 0.0
    lost_answer: float = 0.0
    slow_response: float = 0.0
    slow_response_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Fate:
    """Latencies and failures of one request, which are sampled when it arrives.

    Attributes:
        effect_ms: Time from arrival to the linearization point.
        success_ms: Time from arrival to the response, if the request succeeds.
        failure_ms: Time from arrival to the response, if the precondition of the request is not met.
        is_rejected: True if the response is 503.
        is_failed: True if the response is 403.
        is_lost: True if the response is lost.

    """

    effect_ms: float
    success_ms: float
    failure_ms: float
    is_rejected: bool = False
    is_failed: bool = False
    is_lost: bool = False

    def response_ms(self, *, succeeded: bool) -> float:
        """Return the time from arrival to the response, which is never before the linearization point."""
        return max(self.effect_ms, self.success_ms if succeeded else self.failure_ms)


@dataclass(frozen=True)
class Behavior:
    """Behavior of the object store and the catalog. Without a provider there is no latency.

    Attributes:
        provider: Object store of the configuration, or None for no latency.
        service: Queue and service times of the catalog.
        catalog: Object store of a catalog that is a file in an object store; None for a service.
        linearization: Linearization point as a fraction of the latency.
        failures: Probabilities of failures.
        seed: Seed of the random numbers.

    """

    provider: StorageProvider | None = None
    service: ServiceSettings = _NETWORK
    catalog: StorageProvider | None = None
    linearization: float = 1.0
    failures: LabFailures = field(default_factory=LabFailures)
    seed: int = 0

    @property
    def object_writes_per_s(self) -> float | None:
        """Maximum rate of writes to one object; None for no limit."""
        return None if self.provider is None else self.provider.object_writes_per_s


class Draws:
    """Generator of latencies and failures of requests. Runs differ, because real clients determine the order of requests."""

    def __init__(self, behavior: Behavior) -> None:
        self._behavior = behavior
        root = run_key(behavior.seed)
        stream = Stream(derive(root, Purpose.STORAGE))
        self._store = None if behavior.provider is None else behavior.provider.bind(stream)
        self._file = None if behavior.catalog is None else behavior.catalog.bind(Stream(derive(root, Purpose.CLIENT)))
        self._failures = Stream(derive(root, Purpose.FAILURE))
        self._service = Stream(derive(root, Purpose.CATALOG))

    def read(self, key: str, size_bytes: int) -> Fate:
        """Return the outcome of a read of an object."""
        latency_ms = 0.0 if self._store is None else self._store.read_ms(object_kind(key), size_bytes)
        return self._fate(latency_ms, latency_ms, is_commit=False)

    def write(self, key: str, size_bytes: int) -> Fate:
        """Return the outcome of an unconditional write."""
        latency_ms = 0.0 if self._store is None else self._store.write_ms(object_kind(key), size_bytes)
        return self._fate(latency_ms, latency_ms, is_commit=False)

    def conditional_write(self, key: str, size_bytes: int) -> Fate:
        """Return the outcome of a conditional write, with the latency of compare-and-swap if the store supports it."""
        if self._store is None:
            return self._fate(0.0, 0.0, is_commit=True)
        if not self._store.supports_cas:
            latency_ms = self._store.write_ms(object_kind(key), size_bytes)
            return self._fate(latency_ms, latency_ms, is_commit=True)
        drawn = self._store.cas_ms(object_kind(key), 0, size_bytes)
        return self._fate(drawn.success_ms, drawn.failure_ms, is_commit=True)

    def metadata_write_ms(self, size_bytes: int) -> float:
        """Return the time that the catalog server needs to write a metadata file."""
        return 0.0 if self._store is None else self._store.write_ms(TABLE_METADATA, size_bytes)

    def network_ms(self) -> float:
        """Return a one-way latency between client and catalog."""
        return self._behavior.service.network.at(self._service.random_sample())

    def load_ms(self) -> float:
        """Return the service time of a load."""
        u = self._service.random_sample()
        return self._file.read_ms(CATALOG, 0) if self._file is not None else self._behavior.service.load.at(u)

    def commit_ms(self) -> tuple[float, float]:
        """Return two service times of a commit: if it takes effect, and if it loses the race."""
        u = self._service.random_sample()
        if self._file is not None:
            drawn = self._file.cas_ms(CATALOG, 0, 0)
            return drawn.success_ms, drawn.failure_ms
        return self._behavior.service.commit.at(u), self._behavior.service.check.at(u)

    def failures(self, *, is_commit: bool) -> Fate:
        """Return an outcome without latencies: whether a request to the catalog is rejected or slow, or its response is lost."""
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
    """Return the kind of an object: Iceberg metadata is recognized by the suffix of the name, everything else is ``data``."""
    return next((kind for pattern, kind in _KINDS if pattern.search(key)), OTHER)
