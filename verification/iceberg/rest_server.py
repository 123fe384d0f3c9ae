"""Iceberg's own REST server code, and real clients of it over HTTP on loopback.

The server is ``rest/RestFront.java``: Iceberg's CatalogHandlers over JdbcCatalog on PostgreSQL. Its clients are Iceberg's
RESTCatalog (``rest/RestWriters.java``) and PyIceberg. Reads and writes of files have injected delays. The server times its
requests; the simulator gets those times as the service times of a catalog.
"""

from __future__ import annotations

import random
import secrets
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from endive.config import build_simulation_config
from endive.config.load import check_document
from endive.simulation.compiled.engine import CompiledEngine
from verification.iceberg.gateway import NoIcebergError, _folder, iceberg_jar

SOURCES = Path(__file__).parent / "rest"
DRIVER = Path("/usr/share/java/postgresql.jar")
"""PostgreSQL's JDBC driver, of Debian's package libpostgresql-jdbc-java."""
METADATA_READ_MS, METADATA_WRITE_MS, FILE_MS = 10, 120, 100
"""Injected delays: of metadata.json in the server, of manifest lists and manifests in clients."""
PAUSE_MS = (200, 1_000)
"""Limits of the uniform pause of a writer between its load and its commit."""
SECONDS = {1: 60, 2: 80, 4: 60, 8: 50}
"""Duration of a case in seconds, by number of writers."""
SEEDS = range(20)
_SERVER_RETRIES = 4
"""Iceberg's COMMIT_NUM_RETRIES_DEFAULT, which CatalogHandlers use."""


@dataclass(frozen=True)
class RestCase:
    """Writers that append to one table in a closed loop, through a server with this number of workers (0: any)."""

    client: str
    writers: int
    keeps_handle: bool = False
    workers: int = 0
    seconds: int = 60


CASES = tuple(
    RestCase(client, writers, kept, workers, SECONDS[writers])
    for client in ("java", "pyiceberg")
    for workers, kept, numbers in ((0, False, (1, 2, 4, 8)), (0, True, (1, 2, 4, 8)), (2, False, (1, 4, 8)), (2, True, (1, 4, 8)))
    for writers in numbers
)


@dataclass(frozen=True)
class RestResult:
    """Counts of a case.

    ``busy_ms`` is the total time of all writers without pauses; ``times_ms`` contains the server's response times by method and
    status.
    """

    commits: int
    failures: int
    busy_ms: float
    times_ms: dict[str, list[float]]

    @property
    def operation_ms(self) -> float:
        """Mean duration of an operation without its pause."""
        return self.busy_ms / (self.commits + self.failures)

    @property
    def attempts_per_commit(self) -> float:
        """Number of POST requests per commit."""
        return (len(self.times_ms.get("POST 200", ())) + len(self.times_ms.get("POST 409", ()))) / self.commits

    @property
    def loads_per_operation(self) -> float:
        """Number of GET requests for the table per operation."""
        return len(self.times_ms["GET 200"]) / (self.commits + self.failures)

    @property
    def success(self) -> float:
        """Fraction of operations that committed."""
        return self.commits / (self.commits + self.failures)


class RestServer:
    """Running server, and the class path of its Java clients."""

    def __init__(self, port: int, java: Sequence[str], warehouse: Path) -> None:
        self.uri = f"http://127.0.0.1:{port}"
        self._java = java
        self._warehouse = warehouse

    def measure(self, case: RestCase) -> RestResult:
        """Run the writers of a case on a new table."""
        name = f"t{secrets.token_hex(6)}"
        counts = (self._java_writers if case.client == "java" else self._python_writers)(case, name)
        return RestResult(*counts, self._times(name))

    def _times(self, table: str) -> dict[str, list[float]]:
        with urllib.request.urlopen(f"{self.uri}/times") as response:
            lines = response.read().decode().splitlines()
        times: dict[str, list[float]] = {}
        for line in lines:
            method, status, took, of = line.split()
            if of == table:
                times.setdefault(f"{method} {status}", []).append(float(took))
        return times

    def _java_writers(self, case: RestCase, name: str) -> tuple[int, int, float]:
        options = [self.uri, name, str(case.writers), str(case.keeps_handle).lower(), str(case.seconds)]
        command = [*self._java, "org.apache.iceberg.rest.RestWriters", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=case.seconds + 120)
        commits, failures, busy_ms = done.stdout.split()[-3:]
        return int(commits), int(failures), float(busy_ms)

    def _python_writers(self, case: RestCase, name: str) -> tuple[int, int, float]:
        first = self._open()
        first.create_namespace_if_not_exists("db")
        first.create_table(f"db.{name}", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
        catalogs = [self._open() for _ in range(case.writers)]
        begin = time.monotonic()
        deadline = begin + case.seconds

        def write(number: int) -> tuple[int, int, float]:
            draws, table, commits, failures, paused = random.Random(number), None, 0, 0, 0.0
            while time.monotonic() < deadline:
                if table is None or not case.keeps_handle:
                    table = catalogs[number].load_table(f"db.{name}")
                pause = draws.uniform(*PAUSE_MS)
                time.sleep(pause / 1e3)
                paused += pause
                try:
                    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
                        append.append_data_file(_data_file())
                    commits += 1
                except CommitFailedException:
                    failures += 1
            return commits, failures, 1e3 * (time.monotonic() - begin) - paused

        with ThreadPoolExecutor(case.writers) as pool:
            commits, failures, busy_ms = zip(*pool.map(write, range(case.writers)), strict=True)
        return sum(commits), sum(failures), sum(busy_ms)

    def _open(self) -> Catalog:
        file_io = {PY_IO_IMPL: f"{__name__}.{SlowFileIO.__name__}"}
        return load_catalog("verification", type="rest", uri=self.uri, warehouse=self._warehouse.as_uri(), **file_io)


class SlowFile(PyArrowFile):
    """Local file that delays each read and write."""

    def open(self, seekable: bool = True) -> Any:
        time.sleep(FILE_MS / 1e3)
        return super().open(seekable)

    def create(self, overwrite: bool = False) -> Any:
        time.sleep(FILE_MS / 1e3)
        return super().create(overwrite)


class SlowFileIO(PyArrowFileIO):
    """PyIceberg's access to local files, with delays."""

    def new_input(self, location: str) -> SlowFile:
        return self._file(location)

    def new_output(self, location: str) -> SlowFile:
        return self._file(location)

    def _file(self, location: str) -> SlowFile:
        scheme, netloc, path = self.parse_location(location, self.properties)
        return SlowFile(location=location, path=path, fs=self.fs_by_scheme(scheme, netloc))

    def delete(self, location: Any) -> None:
        time.sleep(FILE_MS / 1e3)
        super().delete(location)


def _data_file() -> DataFile:
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file:///nowhere/{random.getrandbits(62)}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1_000,
    )
    file.spec_id = 0
    return file


@contextmanager
def rest_server(postgres_uri: str, workers: int) -> Iterator[RestServer]:
    """Run a server on a database (SQLAlchemy URL) for the duration of the context. Raises NoIcebergError."""
    compiler, java = shutil.which("javac"), shutil.which("java")
    if compiler is None or java is None or not DRIVER.exists():
        raise NoIcebergError(f"a JDK (javac) and {DRIVER} are needed to run Iceberg's REST server code")
    database = urlsplit(postgres_uri)
    with TemporaryDirectory(prefix="endive-rest-") as folder:
        classes, warehouse = Path(folder) / "classes", Path(folder) / "warehouse"
        path = f"{iceberg_jar()}:{_folder('pyspark')}/jars/*"
        subprocess.run([compiler, "-d", str(classes), "-cp", path, *map(str, SOURCES.glob("*.java"))], check=True)
        delays = {"metadata-read": METADATA_READ_MS, "metadata-write": METADATA_WRITE_MS, "file": FILE_MS}
        delays |= {"pause-min": PAUSE_MS[0], "pause-max": PAUSE_MS[1]}
        options = [f"-Dendive.{name}-ms={delay}" for name, delay in delays.items()]
        command = [
            java,
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-Dsun.net.httpserver.nodelay=true",
            *options,
            "-Dlog4j2.level=OFF",
            "-cp",
            f"{classes}:{path}:{DRIVER}",
        ]
        jdbc = f"jdbc:postgresql://{database.hostname}:{database.port}{database.path}"
        settings = [jdbc, str(database.username), str(database.password), warehouse.as_uri(), str(workers)]
        front = [*command, "org.apache.iceberg.rest.RestFront", *settings]
        process = subprocess.Popen(front, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert process.stdout is not None
            yield RestServer(int(process.stdout.readline()), command, warehouse)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _fitted(milliseconds: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(milliseconds)), "sigma": float(np.std(np.log(milliseconds)))}


@dataclass(frozen=True)
class Calibration:
    """Service times of the server and client CPU time per access, in ms, measured with a single writer."""

    load: dict[str, float]
    commit: dict[str, float]
    client_ms: float = 0.0


def calibrate(case: RestCase, alone: RestResult) -> Calibration:
    """Fit the times of a single writer: the time of an operation beyond delays and requests is client CPU time."""
    times = Calibration(_fitted(alone.times_ms["GET 200"]), _fitted(alone.times_ms["POST 200"]))
    single = replace(case, writers=1, seconds=10 * case.seconds)
    without, accesses = (predict(single, replace(times, client_ms=ms))["operation_ms"] for ms in (0.0, 1.0))
    return replace(times, client_ms=max(0.0, alone.operation_ms - without) / (accesses - without))


def predict(case: RestCase, times: Calibration) -> dict[str, float]:
    """Predict a case; a commit whose requirements fail on arrival takes the time of a load."""
    delay = {"mean": float(FILE_MS), "stddev": 0.0}
    nothing = {"mean": 0.001, "stddev": 0.0}
    document: dict[str, Any] = {
        "simulation": {"duration_ms": 1000.0 * case.seconds, "drain": True},
        "storage": {
            "T_CAS": nothing,
            **{key: {"read": nothing, "write": nothing} for key in ("T_METADATA_ROOT", "T_TABLE_METADATA")},
            **{key: {"read": delay, "write": delay} for key in ("T_MANIFEST_LIST", "T_MANIFEST_FILE")},
        },
        "catalog": {
            "type": "service",
            "workers": case.workers,
            "network": {"median": 1.0, "sigma": 0.5},
            "load": times.load,
            "commit": times.commit,
            "check": times.load,
            "server_retries": _SERVER_RETRIES,
            "transfer_ms_per_mib": 0.0,
        },
        "transaction": {
            "commit_path": "iceberg" if case.client == "java" else "pyiceberg",
            "retry_policy": "iceberg",
            "table_handle": "kept" if case.keeps_handle else "loaded",
            "client_ms_per_access": times.client_ms,
        },
        "table": {"start": "empty"},
        "workload": {
            "writers": {
                "closed": {"clients": case.writers},
                "operation": "fast_append",
                "runtime": {"distribution": "uniform", "min": float(PAUSE_MS[0]), "max": float(PAUSE_MS[1])},
            }
        },
    }
    checked = check_document(document, "verification")
    batches: list[pa.RecordBatch] = []
    for seed in SEEDS:
        CompiledEngine(build_simulation_config(checked, seed_override=seed), batches.append).run()
    rows = pa.Table.from_batches(batches)
    commits = pc.sum(pc.equal(rows["status"], "committed")).as_py()
    attempts = pc.sum(rows["n_retries"]).as_py() + rows.num_rows
    operation_ms = pc.mean(pc.subtract(rows["total_latency"], rows["t_runtime"])).as_py()
    return {"attempts_per_commit": attempts / commits, "success": commits / rows.num_rows, "operation_ms": operation_ms}
