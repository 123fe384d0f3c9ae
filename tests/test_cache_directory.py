from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from endive.cache_directory import CACHE_VARIABLE, UnsafeCacheError, cache_root

CONFIGURATION = """
simulation = { duration_ms = 1000, seed = 1, engine = "compiled" }
storage.provider = "instant"
transaction.inter_arrival.scale = 100.0
"""


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "deep" / "cache"
    monkeypatch.setenv(CACHE_VARIABLE, str(path))
    return path


def test_it_is_made_for_the_user_alone(chosen: Path) -> None:
    before = os.umask(0)
    try:
        assert cache_root() == chosen
    finally:
        os.umask(before)
    assert chosen.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_one_that_others_may_write_to_is_refused(chosen: Path, mode: int) -> None:
    chosen.mkdir(parents=True)
    chosen.chmod(mode)
    with pytest.raises(UnsafeCacheError, match="chmod go-w"):
        cache_root()


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o500])
def test_one_that_others_may_read_is_taken(chosen: Path, mode: int) -> None:
    chosen.mkdir(parents=True)
    chosen.chmod(mode)
    assert cache_root() == chosen


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_one_of_another_user_is_refused(chosen: Path) -> None:
    chosen.mkdir(parents=True)
    os.chown(chosen, 12345, 12345)
    with pytest.raises(UnsafeCacheError, match="another user"):
        cache_root()


def test_the_command_line_reports_an_unsafe_cache(chosen: Path, tmp_path: Path) -> None:
    chosen.mkdir(parents=True)
    chosen.chmod(0o777)
    config = tmp_path / "one.toml"
    config.write_text(CONFIGURATION)
    done = subprocess.run([sys.executable, "-m", "endive", "run", str(config)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "other users can write to the cache" in done.stderr
    assert "Traceback" not in done.stderr
