"""The one place that makes a Spark session, quiet on the console, for as long as a block lasts.

Local mode is the default and needs nothing but a Java, which is found without asking. A session comes up in a thread of its own, so
that other work can be done meanwhile.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zipfile import ZIP_DEFLATED, ZipFile

from endive.cache import CACHE_VARIABLE
from endive.pipeline.class_archive import archive_options, make_in_background
from endive.pipeline.java import NoJavaError, java_home
from endive.pipeline.jvm import Jvm, JvmError, is_connected
from endive.pipeline.quiet import silence_py4j, without_pandas_warning

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
    java_options: tuple[str, ...] = ()
    """Further options of the driver's JVM."""

    @property
    def is_local(self) -> bool:
        """Whether all of it runs on this machine, in this user's processes."""
        return self.remote is None and (self.master or LOCAL_MASTER).startswith("local")


class StartingSession:
    """A session that comes up while other work is done, once it was begun."""

    def __init__(self, options: SparkOptions, app: str, folder: Path) -> None:
        self._options, self._app, self._folder = options, app, folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="endive-spark")
        self._session: Future[SparkSession] | None = None
        self._jvm: Jvm | None = None
        self._stopping: Future[None] | None = None
        self._given_up = False

    @property
    def is_local(self) -> bool:
        """Whether Spark is this machine."""
        return self._options.is_local

    def begin(self) -> None:
        """Begin to start the session, unless that was done."""
        if self._session is None:
            self._session = self._pool.submit(self._make)

    @property
    def is_up(self) -> bool:
        """Whether nobody would have to wait for it."""
        return self._session is not None and self._session.done()

    def get(self) -> SparkSession:
        """Wait for the session. Raises SessionError with what to do if there is none to be had."""
        self.begin()
        assert self._session is not None
        return self._session.result()

    def stop(self) -> None:
        """Begin to stop the session, which nobody needs any more, in the background."""
        if self._stopping is None:
            self._stopping = self._pool.submit(self._stop)

    def close(self) -> None:
        """Stop the session; one that is not up yet is given up."""
        self._given_up = True
        if self._jvm is not None and not self.is_up:
            self._jvm.end()
        self.stop()
        self._pool.shutdown()

    def _stop(self) -> None:
        with suppress(Exception):
            if self._session is not None:
                session = self._session.result()
                with _stderr_to(Path(os.devnull)):
                    session.stop()

    def _make(self) -> SparkSession:
        silence_py4j()
        if self._options.remote:
            return _connect(self._options, self._app, self._folder)
        return _start(self._options, self._app, self._folder, self._launch)

    def _launch(self, settings: Mapping[str, str], said: Path) -> None:
        """Start the JVM and connect to it, unless there is one."""
        if self._given_up:
            raise SessionError("nobody waits for it")
        if not is_connected():
            self._jvm = Jvm(settings, said)
            if self._given_up:
                self._jvm.end()
            self._jvm.connect()


@contextmanager
def starting_session(options: SparkOptions | None = None, app: str = "endive") -> Iterator[StartingSession]:
    """A session that can be begun in the background; it is stopped when the block ends."""
    with tempfile.TemporaryDirectory(prefix="endive-spark-", ignore_cleanup_errors=True) as folder, _environment_kept():
        starting = StartingSession(options or SparkOptions(), app, Path(folder))
        try:
            yield starting
        finally:
            starting.close()


@contextmanager
def spark_session(options: SparkOptions | None = None, app: str = "endive") -> Iterator[SparkSession]:
    """A session for the block. Raises SessionError with what to do if there is none to be had."""
    with starting_session(options, app) as starting:
        yield starting.get()


def _connect(options: SparkOptions, app: str, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    assert options.remote is not None
    try:
        with without_pandas_warning():
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


def _start(options: SparkOptions, app: str, folder: Path, launch: Callable[[Mapping[str, str], Path], None]) -> SparkSession:
    master = options.master or LOCAL_MASTER
    said = folder / "stderr.txt"
    try:
        _check_answers(master)
        java = _set_environment(master)
        settings = {"spark.app.name": app, "spark.master": master, **_settings(options, folder, java)}
        launch(settings, said)
        session = _created(settings)
    except NoJavaError as error:
        raise SessionError(str(error)) from error
    except Exception as error:
        raise SessionError(f"cannot start Spark on {master}: {_reason(error, said)}") from error
    if options.is_local and not options.java_options:
        make_in_background(java)
    return session


def _created(settings: Mapping[str, str]) -> SparkSession:
    with without_pandas_warning():
        from pyspark.sql import SparkSession

        builder = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
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


def _set_environment(master: str) -> Path:
    """Let Spark find Java and this Python; returns the home of that Java."""
    java = java_home()
    os.environ["JAVA_HOME"] = str(java)
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return java


def _settings(options: SparkOptions, folder: Path, java: Path) -> dict[str, str]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": f"{driver_memory_mib()}m",
        "spark.driver.extraJavaOptions": " ".join([_java_options(folder), *_more_java_options(options, java)]),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.network.timeout": "120s",
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",  # it would try for a quarter of an hour
        "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "10000",
    }
    if options.is_local:
        settings["spark.python.daemon.module"] = "endive.pipeline.daemon"
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


def _more_java_options(options: SparkOptions, java: Path) -> Sequence[str]:
    """The options that were asked for, or those of the archive of classes, which is for the JVM of this machine alone."""
    if options.java_options:
        return options.java_options
    return archive_options(java) if options.is_local else ()


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
    if isinstance(error, JvmError) and said is not None and said.exists():
        text = f"{text}\n{said.read_text(errors='replace')}"
    causes = _JAVA_REASON.findall(text)
    if not causes:
        return text.splitlines()[0] if text else type(error).__name__
    if "stopped SparkContext" in causes[-1]:
        return "the master does not take the application"
    return str(causes[-1])
