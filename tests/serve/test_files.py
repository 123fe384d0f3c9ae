"""What the page starts from and what it writes: nothing is overwritten, and nothing is read that nobody named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endive.config.errors import ConfigError
from endive.config.load import check_document, value_at
from endive.config.schema import json_schema
from endive.config.sweep_file import Sweep
from endive.serve.changes import list_changes, load_changes, scale_load
from endive.serve.page_configuration import DEFAULT, Presets, as_toml, form, put, read_tree, remove, settle
from endive.serve.saving import SaveError, save_study, study_text
from tests.serve.conftest import Client, small


def test_a_study_varies_the_load_and_can_be_read(tmp_path: Path) -> None:
    sweep = Sweep(save_study(tmp_path, "mine", DEFAULT))
    every = [document.workload["ingest"].every_ms for _, document in sweep.documents()]
    assert every == [40_000.0, 20_000.0, 10_000.0, 5_000.0, 2_500.0]
    assert len(sweep.seeds) == 5


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 65, "nul\0"])
def test_invalid_names_are_rejected(tmp_path: Path, name: str) -> None:
    with pytest.raises(SaveError, match="A name contains only"):
        save_study(tmp_path, name, DEFAULT)


def test_nothing_is_overwritten(client: Client) -> None:
    first, _ = client.post("/api/study", tree=small(), name="kept")
    text = (client.directory / "kept.toml").read_text(encoding="utf-8")
    second, answer = client.post("/api/study", tree=small(transaction__retry=9), name="kept")
    assert (first, second) == (200, 422)
    assert "already exists" in answer[0]["error"]
    assert (client.directory / "kept.toml").read_text(encoding="utf-8") == text


def test_the_load_of_aligned_writers_is_their_number() -> None:
    """With a longer interval the burst would stay as large, and as hopeless."""
    tree = put(DEFAULT, "workload", {"jobs": {"writers": 40, "every_ms": "15min", "phase": "aligned"}})
    assert dict(load_changes(tree, 0.25)) == {"workload.jobs.writers": 10}
    assert dict(load_changes(put(tree, "workload.jobs.phase", "random"), 0.25)) == {"workload.jobs.every_ms": 3_600_000.0}
    batching = next(change for change in list_changes(tree) if change.name == "batching")
    assert batching.tree["workload"]["jobs"] == {"writers": 40, "every_ms": 1_800_000.0, "phase": "aligned"}


def test_a_trace_has_no_load_that_could_be_scaled() -> None:
    tree = put(small(), "workload", {"replayed": {"trace": "x.csv"}})
    assert list(load_changes(tree, 2.0)) == []
    assert scale_load(tree, 2.0) is None
    assert "[axes]" not in study_text(tree)


def test_starts_are_the_file_its_neighbours_and_recipes(tmp_path: Path) -> None:
    from endive.cli.examples import examples_folder

    (tmp_path / "mine.toml").write_text("# Mine. And more.\n" + as_toml(small()), encoding="utf-8")
    (tmp_path / "other.toml").write_text(as_toml(small(transaction__retry=1)), encoding="utf-8")
    (tmp_path / "study.toml").write_text("[sweep]\n", encoding="utf-8")
    starts = Presets(tmp_path / "mine.toml", tmp_path, examples_folder())
    assert [start.name for start in starts.all][:3] == ["file:mine.toml", "default", "file:other.toml"]
    assert starts.all[0].about == "Mine."
    for start in starts.all:
        check_document(start.tree(), start.name)


def test_a_file_keeps_its_meaning_on_the_way_to_the_page(tmp_path: Path) -> None:
    text = '[simulation]\nduration_ms = "1h"\n[storage]\nprovider = "s3"\n[transaction]\nmax_retries = 7\n'
    file = tmp_path / "x.toml"
    file.write_text(text + '[workload.a]\nwriters = 2\nevery = "5s"\nretry_policy = "iceberg"\n', encoding="utf-8")
    tree = read_tree(file)
    assert tree["transaction"] == {"retry": 7}
    assert tree["workload"]["a"] == {"writers": 2, "every_ms": "5s", "retry_policy": "iceberg"}


def test_files_are_known_by_their_whole_path(tmp_path: Path) -> None:
    from endive.cli.examples import examples_folder
    from endive.storage.profiles import builtin_profiles

    assert builtin_profiles()
    (tmp_path / "times.csv").write_text("time_ms\n1000\n2000\n", encoding="utf-8")
    tree = put(small(), "workload", {"replayed": {"trace": "times.csv", "operation": "fast_append"}})
    (tmp_path / "mine.toml").write_text(as_toml(tree), encoding="utf-8")
    starts = Presets(tmp_path / "mine.toml", tmp_path, examples_folder())
    own = starts.all[0].tree()
    assert own["workload"]["replayed"]["trace"] == str(tmp_path / "times.csv")
    assert starts.foreign_file(own) is None
    assert starts.foreign_file(put(own, "workload.replayed.trace", "/etc/passwd")) == "/etc/passwd"


def test_the_form_has_every_key_of_the_schema() -> None:
    def paths(fields: list[dict[str, object]]) -> set[str]:
        found = set()
        for field in fields:
            found |= paths(field["fields"]) if field["kind"] == "table" else {str(field["path"])}  # type: ignore[arg-type]
        return found

    made = form()
    schema = json_schema()["$defs"]
    for name, section in (("catalog", "CatalogSection"), ("table", "TableSection"), ("failures", "FailuresSection")):
        fields = next(each["fields"] for each in made["sections"] if each["name"] == name)
        assert {path.partition(".")[0] for path in paths(fields)} == set(schema[section]["properties"])
    assert {path.partition(".")[0] for path in paths(made["class"])} == set(schema["ClassSection"]["properties"])
    json.dumps(made)


@pytest.mark.parametrize(
    ("tree", "key"),
    [
        ({"workload": {"a": {"rate": 1.0, "runtime": {"median": None, "sigma": 0.3}}}}, "workload.a.runtime.median"),
        ({"workload": {"a": {"rate": 1.0, "runtime": {"distribution": "fixed", "value": None}}}}, "workload.a.runtime.value"),
        ({"workload": {"a": {"schedule": [{"from": 0, "rate": None}]}}}, "workload.a.schedule.rate"),
        ({"table": None}, "table"),
    ],
)
def test_a_null_is_refused_at_its_key(tree: dict[str, Any], key: str) -> None:
    """No file can say it, and what is None by default would be taken for given."""
    with pytest.raises(ConfigError) as caught:
        settle({"simulation": {"duration_ms": 1_000}, "storage": {"provider": "s3"}, **tree}, None)
    assert [problem.key for problem in caught.value.problems] == [key]


def test_trees_are_changed_by_dotted_keys() -> None:
    tree = {"a": {"b": {"c": 1}}}
    assert value_at(tree, "a.b.c") == 1
    assert value_at(tree, "a.x.c") is None
    assert put(tree, "a.b.d", 2) == {"a": {"b": {"c": 1, "d": 2}}}
    remove(tree, "a.b.c")
    remove(tree, "nothing.here")
    assert tree == {}
