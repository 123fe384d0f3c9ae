from __future__ import annotations

import math
from pathlib import Path

import pytest

from endive.randomness import Stream
from endive.storage import (
    CATALOG,
    MANIFEST_FILE,
    MANIFEST_LIST,
    FixedLatency,
    LognormalLatency,
    NormalLatency,
    ProfiledProvider,
    QuantileDistribution,
    SizeBasedLatency,
    builtin_profiles,
    create_provider,
    load_profile,
)
from endive.storage.profiles import DEFAULT_PROFILE_SET, PROFILE_SETS, ProfileError
from tests.storage import PROVIDERS, PUBLISHED, BySize, Lognormal


def published_distribution(numbers: Lognormal | BySize | None, floor_ms: float) -> QuantileDistribution | None:
    if numbers is None:
        return None
    if isinstance(numbers, Lognormal):
        return LognormalLatency(math.log(numbers.median_ms), numbers.sigma, floor_ms)
    return SizeBasedLatency(numbers.base_ms, numbers.per_mib_ms, numbers.sigma, floor_ms)


class TestBuiltinProfiles:
    def test_the_default_set_is_the_latest(self) -> None:
        assert DEFAULT_PROFILE_SET == "2026-01" == max(PROFILE_SETS)
        assert builtin_profiles() == builtin_profiles("2026-01")
        assert set(PROFILE_SETS) == set(PUBLISHED)

    @pytest.mark.parametrize(("profile_set", "name"), PROVIDERS)
    @pytest.mark.parametrize("operation", ["cas", "failed_cas", "append", "failed_append"])
    def test_conditional_writes_have_the_published_numbers(self, profile_set: str, name: str, operation: str) -> None:
        published = PUBLISHED[profile_set][name]
        expected = published_distribution(getattr(published, operation), published.floor_ms)
        assert getattr(builtin_profiles(profile_set)[name], operation) == expected

    @pytest.mark.parametrize(("profile_set", "name"), PROVIDERS)
    def test_reads_and_writes_have_the_published_numbers(self, profile_set: str, name: str) -> None:
        published = PUBLISHED[profile_set][name]
        profile = builtin_profiles(profile_set)[name]
        assert profile.reads == {"*": published_distribution(published.read, published.floor_ms)}
        assert profile.writes == {"*": published_distribution(published.write, published.floor_ms)}

    @pytest.mark.parametrize(("profile_set", "name"), PROVIDERS)
    def test_the_rest_of_a_profile(self, profile_set: str, name: str) -> None:
        published = PUBLISHED[profile_set][name]
        profile = builtin_profiles(profile_set)[name]
        assert profile.name == name
        assert profile.min_latency_ms == published.floor_ms
        assert profile.tail_append == published.tail_append
        assert profile.object_writes_per_s == published.object_writes_per_s
        assert (profile.compaction, profile.log_entry_read) == (None, None)
        assert profile.description
        assert profile.source

    def test_an_unknown_set_is_refused_with_those_that_there_are(self) -> None:
        with pytest.raises(ProfileError, match=r"'2024-01'.*2025-06, 2025-12, 2026-01"):
            builtin_profiles("2024-01")


class TestCreateProvider:
    def test_it_finds_a_provider_of_another_set(self) -> None:
        profiles = builtin_profiles("2025-12")
        assert create_provider("s3x", Stream(1), profiles).profile is profiles["s3x"]

    def test_an_unknown_provider_is_refused_with_those_that_there_are(self) -> None:
        with pytest.raises(ProfileError, match=r"'s4'.*azure.*s3x"):
            create_provider("s4", Stream(1))


FULL_PROFILE = """
name = "minio"
description = "A rack in the cellar"
source = "measured there"
min_latency_ms = 2
tail_append = true

[read]
median_ms = 5
sigma = 0.25
[read.manifest_list]
fixed_ms = 7.5
[read.catalog]
mean_ms = 3
stddev_ms = 0.5

[write]
base_ms = 8
per_mib_ms = 4
sigma = 0.2

[cas]
median_ms = 9
sigma = 0.1
[failed_cas]
mean_ms = 11
stddev_ms = 2
[append]
fixed_ms = 6
[failed_append]
fixed_ms = 60
[compaction]
median_ms = 90
sigma = 0.3
[log_entry_read]
fixed_ms = 2
"""

MINIMAL_PROFILE = """
[read]
fixed_ms = 1
[write]
fixed_ms = 2
[cas]
fixed_ms = 3
"""


def saved(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestLoadProfile:
    def test_every_key_of_a_full_profile_takes_effect(self, tmp_path: Path) -> None:
        profile = load_profile(saved(tmp_path, FULL_PROFILE))
        assert profile.name == "minio"
        assert profile.description == "A rack in the cellar"
        assert profile.source == "measured there"
        assert profile.min_latency_ms == 2.0
        assert profile.tail_append
        assert profile.reads == {
            "*": LognormalLatency.from_median(5.0, 0.25, 2.0),
            MANIFEST_LIST: FixedLatency(7.5),
            CATALOG: NormalLatency(3.0, 0.5, 2.0),
        }
        assert profile.writes == {"*": SizeBasedLatency(8.0, 4.0, 0.2, 2.0)}
        assert profile.cas == LognormalLatency.from_median(9.0, 0.1, 2.0)
        assert profile.failed_cas == NormalLatency(11.0, 2.0, 2.0)
        assert profile.append == FixedLatency(6.0)
        assert profile.failed_append == FixedLatency(60.0)
        assert profile.compaction == LognormalLatency.from_median(90.0, 0.3, 2.0)
        assert profile.log_entry_read == FixedLatency(2.0)

    def test_a_minimal_profile_is_named_after_its_file_and_has_no_floor(self, tmp_path: Path) -> None:
        profile = load_profile(saved(tmp_path, MINIMAL_PROFILE, "cellar.toml"))
        assert profile.name == "cellar"
        assert profile.min_latency_ms == 0.0
        assert (profile.failed_cas, profile.append, profile.tail_append) == (None, None, False)

    def test_a_provider_made_of_it_works(self, tmp_path: Path) -> None:
        provider = ProfiledProvider(load_profile(saved(tmp_path, FULL_PROFILE)), Stream(1))
        assert provider.read_ms(MANIFEST_LIST, 100) == 7.5
        assert provider.write_ms(MANIFEST_FILE, 100) >= 2.0
        assert sum(provider.tail_append(CATALOG, 100)) == 6.0

    def test_a_store_may_append_without_cas(self, tmp_path: Path) -> None:
        profile = load_profile(saved(tmp_path, MINIMAL_PROFILE.replace("[cas]", "[append]")))
        assert profile.cas is None
        assert profile.append == FixedLatency(3.0)

    def test_a_fixed_latency_is_not_below_the_floor(self, tmp_path: Path) -> None:
        profile = load_profile(saved(tmp_path, "min_latency_ms = 5\n" + MINIMAL_PROFILE))
        assert ProfiledProvider(profile, Stream(1)).read_ms(MANIFEST_LIST, 1) == 5.0


READ = "[read]\nfixed_ms = 1\n"
WRITE = "[write]\nfixed_ms = 2\n"
CAS = "[cas]\nfixed_ms = 3\n"


class TestErrors:
    """Each names the file, the key, and the value or what is allowed."""

    @pytest.mark.parametrize(
        ("text", "key", "hint"),
        [
            ("min_latency = 3\n" + MINIMAL_PROFILE, "min_latency:", "min_latency_ms"),
            (MINIMAL_PROFILE + "[failed_caz]\nfixed_ms = 1\n", "failed_caz", "failed_cas"),
            (WRITE + CAS, "read", "missing"),
            (READ + CAS, "write", "missing"),
            (READ + WRITE, "cas", "missing"),
            ("read = 5\n" + WRITE + CAS, "read", "5"),
            ("cas = 5\n" + READ + WRITE, "cas", "5"),
            ("[read]\n" + WRITE + CAS, "read", "median_ms, sigma"),
            ("[read]\nmedian_ms = 5\n" + WRITE + CAS, "read", "median_ms, sigma"),
            ("[read]\nmedian_ms = 5\nsigma = 0.1\nmean_ms = 5\n" + WRITE + CAS, "read", "median_ms, sigma"),
            (READ + "[read.manifest_lists]\nfixed_ms = 1\n" + WRITE + CAS, "read", "manifest_lists"),
            (READ + "[read.manifest_list]\nfixed = 1\n" + WRITE + CAS, "read.manifest_list", "fixed_ms"),
            ("[read]\nmedian_ms = -5\nsigma = 0.1\n" + WRITE + CAS, "read: median_ms", "-5"),
            ("[read]\nmedian_ms = 5\nsigma = -0.1\n" + WRITE + CAS, "read: sigma", "-0.1"),
            ("[read]\nmedian_ms = 0\nsigma = 0.1\n" + WRITE + CAS, "read: median_ms", "greater than 0"),
            (READ + "[write]\nbase_ms = 0\nper_mib_ms = 1\nsigma = 0.1\n" + CAS, "write: base_ms", "greater than 0"),
            (READ + WRITE + "[cas]\nmean_ms = nan\nstddev_ms = 1\n", "cas: mean_ms", "nan"),
            (READ + WRITE + "[cas]\nmean_ms = 5\nstddev_ms = inf\n", "cas: stddev_ms", "inf"),
            (READ + WRITE + '[cas]\nfixed_ms = "fast"\n', "cas: fixed_ms", "'fast'"),
            (READ + WRITE + "[cas]\nfixed_ms = true\n", "cas: fixed_ms", "True"),
            ("min_latency_ms = -1\n" + MINIMAL_PROFILE, "min_latency_ms", "-1"),
            ("min_latency_ms = nan\n" + MINIMAL_PROFILE, "min_latency_ms", "nan"),
            ("min_latency_ms = 1e308\n" + MINIMAL_PROFILE, "min_latency_ms", "from 0 to 1e+15"),
            (f"min_latency_ms = {10**400}\n" + MINIMAL_PROFILE, "min_latency_ms", "from 0 to 1e+15"),
            ("object_writes_per_s = 1e-300\n" + MINIMAL_PROFILE, "object_writes_per_s", "at least 1e-09"),
        ],
    )
    def test_a_wrong_value_is_refused_by_name(self, tmp_path: Path, text: str, key: str, hint: str) -> None:
        path = saved(tmp_path, text)
        with pytest.raises(ProfileError) as raised:
            load_profile(path)
        message = str(raised.value)
        assert message.replace("`", "").startswith(f"{path}: {key}")
        assert hint in message.replace("`", "").removeprefix(f"{path}: {key}")

    def test_a_missing_profile_is_an_error_with_its_name(self, tmp_path: Path) -> None:
        path = tmp_path / "nowhere.toml"
        with pytest.raises(ProfileError) as raised:
            load_profile(path)
        assert str(raised.value).startswith(f"{path}: the latency profile cannot be read")


def test_a_limit_of_writes_is_kept_and_must_be_above_zero(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    body = "[read]\nfixed_ms = 1\n[write]\nfixed_ms = 1\n[cas]\nfixed_ms = 1\n"
    path.write_text("object_writes_per_s = 2.5\n" + body)
    assert load_profile(path).object_writes_per_s == 2.5
    path.write_text(body)
    assert load_profile(path).object_writes_per_s is None
    for wrong in ("0", "-1", "true", '"one"'):
        path.write_text(f"object_writes_per_s = {wrong}\n" + body)
        with pytest.raises(ProfileError, match="object_writes_per_s"):
            load_profile(path)
