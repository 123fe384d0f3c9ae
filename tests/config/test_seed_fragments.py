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
from tests.config import Tree, leaves, merged, plain, tree, without


@dataclass(frozen=True)
class Fragment:
    """A fragment, and what a test of its keys needs.

    Attributes:
        text: The fragment as printed.
        around: Keys that complete the fragment.
        other: Values of keys for which ``another`` has no value.
        gone: Keys that do not apply with the other value of a key.
        alone: Keys without which a key takes effect.
    """

    text: str
    around: str = ""
    other: dict[str, Any] = field(default_factory=dict)
    gone: dict[str, tuple[str, ...]] = field(default_factory=dict)
    alone: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def tree(self) -> Tree:
        return merged(tree(self.around), tomllib.loads(self.text))

    def another(self, key: str) -> Any:
        """Return another valid value of a key."""
        value = leaves(tomllib.loads(self.text))[key]
        if key in self.other:
            return self.other[key]
        if isinstance(value, bool):
            return not value
        assert isinstance(value, int | float), f"{key} needs another value in `other`"
        return value + 1


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
        other={
            "simulation.output_path": "other.parquet",
            "experiment.label": "other",
            "storage.provider": "azure",
            "transaction.inter_arrival.distribution": "lognormal",
            "transaction.manifest_list_mode": "append",
            "transaction.retry_backoff.jitter": 0.0,
        },
        gone={"transaction.inter_arrival.distribution": ("transaction.inter_arrival.scale",)},
        alone={"simulation.output_path": ("experiment.label",)},
    ),
    "explicit kind of catalog": Fragment('[catalog]\ntype = "cas"', other={"catalog.type": "append"}),
    "partitions table by table": Fragment(
        "[catalog.partitions]\nper_table = [10, 20, 30]",
        around="[catalog]\nnum_tables = 3",
        other={"catalog.partitions.per_table": [10, 20, 31]},
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
        other={"partition.selection.distribution": "uniform"},
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
"""
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
"""
    ),
    "realistic runtime": Fragment("[transaction]\nruntime.min = 30000\nruntime.mean = 180000\nruntime.sigma = 1.5"),
    "false conflicts only": Fragment("[transaction]\nreal_conflict_probability = 0.0"),
    "real conflicts": Fragment(
        """
[transaction]
real_conflict_probability = 0.5

conflicting_manifests.distribution = "exponential"
conflicting_manifests.mean = 3.0
conflicting_manifests.min = 1
conflicting_manifests.max = 10
""",
        other={"transaction.real_conflict_probability": 0.6, "transaction.conflicting_manifests.distribution": "uniform"},
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
        other={"catalog.mode": "cas", "transaction.manifest_list_mode": "rewrite"},
        gone={
            "catalog.mode": ("catalog.compaction_threshold", "catalog.compaction_max_entries", "catalog.log_entry_size"),
            "transaction.manifest_list_mode": (
                "transaction.manifest_list_seal_threshold",
                "transaction.manifest_list_entry_size",
            ),
        },
    ),
    "number of tables": Fragment("[transaction]\nntable.zipf = 2.0", around="[catalog]\nnum_tables = 5"),
    "choice of tables": Fragment("[transaction]\nseltbl.zipf = 1.4", around="[catalog]\nnum_tables = 5"),
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
def test_a_fragment_loads(name: str) -> None:
    effect(complete(name))


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name, fragment in FRAGMENTS.items() for key in leaves(tomllib.loads(fragment.text))]
)
def test_each_key_of_a_fragment_takes_effect(name: str, key: str) -> None:
    fragment = FRAGMENTS[name]
    given = without(complete(name), fragment.alone.get(key, ()))
    changed = merged(without(given, fragment.gone.get(key, ())), _nested(key, fragment.another(key)))
    if key == "transaction.inter_arrival.distribution":
        changed = merged(changed, _nested("transaction.inter_arrival.median", 100.0))
    assert effect(changed) != effect(given)


def _nested(key: str, value: Any) -> Tree:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_the_append_fragment_runs_as_a_log() -> None:
    counts = run(complete("append")).counters.counts
    assert counts["append_logical_success"] > 0
    assert counts["manifest_append_physical_success"] > 0
    assert counts["append_compactions_completed"] == 0
    compacting = run(complete("append"), catalog__compaction_max_entries=5).counters.counts
    assert compacting["append_compactions_completed"] > 0
    sealing = run(complete("append"), transaction__manifest_list_seal_threshold=200).counters.counts
    assert sealing["manifest_append_sealed_rewrite"] > 0
