"""Tables as Iceberg keeps them: the history of their snapshots, their manifests, and what operations do to both."""

from endive.table.files import SnapshotRecord, TableChange, TableFiles, TableModel
from endive.table.traits import (
    ALL_MANIFESTS,
    APPEND,
    DELETE,
    ICEBERG_OPERATIONS,
    NO_SNAPSHOT,
    OVERWRITE,
    PYICEBERG_OPERATIONS,
    REPLACE,
    OperationSettings,
    Traits,
    pyiceberg_traits_of,
    traits_of,
)

__all__ = [
    "ALL_MANIFESTS",
    "APPEND",
    "DELETE",
    "ICEBERG_OPERATIONS",
    "NO_SNAPSHOT",
    "OVERWRITE",
    "PYICEBERG_OPERATIONS",
    "REPLACE",
    "OperationSettings",
    "SnapshotRecord",
    "TableChange",
    "TableFiles",
    "TableModel",
    "Traits",
    "pyiceberg_traits_of",
    "traits_of",
]
