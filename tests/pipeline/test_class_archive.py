"""The archive of Spark's classes: made once, whole or not at all, and never in the way."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from endive.cache import CACHE_VARIABLE
from endive.pipeline import class_archive
from endive.pipeline.class_archive import archive_options, archive_path, make, make_in_background


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    home = tmp_path / "jdk"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return home


def dumped(monkeypatch: pytest.MonkeyPatch, content: bytes | None) -> list[Path]:
    """Let a JVM write so much, or nothing."""
    asked: list[Path] = []

    def dump(target: Path) -> None:
        asked.append(target)
        if content is not None:
            target.write_bytes(content)
            target.chmod(0o444)  # as a JVM does

    monkeypatch.setattr(class_archive, "_dump", dump)
    return asked


def test_without_an_archive_nothing_is_asked_of_the_jvm(java: Path) -> None:
    assert archive_options(java) == []


def test_an_archive_is_made_once_and_used(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dumped(monkeypatch, b"classes")
    archive = archive_path(java)
    make(archive)
    make(archive)
    assert len(asked) == 1
    assert archive.read_bytes() == b"classes"
    assert archive_options(java)[0] == f"-XX:SharedArchiveFile={archive}"
    assert "-Xlog:disable" in archive_options(java)  # one that does not fit is ignored without a word
    assert sorted(path.suffix for path in archive.parent.iterdir()) == [".jsa", ".lock"]


def test_where_none_can_be_made_that_is_remembered(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dumped(monkeypatch, None)
    make(archive_path(java))
    assert archive_path(java).stat().st_size == 0
    assert archive_options(java) == []
    monkeypatch.setattr("endive.pipeline.class_archive.subprocess.run", lambda *_, **__: pytest.fail("it would be tried for ever"))
    make_in_background(java)


def test_a_failure_leaves_nothing_behind(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(target: Path) -> None:
        target.write_bytes(b"half")
        raise RuntimeError("no Java")

    monkeypatch.setattr(class_archive, "_dump", fail)
    with pytest.raises(RuntimeError, match="no Java"):
        make(archive_path(java))
    assert [path.suffix for path in archive_path(java).parent.iterdir()] == [".lock"]


def test_two_do_not_make_it_at_once(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = dumped(monkeypatch, b"classes")
    archive = archive_path(java)
    archive.parent.mkdir(parents=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make(archive)
    assert asked == []


def test_another_java_has_another_archive(java: Path) -> None:
    before = archive_path(java)
    (java / "release").write_text('JAVA_VERSION="17.0.16"\n')
    assert archive_path(java) != before
