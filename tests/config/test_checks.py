"""Keys that have to fit together, and keys that would have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from endive.config.load import check_document
from endive.config.schema import ClassSection, Transactions
from tests.config import checked, problems

TWO_CLASSES = '[workload.a]\nrate = 1.0\noperation = "fast_append"\n[workload.b]\nrate = 2.0\noperation = "fast_append"\n'


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("[catalog]\nnum_groups = 2", "catalog.num_groups", "must be at most catalog.num_tables = 1 (got 2)"),
        (
            "[catalog]\npartitions.per_table = [1, 2]",
            "catalog.partitions.per_table",
            "must have one value per table, as catalog.num_tables = 1",
        ),
        (
            "[catalog]\npartitions = { num_partitions = 2, per_table = [2] }",
            "catalog.partitions",
            "cannot be set together; keep one of them",
        ),
        ("[transaction]\ntables_per_txn = 2", "transaction.tables_per_txn", "must be at most 1, the number of tables (got 2)"),
        (
            "[catalog]\nnum_tables = 6\nnum_groups = 3\n[transaction]\ntables_per_txn = 3",
            "transaction.tables_per_txn",
            "must be at most 2, the size of the largest table group (got 3)",
        ),
        (
            "[catalog]\nnum_tables = 4\nnum_groups = 4\n[transaction]\nntable.zipf = 1.5",
            "transaction.tables_per_txn",
            "has no effect: every table group has one table",
        ),
        (
            "[transaction]\npartitions_per_txn = 2",
            "transaction.partitions_per_txn",
            "must be at most 1, the number of partitions of a table",
        ),
        (
            "[catalog]\nnum_tables = 2\npartitions.per_table = [9, 3]\n[transaction]\npartitions_per_txn = 3.5",
            "transaction.partitions_per_txn",
            "must be at most 3, the number of partitions of a table (got 3.5)",
        ),
        (
            "[partition]\nnum_partitions = 2\npartitions_per_txn_mean = 3.0",
            "partition.partitions_per_txn_mean",
            "must be at most 2, the number of partitions of a table (got 3.0)",
        ),
        (
            '[catalog]\ntable_metadata_inlined = false\n[transaction]\ncommit_path = "iceberg"',
            "catalog.table_metadata_inlined",
            "has no effect, because Iceberg's clients always write metadata.json. It applies only to commit_path = 'endive'",
        ),
        (
            '[catalog]\ntype = "service"\ntable_metadata_inlined = false',
            "catalog.table_metadata_inlined",
            "use catalog.writes_metadata = false if clients write metadata.json",
        ),
        ("[catalog]\nwrites_metadata = false", "catalog.writes_metadata", 'has no effect unless catalog.type = "service"'),
        ("[transaction]\npartitions_per_txn = 0.5", "transaction.partitions_per_txn", "should be greater than or equal to 1"),
        (
            "[transaction.operation_types]\nfast_append = 0.0\nmerge_append = 0",
            "transaction.operation_types",
            "at least one weight must be above 0",
        ),
        (
            "[workload.a]\noperation_types.read_only = 0",
            "workload.a.operation_types",
            "at least one weight must be above 0",
        ),
        (
            '[storage]\nprovider = "s3"\n[catalog]\ntype = "append"',
            "catalog.type",
            "needs a provider with append support; 's3' has none",
        ),
        ('[catalog]\nprovider = "gcp"\ntype = "append"', "catalog.type", "needs a provider with append support; 'gcp' has none"),
        (
            '[storage]\nprovider = "s3"\n[transaction]\nmanifest_list_mode = "append"',
            "transaction.manifest_list_mode",
            "needs a provider with append support; 's3' has none",
        ),
        (
            "[workload.a]\ntables = [1]",
            "workload.a.tables",
            "must be below catalog.num_tables = 1; tables are numbered from 0 (got [1])",
        ),
        ("[workload.a]\ntables = [0, 0]", "workload.a.tables", "contains duplicates"),
        ("[workload.a]\npartition_range = [0, 2]", "workload.a.partition_range", "must be [first, end] with first < end <= 1"),
        ("[workload.a]\npartition_range = [0, 1, 2]", "workload.a.partition_range", "should have at most 2 items"),
        (
            "[catalog]\npartitions.num_partitions = 9\n[workload.a]\npartition_range = [2, 4]\npartitions_per_txn = 3",
            "workload.a.partitions_per_txn",
            "must be at most 2, the number of partitions of a table",
        ),
        ("[workload.a]\nrate = 1.0\nclosed.clients = 2", "workload.a", "closed and rate cannot be set together"),
        ('[workload.a]\noperation = "read_only"\noperation_types.read_only = 1', "workload.a", "operation and operation_types"),
        ("[transaction]\nconflicting_manifests = { mean = 1.0, min = 3, max = 2 }", "transaction.conflicting_manifests", "min 3"),
        (
            '[transaction]\nconflicting_manifests = { distribution = "uniform", mean = 1.0 }',
            "transaction.conflicting_manifests",
            "mean is required with exponential and fixed, and not allowed with uniform",
        ),
        (
            '[transaction]\ninter_arrival = { distribution = "uniform", min = 0, max = 0.0 }',
            "transaction.inter_arrival",
            "'scale' is not a parameter of uniform",
        ),
        (
            '[workload.a]\ninter_arrival = { distribution = "fixed", value = 0 }',
            "workload.a.inter_arrival",
            "must have a mean above 0",
        ),
        (
            '[workload.a]\ninter_arrival = { distribution = "uniform", max = 0 }',
            "workload.a.inter_arrival",
            "must have a mean above 0",
        ),
        ("[workload.a]\nperiodic.interval_ms = 0", "workload.a.periodic.interval_ms", "should be greater than 0"),
    ],
)
def test_keys_that_do_not_fit(text: str, key: str, message: str) -> None:
    assert message in problems(text)[key]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[catalog]\ncompaction_threshold = 5", "catalog.compaction_threshold"),
        ("[catalog]\ncompaction_max_entries = 5", "catalog.compaction_max_entries"),
        ("[catalog]\nlog_entry_size = 5", "catalog.log_entry_size"),
        ("[catalog]\nlatency_ms = 5", "catalog.latency_ms"),
        ('[catalog]\ntype = "instant"\nprovider = "s3"', "catalog.provider"),
        ('[catalog]\ntype = "instant"\nsize_bytes = 5', "catalog.size_bytes"),
        ('[catalog]\ngroup_sizes = "longtail"', "catalog.group_sizes"),
        ("[transaction]\nmanifest_list_seal_threshold = 5", "transaction.manifest_list_seal_threshold"),
        ("[transaction]\nmanifest_list_entry_size = 5", "transaction.manifest_list_entry_size"),
        ("[transaction]\nmax_restarts = 5", "transaction.max_restarts"),
        ("[transaction]\npartition_selection.write_fraction = 0.5", "transaction.partition_selection"),
        (
            '[transaction]\non_real_conflict = "abort"\nconflicting_manifests.mean = 1.0',
            "transaction.conflicting_manifests",
        ),
        (
            '[transaction]\nconflict_detector = "partition_overlap"\nreal_conflict_probability = 0.5',
            "transaction.real_conflict_probability",
        ),
        ("[transaction]\nretry_backoff.base_ms = 5", "transaction.retry_backoff"),
        ("[transaction]\ntable_selection.alpha = 1.0", "transaction.table_selection"),
        (TWO_CLASSES, "transaction.inter_arrival"),
        (
            '[workload.a]\noperation = "fast_append"\n' + "[transaction]\noperation_types.read_only = 1",
            "transaction.operation_types",
        ),
        ("[workload.a]\nmax_restarts = 5", "workload.a.max_restarts"),
        ("[workload.a]\npartition_selection.write_fraction = 0.5", "workload.a.partition_selection"),
        ("[catalog]\npartitions.num_partitions = 4\n[workload.a]\npartition_range = [1, 2]", "workload.a.partition_range"),
    ],
)
def test_keys_without_effect(text: str, key: str) -> None:
    found = problems(text)
    assert set(found) == {key}
    assert any(word in found[key] for word in ("effect", "is not a parameter"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("s3y", "unknown provider; did you mean 's3'? (got 's3y')"),
        ("azurx", "unknown provider; did you mean 'azurex'? (got 'azurx')"),
        ("hdfs", "unknown provider; allowed: azure, azurex, gcp, instant, s3, s3x (got 'hdfs')"),
        ("nowhere.toml", "the latency profile cannot be read"),
    ],
)
@pytest.mark.parametrize("section", ["storage", "catalog"])
def test_an_unknown_provider_gets_a_suggestion(section: str, name: str, hint: str) -> None:
    assert hint in problems(overrides={f"{section}.provider": name})[f"{section}.provider"]


def test_a_store_without_provider_and_latencies() -> None:
    found = problems("", {"storage": {}})
    assert found == {"storage.provider": "`storage.provider` is missing; set a provider or the T_* keys"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = = 1", "the latency profile cannot be read"),
        ("red = 1", "unknown key"),
        ("read = { fixed_ms = 1 }\nwrite = { fixed_ms = 1 }", "a profile needs cas, append, or both"),
        ("read = { fixed_ms = -1 }\nwrite = { fixed_ms = 1 }\ncas = { fixed_ms = 1 }", "fixed_ms is -1"),
        ("read = 5\nwrite = { fixed_ms = 1 }\ncas = { fixed_ms = 1 }", "must be a table"),
    ],
)
def test_a_profile_that_is_wrong_is_named(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(content)
    found = problems(overrides={"storage.provider": str(path)})
    assert set(found) == {"storage.provider"}
    assert message in found["storage.provider"]
    assert str(path) in found["storage.provider"]


def test_a_profile_set_is_rejected_with_a_profile_file(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("read = { fixed_ms = 1 }\nwrite = { fixed_ms = 1 }\ncas = { fixed_ms = 1 }")
    found = problems(overrides={"storage.provider": str(path), "storage.profile": "2025-12"})
    assert set(found) == {"storage.profile"}


def test_a_log_needs_a_way_to_compact_itself(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text("read = { fixed_ms = 1 }\nwrite = { fixed_ms = 1 }\nappend = { fixed_ms = 1 }")
    assert (
        "needs compare-and-swap to compact its log; 'own' has none"
        in problems(overrides={"storage.provider": str(path)})["catalog.type"]
    )
    assert "'own' has none" in problems(overrides={"storage.provider": str(path), "catalog.type": "cas"})["catalog.type"]


def test_switched_off_backoff_may_keep_its_other_keys() -> None:
    assert problems("[transaction.retry_backoff]\nenabled = false\nbase_ms = 5") == {}


def test_a_delay_of_no_response_is_refused() -> None:
    found = problems('[failures]\nslow_response_ms = "1s"')
    assert "unless failures.slow_response" in found["failures.slow_response_ms"]


def test_checks_of_classes_are_made_beside_those_of_the_catalog() -> None:
    found = problems("[catalog]\nlatency_ms = 5\n[transaction]\npartitions_per_txn = 4\ntables_per_txn = 2")
    assert set(found) == {"catalog.latency_ms", "transaction.partitions_per_txn", "transaction.tables_per_txn"}


def test_the_name_of_the_totals_is_reserved() -> None:
    """A class named `all` vanished into the totals."""
    assert "is reserved for the totals of all classes" in problems("[workload.all]\nrate = 1.0\n")["workload.all"]


def written_out_defaults() -> Iterator[tuple[str, Any]]:
    """Every key with a default, by dotted key."""
    document = checked()
    for section in ("simulation", "storage", "catalog", "table", "transaction", "failures"):
        yield from _defaults(section, type(getattr(document, section)))
    for key, value in _defaults("workload.w", Transactions):
        if key.split(".")[2] in ClassSection.model_fields and key != "workload.w.operation_types":
            yield key, value


def _defaults(prefix: str, section: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            yield f"{prefix}.{name}", default.model_dump(exclude_none=True)
        elif default is not None and not field.is_required():
            yield f"{prefix}.{name}", default


@pytest.mark.parametrize("kind", ["cas", "append", "service", "instant"])
@pytest.mark.parametrize(("key", "value"), list(written_out_defaults()))
def test_a_default_that_is_written_out_is_accepted(kind: str, key: str, value: Any) -> None:
    classes = {"w": {"rate": 1.0, "operation": "fast_append"}}
    tree = {
        "simulation": {"duration_ms": 1e4},
        "storage": {"provider": "s3x"},
        "catalog": {"type": kind},
        "workload": classes,
    }
    check_document(tree, "test", overrides={key: value})
