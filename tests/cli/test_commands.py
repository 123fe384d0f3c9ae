"""The other commands, help, versions, and completion in shells."""

from __future__ import annotations

import math
import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main

from endive import __version__
from endive.config import PROVIDER_PROFILES, json_schema
from endive.main import app
from endive.storage import builtin_profiles
from tests.cli import ENDIVE, call, files, invoke, strict
from tests.config import BASE


def leaves(group: Any, prefix: str = "") -> dict[str, Any]:
    """The commands of a group and of the groups in it, by what one types."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        found |= leaves(command, f"{prefix}{name} ") if hasattr(command, "commands") else {f"{prefix}{name}": command}
    return found


COMMANDS: Mapping[str, Any] = leaves(cast(Any, typer.main.get_command(app)))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run.toml").write_text(BASE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def test_version() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"endive {__version__}\n")


def test_the_package_can_be_run(here: Path) -> None:
    done = call("--version", cwd=here)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"endive {__version__}\n", "")


def test_help_lists_the_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert set(COMMANDS) >= {"init", "providers", "run", "schema", "validate"}
    for name in COMMANDS:
        assert f"\n  {name.split()[0]} " in result.stdout


def test_nothing_asked_is_help() -> None:
    assert "Usage: endive" in invoke().output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_a_command_explains_every_option(name: str) -> None:
    result = invoke(*name.split(), "--help")
    assert result.exit_code == 0
    command = COMMANDS[name]
    assert command.help
    assert command.help.split()[0] in result.stdout
    for parameter in command.params:
        spelling = parameter.opts[0] if parameter.param_type_name == "option" else parameter.metavar or parameter.opts[0]
        assert spelling.lower() in result.stdout.lower(), spelling
        assert getattr(parameter, "help", None), f"{name} {spelling} is not explained"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_speaks_json(name: str) -> None:
    assert "--json" in [option for parameter in COMMANDS[name].params for option in parameter.opts]


@pytest.mark.parametrize(
    "arguments",
    [
        ("init", "new.toml"),
        ("providers",),
        ("providers", "--profile", "2025-12"),
        ("run", "run.toml"),
        ("schema",),
        ("validate", "run.toml"),
        ("validate", "run.toml", "--set", "transaction.retry=nan"),
        ("run", "nowhere.toml"),
        ("init", "run.toml"),
    ],
)
def test_json_is_one_document_on_stdout(arguments: tuple[str, ...]) -> None:
    result = invoke(*arguments, "--json")
    data = strict(result.stdout)
    assert (result.exit_code == 0) == ("errors" not in data)
    assert (result.exit_code == 0) == (result.stderr == "")


def test_init_writes_a_file_that_runs(here: Path) -> None:
    result = invoke("init")
    assert result.exit_code == 0
    assert result.stdout.startswith("wrote endive.toml (system: rest); next: endive run endive.toml\n")
    assert "Other systems (--for): ducklake" in result.stdout
    assert 'commit_path = "iceberg"' in (here / "endive.toml").read_text()
    assert invoke("validate", "endive.toml").exit_code == 0
    assert invoke("run", "endive.toml", "--engine", "reference", "--set", "simulation.duration_ms=1000").exit_code == 0
    assert files(here) > {"endive.toml", "run.toml"}


def test_commented_keys_of_the_starter_are_valid(here: Path) -> None:
    """All that the comments of the starter offer, switched on together (but for what excludes each other)."""
    assert invoke("init", "--for", "simple").exit_code == 0
    lines = (here / "endive.toml").read_text().splitlines()
    live = []
    for line in lines:
        bare = line.removeprefix("# ")
        offered = line.startswith("# ") and (bare.startswith("[") or " = " in bare)
        live.append(bare if offered else line)
    text = "\n".join(live)
    text = text.replace('inter_arrival.distribution = "exponential"', "").replace("inter_arrival.scale = 2_000.0", "")
    operations = text.index("[transaction.operation_types]")
    text = text[:operations] + text[text.index("[workload.ingest]") :]
    assert len(tomllib.loads(text)["workload"]) == 2
    (here / "all.toml").write_text(text)
    result = invoke("validate", "all.toml")
    assert result.stderr == ""
    assert result.exit_code == 0


def test_the_menu_of_init_describes_each_system_by_a_phrase(here: Path) -> None:
    leader, follower = os.openpty()
    os.write(leader, b"simple\n")
    done = subprocess.run([*ENDIVE, "init", "menu.toml"], stdin=follower, capture_output=True, text=True, cwd=here, check=True)
    os.close(follower)
    os.close(leader)
    assert "  simple        The most common keys, for one table in S3 with a REST catalog\n" in done.stderr


def test_init_does_not_overwrite(here: Path) -> None:
    (here / "mine.toml").write_text("mine")
    refused = invoke("init", "mine.toml")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == "error: mine.toml already exists; use --force to replace it\n"
    assert (here / "mine.toml").read_text() == "mine"
    assert invoke("init", "mine.toml", "--force").exit_code == 0
    assert invoke("validate", "mine.toml").exit_code == 0


def test_init_makes_directories(here: Path) -> None:
    assert invoke("init", "a/b/c.toml").exit_code == 0
    assert invoke("validate", "a/b/c.toml").exit_code == 0


def test_init_into_a_directory(here: Path) -> None:
    (here / "dir").mkdir()
    result = invoke("init", "dir", "--force")
    assert (result.exit_code, result.stderr) == (1, "error: dir: Is a directory\n")
    assert list((here / "dir").iterdir()) == []


def test_validate_names_the_experiment() -> None:
    first, *warnings = invoke("validate", "run.toml").stdout.splitlines()
    data = strict(invoke("validate", "run.toml", "--json").stdout)
    assert first == f"run.toml: valid, experiment {data['experiment_hash']}"
    assert [line.split("`")[1] for line in warnings] == ["transaction.real_conflict_probability", "transaction.commit_path"]
    assert data["valid"] is True
    assert data["parameters"]["transaction"]["retry"] == 10


def test_validate_runs_nothing(here: Path) -> None:
    invoke("validate", "run.toml")
    assert files(here) == {"run.toml"}


@pytest.mark.parametrize("profile", ["2025-06", "2025-12", "2026-01"])
def test_providers(profile: str) -> None:
    shown = invoke("providers", "--profile", profile).stdout
    data = strict(invoke("providers", "--profile", profile, "--json").stdout)
    assert {item["name"] for item in data} == set(builtin_profiles(profile)) == set(PROVIDER_PROFILES)
    lines = shown.splitlines()
    assert lines[0].startswith(f"Latency profiles {profile}: p50 / p99 in ms")
    gcp = next(item for item in data if item["name"] == "gcp")
    assert gcp["drawn"]["append"] is None
    cas = gcp["drawn"]["cas"]
    assert cas["median_ms"] == pytest.approx(170)
    assert cas["p99_ms"] == pytest.approx(170 * math.exp((0.5 if profile == "2026-01" else 0.91) * 2.3263478740408408), rel=1e-6)
    assert any("170 / " in line for line in lines if line.startswith("gcp "))
    assert all(any(line.startswith(item["name"]) and item["source"][:20] in line for line in lines) for item in data)


def test_providers_show_latencies_above_the_floor() -> None:
    june = {item["name"]: item for item in strict(invoke("providers", "--profile", "2025-06", "--json").stdout)}
    assert june["s3"]["drawn"]["read"]["median_ms"] == 43.0
    assert june["s3"]["cas_rate_per_s"] == pytest.approx(1000 / (61 * math.exp(0.14**2 / 2)), rel=0.001)
    january = {item["name"]: item for item in strict(invoke("providers", "--json").stdout)}
    assert january["gcp"]["cas_rate_per_s"] == 1.0


def test_schema_is_that_of_the_package() -> None:
    assert strict(invoke("schema").stdout) == strict(invoke("schema", "--json").stdout) == json_schema()


def test_completion_knows_the_commands(here: Path) -> None:
    env = {
        **os.environ,
        "_ENDIVE_COMPLETE": "complete_bash",
        "COMP_WORDS": "endive va",
        "COMP_CWORD": "1",
    }
    code = "import sys; sys.argv[0] = 'endive'; from endive.main import cli; cli()"
    done = subprocess.run([ENDIVE[0], "-c", code], cwd=here, env=env, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["validate"]
