"""Tables as Iceberg keeps them: the history of their snapshots, their manifests, and what operations do to both."""

from endive.arithmetic.files import ALL_MANIFESTS, NO_SNAPSHOT
from endive.table.files import TableChange, TableFiles, TableModel
from endive.table.operations import (
    ICEBERG_OPERATIONS,
    OPERATION_CODES,
    OPERATION_FACTS,
    OPERATION_WORDS,
    PYICEBERG_OPERATIONS,
    pyiceberg_traits_of,
    traits_of,
)
from endive.table.traits import APPEND, OperationSettings, Traits

__all__ = [
    "ALL_MANIFESTS",
    "APPEND",
    "ICEBERG_OPERATIONS",
    "NO_SNAPSHOT",
    "OPERATION_CODES",
    "OPERATION_FACTS",
    "OPERATION_WORDS",
    "PYICEBERG_OPERATIONS",
    "OperationSettings",
    "TableChange",
    "TableFiles",
    "TableModel",
    "Traits",
    "pyiceberg_traits_of",
    "traits_of",
]
