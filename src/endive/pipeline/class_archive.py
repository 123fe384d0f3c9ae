"""An archive of Spark's classes, from which the JVM starts in half the time.

It is kept in the cache directory, one for each Java and pyspark, and made by a process of its own beside the first session: nobody
waits for it, and it appears whole or not at all. An archive that does not fit is ignored by the JVM; an empty one says that none
could be made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from endive.cache import cache_root
from endive.files import locked, whole_file
from endive.pipeline.jvm import spark_home

_USE = "specifications as Arrow tables, interpreted"
"""What the archive was made by: another one is made where sessions are used in another way."""
_END_SECONDS = 600.0
"""How long the JVM may take to write the archive, on a busy machine."""


def archive_path(java: Path) -> Path:
    """Return where the archive for a Java home and the installed pyspark is, or will be."""
    release = java / "release"
    known = release.read_text(errors="replace") if release.is_file() else ""
    key = hashlib.sha256(f"{_USE}\n{java}\n{known}\n{spark_home()}".encode()).hexdigest()[:12]
    return cache_root() / "classes" / f"pyspark-{metadata.version('pyspark')}-{key}.jsa"


def archive_options(java: Path) -> list[str]:
    """Return the options of a JVM that use the archive, if there is one. Nothing is said of one that does not fit."""
    try:
        archive = archive_path(java)
        usable = archive.stat().st_size > 0
    except OSError:
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"] if usable else []


def make_in_background(java: Path) -> None:
    """Start to make the archive, if there is none, in a process that outlives this one and gives way to all others."""
    try:
        archive = archive_path(java)
    except OSError:  # a cache that cannot be used
        return
    if archive.exists():
        return
    command = ["nice", "-n", "19", sys.executable, "-m", "endive.pipeline.class_archive", str(archive)]
    environment = {**os.environ, "JAVA_HOME": str(java), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with suppress(OSError):  # the next session will try again
        # the shell ends at once, so that the process that it leaves behind is nobody's child here
        subprocess.run(
            ["sh", "-c", '"$@" >/dev/null 2>&1 </dev/null &', "sh", *command], env=environment, start_new_session=True, check=False
        )


def make(archive: Path) -> None:
    """Make the archive from the classes that a small session loads, unless somebody is at it."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with suppress(BlockingIOError), locked(archive.with_suffix(".lock"), fcntl.LOCK_EX | fcntl.LOCK_NB):
        if archive.exists():
            return
        with whole_file(archive) as temporary:
            _dump(temporary)
            if not temporary.is_file():
                temporary.touch()
            temporary.chmod(0o644)


def _dump(target: Path) -> None:
    from endive.pipeline import jvm
    from endive.pipeline.session import SparkOptions, spark_session

    options = SparkOptions(master="local[1]", java_options=(f"-XX:ArchiveClassesAtExit={target}", "-Xlog:disable"))
    with spark_session(options) as spark:
        _use(spark)
    for process in jvm.running():
        process.wait_for_end(_END_SECONDS)


def _use(spark: Any) -> None:
    """Do what sweeps, consolidation and metrics do, so that their classes are loaded."""
    import pyarrow as pa

    from endive.pipeline.jobs import interpreted, placed
    from endive.pipeline.quiet import without_pandas_warning

    with without_pandas_warning(), interpreted(spark):
        specs = pa.table({"task": pa.array([0, 1], pa.int32()), "spec": ["a", "b"]})
        frame = placed(spark, specs, 2).mapInArrow(_same, "task int, spec string")
        frame.toArrow()
        frame.collect()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


if __name__ == "__main__":
    make(Path(sys.argv[1]))
