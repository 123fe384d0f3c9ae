"""The JVM of the driver: started by itself, so that other work can be done while it comes up, and connected to by pyspark later."""

from __future__ import annotations

import atexit
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import util
from pathlib import Path

from endive.pipeline.quiet import without_pandas_warning

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_POLL_SECONDS = 0.05
_RUNNING: list[Jvm] = []
"""The JVM of this process, kept so that it lives as long: it ends when its standard input is closed. Pyspark has one, too."""


class JvmError(RuntimeError):
    """The JVM ended before it could be connected to."""


def spark_home() -> Path:
    """Return where Spark is: SPARK_HOME, or the folder of the package pyspark."""
    if "SPARK_HOME" in os.environ:
        return Path(os.environ["SPARK_HOME"])
    found = util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise JvmError("pyspark is not installed")
    return Path(found.origin).parent


def running() -> tuple[Jvm, ...]:
    """Return the JVMs of this process that pyspark is connected to."""
    return tuple(_RUNNING)


def is_connected() -> bool:
    """Tell whether pyspark has a JVM in this process already; there can be only one."""
    core = sys.modules.get("pyspark.core.context")
    return _PORT in os.environ or (core is not None and core.SparkContext._gateway is not None)


class Jvm:
    """A JVM that runs pyspark's gateway. What it and its Python workers say goes to a file."""

    def __init__(self, settings: Mapping[str, str], said: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="endive-jvm-")
        self._told = Path(self._folder.name) / "connection"
        command = [str(spark_home() / "bin" / "spark-submit")]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        environment = {**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told)}
        with said.open("ab") as file:
            # in a process group of its own, so that Ctrl-C reaches this process alone
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [*command, "pyspark-shell"], stdin=subprocess.PIPE, stdout=file, stderr=file, env=environment, process_group=0
            )

    def connect(self) -> None:
        """Wait until the JVM is up and let pyspark use it. Raises JvmError if it ends instead."""
        with without_pandas_warning():
            from pyspark.core.context import SparkContext
        while not self._told.is_file():
            if self.process.poll() is not None:
                raise JvmError("the JVM has ended at its start")
            time.sleep(_POLL_SECONDS)
        with self._told.open("rb") as file:
            port, length = struct.unpack(">ii", file.read(8))
            secret = file.read(length).decode()
        self._folder.cleanup()
        os.environ |= {_PORT: str(port), _SECRET: secret}
        try:
            SparkContext._ensure_initialized()
        finally:
            del os.environ[_PORT], os.environ[_SECRET]
        _RUNNING.append(self)
        atexit.register(self._leave)

    def end(self) -> None:
        """End a JVM that nobody has connected to."""
        self.process.kill()
        self.wait_for_end(None)
        self._folder.cleanup()

    def _leave(self) -> None:
        """Let the JVM end, without waiting for it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.returncode = self.process.returncode or 0  # or else Python would complain that it was not waited for

    def wait_for_end(self, seconds: float | None) -> int:
        """Let the JVM end by itself, as it does when its input is closed, and return its exit code."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.process.wait(seconds)
