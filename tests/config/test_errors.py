"""What a user is reported: every error of a file at once, each with the file, the key, the value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endive.config import ConfigError, Problem, load_document
from endive.config.errors import nearest
from tests.config import BASE, checked, problems


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("simulaton.seed", 1, "simulaton: unknown key; did you mean 'simulation'?"),
        ("simulation.duration", 1, "simulation.duration: unknown key; did you mean 'duration_ms'?"),
        ("transaction.retry_backof.enabled", True, "transaction.retry_backof: unknown key; did you mean 'retry_backoff'?"),
        ("transaction.retry_backoff.basems", 1, "transaction.retry_backoff.basems: unknown key; did you mean 'base_ms'?"),
        ("transaction.runtime.sigm", 1, "transaction.runtime.sigm: unknown key; did you mean 'sigma'?"),
        ("transaction.maxretries", 1, "transaction.maxretries: unknown key; did you mean 'max_retries'?"),
        ("catalog.partitions.num_partition", 1, "catalog.partitions.num_partition: unknown key; did you mean 'num_partitions'?"),
        ("storage.T_CASS.mean", 1, "storage.T_CASS: unknown key; did you mean 'T_CAS'?"),
        ("storage.T_MANIFEST_LIST.reed.mean", 1, "storage.T_MANIFEST_LIST.reed: unknown key; did you mean 'read'?"),
        ("workload.ingest.operatoin", "fast_append", "workload.ingest.operatoin: unknown key; did you mean 'operation'?"),
        ("workload.ingest.runtime.men", 3, "workload.ingest.runtime.men: unknown key; did you mean 'mean'?"),
        ("workload.int.ratee", 3, "workload.int.ratee: unknown key; did you mean 'rate'?"),
        ("partition.num_partition", 3, "partition.num_partition: unknown key; did you mean 'num_partitions'?"),
        ("partition.selection.zipf_alfa", 3, "partition.selection.zipf_alfa: unknown key; did you mean 'zipf_alpha'?"),
        ("transaction.ntable.zpf", 3, "transaction.ntable.zpf: unknown key; did you mean 'zipf'?"),
        ("transaction.tables_per_txn.zipff", 3, "transaction.tables_per_txn.zipff: unknown key; did you mean 'zipf'?"),
        ("catalog.partitions.xyz", 1, "catalog.partitions.xyz: unknown key; allowed: num_partitions, per_table"),
    ],
)
def test_an_unknown_key_gets_a_suggestion(key: str, value: Any, hint: str) -> None:
    assert hint in problems(overrides={key: value}).values()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("transaction.retry", "ten", "should be a valid integer (got 'ten')"),
        ("transaction.retry", 1.5, "should be a valid integer (got 1.5)"),
        ("transaction.retry", True, "should be a valid integer (got True)"),
        ("transaction.retry", -1, "should be greater than or equal to 0 (got -1)"),
        ("simulation.duration_ms", "1 hour", '"4min", "1h"; did you mean "1h"? (got \'1 hour\')'),
        ("simulation.duration_ms", 0, "should be greater than 0 (got 0)"),
        ("simulation.duration_ms", -5.0, "should be greater than 0 (got -5.0)"),
        ("simulation.duration_ms", float("nan"), "should be a finite number (got nan)"),
        ("simulation.duration_ms", float("inf"), "should be a finite number (got inf)"),
        ("simulation.duration_ms", [1], "should be a valid number (got [1])"),
        ("simulation.drain", "yes", "should be a valid boolean (got 'yes')"),
        ("simulation.seed", -1, "should be greater than or equal to 0 (got -1)"),
        ("simulation.seed", 2**63, "should be less than or equal to 9223372036854775807"),
        ("simulation.output_path", ".", "must name a file (got '.')"),
        (
            "simulation.output_path",
            "runs/..",
            "must be inside the output directory: use a relative path",
        ),
        ("simulation.output_path", "../x.parquet", "must be inside the output directory"),
        ("simulation.output_path", "/etc/important.txt", "must be inside the output directory"),
        ("catalog.num_tables", 0, "should be greater than or equal to 1 (got 0)"),
        ("catalog.linearization", 1.5, "should be less than or equal to 1 (got 1.5)"),
        ("catalog.type", "appen", "should be 'cas', 'append', 'instant' or 'service'; did you mean 'append'? (got 'appen')"),
        ("transaction.real_conflict_probability", -0.1, "should be greater than or equal to 0 (got -0.1)"),
        ("transaction.real_conflict_probability", float("nan"), "should be a finite number (got nan)"),
        ("transaction.runtime.mean", float("inf"), "should be a finite number (got inf)"),
        ("transaction.runtime.sigma", 11, "should be less than or equal to 10 (got 11)"),
        ("transaction.tables_per_txn", 0, "should be greater than or equal to 1"),
        ("transaction.tables_per_txn", "a", "should be a valid integer, or should be a table (got 'a')"),
        ("transaction.operation_types.fast_append", -1, "should be greater than or equal to 0 (got -1)"),
        ("storage.T_CAS.mean", -1, "should be greater than 0 (got -1)"),
        ("experiment.label", "a/b", "should match"),
        ("experiment.label", "", "should match"),
        ("workload.ingest.tables", [], "should have at least 1 item"),
        ("storage", 5, "`storage` should be a table (got 5)"),
        ("workload", 5, "`workload` should be a table (got 5)"),
        ("workload.ingest", 5, "`workload.ingest` should be a table (got 5)"),
        ("partition", 5, "`partition` should be a table (got 5)"),
        ("partition.enabled", 1, "`partition.enabled` should be true or false (got 1)"),
    ],
)
def test_an_invalid_value_is_reported_with_the_allowed_values(key: str, value: Any, message: str) -> None:
    found = problems(overrides={key: value})
    assert message in found[key]
    assert found[key].startswith((f"{key}: ", f"`{key}` "))


@pytest.mark.parametrize("name", ["simulation", "storage"])
def test_a_missing_section(name: str) -> None:
    over = "\n\n".join(part for part in BASE.split("\n\n") if f"[{name}]" not in part)
    assert problems(over=over) == {name: f"`{name}` is missing"}


def test_a_missing_key() -> None:
    assert problems(over=BASE.replace("duration_ms = 2_000", "")) == {
        "simulation.duration_ms": "`simulation.duration_ms` is missing"
    }


@pytest.mark.parametrize("name", ["runtime", "inter_arrival"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"distribution": "exponential", "value": 1.0}, "'value' is not a parameter of exponential; allowed: mean, min, scale"),
        ({"distribution": "exponential"}, "exponential needs exactly one of mean, scale"),
        ({"distribution": "lognormal", "mean": 1.0, "median": 1.0}, "lognormal needs exactly one of mean, median"),
        ({"distribution": "uniform", "min": 3.0, "max": 1.0}, "min 3 is above max 1"),
        ({"distribution": "fixed", "value": 1.0, "sigma": 1.0}, "'sigma' is not a parameter of fixed; allowed: mean, value"),
        ({"distribution": "gamma"}, "should be 'exponential', 'lognormal', 'normal', 'uniform' or 'fixed' (got 'gamma')"),
    ],
)
def test_a_distribution_takes_the_keys_of_its_kind(name: str, given: dict[str, Any], message: str) -> None:
    (found,) = problems(overrides={f"transaction.{name}": given}).values()
    assert message in found
    assert found.lstrip("`").startswith(f"transaction.{name}")


def test_all_errors_of_a_file_come_at_once() -> None:
    """Of single keys, of keys that do not fit together, and of mixed spellings, in any section."""
    found = problems(
        overrides={
            "simulaton": 1,
            "simulation.duration_ms": -1,
            "experiment.label": "a b",
            "storage.provider": "s33",
            "catalog.num_groups": 3,
            "catalog.latency_ms": 2.0,
            "catalog.mode": "cas",
            "transaction.retry": 2.5,
            "partition.num_partition": 4,
            "workload.ingest.foo": 1,
        }
    )
    assert set(found) == {
        "simulaton",
        "simulation.duration_ms",
        "experiment.label",
        "storage.provider",
        "catalog.num_groups",
        "catalog.latency_ms",
        "transaction.retry",
        "partition.num_partition",
        "workload.ingest.foo",
    }


def test_an_invalid_section_causes_no_further_errors() -> None:
    """With a misspelt type it is not known whether the log's keys have an effect, so nothing is said of them."""
    found = problems(overrides={"catalog.type": "appendd", "catalog.log_entry_size": 5, "transaction.partitions_per_txn": 5})
    assert set(found) == {"catalog.type"}


def test_each_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(BASE.replace("seed = 7", "seed = -7\nsed = 7"))
    with pytest.raises(ConfigError) as caught:
        load_document(path)
    assert str(caught.value).splitlines() == [
        f"{path}: `simulation.seed` should be greater than or equal to 0 (got -7)",
        f"{path}: simulation.sed: unknown key; did you mean 'seed'?",
    ]
    assert caught.value.source == str(path)
    assert caught.value.problems[0] == Problem("simulation.seed", "should be greater than or equal to 0", -7)


def test_an_error_of_transactions_is_reported_once_however_many_classes_share_it() -> None:
    with pytest.raises(ConfigError) as caught:
        checked("[transaction]\ntables_per_txn = 3\n[workload.a]\n[workload.b]")
    assert [problem.key for problem in caught.value.problems] == ["transaction.tables_per_txn"]


def test_an_empty_file_lacks_its_sections(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("")
    with pytest.raises(ConfigError) as caught:
        load_document(path)
    assert [problem.key for problem in caught.value.problems] == ["simulation", "storage", "transaction.inter_arrival"]


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("sede", ["seed", "drain"], "did you mean 'seed'?"),
        ("xyz", ["seed", "drain"], "allowed: drain, seed"),
        ("xyz", [], "no value is allowed here"),
    ],
)
def test_nearest(word: str, known: list[str], hint: str) -> None:
    assert nearest(word, known) == hint


def test_a_huge_value_is_shown_by_its_beginning() -> None:
    (message,) = problems(overrides={"catalog.type": "x" * 1_000_000}).values()
    assert len(message) < 600
    assert "(1,000,002 characters)" in message
    (message,) = problems(overrides={"k" * 1_000_000: 1}).values()
    assert len(message) < 1_500


def test_thousands_of_errors_are_counted_after_the_first_ones() -> None:
    """Each was compared with all the others: ten thousand took minutes."""
    found = problems(overrides={f"transaction.key{number}": 1 for number in range(3_000)})
    assert len(found) < 250
    assert found[""].endswith("and 2,800 more")
