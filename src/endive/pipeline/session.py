"""The one place that makes a Spark session.

What flows in: where to run (a master, or a Spark Connect server) and how wide. What flows out: a session, quiet on the console,
that is stopped when its block ends. Local mode is the default and needs nothing but a Java, which is found without asking.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from endive.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*,4]"
"""All cores; a task that fails is tried up to four times, as on a cluster."""
_DRIVER_MEMORY_SHARE = 0.25
_LEAST_MEMORY_MIB, _MOST_MEMORY_MIB = 1024, 4096


class SessionError(RuntimeError):
    """Spark could not be reached or started."""


@dataclass(frozen=True)
class SparkOptions:
    """Where and how to run: ``master`` takes what Spark takes, ``remote`` is the address of a Spark Connect server."""

    master: str | None = None
    remote: str | None = None
    ship_code: bool = False
    """Send the package to executors that do not have it installed."""
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of Spark, over ours."""


@contextmanager
def spark_session(options: SparkOptions | None = None, app: str = "endive") -> Iterator[SparkSession]:
    """A session for the block. Raises SessionError with what to do if there is none to be had."""
    options = options or SparkOptions()
    with tempfile.TemporaryDirectory(prefix="endive-spark-") as folder:
        session = _connect(options, app) if options.remote else _start(options, app, Path(folder))
        try:
            yield session
        finally:
            with _stderr_hidden():
                session.stop()


def _connect(options: SparkOptions, app: str) -> SparkSession:
    from pyspark.sql import SparkSession

    assert options.remote is not None
    builder = SparkSession.builder.appName(app).remote(options.remote)
    try:
        session = builder.getOrCreate()
        session.range(1).count()
    except Exception as error:
        raise SessionError(f"cannot reach the Spark Connect server {options.remote}: {_first_line(error)}") from error
    if options.ship_code:
        session.addArtifacts(str(packed_code()), pyfile=True)
    return session


def _start(options: SparkOptions, app: str, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    master = options.master or LOCAL_MASTER
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{driver_memory_mib()}m",
        "spark.driver.extraJavaOptions": _java_options(folder),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.network.timeout": "120s",
        **dict(options.settings),
    }
    if options.ship_code:
        settings["spark.submit.pyFiles"] = str(packed_code())
    builder = SparkSession.builder.appName(app).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _stderr_hidden():
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF")
    except Exception as error:
        raise SessionError(f"cannot start Spark on {master}: {_first_line(error)}") from error
    return session


def driver_memory_mib() -> int:
    """A quarter of the machine's memory, within bounds: the driver holds plans and summaries, never rows."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return int(min(max(total * _DRIVER_MEMORY_SHARE, _LEAST_MEMORY_MIB), _MOST_MEMORY_MIB))


def _java_options(folder: Path) -> str:
    """Quick start, and a log that goes to a file."""
    log = folder / "log4j2.properties"
    log.write_text(
        "rootLogger.level = warn\n"
        "rootLogger.appenderRef.file.ref = file\n"
        "appender.file.type = File\n"
        "appender.file.name = file\n"
        f"appender.file.fileName = {folder / 'spark.log'}\n"
        "appender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %d %p %c: %m%n%ex\n"
    )
    return f"-Dlog4j2.configurationFile=file:{log} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@contextmanager
def _stderr_hidden() -> Iterator[None]:
    """Keep what the JVM says of itself off the terminal."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def packed_code() -> Path:
    """The package as a zip file, for executors that do not have it installed."""
    import shutil

    package = Path(__file__).resolve().parent.parent
    target = Path(tempfile.mkdtemp(prefix="endive-code-"))
    shutil.copytree(package, target / "tree" / "endive", ignore=shutil.ignore_patterns("__pycache__"))
    return Path(shutil.make_archive(str(target / "endive"), "zip", target / "tree"))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
