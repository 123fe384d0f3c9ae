"""Define storage providers, which return the latencies of requests to an object store.

A latency depends on the kind and size of the object and on a random stream. Generators yield the latency as a float. A provider has
no state other than its latency profile, because catalogs and tables store the content of objects. A key is a kind of object
(``MANIFEST_LIST``, ...), optionally followed by ``/`` and a name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from dataclasses import dataclass
from typing import Self

from endive.arithmetic.draws import quantile
from endive.randomness import RandomSource, Stream
from endive.steps import REQUEST_FAILED, RequestFailedError
from endive.storage.distributions import Parameters, QuantileDistribution, SizeBasedLatency, TableLatency

CATALOG = "catalog"
TABLE_METADATA = "table_metadata"
MANIFEST_LIST = "manifest_list"
MANIFEST_FILE = "manifest_file"
OBJECT_KINDS = (CATALOG, TABLE_METADATA, MANIFEST_LIST, MANIFEST_FILE)


class UnsupportedOperationError(RuntimeError):
    """Raised if a storage provider does not support an operation."""


@dataclass(frozen=True)
class StorageResult:
    """Response of the object store.

    If ``success`` is false, the transaction aborts with ``request_failed``. The catalog or table that stores the object determines
    whether the condition of a conditional write is met.
    """

    success: bool
    latency_ms: float
    data_size_bytes: int


@dataclass(frozen=True, slots=True)
class ConditionalLatency:
    """Latencies of a compare-and-swap or an append on success and on failure.

    Both are computed from the same uniform random number.
    """

    success_ms: float
    failure_ms: float


def total_ms(operation: Generator[float, None, StorageResult]) -> float:
    """Return the latency of an operation, which is the sum of the latencies that its generator yields.

    Raises:
        RequestFailedError: If the object store rejected the operation (``StorageResult.success`` is false).
    """
    total = 0.0
    while True:
        try:
            total += next(operation)
        except StopIteration as stop:
            if isinstance(stop.value, StorageResult) and not stop.value.success:
                raise RequestFailedError(REQUEST_FAILED, total) from None
            return total


class StorageProvider(ABC):
    """Base class of object stores. A custom object store implements the five operations and the five properties."""

    def __init__(self, rng: RandomSource) -> None:
        self._rng = rng

    def bind(self, rng: RandomSource) -> Self:
        """Return the provider with the random stream of one transaction."""
        bound = object.__new__(type(self))
        bound.__dict__.update(self.__dict__)
        bound._rng = rng
        return bound

    @abstractmethod
    def read(self, key: str, expected_size_bytes: int) -> Generator[float, None, StorageResult]:
        """Read an object."""

    @abstractmethod
    def write(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Write an object."""

    @abstractmethod
    def cas(self, key: str, expected_version: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Replace an object if it still has the expected version."""

    @abstractmethod
    def append(self, key: str, offset: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Append to an object, if the object still ends at ``offset``."""

    @abstractmethod
    def tail_append(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Append to the current end of an object."""

    @property
    @abstractmethod
    def supports_cas(self) -> bool:
        """True if the store supports ``cas``."""

    @property
    @abstractmethod
    def supports_append(self) -> bool:
        """True if the store supports ``append``."""

    @property
    @abstractmethod
    def supports_tail_append(self) -> bool:
        """True if the store supports ``tail_append``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the provider."""

    @property
    @abstractmethod
    def min_latency_ms(self) -> float:
        """Minimum of every latency, in ms."""

    @property
    def object_writes_per_s(self) -> float | None:
        """Maximum number of writes to one object per second; None for no limit."""
        return None

    def uniform(self) -> float:
        """Return the next uniform random number of the provider."""
        return self._rng.random_sample()

    def read_ms(self, key: str, expected_size_bytes: int) -> float:
        """Return the latency of one read, in ms."""
        return total_ms(self.read(key, expected_size_bytes))

    def write_ms(self, key: str, size_bytes: int) -> float:
        """Return the latency of one write, in ms."""
        return total_ms(self.write(key, size_bytes))

    def slowest_read_ms(self, key: str, expected_size_bytes: int, count: int) -> float:
        """Return the latency of the slowest of ``count`` parallel reads, in ms."""
        return max(self.read_ms(key, expected_size_bytes) for _ in range(count))

    def slowest_write_ms(self, key: str, size_bytes: int, count: int) -> float:
        """Return the latency of the slowest of ``count`` parallel writes, in ms."""
        return max(self.write_ms(key, size_bytes) for _ in range(count))

    def cas_ms(self, key: str, expected_version: int, size_bytes: int) -> ConditionalLatency:
        """Return the latencies of one compare-and-swap on success and on failure, in ms."""
        latency = total_ms(self.cas(key, expected_version, size_bytes))
        return ConditionalLatency(latency, latency)

    def append_ms(self, key: str, offset: int, size_bytes: int) -> ConditionalLatency:
        """Return the latencies of one append on success and on failure, in ms."""
        latency = total_ms(self.append(key, offset, size_bytes))
        return ConditionalLatency(latency, latency)

    def compaction_ms(self, key: str, expected_version: int, size_bytes: int) -> ConditionalLatency:
        """Return the latencies of the compare-and-swap that compacts a catalog log, in ms."""
        return self.cas_ms(key, expected_version, size_bytes)

    def log_entry_read_ms(self) -> float:
        """Return the latency that each log entry since the checkpoint adds to a catalog read, in ms."""
        return 0.0


@dataclass(frozen=True)
class StorageProfile:
    """Latency profile of a storage provider.

    ``reads`` and ``writes`` contain a distribution for each kind of object, and one for all other kinds (``"*"``). ``failed_cas``
    and ``failed_append`` default to the latencies on success. A store without ``append`` does not support appends.
    ``object_writes_per_s`` is the maximum number of writes to one object per second; None for no limit.
    """

    name: str
    min_latency_ms: float
    reads: dict[str, QuantileDistribution]
    writes: dict[str, QuantileDistribution]
    cas: QuantileDistribution | None
    failed_cas: QuantileDistribution | None = None
    append: QuantileDistribution | None = None
    failed_append: QuantileDistribution | None = None
    compaction: QuantileDistribution | None = None
    log_entry_read: QuantileDistribution | None = None
    tail_append: bool = False
    description: str = ""
    source: str = ""
    object_writes_per_s: float | None = None

    def distribution(self, key: str, *, write: bool) -> QuantileDistribution:
        """Return the latency distribution for reading or writing a kind of object, before the object size is applied."""
        by_kind = self.writes if write else self.reads
        return by_kind.get(key.partition("/")[0]) or by_kind["*"]

    def read_parameters(self, key: str, size_bytes: int) -> Parameters:
        """Return the parameters of the latency distribution of a read."""
        return _parameters_for_size(self.distribution(key, write=False), size_bytes)

    def write_parameters(self, key: str, size_bytes: int) -> Parameters:
        """Return the parameters of the latency distribution of a write."""
        return _parameters_for_size(self.distribution(key, write=True), size_bytes)


def _parameters_for_size(distribution: QuantileDistribution, size_bytes: int) -> Parameters:
    if isinstance(distribution, SizeBasedLatency | TableLatency):
        distribution = distribution.with_size(size_bytes)
    return distribution.parameters


_MOST_PREPARED = 10_000
_Responses = tuple[Parameters, Parameters]
"""Parameters of the latencies of a conditional write on success and on failure."""


class ProfiledProvider(StorageProvider):
    """Storage provider that is defined by a built-in or custom ``StorageProfile``."""

    def __init__(self, profile: StorageProfile, rng: RandomSource) -> None:
        super().__init__(rng)
        self.profile = profile
        self._cas = _responses(profile.cas, profile.failed_cas)
        self._append = _responses(profile.append, profile.failed_append)
        self._compaction = _responses(profile.compaction or profile.cas, profile.failed_cas)
        self._prepared: dict[tuple[bool, str, int], Parameters] = {}

    @property
    def name(self) -> str:
        """Name of the profile."""
        return self.profile.name

    @property
    def min_latency_ms(self) -> float:
        """Minimum of every latency of the profile, in ms."""
        return self.profile.min_latency_ms

    @property
    def object_writes_per_s(self) -> float | None:
        """Maximum number of writes to one object per second; None for no limit."""
        return self.profile.object_writes_per_s

    @property
    def supports_cas(self) -> bool:
        """True if the profile contains a latency for compare-and-swap."""
        return self.profile.cas is not None

    @property
    def supports_append(self) -> bool:
        """True if the profile contains a latency for appends."""
        return self.profile.append is not None

    @property
    def supports_tail_append(self) -> bool:
        """True if the profile contains a latency for ``tail_append``."""
        return self.profile.tail_append

    def read(self, key: str, expected_size_bytes: int) -> Generator[float, None, StorageResult]:
        """Read an object."""
        return (yield from _respond(self.read_ms(key, expected_size_bytes), expected_size_bytes))

    def write(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Write an object."""
        return (yield from _respond(self.write_ms(key, size_bytes), size_bytes))

    def cas(self, key: str, expected_version: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Replace an object. The latency is that on success."""
        return (yield from _respond(self.cas_ms(key, expected_version, size_bytes).success_ms, size_bytes))

    def append(self, key: str, offset: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Append to an object at an offset. The latency is that on success."""
        return (yield from _respond(self.append_ms(key, offset, size_bytes).success_ms, size_bytes))

    def tail_append(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        """Append to the end of the object."""
        if not self.supports_tail_append:
            raise UnsupportedOperationError(f"provider {self.name!r} does not support tail append")
        return self.append(key, -1, size_bytes)

    def read_ms(self, key: str, expected_size_bytes: int) -> float:
        """Return the latency of one read, in ms."""
        return self.slowest_read_ms(key, expected_size_bytes, 1)

    def write_ms(self, key: str, size_bytes: int) -> float:
        """Return the latency of one write, in ms."""
        return self.slowest_write_ms(key, size_bytes, 1)

    def slowest_read_ms(self, key: str, expected_size_bytes: int, count: int) -> float:
        """Return the latency of the slowest of ``count`` parallel reads, in ms.

        The latency is the quantile of the largest of ``count`` uniform random numbers.
        """
        return self._slowest_ms(False, key, expected_size_bytes, count)

    def slowest_write_ms(self, key: str, size_bytes: int, count: int) -> float:
        """Return the latency of the slowest of ``count`` parallel writes, in ms.

        The latency is the quantile of the largest of ``count`` uniform random numbers.
        """
        return self._slowest_ms(True, key, size_bytes, count)

    def _slowest_ms(self, write: bool, key: str, size_bytes: int, count: int) -> float:
        prepared, place = self._prepared, (write, key, size_bytes)
        parameters = prepared.get(place)
        if parameters is None:
            if len(prepared) >= _MOST_PREPARED:  # limit the cache, because the sizes of growing objects do not recur
                prepared.clear()
            profile = self.profile
            parameters = profile.write_parameters(key, size_bytes) if write else profile.read_parameters(key, size_bytes)
            prepared[place] = parameters
        return quantile(*parameters, _largest(self._rng, count))

    def cas_ms(self, key: str, expected_version: int, size_bytes: int) -> ConditionalLatency:
        """Return the latencies of one compare-and-swap on success and on failure, in ms.

        Both are computed from the same uniform random number.
        """
        return self._draw(self._cas, "compare-and-swap")

    def append_ms(self, key: str, offset: int, size_bytes: int) -> ConditionalLatency:
        """Return the latencies of one append on success and on failure, in ms.

        Both are computed from the same uniform random number.
        """
        return self._draw(self._append, "append")

    def compaction_ms(self, key: str, expected_version: int, size_bytes: int) -> ConditionalLatency:
        """Return the latencies of the compare-and-swap that compacts a catalog log, in ms."""
        return self._draw(self._compaction, "compare-and-swap")

    def _draw(self, responses: _Responses | None, operation: str) -> ConditionalLatency:
        if responses is None:
            raise UnsupportedOperationError(f"provider {self.name!r} does not support {operation}")
        success, failure = responses
        u = self._rng.random_sample()
        success_ms = quantile(*success, u)
        return ConditionalLatency(success_ms, success_ms if failure == success else quantile(*failure, u))

    def log_entry_read_ms(self) -> float:
        """Return the latency that each log entry since the checkpoint adds to a catalog read, in ms; 0 by default."""
        entry = self.profile.log_entry_read
        return 0.0 if entry is None else entry.sample(self._rng)


def _respond(latency_ms: float, size_bytes: int) -> Generator[float, None, StorageResult]:
    yield latency_ms
    return StorageResult(True, latency_ms, size_bytes)


def _largest(rng: RandomSource, count: int) -> float:
    """Return the largest of the next ``count`` uniform random numbers."""
    if isinstance(rng, Stream):
        return rng.random_sample() if count == 1 else rng.largest_sample(count)
    return max(rng.random_sample() for _ in range(count))


def _responses(success: QuantileDistribution | None, failure: QuantileDistribution | None) -> _Responses | None:
    return None if success is None else (success.parameters, (failure or success).parameters)
