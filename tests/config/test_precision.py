"""Precision: what is read, what is rejected, and what excludes what."""

from __future__ import annotations

from pathlib import Path

import pytest

from endive.config import ConfigError
from endive.config.study import FIRST_SEEDS, MOST_SEEDS, Precision, parse_precision
from endive.config.sweep_file import Sweep
from tests.pipeline.sweeps import write_sweep


@pytest.mark.parametrize(
    ("text", "value", "shares_only"),
    [("1%", 0.01, False), ("0.5pp", 0.005, True), (" 2.5 % ", 0.025, False), ("10pp", 0.1, True), ("99%", 0.99, False)],
)
def test_percent_is_relative_and_pp_is_for_shares(text: str, value: float, shares_only: bool) -> None:
    found = parse_precision(text, "--precision")
    assert found.value == pytest.approx(value)
    assert (found.shares_only, found.most_seeds) == (shares_only, MOST_SEEDS)
    assert parse_precision(str(found), "again") == found


@pytest.mark.parametrize(
    "text", ["", "1", "%", "0%", "0pp", "-1%", "100%", "1e3%", "1 percent", "pp", "1%%", "nan%", "1%pp", "9" * 400 + "%"]
)
def test_other_texts_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a precision; expected 1%"):
        parse_precision(text, "--precision")


def test_width_is_relative_to_the_mean_and_in_points_for_shares() -> None:
    precision = Precision(0.02)
    assert precision.width_of(500.0, is_share=False) == pytest.approx(10.0)
    assert precision.width_of(0.97, is_share=True) == pytest.approx(0.02)


def test_the_first_seeds_are_no_more_than_allowed() -> None:
    assert Precision(0.01).first_seeds == FIRST_SEEDS
    assert Precision(0.01, most_seeds=3).first_seeds == 3


def study(folder: Path, about: str = "", quick: str = "") -> Path:
    return write_sweep(folder, about, "[20, 50, 80]", 100.0, f"[quick]\n{quick}")


def test_a_sweep_has_the_precision_of_the_command_line_of_quick_or_of_the_file(tmp_path: Path) -> None:
    path = study(tmp_path, 'precision = "2%"\nmax_seeds = 20', 'precision = "5%"')
    assert Sweep(path).precision == Precision(0.02, most_seeds=20)
    assert Sweep(path).seeds == tuple(range(FIRST_SEEDS))
    assert Sweep(path, quick=True).precision == Precision(0.05, most_seeds=20)
    assert Sweep(path, precision="1pp", max_seeds=30).precision == Precision(0.01, True, 30)
    assert (Sweep(path, seeds="2").precision, Sweep(path, seeds="2").seeds) == (None, (0, 1))


def test_seeds_of_quick_replace_the_precision_of_the_file(tmp_path: Path) -> None:
    path = study(tmp_path, 'precision = "2%"', 'seeds = "0-1"')
    assert (Sweep(path, quick=True).precision, Sweep(path, quick=True).seeds) == (None, (0, 1))


def test_a_sweep_without_either_has_three_seeds(tmp_path: Path) -> None:
    assert (Sweep(study(tmp_path)).precision, Sweep(study(tmp_path)).seeds) == (None, (0, 1, 2))


@pytest.mark.parametrize(
    ("about", "options", "message"),
    [
        ('precision = "2%"\nseeds = "0-4"', {}, "sweep.precision.*cannot be combined with seeds"),
        ("max_seeds = 20", {}, "sweep.max_seeds.*no effect without precision"),
        ('precision = "2"', {}, "sweep.precision.*is not a precision"),
        ("", {"seeds": "5", "precision": "1%"}, "cannot be combined with --seeds"),
        ("", {"max_seeds": 5}, "no effect without --precision"),
    ],
)
def test_contradictions_are_errors(tmp_path: Path, about: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        Sweep(study(tmp_path, about), **options)  # type: ignore[arg-type]
