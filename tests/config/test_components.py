"""Custom components in configurations, with those of the guide: permission, identity and errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from endive.config import ConfigError, build_simulation_config, load_document
from endive.config.components import allow_code
from endive.config.sweep_file import Sweep
from endive.pipeline.jobs import make_task_table
from endive.pipeline.sweep import describe_run, simulate_runs
from endive.report.answer import answer_study
from endive.runs.execute import run_experiment
from endive.runs.identity import compute_experiment_hash
from endive.runs.plan import keep_study, plan_sweep, remaining_work
from tests.cli import invoke, strict
from tests.report.studies import measured

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "extending.md"
CONFIG = """
[simulation]
duration_ms = 10_000
seed = 1
[experiment]
label = "own"
[storage]
provider = "s3x"
[workload.w]
rate = 4.0
operation = "fast_append"
runtime = { mean = 300, sigma = 0.5 }
[parts.catalog]
code = "queue_catalog.py:QueueCatalog"
options = { service_ms = 50.0 }
"""
STUDY = """
[sweep]
base = "own.toml"
question = "p50"
[scenario."five times as fast".set]
parts.catalog.options.service_ms = 10.0
"""


def of_guide(heading: str) -> str:
    """The class that the guide writes under a heading."""
    section = GUIDE.read_text().partition(f"\n## {heading}\n")[2]
    return section.partition("```python\n")[2].partition("\n\nrows = ")[0] + "\n"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    allow_code(False)
    yield
    allow_code(False)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue_catalog.py").write_text(of_guide("A catalog"))
    (tmp_path / "own.toml").write_text(CONFIG)
    (tmp_path / "study.toml").write_text(STUDY)
    return Path("own.toml")


def test_nothing_is_run_unless_the_user_reports_it(config: Path) -> None:
    bomb = "from pathlib import Path\nPath('ran').touch()\n"
    Path("queue_catalog.py").write_text(bomb + Path("queue_catalog.py").read_text())
    assert invoke("validate", str(config)).exit_code == 0
    for command in (("run", "own.toml"), ("sweep", "study.toml", "--dry-run"), ("compare", "study.toml")):
        result = invoke(*command)
        assert (result.exit_code, "Use --allow-code to allow it" in result.stderr) == (2, True), command
    assert not Path("ran").exists()
    assert invoke("run", str(config), "--allow-code").exit_code == 0
    assert Path("ran").exists()


def test_a_run_with_a_component_can_be_repeated_from_its_stored_configuration(config: Path) -> None:
    first = strict(invoke("run", str(config), "--allow-code", "--json").stdout)
    assert first["provenance"]["engine"] == "reference"
    assert first["provenance"]["repeat"].endswith("--allow-code")
    Path("queue_catalog.py").unlink()
    (kept,) = Path("experiments").glob("own-*/cfg.toml")
    again = strict(invoke("run", str(kept), "--seed", "1", "--allow-code", "--json", "--out", "again").stdout)
    assert again["provenance"]["results_sha256"] == first["provenance"]["results_sha256"]
    assert again["provenance"]["experiment_hash"] == first["provenance"]["experiment_hash"]


def test_scenarios_of_a_part_are_swept_compared_and_reported(config: Path) -> None:
    """As Spark's workers run them: from the text of the plan, without the files, in a process that was not asked."""
    allow_code()
    root, sweep = Path("out"), Sweep(Path("study.toml"))
    plan = plan_sweep(sweep)
    keep_study(root, sweep, plan)
    work = remaining_work(plan, root).todo
    allow_code(False)
    Path("queue_catalog.py").rename("elsewhere.py")
    specs = [describe_run(run, root) for run in work]
    outcomes = [row for batch in simulate_runs(iter(make_task_table([specs]).to_batches())) for row in batch.to_pylist()]
    assert [row["state"] for row in outcomes] == ["done"] * 6
    study = measured(root)
    assert answer_study(study)[0].startswith("The p50 time to commit of all transactions")
    Path("elsewhere.py").rename("queue_catalog.py")
    data = strict(invoke("compare", "study.toml", "--allow-code", "--warmup", "1000", "--json").stdout)
    assert data["rankings"][0]["order"][0]["name"] == "five times as fast"
    stored = strict(invoke("compare", "out", "--warmup", "1000", "--json").stdout)
    assert stored["rankings"] == data["rankings"]


def test_changed_code_makes_another_experiment(config: Path) -> None:
    before = compute_experiment_hash(load_document(config))
    text = Path("queue_catalog.py").read_text()
    Path("renamed.py").write_text(text)
    assert compute_experiment_hash(load_document(config, {"parts.catalog.code": "renamed:QueueCatalog"})) == before
    Path("queue_catalog.py").write_text(text.replace("read_ms=5.0", "read_ms=6.0"))
    assert compute_experiment_hash(load_document(config)) != before
    assert compute_experiment_hash(load_document(config, {"parts.catalog.options.service_ms": 51.0})) != before


@pytest.mark.parametrize(
    ("kind", "heading", "name"), [("provider", "An object store", "HangingStore"), ("transaction", "An operation", "RowDelta")]
)
def test_stores_and_operations_of_the_guide(config: Path, kind: str, heading: str, name: str) -> None:
    allow_code()
    Path("part.py").write_text(of_guide(heading))
    tree = {f"parts.{kind}.code": f"part.py:{name}"}
    config.write_text(CONFIG.partition("[parts.catalog]")[0])
    document = load_document(config, tree)
    built = build_simulation_config(document)
    found: Any = built.storage_provider if kind == "provider" else next(iter(built.workload.config.classes[0].operations))
    assert (type(found) if kind == "provider" else found).__name__ == name
    plain = run_experiment(load_document(config), root=Path("plain"), seed=1)
    own = run_experiment(document, root=Path("with"), seed=1)
    assert own.provenance["results_sha256"] != plain.provenance["results_sha256"]
    assert own.provenance["engine"] == "reference"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("parts.catalog.code", "nowhere.py:X", "nowhere.py: no such file"),
        ("parts.catalog.code", "queue_catalog.py", "should match"),
        (
            "parts.catalog.code",
            "queue_catalog.py:Queue",
            "a subclass of endive.catalog.base.Catalog; the file has QueueCatalog",
        ),
        (
            "parts.catalog.options.servce_ms",
            1.0,
            "parts.catalog.options: the component cannot be created with these options and provider",
        ),
        ("parts.catalg.code", "a:B", "parts.catalg: unknown key; did you mean 'catalog'?"),
        (
            "parts.catalog.source",
            "x",
            "`parts.catalog.source` must not be set, because Endive reads it from the file given by `code`",
        ),
        ("parts.catalog.classes", ["w"], "`parts.catalog.classes` applies to parts.transaction only"),
        ("simulation.engine", "compiled", "custom components run on the reference engine only"),
        (
            "parts.transaction.code",
            "queue_catalog.py:QueueCatalog",
            "a subclass of endive.transaction.operation_classes.Transaction",
        ),
    ],
)
def test_invalid_components_are_reported(config: Path, key: str, value: Any, message: str) -> None:
    allow_code()
    with pytest.raises(ConfigError) as caught:
        build_simulation_config(load_document(config, {key: value}))
    assert message in str(caught.value)


@pytest.mark.parametrize("source", ["-" * 100_000 + "1", "a" + ".a" * 100_000, "not " * 100_000 + "1", "lambda:" * 100_000 + "1"])
def test_code_without_end_is_refused_in_a_sentence(config: Path, source: str) -> None:
    (config.parent / "queue_catalog.py").write_text(source)
    with pytest.raises(ConfigError, match=r"queue_catalog\.py is nested too deeply"):
        load_document(config)


def test_code_that_fails_to_load_is_reported(config: Path) -> None:
    allow_code()
    Path("queue_catalog.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(ConfigError, match="cannot be loaded: ModuleNotFoundError"):
        build_simulation_config(load_document(config))
    Path("queue_catalog.py").write_text("class (:\n")
    with pytest.raises(ConfigError, match=r"parts\.catalog\.code"):
        load_document(config)
