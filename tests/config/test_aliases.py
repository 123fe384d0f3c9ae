"""Other spellings: each means the same as the canonical one, and errors speak as the file does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from endive.config.load import ALIASES, Tree, canonical, override
from endive.runs.identity import compute_experiment_hash
from tests.config import checked, problems

VALUES: dict[str, tuple[Any, dict[str, Any]]] = {
    "catalog.mode": ("append", {}),
    "catalog.group_size_distribution": ("longtail", {"catalog.num_groups": 2}),
    "partition.num_partitions": (8, {"transaction.partitions_per_txn": 1}),
    "partition.partitions_per_txn_mean": (2.5, {"catalog.partitions.num_partitions": 8}),
    "partition.selection.distribution": ("zipf", {"catalog.partitions.num_partitions": 8, "transaction.partitions_per_txn": 2}),
    "partition.selection.zipf_alpha": (
        1.2,
        {
            "catalog.partitions.num_partitions": 8,
            "transaction.partitions_per_txn": 2,
            "transaction.partition_selection.distribution": "zipf",
        },
    ),
    "storage.MIN_LATENCY": (30.0, {}),
    "storage.min_latency": (30.0, {}),
    "storage.MAX_PARALLEL": (2, {}),
    "transaction.max_parallel": (2, {}),
    "transaction.max_retries": (2, {}),
    "transaction.ntable.zipf": (2.0, {}),
    "transaction.seltbl.zipf": (1.2, {}),
    "transaction.commit.retry.num-retries": (2, {}),
    "transaction.commit.retry.min-wait-ms": (7.0, {"transaction.retry_backoff.enabled": True}),
    "transaction.commit.retry.max-wait-ms": (7.0, {"transaction.retry_backoff.enabled": True}),
    "transaction.commit.retry.total-timeout-ms": (7.0, {}),
    "transaction.history.expire.max-snapshot-age-ms": (7.0, {"transaction.commit_path": "iceberg"}),
    "transaction.history.expire.min-snapshots-to-keep": (7, {"transaction.commit_path": "iceberg"}),
    "table.commit.manifest.min-count-to-merge": (7, {"transaction.commit_path": "iceberg"}),
    "table.commit.manifest.target-size-bytes": (7, {"transaction.commit_path": "iceberg"}),
    "table.commit.manifest-merge.enabled": (False, {"transaction.commit_path": "iceberg"}),
}
THREE_TABLES = "[catalog]\nnum_tables = 3"


def test_iceberg_has_its_own_names_and_defaults_for_retries() -> None:
    settings = checked("", {"transaction.retry_policy": "iceberg", "transaction.commit.retry.min-wait-ms": 50.0}).transaction
    assert (settings.retry, settings.total_timeout_ms) == (4, 1_800_000.0)
    backoff = settings.retry_backoff
    assert backoff.enabled
    assert (backoff.base_ms, backoff.multiplier, backoff.max_ms, backoff.jitter) == (50.0, 2.0, 60_000.0, 0.1)


def test_a_class_has_icebergs_names_too() -> None:
    tree = {"workload": {"a": {"retry_policy": "iceberg", "commit": {"retry": {"num-retries": 7}}}}}
    own = canonical(tree)[0]["workload"]["a"]
    assert own["retry"] == 7
    assert own["total_timeout_ms"] == 1_800_000.0


def test_every_alias_has_a_case() -> None:
    assert set(VALUES) == set(ALIASES)


@pytest.mark.parametrize("old", ALIASES)
def test_an_alias_equals_the_canonical_key(old: str) -> None:
    value, beside = VALUES[old]
    new = {ALIASES[old]: value}
    if old == "transaction.seltbl.zipf":
        new["transaction.table_selection.distribution"] = "zipf"
    aliased = checked(THREE_TABLES, {**beside, old: value})
    assert aliased == checked(THREE_TABLES, {**beside, **new})
    assert compute_experiment_hash(aliased) != compute_experiment_hash(checked(THREE_TABLES, beside))


@pytest.mark.parametrize("old", [old for old in ALIASES if old != "transaction.seltbl.zipf"])
def test_both_spellings_at_once_are_an_error(old: str) -> None:
    value, beside = VALUES[old]
    text = THREE_TABLES
    for key, item in {**beside, old: value, ALIASES[old]: value}.items():
        text = _with(text, key, item)
    assert f"is an alias of {ALIASES[old]}; keep one of them" in problems(text)[old]


def _with(text: str, key: str, value: Any) -> str:
    """Some lines of TOML more; dotted keys at the top level come before all sections."""
    shown = json.dumps(value)
    if key.startswith("catalog."):
        return text + f"\n{key.removeprefix('catalog.')} = {shown}"
    return f"{key} = {shown}\n" + text


def test_a_choice_of_tables_is_not_overruled_in_silence() -> None:
    found = problems("[transaction]\nseltbl.zipf = 1.2\ntable_selection.distribution = 'uniform'")
    assert "is an alias of transaction.table_selection; keep one of them" in found["transaction.seltbl.zipf"]


def test_an_alias_beside_another_form_of_the_key() -> None:
    found = problems("[transaction]\nntable.zipf = 1.2\ntables_per_txn = 1")
    assert "is an alias of transaction.tables_per_txn.zipf" in found["transaction.ntable.zipf"]


def test_errors_spell_keys_as_the_file_does() -> None:
    found = problems("[partition]\nnum_partitions = 0\npartitions_per_txn_mean = 'x'\n[catalog]\nmode = 'c'")
    assert set(found) == {"partition.num_partitions", "partition.partitions_per_txn_mean", "catalog.mode"}


def test_disabled_partitions_have_no_effect() -> None:
    off = "[partition]\nenabled = false\nnum_partitions = 100\nselection.zipf_alpha = 1.5"
    assert checked(off) == checked()
    assert set(problems(off + "\nbogus = 1")) == {"partition.bogus"}


def test_partitions_that_are_switched_on_are_written_one_at_a_time_by_default() -> None:
    assert checked("[partition]\nnum_partitions = 100").transaction.partitions_per_txn == 1


@pytest.mark.parametrize(
    ("text", "key", "value", "path"),
    [
        ("[catalog]\nmode = 'append'", "catalog.type", "cas", "catalog.type"),
        ("[catalog]\ntype = 'append'", "catalog.mode", "cas", "catalog.type"),
        ("[storage]\nMIN_LATENCY = 3", "storage.min_latency", 4.0, "storage.min_latency_ms"),
        ("[transaction]\nntable.zipf = 1.0", "transaction.tables_per_txn", 1, "transaction.tables_per_txn"),
        ("[partition]\nnum_partitions = 3", "catalog.partitions.num_partitions", 5, "catalog.partitions.num_partitions"),
    ],
)
def test_an_override_takes_the_place_of_any_spelling(text: str, key: str, value: Any, path: str) -> None:
    node: Any = checked(text, {key: value})
    for part in path.split("."):
        node = getattr(node, part)
    assert node == value


def test_translation_leaves_the_given_tree_alone() -> None:
    given = {"catalog": {"mode": "append"}, "partition": {"enabled": True, "num_partitions": 4}}
    translated, spelling, wrong = canonical(given)
    assert given == {"catalog": {"mode": "append"}, "partition": {"enabled": True, "num_partitions": 4}}
    assert translated == {
        "catalog": {"type": "append", "partitions": {"num_partitions": 4}},
        "transaction": {"partitions_per_txn": 1},
    }
    assert spelling["catalog.type"] == "catalog.mode"
    assert wrong == []
    assert override(given, "catalog.type", "cas") == {"catalog": {"type": "cas"}, "partition": given["partition"]}
    assert given["catalog"] == {"mode": "append"}


@pytest.mark.parametrize("spelling", ["retry", "commit.retry.num-retries"])
def test_a_property_of_iceberg_overrides_the_key_of_the_same_meaning(spelling: str) -> None:
    """Of the table, and so of all classes, also of those with a number of retries of their own."""
    tree = {"transaction": {"retry": 3}, "workload": {"a": {"rate": 1.0, **_nested(spelling, 5)}, "b": {"rate": 1.0}}}
    changed, _, problems = canonical(override(tree, "commit.retry.num-retries", 9))
    assert problems == []
    assert changed["transaction"] == {"retry": 9}
    assert changed["workload"] == {"a": {"rate": 1.0, "retry": 9}, "b": {"rate": 1.0}}
    table, _, _ = canonical(override({"table": {"min_count_to_merge": 5}}, "commit.manifest.min-count-to-merge", 7))
    assert table == {"table": {"min_count_to_merge": 7}}


def test_a_property_in_a_section_overrides_its_key_there() -> None:
    tree = {"transaction": {"retry": 3}, "workload": {"a": {"rate": 1.0, "retry": 5}}}
    changed, _, problems = canonical(override(tree, "transaction.commit.retry.num-retries", 9))
    assert (changed["transaction"], changed["workload"]["a"]["retry"], problems) == ({"retry": 9}, 5, [])
    changed, _, problems = canonical(override(tree, "workload.a.commit.retry.num-retries", 9))
    assert (changed["transaction"], changed["workload"]["a"]["retry"], problems) == ({"retry": 3}, 9, [])


def _nested(key: str, value: int) -> Tree:
    tree: Tree = {}
    node = tree
    *path, last = key.split(".")
    for part in path:
        node = node.setdefault(part, {})
    node[last] = value
    return tree
