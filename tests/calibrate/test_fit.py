"""Fits of samples from known distributions come near the truth, and what was drawn from a fit is what was fitted."""

from __future__ import annotations

import numpy as np
import pytest

from endive.calibrate.fit import Empirical, Gamma, Lognormal, Mixture, ShiftedLognormal, fit_sample
from endive.calibrate.measurements import Sample
from endive.calibrate.profile import profile_text
from endive.storage import QuantileDistribution
from endive.storage.profiles import parse_distribution
from tests.calibrate.samples import known


@pytest.mark.parametrize("seed", range(50))
def test_medians_and_tails_of_known_samples_are_found(seed: int) -> None:
    sample = known(seed)
    fit = fit_sample(Sample("read", sample.latencies_ms, sample.sizes_bytes))
    p50, p99 = fit.family.quantile(np.array([0.5, 0.99]))
    assert p50 == pytest.approx(sample.quantile(0.5), rel=0.05), sample.name
    assert p99 == pytest.approx(sample.quantile(0.99), rel=0.15), sample.name


@pytest.mark.parametrize("seed", range(6))
def test_draws_of_a_profile_follow_the_fit(seed: int) -> None:
    sample = known(seed)
    fit = fit_sample(Sample("read", sample.latencies_ms, sample.sizes_bytes))
    made: QuantileDistribution = parse_distribution(fit.keys(), 0.0, "read")
    for p in (0.01, 0.5, 0.9, 0.99, 0.999):
        assert made.at(p) == pytest.approx(float(fit.family.quantile(np.array([p]))[0]), rel=0.01)


def test_families_are_reported_apart() -> None:
    rng = np.random.default_rng(5)
    shifted = 50.0 + 10.0 * np.exp(0.7 * rng.standard_normal(5_000))
    assert isinstance(fit_sample(Sample("read", shifted)).family, ShiftedLognormal)
    assert isinstance(fit_sample(Sample("read", rng.gamma(3.0, 5.0, 5_000))).family, Gamma)
    two = np.where(rng.random(5_000) < 0.1, 200.0, 10.0) * np.exp(0.2 * rng.standard_normal(5_000))
    assert isinstance(fit_sample(Sample("read", two)).family, Mixture)


def test_the_growth_with_size_is_found() -> None:
    rng = np.random.default_rng(6)
    sizes = rng.choice([1e4, 1e6, 1e7], 3_000)
    fit = fit_sample(Sample("write", (20.0 + 15.0 * sizes / 2**20) * np.exp(0.2 * rng.standard_normal(3_000)), sizes))
    assert fit.keys() == pytest.approx({"base_ms": 20.0, "per_mib_ms": 15.0, "sigma": 0.2}, rel=0.1)


def test_sizes_that_do_not_matter_leave_no_term() -> None:
    rng = np.random.default_rng(7)
    fit = fit_sample(Sample("read", 20.0 * np.exp(0.2 * rng.standard_normal(3_000)), rng.choice([1e3, 2e4], 3_000)))
    assert fit.growth_per_mib == 0.0 or fit.per_mib_ms * 2e4 / 2**20 < 0.5


def test_three_modes_fit_no_family_and_keep_their_quantiles() -> None:
    rng = np.random.default_rng(8)
    modes = np.array([5.0, 50.0, 500.0])[rng.choice(3, 4_000, p=[0.4, 0.4, 0.2])]
    x = modes * np.exp(0.05 * rng.standard_normal(4_000))
    fit = fit_sample(Sample("read", x))
    assert isinstance(fit.family, Empirical)
    assert "no distribution family fits" in fit.warnings[-1]
    assert np.quantile(x, [0.2, 0.7, 0.95]) == pytest.approx(fit.family.quantile(np.array([0.2, 0.7, 0.95])), rel=0.05)


def test_an_outlier_is_kept() -> None:
    rng = np.random.default_rng(9)
    x = np.append(10.0 * np.exp(0.1 * rng.standard_normal(300)), [5_000.0, 6_000.0, 8_000.0, 9_000.0])
    fit = fit_sample(Sample("cas", x))
    assert float(fit.family.quantile(np.array([0.998]))[0]) > 1_000.0


def test_few_values_and_a_drift_are_reported() -> None:
    few = fit_sample(Sample("cas", np.array([5.0, 6.0, 7.0])))
    assert isinstance(few.family, Lognormal)
    assert "only 3 values" in few.warnings[0]
    rng = np.random.default_rng(10)
    drifting = np.concatenate([rng.gamma(20.0, 1.0, 500), rng.gamma(20.0, 2.0, 500)])
    assert any("drift" in warning for warning in fit_sample(Sample("cas", drifting)).warnings)


def test_the_same_value_all_the_time_is_no_error() -> None:
    fit = fit_sample(Sample("cas", np.full(100, 7.0)))
    assert parse_distribution(fit.keys(), 0.0, "cas").at(0.9) == pytest.approx(7.0, rel=0.01)


def test_a_profile_lists_assumed_latencies() -> None:
    rng = np.random.default_rng(11)
    text = profile_text([fit_sample(Sample("read", rng.gamma(5.0, 2.0, 100)))], "mine")
    assert "# write: not measured; the profile uses the latency of read" in text
    assert "# cas: not measured" in text
    assert "uncertain" in text


def test_a_gamma_is_fitted_to_values_that_no_gamma_could_have_made() -> None:
    """One value among many that is beyond all others; the shape stays the least one."""
    values = np.array([10.0] * 39 + [1e300])
    assert Gamma.fitted(values).shape == pytest.approx(0.05)
    assert Gamma.fitted(np.array([10.0] * 39 + [1e10])).shape >= 0.05
