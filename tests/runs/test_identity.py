"""The hash of an experiment: over all that changes results, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from endive.config import compute_experiment_hash
from endive.runs.execute import place_run, prepare_run
from endive.runs.identity import parameters
from endive.version import MODEL_VERSION
from tests.config import BASE, checked

RICH = """
[catalog]
type = "append"
num_tables = 4
num_groups = 2
partitions.num_partitions = 8

[transaction]
partitions_per_txn = 2
manifest_list_mode = "append"
on_real_conflict = "restart"

[workload.a]
[workload.b]
rate = 3.0
"""

PROFILE = "read = { fixed_ms = 5.0 }\nwrite = { fixed_ms = 6.0 }\ncas = { fixed_ms = 7.0 }\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("simulation.seed", 8),
        ("simulation.output_path", "elsewhere/other.parquet"),
        ("simulation.engine", "auto"),
        ("experiment.label", "named"),
    ],
)
def test_keys_without_an_effect_on_results_are_not_in_the_hash(key: str, value: Any) -> None:
    assert compute_experiment_hash(checked(RICH, {key: value})) == compute_experiment_hash(checked(RICH))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("simulation.duration_ms", 2_001),
        ("simulation.drain", True),
        ("storage.provider", "azurex"),
        ("storage.profile", "2025-12"),
        ("storage.max_parallel", 1),
        ("storage.min_latency_ms", 11.0),
        ("storage.sizes.manifest_list_bytes", 1),
        ("storage.sizes.manifest_file_bytes", 1),
        ("storage.sizes.table_metadata_bytes", 1),
        ("storage.T_CAS.mean", 5),
        ("storage.T_LOG_ENTRY_READ.mean", 5),
        ("storage.T_COMPACTION.stddev", 5),
        ("catalog.num_tables", 5),
        ("catalog.num_groups", 1),
        ("catalog.group_sizes", "longtail"),
        ("catalog.partitions.num_partitions", 9),
        ("catalog.provider", "azure"),
        ("catalog.linearization", 0.5),
        ("catalog.size_bytes", 1),
        ("catalog.table_metadata_inlined", False),
        ("catalog.compaction_threshold", 1),
        ("catalog.compaction_max_entries", 1),
        ("catalog.log_entry_size", 1),
        ("transaction.retry", 1),
        ("transaction.runtime.mean", 101),
        ("transaction.runtime.sigma", 0.6),
        ("transaction.runtime.min", 1),
        ("transaction.inter_arrival.scale", 51.0),
        ("transaction.operation_types", {"fast_append": 1.0}),
        ("transaction.tables_per_txn", 2),
        ("transaction.table_selection", {"distribution": "zipf"}),
        ("transaction.table_selection.write_fraction", 0.5),
        ("transaction.partitions_per_txn", 3),
        ("transaction.partition_selection.distribution", "zipf"),
        ("transaction.manifests_per_concurrent_commit", 2.0),
        ("transaction.real_conflict_probability", 0.1),
        ("transaction.conflict_detector", "partition_overlap"),
        ("transaction.on_real_conflict", "abort"),
        ("transaction.max_restarts", 1),
        ("transaction.total_timeout_ms", 100.0),
        ("transaction.retry_backoff.enabled", True),
        ("transaction.manifest_list_seal_threshold", 100),
        ("transaction.manifest_list_entry_size", 10),
        ("workload.b.rate", 4.0),
        ("workload.b.retry", 1),
        ("workload.c.rate", 1.0),
        ("workload.a.tables", [0]),
    ],
)
def test_every_parameter_is_in_the_hash(key: str, value: Any) -> None:
    overrides = {key: value}
    if key == "storage.T_COMPACTION.stddev":
        overrides["storage.T_COMPACTION.mean"] = 1
    assert compute_experiment_hash(checked(RICH, overrides)) != compute_experiment_hash(checked(RICH))


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("", "transaction.retry", 10),
        ("", "catalog.type", "cas"),
        ("", "catalog.num_groups", 1),
        ("", "catalog.partitions.num_partitions", 1),
        ("", "transaction.on_real_conflict", "abort"),
        ("", "transaction.inter_arrival.distribution", "exponential"),
        ("", "storage.max_parallel", 4),
        ("[workload.a]\n", "workload.a.retry", 10),
        ("[workload.a]\n", "workload.a.start_ms", 0.0),
        ("[workload.a]\n[workload.b]\nwriters = 2\nevery = '1s'\n", "workload.b.phase", "random"),
        ("[catalog]\ntype = 'service'\n", "catalog.lock", "none"),
        ("[catalog]\ntype = 'service'\n", "catalog.num_groups", 1),
    ],
)
def test_a_default_that_is_written_out_changes_nothing(text: str, key: str, value: Any) -> None:
    assert compute_experiment_hash(checked(text, {key: value})) == compute_experiment_hash(checked(text))


def test_a_profile_counts_by_its_content_and_not_by_its_path(tmp_path: Path) -> None:
    def hash_of(name: str, content: str, section: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        return compute_experiment_hash(checked(overrides={f"{section}.provider": str(path)}))

    for section in ("storage", "catalog"):
        one = hash_of("one.toml", PROFILE, section)
        assert hash_of("sub/other.toml", "# a comment\n" + PROFILE, section) == one
        assert hash_of("named.toml", 'name = "x"\ndescription = "y"\n' + PROFILE, section) == one
        assert hash_of("slower.toml", PROFILE.replace("7.0", "8.0"), section) != one
        assert hash_of("floored.toml", "min_latency_ms = 1.0\n" + PROFILE, section) != one


def test_parameters_contain_only_hashed_keys() -> None:
    tree = parameters(checked(RICH, {"experiment.label": "x"}))
    assert "experiment" not in tree
    assert set(tree["simulation"]) == {"duration_ms", "drain"}
    assert tree["storage"]["provider"]["cas"].startswith("LognormalLatency(")


def test_the_directory_bears_label_and_hash() -> None:
    document = checked(overrides={"experiment.label": "exp_baseline"})
    name = place_run(prepare_run(document, seed=0), Path("experiments")).config.parent
    assert name == Path("experiments") / f"exp_baseline-{compute_experiment_hash(document)}"
    assert len(compute_experiment_hash(document)) == 12


def test_the_hash_is_the_same_in_every_process(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(BASE)
    code = "import sys; from endive.config import compute_experiment_hash as h, load_document as l; print(h(l(sys.argv[1])))"
    hashes = {
        subprocess.run(
            [sys.executable, "-c", code, str(config)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(hashes) == 1


def test_the_model_version_is_in_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compute_experiment_hash(checked(RICH))
    monkeypatch.setattr("endive.runs.identity.MODEL_VERSION", MODEL_VERSION + 1)
    assert compute_experiment_hash(checked(RICH)) != before


def test_hashes_stay_as_they_are() -> None:
    """A change here makes every finished experiment one of another version: raise MODEL_VERSION only where rows change."""
    assert (MODEL_VERSION, compute_experiment_hash(checked()), compute_experiment_hash(checked(RICH))) == (
        5,
        "c5b78a1289b0",
        "e81671ade010",
    )
