"""The one place that makes a Spark session.

What flows in: where to run (a master, or a Spark Connect server) and how wide. What flows out: a session, quiet on the console,
that is stopped when its block ends. Local mode is the default and needs nothing but a Java, which is found without asking.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zipfile import ZIP_DEFLATED, ZipFile

from endive.cache import CACHE_VARIABLE
from endive.pipeline.java import NoJavaError, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*,4]"
"""All cores; a task that fails is tried up to four times, as on a cluster."""
_DRIVER_MEMORY_SHARE = 0.25
_LEAST_MEMORY_MIB, _MOST_MEMORY_MIB = 1024, 4096
ANSWER_SECONDS = 15.0
"""How long a master or a server may take to answer at all."""
_REMEMBERED = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE", "SPARK_LOCAL_REMOTE")


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
    with tempfile.TemporaryDirectory(prefix="endive-spark-") as folder, _environment_kept():
        session = _connect(options, app, Path(folder)) if options.remote else _start(options, app, Path(folder))
        try:
            yield session
        finally:
            with _stderr_to(Path(os.devnull)):
                session.stop()


def _connect(options: SparkOptions, app: str, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    assert options.remote is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # pyspark speaks of pandas 3, of which nothing is used here
            _wait_for_server(options.remote)
            session = SparkSession.builder.appName(app).remote(options.remote).getOrCreate()
            session.range(1).count()
    except Exception as error:
        raise SessionError(f"cannot reach the Spark Connect server {options.remote}: {_reason(error)}") from error
    if options.ship_code:
        session.addArtifacts(str(packed_code(folder)), pyfile=True)
    return session


def _wait_for_server(remote: str) -> None:
    """Wait until the server answers, for a while: left to itself, the client would try for ten minutes."""
    try:
        grpc: Any = importlib.import_module("grpc")
    except ImportError:
        raise ImportError("its client is not installed: `pip install 'pyspark[connect]'`") from None
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=ANSWER_SECONDS)
    except grpc.FutureTimeoutError:
        raise TimeoutError(f"no answer within {ANSWER_SECONDS:g} s") from None
    finally:
        channel.close()


def _start(options: SparkOptions, app: str, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    master = options.master or LOCAL_MASTER
    said = folder / "stderr.txt"
    try:
        _check_answers(master)
        _set_environment(master)
        builder = SparkSession.builder.appName(app).master(master)
        for key, value in _settings(options, folder).items():
            builder = builder.config(key, value)
        with _stderr_to(said):
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF")
    except NoJavaError as error:
        raise SessionError(str(error)) from error
    except Exception as error:
        raise SessionError(f"cannot start Spark on {master}: {_reason(error, said)}") from error
    return session


def _check_answers(master: str) -> None:
    """Raise if nothing listens where a standalone master should be: left to itself, Spark would try for a minute."""
    if not master.startswith("spark://"):
        return
    addresses = [urlsplit(f"//{each}") for each in master.removeprefix("spark://").split(",")]
    if any(address.hostname is None or address.port is None for address in addresses):
        return  # Spark knows what is wrong with it
    failure = OSError()
    for address in addresses:
        try:
            socket.create_connection((address.hostname, address.port or 0), ANSWER_SECONDS).close()
            return
        except OSError as error:
            failure = error
    raise failure


def _set_environment(master: str) -> None:
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _settings(options: SparkOptions, folder: Path) -> dict[str, str]:
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
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",  # it would try for a quarter of an hour
        "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "10000",
    }
    if CACHE_VARIABLE in os.environ:
        settings[f"spark.executorEnv.{CACHE_VARIABLE}"] = os.environ[CACHE_VARIABLE]
    if options.ship_code:
        settings["spark.submit.pyFiles"] = str(packed_code(folder))
    return {**settings, **dict(options.settings)}


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
def _stderr_to(path: Path) -> Iterator[None]:
    """Keep what the JVM says of itself off the terminal: what is started here writes to a file, for as long as it lives."""
    sys.stderr.flush()
    saved = os.dup(2)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(file)


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Undo what pyspark remembers in the environment: after one connection it would take every session for one."""
    before = {name: os.environ.get(name) for name in _REMEMBERED}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def packed_code(folder: Path) -> Path:
    """The package as a zip file, for executors that do not have it installed."""
    package = Path(__file__).resolve().parent.parent
    target = folder / "endive.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return target


_JAVA_REASON = re.compile(r"^(?:: |Caused by: |Exception in thread \"main\" )[\w.$]+: (.+)$", re.MULTILINE)


def _reason(error: Exception, said: Path | None = None) -> str:
    """What went wrong, in one line: the innermost cause that Java tells, or else the first line of the error."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).strip()
    if "JAVA_GATEWAY_EXITED" in text and said is not None and said.exists():
        text = f"{text}\n{said.read_text(errors='replace')}"
    causes = _JAVA_REASON.findall(text)
    if not causes:
        return text.splitlines()[0] if text else type(error).__name__
    if "stopped SparkContext" in causes[-1]:
        return "the master does not take the application"
    return str(causes[-1])
