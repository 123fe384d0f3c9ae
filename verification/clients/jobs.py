"""Make one commit with each client: create the table if it does not exist, and append three rows.

`python -m verification.clients.jobs CLIENT` makes one commit, with the addresses of the lab in its environment.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

BUCKET = "s3://lab"
TABLE = "t"
NAMESPACE = "db"
LAKE_DATABASE, LAKE_DATA = "VERIFICATION_LAKE_DATABASE", "VERIFICATION_LAKE_DATA"
"""Variables with the address of DuckLake's database, and the folder of its data files."""
_PATIENT = {"s3.request-timeout": "60"}
"""PyArrow timeout that exceeds the time of a request that the lab delays; the default of 3 s would resend it."""


def make_rows() -> Any:
    import pyarrow as pa

    return pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def commit_delta_rs(table: str) -> None:
    from deltalake import write_deltalake

    write_deltalake(f"{BUCKET}/delta/{table}", make_rows(), mode="append")


def commit_lance(table: str) -> None:
    import lance

    lance.write_dataset(make_rows(), f"{BUCKET}/lance/{table}", mode="append")


def commit_pyiceberg_rest(table: str) -> None:
    append_rows(os.environ, table)


def append_rows(environment: Mapping[str, str], table: str, properties: Mapping[str, str] | None = None) -> None:
    """Append rows with PyIceberg to a table of the lab's catalog; the properties apply to a new table."""
    from pyiceberg.catalog import load_catalog

    given = environment  # PyIceberg reads its own variables when it is imported
    catalog = load_catalog("lab", type="rest", uri=given["ENDIVE_LAB_CATALOG"], token=given["ENDIVE_LAB_TOKEN"], **_PATIENT)
    _append(catalog, table, properties)


def commit_pyiceberg_sqlite(table: str) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    config = {
        "uri": f"sqlite:///{os.environ['VERIFICATION_DIRECTORY']}/catalog.db",
        "warehouse": os.environ["ENDIVE_LAB_WAREHOUSE"],
        "s3.endpoint": os.environ["ENDIVE_LAB_STORE"],
        "s3.access-key-id": os.environ["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": os.environ["AWS_SECRET_ACCESS_KEY"],
        "s3.region": os.environ["AWS_REGION"],
    }
    _append(SqlCatalog("lab", **config, **_PATIENT), table)


def _append(catalog: Any, name: str, properties: Mapping[str, str] | None = None) -> None:
    from pyiceberg.exceptions import NoSuchTableError

    rows = make_rows()
    try:
        table = catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        catalog.create_namespace_if_not_exists(NAMESPACE)
        table = catalog.create_table((NAMESPACE, name), rows.schema, properties=dict(properties or {}))
    table.append(rows)


def commit_duckdb_iceberg(table: str) -> None:
    import duckdb

    insert = f"INSERT INTO lab.{NAMESPACE}.{table} SELECT * FROM range(3)"
    try:
        with _attach_catalog() as connection:
            connection.sql(insert)
    except duckdb.CatalogException:
        for statement in (
            f"CREATE SCHEMA IF NOT EXISTS lab.{NAMESPACE}",
            f"CREATE TABLE lab.{NAMESPACE}.{table} (id BIGINT)",
            insert,
        ):
            with _attach_catalog() as connection:
                connection.sql(statement)


def _attach_catalog() -> Any:
    """Return a connection of DuckDB to the catalog and the object store of the lab."""
    connection = _duckdb("httpfs", "avro", "iceberg")
    given = os.environ
    connection.sql(f"CREATE SECRET catalog (TYPE ICEBERG, TOKEN '{given['ENDIVE_LAB_TOKEN']}')")
    connection.sql(
        f"ATTACH 'lab' (TYPE ICEBERG, ENDPOINT '{given['ENDIVE_LAB_CATALOG']}', SECRET catalog, ACCESS_DELEGATION_MODE 'none')"
    )
    connection.sql(
        f"CREATE SECRET store (TYPE S3, KEY_ID '{given['AWS_ACCESS_KEY_ID']}', SECRET '{given['AWS_SECRET_ACCESS_KEY']}',"
        f" ENDPOINT '{given['ENDIVE_LAB_STORE'].removeprefix('http://')}', URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )
    return connection


def _duckdb(*extensions: str) -> Any:
    """Return a DuckDB connection with extensions from PyPI, without downloads."""
    from importlib import import_module

    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": True})
    for name in extensions:
        folder = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
        connection.load_extension(str(next(folder.glob("extensions/*/*.duckdb_extension"))))
    return connection


def commit_icechunk(table: str) -> None:
    import icechunk
    import numpy as np
    import zarr

    given = os.environ
    storage = icechunk.s3_storage(
        bucket="lab",
        prefix=f"icechunk/{table}",
        endpoint_url=given["ENDIVE_LAB_STORE"],
        access_key_id=given["AWS_ACCESS_KEY_ID"],
        secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        region=given["AWS_REGION"],
        allow_http=True,
        force_path_style=True,
    )
    try:
        repository = icechunk.Repository.open(storage)
    except icechunk.IcechunkError:
        repository = icechunk.Repository.create(storage)
        session = repository.writable_session("main")
        zarr.create_group(session.store)
        session.commit("create")
    session = repository.writable_session("main")
    array = zarr.create_array(session.store, name=f"rows-{secrets.token_hex(4)}", shape=3, dtype="i8")
    array[:] = np.arange(3)
    session.commit("append", rebase_with=icechunk.BasicConflictSolver())


def commit_ducklake(table: str) -> None:
    """Append through the connection of this process, which stays open as in long-lived writers."""
    import duckdb

    lake, insert = _attach_lake(), f"INSERT INTO lake.{table} SELECT * FROM range(3)"
    try:
        lake.sql(insert)
    except duckdb.CatalogException:
        lake.sql(f"CREATE TABLE lake.{table} (id BIGINT)")
        lake.sql(insert)


@cache
def _attach_lake() -> Any:
    connection = _duckdb("postgres_scanner", "ducklake")
    connection.sql(f"ATTACH 'ducklake:postgres:{os.environ[LAKE_DATABASE]}' AS lake (DATA_PATH '{os.environ[LAKE_DATA]}/data')")
    return connection


JOBS: dict[str, Callable[[str], None]] = {
    "delta-rs": commit_delta_rs,
    "lance": commit_lance,
    "pyiceberg-rest": commit_pyiceberg_rest,
    "pyiceberg-sqlite": commit_pyiceberg_sqlite,
    "duckdb-iceberg": commit_duckdb_iceberg,
    "icechunk": commit_icechunk,
    "ducklake": commit_ducklake,
}
LIBRARIES: dict[str, tuple[str, ...]] = {
    "delta-rs": ("pyarrow", "deltalake"),
    "lance": ("pyarrow", "lance"),
    "pyiceberg-rest": ("pyarrow.parquet", "pyiceberg.catalog.rest", "pyiceberg.io.pyarrow"),
    "pyiceberg-sqlite": ("pyarrow.parquet", "pyiceberg.catalog.sql", "pyiceberg.io.pyarrow"),
    "duckdb-iceberg": ("duckdb",),
    "icechunk": ("icechunk", "zarr", "numpy"),
    "ducklake": ("duckdb",),
}
"""Modules that a client imports."""
PACKAGES = {
    "delta-rs": "deltalake",
    "lance": "pylance",
    "pyiceberg-rest": "pyiceberg",
    "pyiceberg-sqlite": "pyiceberg",
    "duckdb-iceberg": "duckdb",
    "icechunk": "icechunk",
    "iceberg-java": "snowpark-connect-deps-iceberg",
}

if __name__ == "__main__":
    JOBS[sys.argv[1]](TABLE)
