"""Every fragment that the sources of the model print loads, and each of its keys takes effect."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.runs.execute import place_run, prepare_run
from endive.runs.layout import RunFiles
from endive.simulation import Simulation, Statistics
from endive.storage import ExponentialLatency, LognormalLatency, NormalLatency, ProfiledProvider
from endive.workload import OpenArrivals
from tests.config import Tree, leaves, merged, plain, tree, without


@dataclass(frozen=True)
class Fragment:
    """A fragment, what completes it, and for each key another value: with keys that then have to go, or without others at all."""

    text: str
    other: dict[str, Any]
    around: str = ""
    gone: dict[str, tuple[str, ...]] = field(default_factory=dict)
    alone: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def tree(self) -> Tree:
        return merged(tree(self.around), tomllib.loads(self.text))


FRAGMENTS = {
    "schema of a run": Fragment(
        """
[simulation]
duration_ms = 3600000
seed = 42
output_path = "results.parquet"

[experiment]
label = "exp_baseline"

[storage]
provider = "s3x"

[catalog]
num_tables = 1

[catalog.partitions]
num_partitions = 100

[transaction]
retry = 10
runtime.mean = 180000
runtime.sigma = 1.5
inter_arrival.distribution = "exponential"
inter_arrival.scale = 100.0
real_conflict_probability = 0.0
manifest_list_mode = "rewrite"

[transaction.operation_types]
fast_append = 0.7
merge_append = 0.2
validated_overwrite = 0.1

[transaction.retry_backoff]
enabled = true
base_ms = 10.0
multiplier = 2.0
max_ms = 5000.0
jitter = 0.1
""",
        {
            "simulation.duration_ms": 1000,
            "simulation.seed": 43,
            "simulation.output_path": "other.parquet",
            "experiment.label": "other",
            "storage.provider": "azure",
            "catalog.num_tables": 2,
            "catalog.partitions.num_partitions": 10,
            "transaction.retry": 3,
            "transaction.runtime.mean": 5,
            "transaction.runtime.sigma": 0.1,
            "transaction.inter_arrival.distribution": "lognormal",
            "transaction.inter_arrival.scale": 7.0,
            "transaction.real_conflict_probability": 0.5,
            "transaction.manifest_list_mode": "append",
            "transaction.operation_types.fast_append": 0.1,
            "transaction.operation_types.merge_append": 0.9,
            "transaction.operation_types.validated_overwrite": 0.0,
            "transaction.retry_backoff.enabled": False,
            "transaction.retry_backoff.base_ms": 1.0,
            "transaction.retry_backoff.multiplier": 3.0,
            "transaction.retry_backoff.max_ms": 60.0,
            "transaction.retry_backoff.jitter": 0.0,
        },
        gone={"transaction.inter_arrival.distribution": ("transaction.inter_arrival.scale",)},
        alone={"simulation.output_path": ("experiment.label",)},
    ),
    "explicit kind of catalog": Fragment('[catalog]\ntype = "cas"', {"catalog.type": "append"}),
    "partitions table by table": Fragment(
        "[catalog.partitions]\nper_table = [10, 20, 30]",
        {"catalog.partitions.per_table": [10, 20, 31]},
        around="[catalog]\nnum_tables = 3",
    ),
    "partitions": Fragment(
        """
[partition]
enabled = true
num_partitions = 100
partitions_per_txn_mean = 3.0
selection.distribution = "zipf"
selection.zipf_alpha = 1.5
""",
        {
            "partition.enabled": False,
            "partition.num_partitions": 50,
            "partition.partitions_per_txn_mean": 4.5,
            "partition.selection.distribution": "uniform",
            "partition.selection.zipf_alpha": 0.9,
        },
        gone={"partition.selection.distribution": ("partition.selection.zipf_alpha",)},
    ),
    "fast catalog": Fragment(
        """
[storage]
T_CAS.mean = 1
T_CAS.stddev = 0.1
T_METADATA_ROOT.read.mean = 1
T_METADATA_ROOT.read.stddev = 0.1
T_METADATA_ROOT.write.mean = 1
T_METADATA_ROOT.write.stddev = 0.1
""",
        {
            f"storage.{key}": 7
            for key in (
                "T_CAS.mean",
                "T_CAS.stddev",
                "T_METADATA_ROOT.read.mean",
                "T_METADATA_ROOT.read.stddev",
                "T_METADATA_ROOT.write.mean",
                "T_METADATA_ROOT.write.stddev",
            )
        },
    ),
    "realistic store": Fragment(
        """
[storage]
T_MANIFEST_LIST.read.mean = 50
T_MANIFEST_LIST.read.stddev = 5
T_MANIFEST_LIST.write.mean = 60
T_MANIFEST_LIST.write.stddev = 6
T_MANIFEST_FILE.read.mean = 50
T_MANIFEST_FILE.read.stddev = 5
T_MANIFEST_FILE.write.mean = 60
T_MANIFEST_FILE.write.stddev = 6
""",
        {
            f"storage.T_MANIFEST_{kind}.{access}.{number}": 7
            for kind in ("LIST", "FILE")
            for access in ("read", "write")
            for number in ("mean", "stddev")
        },
    ),
    "realistic runtime": Fragment(
        "[transaction]\nruntime.min = 30000\nruntime.mean = 180000\nruntime.sigma = 1.5",
        {"transaction.runtime.min": 0, "transaction.runtime.mean": 90000, "transaction.runtime.sigma": 0.5},
    ),
    "false conflicts only": Fragment(
        "[transaction]\nreal_conflict_probability = 0.0", {"transaction.real_conflict_probability": 1.0}
    ),
    "real conflicts": Fragment(
        """
[transaction]
real_conflict_probability = 0.5

conflicting_manifests.distribution = "exponential"
conflicting_manifests.mean = 3.0
conflicting_manifests.min = 1
conflicting_manifests.max = 10
""",
        {
            "transaction.real_conflict_probability": 0.6,
            "transaction.conflicting_manifests.distribution": "uniform",
            "transaction.conflicting_manifests.mean": 4.0,
            "transaction.conflicting_manifests.min": 2,
            "transaction.conflicting_manifests.max": 9,
        },
        gone={"transaction.conflicting_manifests.distribution": ("transaction.conflicting_manifests.mean",)},
    ),
    "append": Fragment(
        """
[catalog]
mode = "append"
compaction_threshold = 16000000
compaction_max_entries = 0
log_entry_size = 100
table_metadata_inlined = true

[transaction]
manifest_list_mode = "append"
manifest_list_seal_threshold = 0
manifest_list_entry_size = 50

[storage]
T_APPEND.mean = 50
T_APPEND.stddev = 5
T_LOG_ENTRY_READ.mean = 5
T_LOG_ENTRY_READ.stddev = 1
T_COMPACTION.mean = 200
T_COMPACTION.stddev = 20

T_TABLE_METADATA.read.mean = 20
T_TABLE_METADATA.read.stddev = 5
T_TABLE_METADATA.write.mean = 30
T_TABLE_METADATA.write.stddev = 5
""",
        {
            "catalog.mode": "cas",
            "catalog.compaction_threshold": 1000,
            "catalog.compaction_max_entries": 5,
            "catalog.log_entry_size": 10,
            "catalog.table_metadata_inlined": False,
            "transaction.manifest_list_mode": "rewrite",
            "transaction.manifest_list_seal_threshold": 500,
            "transaction.manifest_list_entry_size": 5,
            **{
                f"storage.{key}": 7
                for key in (
                    "T_APPEND.mean",
                    "T_APPEND.stddev",
                    "T_LOG_ENTRY_READ.mean",
                    "T_LOG_ENTRY_READ.stddev",
                    "T_COMPACTION.mean",
                    "T_COMPACTION.stddev",
                    "T_TABLE_METADATA.read.mean",
                    "T_TABLE_METADATA.read.stddev",
                    "T_TABLE_METADATA.write.mean",
                    "T_TABLE_METADATA.write.stddev",
                )
            },
        },
        gone={
            "catalog.mode": ("catalog.compaction_threshold", "catalog.compaction_max_entries", "catalog.log_entry_size"),
            "transaction.manifest_list_mode": (
                "transaction.manifest_list_seal_threshold",
                "transaction.manifest_list_entry_size",
            ),
        },
    ),
    "number of tables": Fragment(
        "[transaction]\nntable.zipf = 2.0", {"transaction.ntable.zipf": 1.0}, around="[catalog]\nnum_tables = 5"
    ),
    "choice of tables": Fragment(
        "[transaction]\nseltbl.zipf = 1.4", {"transaction.seltbl.zipf": 1.0}, around="[catalog]\nnum_tables = 5"
    ),
}
FOR_A_STORE_OF_ONES_OWN = ("fast catalog", "realistic store")


def complete(name: str) -> Tree:
    fragment = FRAGMENTS[name]
    whole = fragment.tree()
    return without(whole, ["storage.provider"]) if name in FOR_A_STORE_OF_ONES_OWN else whole


def effect(document: Tree) -> tuple[Any, RunFiles]:
    """All that a document amounts to: what runs, and where it goes."""
    checked = check_document(document, "fragment.toml")
    config = build_simulation_config(checked)
    return plain(config), place_run(prepare_run(checked, seed=config.run_seed), Path("root"))


def run(document: Tree, **overrides: Any) -> Statistics:
    checked = check_document(document, "fragment.toml", Path(), {key.replace("__", "."): v for key, v in overrides.items()})
    return Simulation(build_simulation_config(checked)).run()


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_is_understood_whole(name: str) -> None:
    """Each key of it has another value below, so that none is forgotten."""
    fragment = FRAGMENTS[name]
    assert set(fragment.other) == set(leaves(tomllib.loads(fragment.text)))
    effect(complete(name))


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, fragment in FRAGMENTS.items() for key in fragment.other])
def test_each_key_takes_effect(name: str, key: str) -> None:
    fragment = FRAGMENTS[name]
    given = without(complete(name), fragment.alone.get(key, ()))
    changed = merged(without(given, fragment.gone.get(key, ())), _nested(key, fragment.other[key]))
    if key == "transaction.inter_arrival.distribution":
        changed = merged(changed, _nested("transaction.inter_arrival.median", 100.0))
    assert effect(changed) != effect(given)


def _nested(key: str, value: Any) -> Tree:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_runtime_is_a_lognormal_with_that_mean_and_floor() -> None:
    config = build_simulation_config(check_document(complete("realistic runtime"), "fragment.toml"))
    runtime = config.workload.config.workload_classes[0].runtime
    assert runtime == LognormalLatency.from_mean(180_000.0, 1.5, 30_000.0)


def test_intervals_are_exponential_with_that_mean() -> None:
    config = build_simulation_config(check_document(complete("schema of a run"), "fragment.toml"))
    assert config.workload.config.workload_classes[0].arrivals == OpenArrivals(ExponentialLatency(100.0))


def test_latencies_of_ones_own_are_normal_with_a_floor_of_a_millisecond() -> None:
    config = build_simulation_config(check_document(complete("realistic store"), "fragment.toml"))
    assert isinstance(config.storage_provider, ProfiledProvider)
    profile = config.storage_provider.profile
    assert profile.min_latency_ms == 1.0
    assert profile.reads["manifest_list"] == NormalLatency(50.0, 5.0, 1.0)
    assert profile.writes["manifest_file"] == NormalLatency(60.0, 6.0, 1.0)
    assert profile.cas == NormalLatency(1.0, 0.1, 1.0)


def test_conflicting_manifests_imply_merging() -> None:
    merging = run(complete("real conflicts"), transaction__operation_types={"validated_overwrite": 1.0}, transaction__retry=50)
    assert sum(txn.real_conflicts for txn in merging.transactions) > 0
    assert merging.validation_exceptions == 0
    aborting = run(
        without(complete("real conflicts"), ["transaction.conflicting_manifests"]),
        transaction__operation_types={"validated_overwrite": 1.0},
        transaction__retry=50,
    )
    assert aborting.validation_exceptions > 0


def test_partitions_make_conflicts_rarer() -> None:
    def false_conflicts(enabled: bool) -> int:
        results = run(complete("partitions"), partition__enabled=enabled, partition__selection={"distribution": "uniform"})
        return sum(txn.false_conflicts for txn in results.transactions)

    assert 0 < false_conflicts(True) < false_conflicts(False)


def test_the_append_fragment_runs_as_a_log() -> None:
    counts = run(complete("append")).counters.counts
    assert counts["append_logical_success"] > 0
    assert counts["manifest_append_physical_success"] > 0
    assert counts["append_compactions_completed"] == 0
    compacting = run(complete("append"), catalog__compaction_max_entries=5).counters.counts
    assert compacting["append_compactions_completed"] > 0
    sealing = run(complete("append"), transaction__manifest_list_seal_threshold=200).counters.counts
    assert sealing["manifest_append_sealed_rewrite"] > 0


def test_a_long_log_is_slow_to_read() -> None:
    def read_ms(entry_ms: float) -> float:
        results = run(complete("append"), storage__T_LOG_ENTRY_READ__mean=entry_ms)
        return sum(txn.catalog_read_ms for txn in results.transactions if txn.total_retries == 0)

    assert read_ms(20.0) > read_ms(1.0)


def test_metadata_that_is_not_inlined_is_read_and_written() -> None:
    apart = run(complete("append"), catalog__table_metadata_inlined=False).transactions
    inlined = run(complete("append")).transactions
    assert sum(txn.metadata_reads for txn in apart) > 0 < sum(txn.metadata_writes for txn in apart)
    assert sum(txn.metadata_reads + txn.metadata_writes for txn in inlined) == 0


def test_the_number_of_tables_is_zipf_distributed() -> None:
    sizes = [len(txn.tables_written) for txn in run(complete("number of tables"), simulation__duration_ms=10_000).transactions]
    assert set(sizes) > {1, 2}
    assert sizes.count(1) > sizes.count(2) > sizes.count(5)


def test_the_choice_of_tables_is_zipf_distributed() -> None:
    tables = [txn.tables_written[0] for txn in run(complete("choice of tables"), simulation__duration_ms=10_000).transactions]
    assert tables.count(0) > tables.count(1) > tables.count(4)
