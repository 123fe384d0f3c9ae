"""``endive screen``, as a user calls it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import appends, files, invoke, strict

CONFIG = appends("60_000", retry=2, rate=2.0, runtime="mean = 300, sigma = 0.3")
KEYS = ("workload.ingest.rate=0.2..8", "transaction.retry=1..4", "transaction.manifests_per_concurrent_commit=1..3")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of its own with a configuration in it."""
    (tmp_path / "load.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def screened(*keys: str, code: int = 0) -> Any:
    parameters = [text for key in keys for text in ("--parameters", key)]
    result = invoke("screen", "load.toml", "--for", "success", "--trajectories", "3", "--seeds", "1", *parameters, "--json")
    assert result.exit_code == code, result.output
    return strict(result.stdout)


def test_the_load_has_the_largest_effect_and_an_unused_key_none(here: Path) -> None:
    """Fast appends rewrite no manifests, so that the key has no effect at all."""
    pytest.importorskip("SALib")
    found = screened(*KEYS)
    effects = {each["parameter"]: each for each in found["effects"]}
    assert found["effects"][0]["parameter"] == "workload.ingest.rate"
    assert effects["workload.ingest.rate"]["mean"] < 0.0 < effects["transaction.retry"]["mean"]
    unused = effects["transaction.manifests_per_concurrent_commit"]
    assert (unused["effect"], unused["significant"]) == (0.0, False)
    assert re.fullmatch(
        r"workload\.ingest\.rate has the largest effect on success of all transactions: [\d.]+ ± [\d.]+ pp over its range\.",
        found["answer"][0],
    )
    assert {"screen.json", "screen.svg", "screen.png"} <= {name.rpartition("/")[2] for name in files(here)}
    assert screened(*KEYS)["runs"] == 0


def test_all_numbers_of_the_file_are_the_parameters(here: Path) -> None:
    from endive.studies.screening import read_screening

    found = {
        each.name: (each.low, each.high, each.whole) for each in read_screening(here / "load.toml", "success", [], {}).parameters
    }
    assert found == {
        "transaction.retry": (1.0, 4.0, True),
        "transaction.runtime.mean": (150.0, 600.0, False),
        "transaction.runtime.sigma": (0.15, 0.6, False),
        "workload.ingest.rate": (1.0, 4.0, False),
    }


def test_a_missing_library_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SALib", "SALib.analyze", "SALib.sample"):
        monkeypatch.setitem(sys.modules, name, None)
    result = invoke("screen", "load.toml", "--for", "success", "--parameters", KEYS[0])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "error: endive screen needs SALib: `pip install 'endive[screen]'`",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--for", "sucess"), "did you mean 'success'?"),
        (("--for", "success", "--parameters", "transaction.retry=9..3"), "--parameters: '"),
        (("--for", "success", "--parameters", "storage.provider"), "is not a positive number in the file"),
    ],
)
def test_wrong_calls_end_with_2(arguments: tuple[str, ...], message: str, here: Path) -> None:
    result = invoke("screen", "load.toml", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert files(here) == {"load.toml"}
