"""The two engines are one model: for every configuration of built-in parts their rows are equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tomli_w
from hypothesis import given, note, settings

from endive.simulation import RESULT_SCHEMA
from endive.simulation.compiled import engine, lower
from endive.simulation.compiled.engine import CompiledEngine
from endive.simulation.compiled.features import Features
from endive.simulation.compiled.run_state import World, with_room_in_history
from endive.simulation.reference import ReferenceEngine
from tests.configurations import committer_documents, documents, failing_documents, protocol_documents, service_documents
from tests.simulation.kernels import KERNELS, shared
from tests.simulation.runs import config_of, table_of


def assert_engines_agree(tree: dict[str, Any]) -> None:
    config = config_of(tree)
    reference, reference_counters = table_of(ReferenceEngine, config)
    compiled, compiled_counters = table_of(CompiledEngine, config)
    assert compiled.num_rows == reference.num_rows
    for name in RESULT_SCHEMA.names:
        ours, theirs = reference.column(name).to_pylist(), compiled.column(name).to_pylist()
        if pa.types.is_floating(RESULT_SCHEMA.field(name).type):
            assert theirs == pytest.approx(ours, rel=1e-12, abs=0.0), name
        else:
            assert theirs == ours, name
    assert compiled_counters == reference_counters


@settings(max_examples=160)
@given(documents())
def test_rows_of_both_engines_are_equal_for_any_configuration(tree: dict[str, Any]) -> None:
    note("# this file reproduces it:\n" + tomli_w.dumps(tree))
    assert_engines_agree(tree)


@pytest.mark.parametrize("mode", ["rewrite", "append"])
@pytest.mark.parametrize("policy", ["abort", "merge"])
def test_rows_are_equal_where_some_of_the_tables_of_a_transaction_overlap(mode: str, policy: str) -> None:
    conflicts: dict[str, Any] = {"conflicting_manifests": {"distribution": "fixed", "mean": 2.0}} if policy == "merge" else {}
    assert_engines_agree(
        {
            "simulation": {"duration_ms": 1_000.0, "seed": 3},
            "storage": {"provider": "s3x", "profile": "2025-06"},
            "catalog": {"num_tables": 4, "table_metadata_inlined": False},
            "transaction": {
                "runtime": {"distribution": "fixed", "value": 10.0},
                "inter_arrival": {"scale": 5.0},
                "tables_per_txn": 3,
                "operation_types": {"fast_append": 1.0, "merge_append": 1.0, "validated_overwrite": 1.0},
                "real_conflict_probability": 0.3,
                "on_real_conflict": policy,
                "manifest_list_mode": mode,
                **conflicts,
            },
        }
    )


@settings(max_examples=120)
@given(service_documents())
def test_rows_of_both_engines_are_equal_for_any_service(tree: dict[str, Any]) -> None:
    note("# this file reproduces it:\n" + tomli_w.dumps(tree))
    assert_engines_agree(tree)


@pytest.mark.parametrize("path", ["iceberg", "pyiceberg"])
def test_rows_are_equal_where_history_and_slots_have_to_grow(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def counted(world: World) -> World:
        grown = with_room_in_history(world)
        lengths.append(len(grown.history))
        return grown

    monkeypatch.setattr(lower, "INITIAL_HISTORY", 4)
    monkeypatch.setattr(lower, "INITIAL_SLOTS", 2)
    monkeypatch.setattr(engine, "with_room_in_history", counted)
    assert_engines_agree(
        {
            "simulation": {"duration_ms": 3_000.0, "seed": 9},
            "storage": {"provider": "instant", "profile": "2025-06"},
            "catalog": {"num_tables": 2, "partitions": {"num_partitions": 4}},
            "transaction": {
                "commit_path": path,
                "runtime": {"distribution": "lognormal", "mean": 60.0, "sigma": 1.5},
                "inter_arrival": {"scale": 8.0},
                "tables_per_txn": 2,
                "partitions_per_txn": 2,
                "retry": 20,
                "operation_types": {"fast_append": 3.0, "overwrite": 1.0, "delete": 1.0},
            },
        }
    )
    assert max(lengths) >= 64  # grown several times


@settings(max_examples=100)
@given(failing_documents())
def test_rows_of_both_engines_are_equal_where_things_fail(tree: dict[str, Any]) -> None:
    assert_engines_agree(tree)


@settings(max_examples=60)
@given(committer_documents())
def test_rows_of_both_engines_are_equal_where_a_committer_commits_for_all(tree: dict[str, Any]) -> None:
    note("# this file reproduces it:\n" + tomli_w.dumps(tree))
    assert_engines_agree(tree)


@settings(max_examples=80)
@given(protocol_documents())
def test_rows_of_both_engines_are_equal_for_any_protocol(tree: dict[str, Any]) -> None:
    note("# this file reproduces it:\n" + tomli_w.dumps(tree) + "\n# " + Path(tree["transaction"]["commit_path"]).read_text())
    assert_engines_agree(tree)


def test_rows_are_equal_where_a_store_limits_the_writes_of_a_pointer() -> None:
    tree = {
        "simulation": {"duration_ms": 60_000.0, "seed": 5},
        "storage": {"provider": "gcp"},
        "catalog": {"num_tables": 2, "num_groups": 2},
        "transaction": {"runtime": {"mean": 100.0}, "inter_arrival": {"scale": 200.0}, "retry": 3},
    }
    assert_engines_agree(tree)


def test_a_kernel_that_is_shared_can_do_what_is_needed_and_nothing_that_excludes_it() -> None:
    named = Features.named
    assert [shared(each) for each in KERNELS] == list(KERNELS)
    assert shared(named("endive-cas-failures")) == named("endive-cas-limits-failures-clients-committers")
    wide = named("endive-iceberg-pyiceberg-files-cas-limits-failures-clients-committers")
    assert shared(named("iceberg-files-cas-clients")) == shared(named("pyiceberg-files-cas")) == wide
    alone = named("endive-log-limits")
    assert shared(alone) == alone
