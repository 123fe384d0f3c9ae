"""One commit of each client, as a script: it creates its table if there is none and appends three rows."""

from __future__ import annotations

ROWS = 'import pyarrow as pa; rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})\n'
JOBS = {
    "delta-rs": ROWS + 'from deltalake import write_deltalake; write_deltalake("s3://lab/delta/t", rows, mode="append")',
    "lance": ROWS + 'import lance; lance.write_dataset(rows, "s3://lab/lance/t", mode="append")',
    "pyiceberg-rest": ROWS
    + """from pyiceberg.catalog import load_catalog
catalog = load_catalog("lab")
catalog.create_namespace_if_not_exists("db")
catalog.create_table_if_not_exists("db.t", rows.schema).append(rows)""",
}
PACKAGES = {"delta-rs": "deltalake", "lance": "pylance", "pyiceberg-rest": "pyiceberg"}
