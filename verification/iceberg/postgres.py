"""Run a separate PostgreSQL server on loopback, with PyIceberg's SqlCatalog and counted, delayed files.

State: the server's data, in a temporary directory that is removed with it; the server's process, which is stopped by its id.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import numpy as np
from sqlalchemy import event

from endive.calibrate.probe import CatalogTarget, run_probe
from verification.iceberg.python import CountingCatalog

_USER = "postgres"
"""User of Debian's PostgreSQL package; PostgreSQL does not run as root."""
_ROLE = "endive"
_START_S = 60.0
_CATALOG = "verification"
_LOOPBACK_MS = 0.01
"""Round trip on loopback, which is part of the measured statement times."""


class NoPostgresError(RuntimeError):
    """No PostgreSQL server is installed, and none can be installed."""


def postgres_binaries(install: bool = False) -> Path:
    """Return the directory of PostgreSQL's programs. Raises NoPostgresError.

    With ``install``, root installs Debian's package if necessary.
    """
    for attempt in range(2):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        in_path = shutil.which("initdb")
        if found or in_path:
            return found[-1].parent if found else Path(str(in_path)).parent
        if attempt or not install or os.geteuid() != 0 or shutil.which("apt-get") is None:
            break
        subprocess.run(["apt-get", "-qq", "--yes", "install", "postgresql"], check=False, capture_output=True)
    raise NoPostgresError("there is no PostgreSQL server (`apt-get install postgresql`), so nothing is measured on one")


@contextmanager
def postgres_server(install: bool = False) -> Iterator[str]:
    """Run a server on a free port of 127.0.0.1; yield the SQLAlchemy URL of its database. Raises NoPostgresError."""
    binaries = postgres_binaries(install)
    as_user: dict[str, Any] = {"user": _USER, "group": _USER} if os.geteuid() == 0 else {}
    folder = Path(mkdtemp(prefix="endive-postgres-"))
    try:
        if as_user:
            shutil.chown(folder, _USER, _USER)
        password = secrets.token_hex(16)
        port = _free_port()
        _initialise(binaries, folder, password, as_user)
        process = _start(binaries, folder, port, as_user)
        try:
            _wait(process, binaries, port)
            yield f"postgresql+psycopg://{_ROLE}:{password}@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown
            process.wait(timeout=60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _initialise(binaries: Path, folder: Path, password: str, as_user: dict[str, Any]) -> None:
    secret = folder / "password"
    secret.write_text(password)
    if as_user:
        shutil.chown(secret, _USER, _USER)
    command = [binaries / "initdb", "-D", folder / "data", "-U", _ROLE, "-A", "scram-sha-256", f"--pwfile={secret}", "-E", "UTF8"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=folder, check=False, **as_user)
    secret.unlink()
    if done.returncode != 0:
        raise NoPostgresError(f"PostgreSQL's initdb failed: {done.stderr.strip().splitlines()[-1]}")


def _start(binaries: Path, folder: Path, port: int, as_user: dict[str, Any]) -> subprocess.Popen[bytes]:
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": folder}
    command = [binaries / "postgres", "-D", folder / "data", *(f"--{name}={value}" for name, value in settings.items())]
    with (folder / "log").open("wb") as log:
        return subprocess.Popen([str(part) for part in command], stdout=log, stderr=log, cwd=folder, **as_user)


def _wait(process: subprocess.Popen[bytes], binaries: Path, port: int) -> None:
    deadline = time.monotonic() + _START_S
    asked = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(asked, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            raise NoPostgresError("the PostgreSQL server did not start")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresCatalog(CountingCatalog):
    """PyIceberg's SqlCatalog on PostgreSQL, with real statement times and delayed files.

    The duration of a statement is added to the end of the last access, so that only client CPU time overlaps with the delays.
    """

    def __init__(self, folder: Path, uri: str) -> None:
        super().__init__(folder, uri=uri)
        self._begun = 0.0
        commit = self.engine.dialect.do_commit

        def timed_commit(connection: Any) -> None:
            begin = time.monotonic()
            commit(connection)
            self._accesses.took(time.monotonic() - begin)

        self.engine.dialect.do_commit = timed_commit  # type: ignore[assignment, method-assign]
        event.listen(self.engine, "before_cursor_execute", self._begins)
        event.listen(self.engine, "after_cursor_execute", self._ends)

    def _begins(self, *_: Any) -> None:
        self._begun = time.monotonic()

    def _ends(self, *_: Any) -> None:
        self._accesses.took(time.monotonic() - self._begun)


@dataclass(frozen=True)
class Database:
    """Statement times of a catalog in ms: medians, and the standard deviation of their logarithms."""

    load_ms: float
    load_sigma: float
    commit_ms: float
    commit_sigma: float
    probed_ms: dict[str, float]
    """Results of `endive probe`: medians of loads, commits and rejected commits, including files."""

    def keys(self) -> dict[str, Any]:
        """Return ``[catalog]`` as in the recipe of the JDBC catalog, with these times."""
        return {
            "type": "service",
            "writes_metadata": False,
            "workers": 0,
            "lock": "table",
            "network": {"median": _LOOPBACK_MS, "sigma": 0.0},
            "load": {"median": self.load_ms, "sigma": self.load_sigma},
            "commit": {"median": self.commit_ms, "sigma": self.commit_sigma},
            "check": {"median": self.load_ms, "sigma": self.load_sigma},
        }


def probe_database(uri: str, rounds: int = 50) -> Database:
    """Probe PyIceberg's catalog on a database, and measure the statements of its loads and commits."""
    with TemporaryDirectory() as folder, _configured(uri, folder):
        target = CatalogTarget(_CATALOG)
        times = _StatementTimes(target._catalog.engine)
        probe = run_probe(target, rounds, 120.0)
    probed = {sample.operation: float(np.median(sample.latencies_ms)) for sample in probe.samples()}
    load, commit = np.array(times.selects), np.array(times.updates)
    return Database(*_fitted(load), *_fitted(commit), probed)


def _fitted(seconds: Any) -> tuple[float, float]:
    return float(f"{1e3 * np.median(seconds):.4g}"), float(f"{np.std(np.log(seconds)):.3g}")


@contextmanager
def _configured(uri: str, folder: str) -> Iterator[None]:
    """Set PyIceberg's configuration to a catalog on the database, in the environment, for the duration of the context."""
    prefix = f"PYICEBERG_CATALOG__{_CATALOG.upper()}__"
    settings = {f"{prefix}TYPE": "sql", f"{prefix}URI": uri, f"{prefix}WAREHOUSE": Path(folder).as_uri()}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


class _StatementTimes:
    """Times of the statements of an engine: reads of a table's pointer, and its swaps with their commit."""

    def __init__(self, engine: Any) -> None:
        self.selects: list[float] = []
        self.updates: list[float] = []
        self._begun = self._update = 0.0
        commit = engine.dialect.do_commit

        def timed_commit(connection: Any) -> None:
            begin = time.monotonic()
            commit(connection)
            if self._update:
                self.updates.append(self._update + time.monotonic() - begin)
                self._update = 0.0

        engine.dialect.do_commit = timed_commit
        event.listen(engine, "before_cursor_execute", self._begins)
        event.listen(engine, "after_cursor_execute", self._ends)

    def _begins(self, *_: Any) -> None:
        self._begun = time.monotonic()

    def _ends(self, _connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        took = time.monotonic() - self._begun
        if statement.startswith("SELECT") and "iceberg_tables" in statement:
            self.selects.append(took)
        elif statement.startswith("UPDATE"):
            self._update = took
