"""Define the commit paths: one record for each commit protocol.

Other modules use the fields of these records and do not compare names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from endive.table import ICEBERG_OPERATIONS, PYICEBERG_OPERATIONS, OperationSettings, Traits, pyiceberg_traits_of, traits_of
from endive.transaction.iceberg import IcebergLifecycle, PyIcebergLifecycle
from endive.transaction.lifecycle import Lifecycle
from endive.transaction.policy import CommitPolicy
from endive.transaction.protocol_path import Protocol, ProtocolLifecycle, protocol_traits


class CatalogLoads(NamedTuple):
    """Number of catalog reads of each transaction, each retry and each commit."""

    per_transaction: int
    per_retry: int
    per_commit: int


@dataclass(frozen=True, slots=True)
class CommitPath:
    """Properties of one commit path.

    Attributes:
        name: Value of the configuration key ``commit_path``.
        client: Name of the client in reports.
        lifecycle: Class that runs a transaction on the reference engine.
        operations: Operations that the client can commit.
        snapshots: Function that returns the traits of each snapshot of one commit of an operation.
        loads: Number of catalog reads if the client checks the requirements of a commit.
        loads_with_requirements: Number of catalog reads if a catalog service checks the requirements of a commit.
        is_iceberg: Whether the path is a protocol of an Iceberg client.
        keeps_files: Whether costs depend on the manifests, snapshots and sizes of ``[table]``.
        refreshes_first: Whether the first attempt starts with a refresh of the table.
        always_writes_metadata: Whether every commit writes metadata.json. A catalog service writes the file itself; otherwise, the
            client writes it.
        timeout_from_retry: First retry at which the client's default retry policy checks ``total_timeout_ms``.
    """

    name: str
    client: str
    lifecycle: type[Lifecycle]
    operations: frozenset[str]
    snapshots: Callable[[str, OperationSettings], tuple[Traits, ...]]
    loads: CatalogLoads
    loads_with_requirements: CatalogLoads
    is_iceberg: bool
    keeps_files: bool
    refreshes_first: bool
    always_writes_metadata: bool
    timeout_from_retry: int

    @property
    def code(self) -> int:
        """Code of the commit path in the compiled engine."""
        return len(COMMIT_PATHS) if self.lifecycle is ProtocolLifecycle else list(COMMIT_PATHS).index(self.name)


def _java_snapshots(operation: str, settings: OperationSettings) -> tuple[Traits, ...]:
    return (traits_of(operation, settings),)


ICEBERG_RETRY_PROPERTIES: Mapping[str, str] = MappingProxyType(
    {
        "commit.retry.num-retries": "retry",
        "commit.retry.min-wait-ms": "retry_backoff.base_ms",
        "commit.retry.max-wait-ms": "retry_backoff.max_ms",
        "commit.retry.total-timeout-ms": "total_timeout_ms",
    }
)
"""Configuration keys by the Iceberg table property to which each corresponds."""

ENDIVE = CommitPath(
    name="endive",
    client="the simplified commit path",
    lifecycle=Lifecycle,
    operations=ICEBERG_OPERATIONS,
    snapshots=_java_snapshots,
    loads=CatalogLoads(1, 1, 0),
    loads_with_requirements=CatalogLoads(1, 1, 0),
    is_iceberg=False,
    keeps_files=False,
    refreshes_first=False,
    always_writes_metadata=False,
    timeout_from_retry=1,
)
ICEBERG = CommitPath(
    name="iceberg",
    client="Iceberg's Java library",
    lifecycle=IcebergLifecycle,
    operations=ICEBERG_OPERATIONS,
    snapshots=_java_snapshots,
    loads=CatalogLoads(2, 1, 1),
    loads_with_requirements=CatalogLoads(2, 1, 1),
    is_iceberg=True,
    keeps_files=True,
    refreshes_first=True,
    always_writes_metadata=True,
    timeout_from_retry=1,
)
PYICEBERG = CommitPath(
    name="pyiceberg",
    client="PyIceberg",
    lifecycle=PyIcebergLifecycle,
    operations=PYICEBERG_OPERATIONS,
    snapshots=pyiceberg_traits_of,
    loads=CatalogLoads(2, 2, 0),
    loads_with_requirements=CatalogLoads(1, 1, 0),
    is_iceberg=True,
    keeps_files=True,
    refreshes_first=False,
    always_writes_metadata=True,
    timeout_from_retry=0,
)

COMMIT_PATHS: Mapping[str, CommitPath] = MappingProxyType({path.name: path for path in (ENDIVE, ICEBERG, PYICEBERG)})
"""Built-in commit paths by name, in the order of their codes in the compiled engine."""
PROTOCOL = CommitPath(
    name="protocol",
    client="a commit protocol",
    lifecycle=ProtocolLifecycle,
    operations=frozenset(),
    snapshots=_java_snapshots,
    loads=CatalogLoads(0, 0, 0),
    loads_with_requirements=CatalogLoads(0, 0, 0),
    is_iceberg=False,
    keeps_files=True,
    refreshes_first=False,
    always_writes_metadata=False,
    timeout_from_retry=0,
)
"""Commit path common to all declarative protocols. ``protocol_path`` sets the properties of a given protocol."""


def protocol_path(protocol: Protocol) -> CommitPath:
    """Return the commit path of a declarative protocol.

    The fields of ``loads`` are 0, because results count the catalog requests of protocols in a separate column.
    """
    return replace(
        PROTOCOL,
        name=protocol.name,
        client=protocol.client,
        operations=protocol.operations,
        snapshots=partial(protocol_traits, protocol),
    )


DEFAULT_PATH = COMMIT_PATHS[CommitPolicy().commit_path]
"""Commit path of a configuration without the key ``commit_path``."""
RETRY_POLICY = ICEBERG.name
"""Value of ``retry_policy`` that selects Iceberg's defaults for retries."""
