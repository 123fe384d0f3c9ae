"""Store the namespaces and tables of the catalog. Requirements are checked and updates applied by PyIceberg's models."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.exceptions import ValidationError as InvalidMetadataError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV1, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import AddSnapshotUpdate, AssertCreate, update_table_metadata

from endive.lab.objects import ObjectStore, StoreError

Namespace = tuple[str, ...]
Identifier = tuple[Namespace, str]
_SCHEME = "s3://"
_MOST_TABLES = 10_000
_CHANGES = ("added-records", "added-data-files", "deleted-records", "deleted-data-files")
_EMPTY: TableMetadata = TableMetadataV1.model_construct(last_column_id=-1, schema=Schema())  # type: ignore[call-arg]
"""Metadata of a staged table before its creation. The first update sets the format version."""


class CatalogError(Exception):
    """Error response of the catalog: HTTP status, Iceberg error type, and message."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


@dataclass(frozen=True)
class TableState:
    """Version of a table: its metadata, also as JSON, the location of its metadata file, and the number of commits."""

    metadata: TableMetadata
    content: bytes
    location: str
    version: int


@dataclass(frozen=True)
class Commit:
    """Commit request for one table."""

    identifier: Identifier
    request: CommitTableRequest

    @property
    def snapshot_id(self) -> int | None:
        """Id of the snapshot that the commit adds, or None if it adds no snapshot."""
        added = self._snapshots()
        return added[-1].snapshot.snapshot_id if added else None

    @property
    def operation(self) -> str:
        """Operation of the snapshot that the commit adds, such as ``append``; empty if it adds no snapshot."""
        added = self._snapshots()
        summary = added[-1].snapshot.summary if added else None
        return summary.operation.value if summary is not None else ""

    @property
    def change(self) -> str:
        """Number of records and files that the commit adds and deletes, from the snapshot summary."""
        added = self._snapshots()
        summary = added[-1].snapshot.summary if added else None
        properties = {} if summary is None else summary.additional_properties
        return " ".join(f"{key}={properties[key]}" for key in _CHANGES if key in properties)

    def _snapshots(self) -> list[AddSnapshotUpdate]:
        return [update for update in self.request.updates if isinstance(update, AddSnapshotUpdate)]


class TableCatalog:
    """Namespaces and tables, whose metadata files are objects.

    Args:
        store: Object store of the metadata files.
        warehouse: Location of new tables, such as ``s3://lab/warehouse``.
    """

    def __init__(self, store: ObjectStore, warehouse: str) -> None:
        self._store = store
        self._warehouse = warehouse
        self._namespaces: dict[Namespace, dict[str, str]] = {}
        self._tables: dict[Identifier, TableState] = {}

    def namespaces(self, parent: Namespace = ()) -> list[Namespace]:
        """Return the direct child namespaces of a namespace."""
        if parent:
            self.namespace(parent)
        return sorted({name[: len(parent) + 1] for name in self._namespaces if name[: len(parent)] == parent and name != parent})

    def namespace(self, name: Namespace) -> dict[str, str]:
        """Return the properties of a namespace."""
        found = self._namespaces.get(name)
        if found is None:
            raise CatalogError(404, "NoSuchNamespaceException", f"The namespace {'.'.join(name)} does not exist.")
        return found

    def create_namespace(self, name: Namespace, properties: Mapping[str, str]) -> None:
        """Create a namespace."""
        if not name or not all(name):
            raise CatalogError(400, "BadRequestException", "The namespace has no name.")
        if name in self._namespaces:
            raise CatalogError(409, "AlreadyExistsException", f"The namespace {'.'.join(name)} exists already.")
        if len(self._namespaces) >= _MOST_TABLES:
            raise CatalogError(400, "BadRequestException", f"The lab has at most {_MOST_TABLES} namespaces.")
        self._namespaces[name] = dict(properties)

    def update_namespace(self, name: Namespace, removals: Sequence[str], updates: Mapping[str, str]) -> dict[str, list[str]]:
        """Change properties of a namespace, and return the names of updated, removed and missing properties."""
        properties = self.namespace(name)
        removed = [key for key in removals if key in properties]
        for key in removed:
            del properties[key]
        properties.update(updates)
        return {"updated": sorted(updates), "removed": removed, "missing": [key for key in removals if key not in removed]}

    def drop_namespace(self, name: Namespace) -> None:
        """Drop an empty namespace."""
        self.namespace(name)
        if any(table[0][: len(name)] == name for table in self._tables):
            raise CatalogError(409, "NamespaceNotEmptyException", f"The namespace {'.'.join(name)} is not empty.")
        del self._namespaces[name]

    def tables(self, namespace: Namespace) -> list[str]:
        """Return the names of the tables in a namespace."""
        self.namespace(namespace)
        return sorted(name for parent, name in self._tables if parent == namespace)

    def find(self, identifier: Identifier) -> TableState | None:
        """Return the current version of a table, or None if the table does not exist."""
        return self._tables.get(identifier)

    def table(self, identifier: Identifier) -> TableState:
        """Return the current version of a table."""
        found = self._tables.get(identifier)
        if found is None:
            raise CatalogError(404, "NoSuchTableException", f"The table {name_of(identifier)} does not exist.")
        return found

    def create_table(self, namespace: Namespace, given: Mapping[str, Any]) -> tuple[TableState, bool]:
        """Create a table, or stage its creation if requested. Return its metadata and whether it is staged."""
        self.namespace(namespace)
        request = _parse_create(given)
        identifier = (namespace, request.name)
        self._check_new(identifier)
        location = (request.location or f"{self._warehouse}/{'/'.join(namespace)}/{request.name}").rstrip("/")
        try:
            metadata = new_table_metadata(
                schema=request.table_schema,
                partition_spec=request.partition_spec or UNPARTITIONED_PARTITION_SPEC,
                sort_order=request.write_order or UNSORTED_SORT_ORDER,
                location=location,
                properties=dict(request.properties),
            )
        except (ValueError, ValidationError) as error:
            raise _bad_request(error) from None
        if request.stage_create:
            return TableState(metadata, metadata.model_dump_json().encode(), "", 0), True
        return self._install({identifier: self._write(metadata, 0)})[identifier], False

    def register_table(self, namespace: Namespace, given: Mapping[str, Any]) -> TableState:
        """Add a table with an existing metadata file."""
        self.namespace(namespace)
        name, location = given.get("name"), given.get("metadata-location")
        if not isinstance(name, str) or not isinstance(location, str):
            raise CatalogError(400, "BadRequestException", "A table is registered by name and metadata-location.")
        identifier = (namespace, name)
        if not given.get("overwrite"):
            self._check_new(identifier)
        try:
            content = self._store.read(*split_location(location))
            metadata = TableMetadataUtil.parse_raw(content.decode())
        except (StoreError, ValueError, TypeError, AttributeError, KeyError, InvalidMetadataError) as error:
            raise _bad_request(error) from None
        return self._install({identifier: TableState(metadata, content, location, len(metadata.snapshots))})[identifier]

    def drop_table(self, identifier: Identifier, *, purge: bool) -> None:
        """Drop a table. If ``purge`` is set, also delete all objects in its location."""
        found = self.table(identifier)
        del self._tables[identifier]
        if purge:
            bucket, key = split_location(found.metadata.location)
            while page := self._store.list(bucket, key + "/").objects:
                for name, _ in page:
                    self._store.delete(bucket, name)

    def rename_table(self, before: Identifier, after: Identifier) -> None:
        """Rename a table."""
        found = self.table(before)
        self.namespace(after[0])
        self._check_new(after)
        del self._tables[before]
        self._tables[after] = found

    def check(self, commits: Sequence[Commit]) -> None:
        """Raise CatalogError if a requirement of a commit does not hold."""
        for commit in commits:
            found = self.find(commit.identifier)
            if found is None and not any(isinstance(each, AssertCreate) for each in commit.request.requirements):
                raise CatalogError(404, "NoSuchTableException", f"The table {name_of(commit.identifier)} does not exist.")
            for requirement in commit.request.requirements:
                try:
                    requirement.validate(None if found is None else found.metadata)
                except CommitFailedException as error:
                    raise CatalogError(409, "CommitFailedException", str(error)) from None

    def commit(self, commits: Sequence[Commit]) -> dict[Identifier, TableState]:
        """Check the requirements, apply the updates, and commit to all tables in one atomic step."""
        if len({commit.identifier for commit in commits}) != len(commits):
            raise CatalogError(400, "BadRequestException", "A table occurs twice in the transaction.")
        self.check(commits)
        return self._install({commit.identifier: self._apply(commit) for commit in commits})

    def _apply(self, commit: Commit) -> TableState:
        found = self.find(commit.identifier)
        if found is None:
            self.namespace(commit.identifier[0])
        base: TableMetadata = _EMPTY if found is None else found.metadata
        try:
            metadata = update_table_metadata(
                base, commit.request.updates, enforce_validation=found is None, metadata_location=found.location if found else None
            )
        except (ValueError, KeyError, NotImplementedError, InvalidMetadataError) as error:
            raise _bad_request(error) from None
        return self._write(metadata, 0 if found is None else found.version + 1)

    def _write(self, metadata: TableMetadata, version: int) -> TableState:
        content = metadata.model_dump_json().encode()
        location = f"{metadata.location}/metadata/{version:05d}-{uuid.uuid4()}.metadata.json"
        try:
            self._store.write(*split_location(location), content)
        except StoreError as error:
            raise CatalogError(400, "BadRequestException", f"{location}: {error}") from None
        return TableState(metadata, content, location, version)

    def _install(self, tables: dict[Identifier, TableState]) -> dict[Identifier, TableState]:
        self._tables.update(tables)
        return tables

    def _check_new(self, identifier: Identifier) -> None:
        if identifier in self._tables:
            raise CatalogError(409, "AlreadyExistsException", f"The table {name_of(identifier)} exists already.")
        if len(self._tables) >= _MOST_TABLES:
            raise CatalogError(400, "BadRequestException", f"The lab has at most {_MOST_TABLES} tables.")


def name_of(identifier: Identifier) -> str:
    """Return the name of a table with its namespace, such as ``db.events``."""
    return ".".join((*identifier[0], identifier[1]))


def parse_commit(given: Any, identifier: Identifier | None = None) -> Commit:
    """Parse a commit request. If the URL does not contain the identifier of the table, the request does."""
    if not isinstance(given, dict):
        raise CatalogError(400, "BadRequestException", "A commit is a JSON object.")
    if identifier is not None:
        given = {**given, "identifier": {"namespace": list(identifier[0]), "name": identifier[1]}}
    try:
        request = CommitTableRequest.model_validate_json(json.dumps(given))
    except (ValidationError, ValueError) as error:
        raise _bad_request(error) from None
    return Commit((tuple(request.identifier.namespace.root), request.identifier.name), request)


def _parse_create(given: Mapping[str, Any]) -> CreateTableRequest:
    whole = {"location": None, "partition-spec": None, "write-order": None, **given}
    try:
        return CreateTableRequest.model_validate_json(json.dumps(whole))
    except (ValidationError, ValueError) as error:
        raise _bad_request(error) from None


def split_location(location: str) -> tuple[str, str]:
    """Return the bucket and the key of a location, such as ``s3://lab/db/events``."""
    if not location.startswith(_SCHEME):
        raise CatalogError(400, "BadRequestException", f"The location {location[:200]} must start with {_SCHEME}.")
    bucket, _, key = location.removeprefix(_SCHEME).partition("/")
    return bucket, key


def _bad_request(error: Exception) -> CatalogError:
    return CatalogError(400, "BadRequestException", str(error)[:1000])
