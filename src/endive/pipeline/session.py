"""Start Spark sessions, which are local by default, do not log to the console, and are stopped at the end of a block.

Sessions start in a separate thread, so that the process can do other work meanwhile. The module uses only public interfaces of
pyspark (tested with 4.3): ``SparkSession.builder``, ``SparkContext(gateway=...)`` and ``launch_gateway``, whose ``popen_kwargs``
keep the output of the JVM off the terminal.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zipfile import ZIP_DEFLATED, ZipFile

from endive.cache_directory import CACHE_VARIABLE
from endive.pipeline.java import NoJavaError, class_archive_options, java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*,4]"
"""Local master with all cores, on which a task is attempted up to four times, as on a cluster."""
PYSPARK_BOUNDS = ("4.3", "5")
"""Oldest supported release of pyspark, and the first release that is not supported."""
RESPONSE_SECONDS = 15.0
"""Maximum wait for the first response of a master or a server, in seconds."""
_DRIVER_MEMORY_SHARE = 0.25
_LEAST_MEMORY_MIB, _MOST_MEMORY_MIB = 1024, 4096
_CONNECT_VARIABLES = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE", "SPARK_LOCAL_REMOTE")
_PY4J_NOISE = " while sending command."


class SessionError(RuntimeError):
    """Raised if Spark cannot be reached or started."""


@dataclass(frozen=True)
class SparkOptions:
    """Options of a Spark session.

    Attributes:
        master: Master URL of Spark.
        remote: Address of a Spark Connect server.
        ship_code: Whether to send the package to executors, on which it is not installed.
        settings: Further Spark settings, which override Endive's settings.
    """

    master: str | None = None
    remote: str | None = None
    ship_code: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def is_local(self) -> bool:
        """True if Spark runs on this machine, in processes of this user."""
        return self.remote is None and (self.master or LOCAL_MASTER).startswith("local")


class StartingSession:
    """Session that ``begin`` starts in the background."""

    def __init__(self, options: SparkOptions, app: str, folder: Path) -> None:
        self._options, self._app, self._folder = options, app, folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="endive-spark")
        self._session: Future[SparkSession] | None = None
        self._stopping: Future[None] | None = None

    @property
    def is_local(self) -> bool:
        """True if Spark runs on this machine."""
        return self._options.is_local

    def begin(self) -> None:
        """Start the session in the background, unless it has already been started."""
        if self._session is None:
            start = _connect if self._options.remote else _start
            self._session = self._pool.submit(start, self._options, self._app, self._folder)

    def get(self) -> SparkSession:
        """Wait for the session.

        Raises:
            SessionError: If Spark cannot be started. The message states the remedy.
        """
        self.begin()
        assert self._session is not None
        return self._session.result()

    def stop(self) -> None:
        """Stop the session in the background."""
        if self._stopping is None:
            self._stopping = self._pool.submit(self._stop)

    def close(self) -> None:
        """Stop the session and wait until it has stopped."""
        self.stop()
        self._pool.shutdown()

    def _stop(self) -> None:
        with suppress(Exception):
            if self._session is not None:
                self._session.result().stop()


@contextmanager
def starting_session(options: SparkOptions | None = None, app: str = "endive") -> Iterator[StartingSession]:
    """Yield a session that can start in the background, and stop it at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="endive-spark-", ignore_cleanup_errors=True) as folder, _keep_environment():
        starting = StartingSession(options or SparkOptions(), app, Path(folder))
        try:
            yield starting
        finally:
            starting.close()


def active_session() -> SparkSession | None:
    """Return the active Spark session of this process; None if there is none."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


@contextmanager
def spark_session(options: SparkOptions | None = None, app: str = "endive") -> Iterator[SparkSession]:
    """Start a session for the block.

    Raises:
        SessionError: If Spark cannot be started. The message states the remedy.
    """
    with starting_session(options, app) as starting:
        yield starting.get()


def _connect(options: SparkOptions, app: str, folder: Path) -> SparkSession:
    assert options.remote is not None
    try:
        _prepare_pyspark()
        from pyspark.sql import SparkSession

        _wait_for_server(options.remote)
        session = SparkSession.builder.appName(app).remote(options.remote).getOrCreate()
        session.range(1).count()
    except SessionError:
        raise
    except Exception as error:
        raise SessionError(f"cannot reach the Spark Connect server {options.remote}: {_summarize(error)}") from error
    if options.ship_code:
        session.addArtifacts(str(pack_code(folder)), pyfile=True)
    return session


def _wait_for_server(remote: str) -> None:
    """Wait until the server responds, because the client itself would wait for 10 min."""
    try:
        grpc: Any = importlib.import_module("grpc")
    except ImportError:
        raise ImportError("its client is not installed: `pip install 'pyspark[connect]'`") from None
    from pyspark.sql.connect.client import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=RESPONSE_SECONDS)
    except grpc.FutureTimeoutError:
        raise TimeoutError(f"no response within {RESPONSE_SECONDS:g} s") from None
    finally:
        channel.close()


def _start(options: SparkOptions, app: str, folder: Path) -> SparkSession:
    """Start Spark in this process, as the driver of a local or remote master."""
    master = options.master or LOCAL_MASTER
    output = folder / "jvm.txt"
    try:
        _prepare_pyspark()
        _check_master(master)
        java = _set_environment(master)
        session = _create_session({"spark.app.name": app, "spark.master": master, **_settings(options, folder, java)}, output)
    except NoJavaError as error:
        raise SessionError(str(error)) from error
    except SessionError:
        raise
    except Exception as error:
        raise SessionError(f"cannot start Spark on {master}: {_summarize(error, output)}") from error
    return session


def _create_session(settings: Mapping[str, str], output: Path) -> SparkSession:
    """Create a session. The output of the JVM and its Python workers is written to a file."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf().setAll(list(settings.items()))
    if not _jvms:  # a process can have only one JVM
        with output.open("ab") as file:
            _jvms.append(launch_gateway(conf, {"stdout": file, "stderr": file}))  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=_jvms[0])
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


_jvms: list[Any] = []
"""Connection to the JVM of this process, which runs until the process ends."""


def _prepare_pyspark() -> None:
    """Check the release of pyspark and suppress log noise.

    Raises:
        SessionError: If the release is not supported.
    """
    oldest, newest = PYSPARK_BOUNDS
    installed = metadata.version("pyspark")
    if not _parse_version(oldest) <= _parse_version(installed) < _parse_version(newest):
        raise SessionError(
            f"pyspark {installed} is not supported: `pip install 'pyspark>={oldest},<{newest}'`. "
            "Commands that do not need Spark, such as `endive run`, work without it."
        )
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    root = logging.getLogger()  # py4j logs the traceback of every command that Ctrl-C interrupts
    if _is_no_noise not in root.filters:
        root.addFilter(_is_no_noise)


def _is_no_noise(record: logging.LogRecord) -> bool:
    return not str(record.msg).endswith(_PY4J_NOISE)


def _parse_version(text: str) -> tuple[int, ...]:
    """Return the major and minor version of a release."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def _check_master(master: str) -> None:
    """Raise OSError if no process listens at the address of a standalone master, because Spark itself would try for 1 min."""
    if not master.startswith("spark://"):
        return
    addresses = [urlsplit(f"//{each}") for each in master.removeprefix("spark://").split(",")]
    if any(address.hostname is None or address.port is None for address in addresses):
        return  # Spark reports the error
    failure = OSError()
    for address in addresses:
        try:
            socket.create_connection((address.hostname, address.port or 0), RESPONSE_SECONDS).close()
            return
        except OSError as error:
            failure = error
    raise failure


def _set_environment(master: str) -> Path:
    """Set the environment variables with which Spark finds Java and this Python, and return the Java home."""
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
        "spark.driver.extraJavaOptions": " ".join(_java_options(options, folder, java)),
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.network.timeout": "120s",
        "spark.python.authenticate.socketTimeout": "120s",  # with the default of 15 s, collecting fails on a busy machine
        "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",  # the default is 15 min
        "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "10000",
    }
    if CACHE_VARIABLE in os.environ:
        settings[f"spark.executorEnv.{CACHE_VARIABLE}"] = os.environ[CACHE_VARIABLE]
    if options.ship_code:
        settings["spark.submit.pyFiles"] = str(pack_code(folder))
    return {**settings, **dict(options.settings)}


def driver_memory_mib() -> int:
    """Return the memory of the driver, which does not hold rows: a quarter of the machine's memory, within bounds."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return int(min(max(total * _DRIVER_MEMORY_SHARE, _LEAST_MEMORY_MIB), _MOST_MEMORY_MIB))


def _java_options(options: SparkOptions, folder: Path, java: Path) -> list[str]:
    """Return the options of the driver's JVM, for a quick start and a log file."""
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
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [f"-Dlog4j2.configurationFile=file:{log}", *quick, *(class_archive_options(java) if options.is_local else ())]


@contextmanager
def _keep_environment() -> Iterator[None]:
    """Restore the environment variables after the block, because pyspark would create all later sessions on Spark Connect."""
    before = {name: os.environ.get(name) for name in _CONNECT_VARIABLES}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def pack_code(folder: Path) -> Path:
    """Write the package as a zip file, for executors that do not have it installed, and return its path."""
    package = Path(__file__).resolve().parent.parent
    target = folder / "endive.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as archive:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(package.parent))
    return target


_JAVA_CAUSE = re.compile(r"^(?:: |Caused by: |Exception in thread \"main\" )[\w.$]+: (.+)$", re.MULTILINE)


def _summarize(error: Exception, output: Path | None = None) -> str:
    """Return the cause of an error in one line: the innermost cause in Java, or the first line of the error."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).strip()
    if not _jvms and output is not None and output.exists():  # the JVM failed to start
        text = f"{text}\n{output.read_text(errors='replace')}"
    causes = _JAVA_CAUSE.findall(text)
    if not causes:
        return text.splitlines()[0] if text else type(error).__name__
    if "stopped SparkContext" in causes[-1]:
        return "the master does not accept the application"
    return str(causes[-1])
