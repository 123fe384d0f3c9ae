"""Labs and clients for tests. Servers are real, on free ports of the loopback interface."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import pyarrow as pa
from botocore.config import Config
from obstore.store import S3Store
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from endive.lab.open_lab import BUCKET, Credentials, Lab

PATIENCE_S = 120.0
"""Longest wait for another thread or process; it only ends a test that would hang."""
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["x", "y", "z"]})


def shared(lab: Lab) -> Credentials:
    """Return the credentials of clients without a name."""
    return lab.credentials[""]


def s3_client(lab: Lab, *, access_key: str | None = None, attempts: int = 1) -> Any:
    """Return a boto3 client that sends a request at most ``attempts`` times."""
    return boto3.client(
        "s3",
        endpoint_url=lab.store_url,
        aws_access_key_id=access_key or shared(lab).access_key,
        aws_secret_access_key=shared(lab).secret_key,
        region_name="us-east-1",
        config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}, s3={"addressing_style": "path"}),
    )


def obstore_store(lab: Lab, retries: int = 0) -> S3Store:
    """Return an obstore object store, the library of delta-rs and Lance."""
    return S3Store(
        BUCKET,
        endpoint=lab.store_url,
        access_key_id=shared(lab).access_key,
        secret_access_key=shared(lab).secret_key,
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={
            "max_retries": retries,
            "backoff": {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=5), "base": 2},
        },
    )


def rest_catalog(lab: Lab, **properties: str) -> RestCatalog:
    """Return PyIceberg's catalog of the lab."""
    catalog = load_catalog("lab", **{**lab.catalog_properties(), **properties})
    assert isinstance(catalog, RestCatalog)
    return catalog


def make_table(catalog: RestCatalog, name: str = "db.events", **properties: str) -> Table:
    """Create a table, and its namespace unless it exists."""
    catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    made: Table = catalog.create_table(name, ROWS.schema, properties={"commit.retry.num-retries": "4", **properties})
    return made
