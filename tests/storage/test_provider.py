from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
import pytest

from endive.arithmetic.draws import keyed_uniform
from endive.randomness import RandomSource, Stream, run_key
from endive.storage import (
    CATALOG,
    MANIFEST_FILE,
    MANIFEST_LIST,
    TABLE_METADATA,
    ConditionalLatency,
    FixedLatency,
    LognormalLatency,
    ProfiledProvider,
    SizeBasedLatency,
    StorageProfile,
    StorageProvider,
    StorageResult,
    UniformLatency,
    UnsupportedOperationError,
    builtin_profiles,
    create_provider,
)
from tests.storage import PROVIDERS, PUBLISHED

KEY = run_key(17)
MIB = 1024 * 1024


def finish(operation: Generator[float, None, StorageResult]) -> tuple[list[float], StorageResult]:
    """What an operation yields, and what it returns."""
    yielded: list[float] = []
    while True:
        try:
            yielded.append(next(operation))
        except StopIteration as stop:
            return yielded, stop.value


def provider_of(profile_set: str, name: str, rng: RandomSource | None = None) -> ProfiledProvider:
    return create_provider(name, Stream(KEY) if rng is None else rng, builtin_profiles(profile_set))


OPERATIONS: dict[str, Callable[[StorageProvider], Generator[float, None, StorageResult]]] = {
    "read": lambda provider: provider.read(MANIFEST_LIST, 8192),
    "write": lambda provider: provider.write(MANIFEST_LIST, 8192),
    "cas": lambda provider: provider.cas(CATALOG, 3, 8192),
    "append": lambda provider: provider.append(CATALOG, 100, 8192),
    "tail_append": lambda provider: provider.tail_append(CATALOG, 8192),
}


@pytest.mark.parametrize(("profile_set", "name"), PROVIDERS)
class TestBuiltinProviders:
    def test_flags_equal_the_operations_of_the_store(self, profile_set: str, name: str) -> None:
        published = PUBLISHED[profile_set][name]
        provider = provider_of(profile_set, name)
        assert provider.name == name
        assert provider.min_latency_ms == published.floor_ms
        assert provider.supports_cas
        assert provider.supports_append == (published.append is not None)
        assert provider.supports_tail_append == published.tail_append

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_unsupported_operations_raise_an_error(self, profile_set: str, name: str, operation: str) -> None:
        provider = provider_of(profile_set, name)
        supported = getattr(provider, f"supports_{operation}", True)
        if not supported:
            with pytest.raises(UnsupportedOperationError, match=f"{name}.*append"):
                finish(OPERATIONS[operation](provider))
            return
        yielded, result = finish(OPERATIONS[operation](provider))
        assert yielded == [result.latency_ms]
        assert result.success
        assert result.data_size_bytes == 8192
        assert result.latency_ms >= provider.min_latency_ms


def profile_with(**changes: object) -> StorageProfile:
    values: dict[str, object] = {
        "name": "own",
        "min_latency_ms": 2.0,
        "reads": {"*": UniformLatency(10.0, 20.0)},
        "writes": {"*": UniformLatency(30.0, 40.0)},
        "cas": UniformLatency(50.0, 60.0),
        **changes,
    }
    return StorageProfile(**values)  # type: ignore[arg-type]


class TestProfiledProvider:
    def test_both_answers_of_a_cas_come_from_one_uniform(self) -> None:
        success, failure = LognormalLatency.from_median(61.0, 0.14, 43.0), LognormalLatency.from_median(65.0, 0.38, 43.0)
        stream = Stream(KEY)
        provider = ProfiledProvider(profile_with(cas=success, failed_cas=failure), stream)
        for index in range(20):
            u = keyed_uniform(KEY, index)
            assert provider.cas_ms(CATALOG, index, 100) == ConditionalLatency(success.at(u), failure.at(u))
        assert stream.draws == 20

    def test_without_a_distribution_of_its_own_a_failure_takes_as_long_as_a_success(self) -> None:
        provider = ProfiledProvider(profile_with(append=UniformLatency(5.0, 9.0)), Stream(KEY))
        for latency in (provider.cas_ms(CATALOG, 0, 1), provider.append_ms(CATALOG, 0, 1), provider.compaction_ms(CATALOG, 0, 1)):
            assert latency.success_ms == latency.failure_ms

    def test_the_generators_yield_the_latency_of_a_success(self) -> None:
        profile = profile_with(failed_cas=FixedLatency(999.0), append=UniformLatency(5.0, 9.0), failed_append=FixedLatency(999.0))
        u = keyed_uniform(KEY, 0)
        assert finish(ProfiledProvider(profile, Stream(KEY)).cas(CATALOG, 0, 1))[0] == [50.0 + 10.0 * u]
        assert finish(ProfiledProvider(profile, Stream(KEY)).append(CATALOG, 0, 1))[0] == [5.0 + 4.0 * u]

    def test_reads_and_writes_have_their_own_distributions_and_take_one_draw(self) -> None:
        stream = Stream(KEY)
        provider = ProfiledProvider(profile_with(), stream)
        assert provider.read_ms(MANIFEST_LIST, 1) == 10.0 + 10.0 * keyed_uniform(KEY, 0)
        assert provider.write_ms(MANIFEST_LIST, 1) == 30.0 + 10.0 * keyed_uniform(KEY, 1)
        assert stream.draws == 2

    @pytest.mark.parametrize("count", [1, 2, 4, 20])
    def test_accesses_at_once_take_as_long_as_the_slowest_and_one_draw_each(self, count: int) -> None:
        stream = Stream(KEY)
        provider = ProfiledProvider(profile_with(), stream)
        slowest = max(keyed_uniform(KEY, i) for i in range(count))
        assert provider.slowest_read_ms(MANIFEST_FILE, 1, count) == 10.0 + 10.0 * slowest
        slowest = max(keyed_uniform(KEY, count + i) for i in range(count))
        assert provider.slowest_write_ms(MANIFEST_FILE, 1, count) == 30.0 + 10.0 * slowest
        assert stream.draws == 2 * count

    def test_a_kind_of_object_may_have_a_distribution_of_its_own(self) -> None:
        reads = {"*": FixedLatency(1.0), MANIFEST_LIST: FixedLatency(2.0)}
        writes = {"*": FixedLatency(3.0), TABLE_METADATA: FixedLatency(4.0)}
        provider = ProfiledProvider(profile_with(reads=reads, writes=writes), Stream(KEY))
        assert [provider.read_ms(kind, 1) for kind in (CATALOG, MANIFEST_LIST, MANIFEST_FILE)] == [1.0, 2.0, 1.0]
        assert [provider.write_ms(kind, 1) for kind in (TABLE_METADATA, MANIFEST_LIST)] == [4.0, 3.0]

    def test_a_key_may_name_the_object_after_its_kind(self) -> None:
        reads = {"*": FixedLatency(1.0), MANIFEST_LIST: FixedLatency(2.0)}
        provider = ProfiledProvider(profile_with(reads=reads), Stream(KEY))
        assert provider.read_ms(f"{MANIFEST_LIST}/table-3/snap-7", 1) == 2.0
        assert provider.read_ms(f"{MANIFEST_FILE}/{MANIFEST_LIST}", 1) == 1.0

    def test_each_size_has_its_own_median(self) -> None:
        sized = SizeBasedLatency(10.0, 10.0, 0.0, 0.0)
        provider = ProfiledProvider(profile_with(reads={"*": sized}, writes={"*": sized}), Stream(KEY))
        for size_bytes, expected_ms in [(0, 10.0), (MIB, 20.0), (3 * MIB, 40.0), (MIB, 20.0)]:
            assert provider.read_ms(MANIFEST_FILE, size_bytes) == pytest.approx(expected_ms)
            assert provider.write_ms(MANIFEST_FILE, size_bytes) == pytest.approx(expected_ms)

    def test_a_compaction_may_have_a_latency_of_its_own(self) -> None:
        provider = ProfiledProvider(profile_with(compaction=FixedLatency(300.0), failed_cas=FixedLatency(70.0)), Stream(KEY))
        assert provider.compaction_ms(CATALOG, 0, 1) == ConditionalLatency(300.0, 70.0)
        default = ProfiledProvider(profile_with(cas=FixedLatency(50.0)), Stream(KEY))
        assert default.compaction_ms(CATALOG, 0, 1) == ConditionalLatency(50.0, 50.0)

    def test_log_entries_cost_nothing_unless_the_profile_reports_it(self) -> None:
        stream = Stream(KEY)
        assert ProfiledProvider(profile_with(), stream).log_entry_read_ms() == 0.0
        assert stream.draws == 0
        assert ProfiledProvider(profile_with(log_entry_read=FixedLatency(0.5)), stream).log_entry_read_ms() == 0.5

    def test_a_store_without_cas_reports_it(self) -> None:
        provider = ProfiledProvider(profile_with(cas=None, append=FixedLatency(1.0)), Stream(KEY))
        assert not provider.supports_cas
        for refused in (provider.cas_ms, provider.compaction_ms):
            with pytest.raises(UnsupportedOperationError, match=r"own.*compare-and-swap"):
                refused(CATALOG, 0, 1)

    def test_binding_leaves_the_original_alone(self) -> None:
        own, other = Stream(KEY), Stream(run_key(18))
        provider = ProfiledProvider(profile_with(), own)
        bound = provider.bind(other)
        assert bound.read_ms(MANIFEST_LIST, 1) == 10.0 + 10.0 * keyed_uniform(run_key(18), 0)
        assert (own.draws, other.draws) == (0, 1)
        assert provider.read_ms(MANIFEST_LIST, 1) == 10.0 + 10.0 * keyed_uniform(KEY, 0)
        assert (own.draws, other.draws) == (1, 1)
        assert type(bound) is ProfiledProvider
        assert bound.profile is provider.profile


class TapeLibrary(StorageProvider):
    """A store as a user would write it: five generators and five properties. Each read takes two steps."""

    def __init__(self, rng: RandomSource, seek_ms: float) -> None:
        super().__init__(rng)
        self.seek_ms = seek_ms

    def _take(self, size_bytes: int) -> Generator[float, None, StorageResult]:
        transfer_ms = 10.0 * self._rng.random_sample()
        yield self.seek_ms
        yield transfer_ms
        return StorageResult(True, self.seek_ms + transfer_ms, size_bytes)

    def read(self, key: str, expected_size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._take(expected_size_bytes)

    def write(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._take(size_bytes)

    def cas(self, key: str, expected_version: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._take(size_bytes)

    def append(self, key: str, offset: int, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._take(size_bytes)

    def tail_append(self, key: str, size_bytes: int) -> Generator[float, None, StorageResult]:
        return self._take(size_bytes)

    @property
    def supports_cas(self) -> bool:
        return True

    @property
    def supports_append(self) -> bool:
        return True

    @property
    def supports_tail_append(self) -> bool:
        return True

    @property
    def name(self) -> str:
        return "tape"

    @property
    def min_latency_ms(self) -> float:
        return self.seek_ms


class TestProviderOfTheUsersOwn:
    def test_the_latency_of_an_access_is_the_sum_of_its_steps(self) -> None:
        provider = TapeLibrary(Stream(KEY), 100.0)
        assert provider.read_ms(MANIFEST_LIST, 1) == 100.0 + 10.0 * keyed_uniform(KEY, 0)
        assert provider.write_ms(MANIFEST_LIST, 1) == 100.0 + 10.0 * keyed_uniform(KEY, 1)

    def test_accesses_at_once_take_as_long_as_the_slowest(self) -> None:
        provider = TapeLibrary(Stream(KEY), 100.0)
        assert provider.slowest_read_ms(MANIFEST_LIST, 1, 5) == 100.0 + 10.0 * max(keyed_uniform(KEY, i) for i in range(5))
        assert provider.slowest_write_ms(MANIFEST_LIST, 1, 5) == 100.0 + 10.0 * max(keyed_uniform(KEY, i) for i in range(5, 10))

    def test_a_failure_takes_as_long_as_a_success(self) -> None:
        provider = TapeLibrary(Stream(KEY), 100.0)
        expected = [100.0 + 10.0 * keyed_uniform(KEY, i) for i in range(3)]
        drawn = [provider.cas_ms(CATALOG, 0, 1), provider.append_ms(CATALOG, 0, 1), provider.compaction_ms(CATALOG, 0, 1)]
        assert drawn == [ConditionalLatency(ms, ms) for ms in expected]

    def test_log_entries_cost_nothing(self) -> None:
        assert TapeLibrary(Stream(KEY), 100.0).log_entry_read_ms() == 0.0

    def test_it_is_bound_without_calling_its_constructor(self) -> None:
        own, other = Stream(KEY), np.random.RandomState(1)
        provider = TapeLibrary(own, 100.0)
        bound = provider.bind(other)
        assert isinstance(bound, TapeLibrary)
        assert bound.read_ms(MANIFEST_LIST, 1) == 100.0 + 10.0 * np.random.RandomState(1).random_sample()
        assert own.draws == 0
        bound.seek_ms = 7.0
        assert provider.seek_ms == 100.0
