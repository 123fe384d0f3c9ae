"""What is drawn follows the distributions that the specification names: goodness of fit at fixed seeds.

A floor puts a mass at one point, so the share of draws at the floor is tested apart from the shape above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from endive.arithmetic.draws import derive
from endive.randomness import Stream, name_key, run_key
from endive.storage import CATALOG, MANIFEST_FILE, ExponentialLatency, LognormalLatency, builtin_profiles, create_provider
from endive.workload import Workload, WorkloadConfig
from tests.storage import PROVIDERS, PUBLISHED, BySize, Lognormal

Samples = npt.NDArray[np.float64]
Cdf = Callable[[Samples], Samples]

DRAWS = 8000
SIZE_BYTES = 8192
SIGNIFICANCE = 1e-4


def assert_follows(samples: Samples, cdf: Cdf, floor_ms: float) -> None:
    """The mass at the floor is that of all that lies below it, and what lies above has the shape of the distribution."""
    at_floor = float(cdf(np.array([floor_ms]))[0])
    above = samples[samples > floor_ms]
    assert samples.min() >= floor_ms
    assert stats.binomtest(len(samples) - len(above), len(samples), at_floor).pvalue > SIGNIFICANCE
    if len(above):
        ranks = (cdf(above) - at_floor) / (1.0 - at_floor)
        assert stats.kstest(ranks, "uniform").pvalue > SIGNIFICANCE


def lognormal_cdf(numbers: Lognormal | BySize) -> Cdf:
    size_mib = SIZE_BYTES / 2**20
    median_ms = numbers.base_ms + numbers.per_mib_ms * size_mib if isinstance(numbers, BySize) else numbers.median_ms
    return lambda x: np.asarray(stats.lognorm.cdf(x, numbers.sigma, scale=median_ms))


def stream_for(*names: str) -> Stream:
    return Stream(derive(run_key(2025), name_key("/".join(names))))


@pytest.mark.parametrize(("profile_set", "name"), PROVIDERS)
class TestProviders:
    @pytest.mark.parametrize("access", ["read", "write"])
    def test_reads_and_writes(self, profile_set: str, name: str, access: str) -> None:
        published = PUBLISHED[profile_set][name]
        provider = create_provider(name, stream_for(profile_set, name, access), builtin_profiles(profile_set))
        draw = provider.read_ms if access == "read" else provider.write_ms
        samples = np.array([draw(MANIFEST_FILE, SIZE_BYTES) for _ in range(DRAWS)])
        assert_follows(samples, lognormal_cdf(getattr(published, access)), published.floor_ms)

    @pytest.mark.parametrize("access", ["read", "write"])
    def test_the_slowest_of_many_at_once(self, profile_set: str, name: str, access: str) -> None:
        """The largest of n has the n-th power of the distribution function: this reaches tails that lie above a high floor."""
        published = PUBLISHED[profile_set][name]
        provider = create_provider(name, stream_for(profile_set, name, access, "slowest"), builtin_profiles(profile_set))
        draw = provider.slowest_read_ms if access == "read" else provider.slowest_write_ms
        samples = np.array([draw(MANIFEST_FILE, SIZE_BYTES, 200) for _ in range(1500)])
        single = lognormal_cdf(getattr(published, access))
        assert_follows(samples, lambda x: single(x) ** 200, published.floor_ms)

    def test_cas_and_failed_cas(self, profile_set: str, name: str) -> None:
        published = PUBLISHED[profile_set][name]
        provider = create_provider(name, stream_for(profile_set, name, "cas"), builtin_profiles(profile_set))
        answers = [provider.cas_ms(CATALOG, 0, SIZE_BYTES) for _ in range(DRAWS)]
        success, failure = (np.array(ms) for ms in zip(*((a.success_ms, a.failure_ms) for a in answers), strict=True))
        assert_follows(success, lognormal_cdf(published.cas), published.floor_ms)
        assert_follows(failure, lognormal_cdf(published.failed_cas or published.cas), published.floor_ms)


APPENDING = [(profile_set, name) for profile_set, name in PROVIDERS if PUBLISHED[profile_set][name].append]


@pytest.mark.parametrize(("profile_set", "name"), APPENDING)
def test_append_and_failed_append(profile_set: str, name: str) -> None:
    published = PUBLISHED[profile_set][name]
    assert published.append is not None
    assert published.failed_append is not None
    provider = create_provider(name, stream_for(profile_set, name, "append"), builtin_profiles(profile_set))
    answers = [provider.append_ms(CATALOG, 0, SIZE_BYTES) for _ in range(DRAWS)]
    success, failure = (np.array(ms) for ms in zip(*((a.success_ms, a.failure_ms) for a in answers), strict=True))
    assert_follows(success, lognormal_cdf(published.append), published.floor_ms)
    assert_follows(failure, lognormal_cdf(published.failed_append), published.floor_ms)


class TestWorkload:
    def generated(self, config: WorkloadConfig, seed: int) -> tuple[Samples, Samples]:
        """Intervals and runtimes."""
        pairs = [(delay, txn.runtime_ms) for delay, txn in islice(Workload(config, seed).generate(), DRAWS)]
        return np.array([delay for delay, _ in pairs]), np.array([runtime for _, runtime in pairs])

    @pytest.mark.parametrize("scale_ms", [2.0, 500.0])
    def test_inter_arrival_times_are_exponential(self, scale_ms: float) -> None:
        intervals, _ = self.generated(
            WorkloadConfig(ExponentialLatency(scale_ms), LognormalLatency.from_mean(100.0, 0.5), 1, (1,)), 1
        )
        assert stats.kstest(intervals, stats.expon(scale=scale_ms).cdf).pvalue > SIGNIFICANCE
        assert np.mean(intervals) == pytest.approx(scale_ms, rel=4.0 / math.sqrt(DRAWS))
        assert abs(np.corrcoef(intervals[:-1], intervals[1:])[0, 1]) < 4.0 / math.sqrt(DRAWS)

    @pytest.mark.parametrize(("mean_ms", "sigma", "floor_ms"), [(10_000.0, 1.5, 1.0), (200.0, 0.3, 1.0), (200.0, 0.8, 150.0)])
    def test_runtimes_are_lognormal_with_the_given_mean(self, mean_ms: float, sigma: float, floor_ms: float) -> None:
        runtime = LognormalLatency.from_mean(mean_ms, sigma, floor_ms)
        _, runtimes = self.generated(WorkloadConfig(ExponentialLatency(100.0), runtime, 1, (1,)), 2)
        median_ms = mean_ms * math.exp(-(sigma**2) / 2.0)
        assert_follows(runtimes, lognormal_cdf(Lognormal(median_ms, sigma)), floor_ms)

    def test_runtimes_are_lognormal_with_the_given_median(self) -> None:
        runtime = LognormalLatency.from_median(300.0, 1.2, 100.0)
        _, runtimes = self.generated(WorkloadConfig(ExponentialLatency(100.0), runtime, 1, (1,)), 3)
        assert_follows(runtimes, lognormal_cdf(Lognormal(300.0, 1.2)), 100.0)

    def test_arrivals_and_runtimes_are_independent(self) -> None:
        intervals, runtimes = self.generated(
            WorkloadConfig(ExponentialLatency(10.0), LognormalLatency.from_mean(100.0, 0.5), 1, (1,)), 4
        )
        assert stats.spearmanr(intervals, runtimes).pvalue > SIGNIFICANCE
