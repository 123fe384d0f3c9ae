"""The commit paths by name."""

from __future__ import annotations

from collections.abc import Mapping

from endive.transaction.iceberg import IcebergLifecycle
from endive.transaction.lifecycle import Lifecycle
from endive.transaction.policy import CommitPath
from endive.transaction.pyiceberg import PyIcebergLifecycle

COMMIT_PATHS: Mapping[CommitPath, type[Lifecycle]] = {
    "endive": Lifecycle,
    "iceberg": IcebergLifecycle,
    "pyiceberg": PyIcebergLifecycle,
}
