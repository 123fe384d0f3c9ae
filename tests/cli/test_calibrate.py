from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from endive.main import app
from endive.storage import load_profile
from tests.cli import assert_fits, narrow_invoke

RUN = CliRunner()


def measured(folder: Path) -> Path:
    rng = np.random.default_rng(3)
    lines = ["operation,bytes,latency_ms"]
    for name, median in (("get", 20.0), ("put", 40.0), ("cas", 60.0)):
        lines += [f"{name},{4096},{median * float(np.exp(0.3 * rng.standard_normal())):.3f}" for _ in range(600)]
    path = folder / "latencies.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_profile_and_its_figure_are_written(tmp_path: Path) -> None:
    out = tmp_path / "store.toml"
    done = RUN.invoke(app, ["calibrate", str(measured(tmp_path)), "-o", str(out), "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert {fit["operation"] for fit in answer["fits"]} == {"read", "write", "cas"}
    assert "failed_cas" in answer["assumed"]
    assert (tmp_path / "store.svg").read_text().startswith("<svg")
    profile = load_profile(out)
    assert profile.cas is not None
    assert 57.0 < profile.cas.at(0.5) < 63.0


def test_calibrate_prints_the_fits(tmp_path: Path) -> None:
    done = narrow_invoke("calibrate", str(measured(tmp_path)), "-o", str(tmp_path / "s.toml"), "--no-figure")
    assert done.exit_code == 0
    assert_fits(done.output.splitlines())
    assert "assumed: failed_cas" in done.output
    assert not (tmp_path / "s.svg").exists()


def test_a_wrong_file_is_one_sentence(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["calibrate", str(tmp_path / "no.csv"), "-o", str(tmp_path / "s.toml")])
    assert done.exit_code == 2
    assert "Traceback" not in done.output
    assert not (tmp_path / "s.toml").exists()
