"""Java virtual machine with Apache Iceberg, controlled through Py4J."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

from endive.pipeline.java import java_home

PACKAGE = "snowpark_connect_deps_iceberg"
JAR_PATTERN = "iceberg-spark-runtime-*_2.13-*.jar"
WORKER_THREADS = 4
"""Number of Iceberg worker threads per JVM, fixed so that results do not depend on the number of cores."""


class NoIcebergError(RuntimeError):
    """Apache Iceberg's JAR or one of its dependencies is not installed."""


def iceberg_jar() -> Path:
    """Return the path of Apache Iceberg's JAR in the PyPI package that contains it."""
    jars = sorted(_folder(PACKAGE).glob(f"jars/{JAR_PATTERN}"))
    if not jars:
        raise NoIcebergError(f"{PACKAGE} has no {JAR_PATTERN}; the version that has is in the constraints of this project")
    return jars[-1]


def _folder(package: str) -> Path:
    found = util.find_spec(package)
    if found is None or found.origin is None:
        raise NoIcebergError(f"the Python package {package} is not installed: `pip install endive[dev]`")
    return Path(found.origin).parent


@contextmanager
def iceberg_gateway(worker_threads: int = WORKER_THREADS) -> Iterator[Any]:
    """Start a separate JVM with Iceberg on its class path; Python objects can implement FileIO and TableOperations."""
    from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, launch_gateway

    spark_jars = _folder("pyspark") / "jars"
    jar = iceberg_jar()
    port, token, process = launch_gateway(
        jarpath=str(next(spark_jars.glob("py4j-*.jar"))),
        classpath=f"{jar}:{spark_jars}/*",
        javaopts=["-Xmx1g", "-XX:+UseSerialGC", f"-Diceberg.worker.num-threads={worker_threads}", "-Dlog4j2.level=OFF"],
        java_path=str(java_home() / "bin" / "java"),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True),
        callback_server_parameters=CallbackServerParameters(
            port=0, daemonize=True, daemonize_connections=True, propagate_java_exceptions=True
        ),
    )
    try:
        own_port = gateway.get_callback_server().get_listening_port()
        client = gateway.java_gateway_server.getCallbackClient()
        gateway.java_gateway_server.resetCallbackClient(client.getAddress(), own_port)
        yield gateway
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=30)
