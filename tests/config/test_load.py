"""From a file to a run: defaults, kinds of distributions, classes, providers, overrides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endive.catalog import AppendCatalog, CASCatalog, InstantCatalog
from endive.config import ConfigError, load_document, load_simulation_config
from endive.config.load import parse_assignment
from endive.config.values import Interval, Runtime
from endive.conflict_detector import PartitionOverlapConflictDetector, ProbabilisticConflictDetector
from endive.simulation import Simulation
from endive.storage import (
    ExponentialLatency,
    FixedLatency,
    LognormalLatency,
    NormalLatency,
    ProfiledProvider,
    QuantileDistribution,
    UniformLatency,
)
from endive.transaction import ManifestCount
from endive.workload import ClosedArrivals, OpenArrivals, PeriodicArrivals, ZipfCount
from tests.config import BASE, built, checked, problems

PROFILE = """
min_latency_ms = 2.0
read = { fixed_ms = 5.0 }
write = { fixed_ms = 6.0 }
cas = { fixed_ms = 7.0 }
"""


def only_class(text: str) -> Any:
    (cls,) = built(text).workload.config.workload_classes
    return cls


def test_a_file_makes_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(BASE)
    config = load_simulation_config(str(path))
    assert (config.seed, config.duration_ms, config.max_retries) == (7, 2_000.0, 10)
    statistics = Simulation(config).run()
    assert statistics.committed > 0


def test_the_seed_can_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(BASE)
    config = load_simulation_config(path, seed_override=8)
    assert (config.seed, config.run_seed, config.workload.seed) == (8, 8, 8)


def test_keys_can_be_overridden(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(BASE)
    assert load_simulation_config(path, overrides={"transaction.retry": 4}).max_retries == 4


@pytest.mark.parametrize("engine", ["auto", "reference", "compiled"])
def test_engines(engine: str) -> None:
    assert built(overrides={"simulation.engine": engine}).engine == engine


def test_a_seed_that_is_left_out_is_made_up() -> None:
    document = checked(overrides={"simulation": {"duration_ms": 1.0}})
    assert document.simulation.seed is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"distribution": "exponential", "scale": 3.0}, ExponentialLatency(3.0)),
        ({"distribution": "exponential", "mean": 3.0, "min": 1.0}, ExponentialLatency(3.0, 1.0)),
        ({"distribution": "lognormal", "mean": 3.0, "sigma": 0.5}, LognormalLatency.from_mean(3.0, 0.5, 0.0)),
        ({"distribution": "lognormal", "median": 3.0, "sigma": 0.5}, LognormalLatency.from_median(3.0, 0.5, 0.0)),
        ({"distribution": "normal", "mean": 3.0, "stddev": 1.0, "min": 2.0}, NormalLatency(3.0, 1.0, 2.0)),
        ({"distribution": "uniform", "min": 1.0, "max": 3.0}, UniformLatency(1.0, 3.0)),
        ({"distribution": "fixed", "value": 3.0}, FixedLatency(3.0)),
        ({"distribution": "fixed", "mean": 3.0}, FixedLatency(3.0)),
    ],
)
def test_distributions(given: dict[str, Any], expected: QuantileDistribution) -> None:
    values = [at / 7.0 for at in range(1, 7)]
    for section in (Runtime(**given), Interval(**given)):
        made = section.to_distribution()
        assert type(made) is type(expected)
        assert [made.at(u) for u in values] == [expected.at(u) for u in values]


def test_runtimes_are_lognormal_and_intervals_exponential_by_default() -> None:
    cls = only_class("")
    assert isinstance(cls.runtime, LognormalLatency)
    assert cls.arrivals == OpenArrivals(ExponentialLatency(50.0))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", CASCatalog),
        ('[catalog]\ntype = "cas"', CASCatalog),
        ('[catalog]\ntype = "append"', AppendCatalog),
        ('[catalog]\ntype = "instant"\nlatency_ms = 2.5', InstantCatalog),
    ],
)
def test_kinds_of_catalogs(text: str, kind: type) -> None:
    assert type(built(text).catalog) is kind


def test_the_catalog_may_have_a_store_of_its_own() -> None:
    config = built('[catalog]\nprovider = "azure"')
    assert isinstance(config.catalog, CASCatalog)
    assert (config.catalog.storage.name, config.storage_provider.name) == ("azure", "s3x")


def test_groups_are_shared_by_catalog_and_workload() -> None:
    config = built('[catalog]\nnum_tables = 6\nnum_groups = 3\ngroup_sizes = "longtail"')
    assert isinstance(config.catalog, CASCatalog)
    assert config.catalog.table_groups == config.workload.config.groups
    assert sorted(config.catalog.table_groups) == [0, 0, 0, 1, 1, 2]


def test_conflict_detectors() -> None:
    by_chance = built("[transaction]\nreal_conflict_probability = 0.25").conflict_detector
    assert isinstance(by_chance, ProbabilisticConflictDetector)
    assert by_chance.real_conflict_probability == 0.25
    by_partition = built('[transaction]\nconflict_detector = "partition_overlap"').conflict_detector
    assert isinstance(by_partition, PartitionOverlapConflictDetector)


def test_counts_of_manifests() -> None:
    def counts(text: str) -> ManifestCount:
        return built(f"[transaction.conflicting_manifests]\n{text}").commit_policy.conflicting_manifests

    assert counts("mean = 3.0") == ManifestCount(ExponentialLatency(3.0), 1, 10)
    assert counts('distribution = "fixed"\nmean = 4\nmax = 5') == ManifestCount(FixedLatency(4.0), 1, 5)
    assert counts('distribution = "uniform"\nmin = 2\nmax = 5') == ManifestCount(UniformLatency(1.5, 5.5), 2, 5)


def test_a_class_inherits_keys_of_transactions() -> None:
    config = built(
        """
[catalog]
num_tables = 4
partitions.num_partitions = 8

[transaction]
retry = 6
partitions_per_txn = 2
on_real_conflict = "restart"

[workload.b]
rate = 4.0
operation = "fast_append"
tables = [1, 3]
partition_range = [2, 6]

[workload.a]
periodic = { interval_ms = 500, phase_ms = 20 }
retry = 1
runtime = { distribution = "fixed", value = 3 }
tables_per_txn.zipf = 1.5
conflicting_manifests.mean = 2.0

[workload.c]
closed = { clients = 3 }

[workload.d]
"""
    )
    a, b, c, d = config.workload.config.workload_classes
    assert [cls.name for cls in (a, b, c)] == ["a", "b", "c"]
    assert a.arrivals == PeriodicArrivals(500.0, 20.0)
    assert b.arrivals == OpenArrivals(ExponentialLatency(250.0))
    assert c.arrivals == ClosedArrivals(3, FixedLatency(0.0))
    assert d.arrivals == OpenArrivals(ExponentialLatency(50.0))
    assert [config.max_retries_of(cls) for cls in (a, b, c)] == [1, 6, 6]
    assert [cls.partitions_per_txn for cls in (a, b, c)] == [2, 2, 2]
    assert a.runtime == FixedLatency(3.0)
    assert b.runtime == c.runtime != a.runtime
    assert a.tables_per_txn == ZipfCount(1.5)
    assert (b.tables, b.partition_range) == ((1, 3), (2, 6))
    assert [operation.operation_type for operation in b.operations] == ["fast_append"]
    assert [config.policy_of(cls).on_real_conflict for cls in (a, b, c)] == ["merge", "restart", "restart"]


def test_a_later_set_of_profiles() -> None:
    def profile(text: str) -> Any:
        provider = built(text).storage_provider
        assert isinstance(provider, ProfiledProvider)
        return provider.profile

    assert profile('[storage]\nprofile = "2025-12"').reads["*"] == LognormalLatency.from_median(2.5, 0.57, 1.0)
    assert profile('[storage]\nprofile = "2025-06"').reads["*"] != LognormalLatency.from_median(2.5, 0.57, 1.0)


def test_min_latency_applies_to_every_latency_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(PROFILE.replace("cas = { fixed_ms = 7.0 }", "cas = { median_ms = 7.0, sigma = 2.0 }"))
    (tmp_path / "run.toml").write_text(BASE.replace('"s3x"', '"own.toml"\nmin_latency_ms = 5.5'))
    provider = load_simulation_config(tmp_path / "run.toml").storage_provider
    assert isinstance(provider, ProfiledProvider)
    assert provider.min_latency_ms == 5.5
    assert provider.profile.reads["*"].at(0.5) == 5.5
    assert provider.profile.writes["*"].at(0.5) == 6.0
    assert provider.profile.cas is not None
    assert provider.profile.cas.at(0.001) == 5.5


@pytest.mark.parametrize("section", ["storage", "catalog"])
def test_a_profile_file_is_found_beside_the_configuration(section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "profiles" / "own.toml").write_text(PROFILE)
    (tmp_path / "run.toml").write_text(BASE)
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = load_simulation_config(tmp_path / "run.toml", overrides={f"{section}.provider": "profiles/own.toml"})
    assert isinstance(config.catalog, CASCatalog)
    assert config.catalog.storage.read_ms("catalog", 0) == 5.0
    assert (config.storage_provider.name == "own") == (section == "storage")


def test_an_absolute_path_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('name = "mine"\n' + PROFILE)
    assert built(overrides={"storage.provider": str(tmp_path / "own.toml")}).storage_provider.name == "mine"


def test_a_store_that_can_only_append_holds_a_log(tmp_path: Path) -> None:
    profile = PROFILE.replace("cas =", "append =") + "compaction = { fixed_ms = 9.0 }\n"
    (tmp_path / "own.toml").write_text(profile)
    config = built("[catalog]\ncompaction_max_entries = 7", {"storage.provider": str(tmp_path / "own.toml")})
    assert isinstance(config.catalog, AppendCatalog)
    assert config.catalog.compaction_max_entries == 7


def test_configured_latencies_replace_those_of_the_provider() -> None:
    config = built("[storage]\nT_CAS.mean = 9\nT_CAS.stddev = 1")
    assert isinstance(config.storage_provider, ProfiledProvider)
    profile = config.storage_provider.profile
    assert profile.cas == NormalLatency(9.0, 1.0, 1.0)
    assert profile.failed_cas is None
    assert profile.append == built().storage_provider.profile.append  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("transaction.retry=4", ("transaction.retry", 4)),
        (" a.b = 1.5 ", ("a.b", 1.5)),
        ("a=true", ("a", True)),
        ("a=s3x", ("a", "s3x")),
        ('a="quoted"', ("a", "quoted")),
        ("a=[1, 2]", ("a", [1, 2])),
        ('a={distribution = "fixed", value = 2}', ("a", {"distribution": "fixed", "value": 2})),
        ("a=b=c", ("a", "b=c")),
        ("a=", ("a", "")),
        ("a=1_000", ("a", 1000)),
    ],
)
def test_assignments(text: str, expected: tuple[str, Any]) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["transaction.retry", "", "=3", " = 3"])
def test_invalid_assignments_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="must have the form key=value"):
        parse_assignment(text)


def test_overrides_create_missing_tables() -> None:
    document = checked(overrides={"workload.ingest.rate": 2.0, "transaction.inter_arrival": {"scale": 5.0}, "workload.b.retry": 1})
    assert document.workload["ingest"].rate == 2.0


def test_an_override_cannot_reach_into_a_number() -> None:
    assert "a parent key is not a table" in problems(overrides={"transaction.runtime.mean.x": 1})["transaction.runtime.mean.x"]


def test_the_order_of_classes_makes_no_difference() -> None:
    one = "[workload.a]\nrate = 1.0\n"
    two = "[workload.b]\nrate = 2.0\n"
    over = BASE.replace("inter_arrival.scale = 50.0", "")
    assert problems(one + two, over=over) == problems(two + one, over=over) == {}
    first = Simulation(built(one + two + "[workload.c]\n")).run().to_table()
    second = Simulation(built("[workload.c]\n" + two + one)).run().to_table()
    assert first.equals(second)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: no such file"):
        load_document(tmp_path / "nowhere.toml")
