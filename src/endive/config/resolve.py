"""Classes with all settings: those of the class, and those of ``[transaction]`` for keys that it does not set."""

from __future__ import annotations

import math
from dataclasses import dataclass

from endive.config.arrival_keys import ArrivalKeys
from endive.config.schema import ClassSection, CommitterSection, Document, OperationTypes, Transactions
from endive.config.values import default_of
from endive.protocols import reader
from endive.transaction.paths import COMMIT_PATHS, CommitPath, protocol_path
from endive.transaction.protocol import Protocol
from endive.workload import DEFAULT_CLASS

_OWN_ONLY = {*ArrivalKeys.model_fields, "committer", "operation", "tables", "partition_range"}


@dataclass(frozen=True)
class ResolvedClass:
    """Class with all its settings. ``own`` is its section, or None for the single class that ``[transaction]`` describes."""

    name: str
    own: ClassSection | None
    settings: Transactions
    arrivals: ArrivalKeys
    start_ms: float = 0.0
    end_ms: float = math.inf

    @property
    def committer(self) -> CommitterSection | None:
        """Committer of the class, if it has one."""
        return None if self.own is None else self.own.committer

    @property
    def path(self) -> CommitPath:
        """Commit path of the class."""
        return find_path(self.settings.commit_path)

    @property
    def protocol(self) -> Protocol | None:
        """Protocol that the class follows instead of a built-in commit path."""
        return find_protocol(self.settings.commit_path)

    @property
    def changed_keys(self) -> set[str]:
        """Keys that the class sets to a value other than the default, or that ``[transaction]`` sets if there are no classes."""
        if self.own is None:
            return self.settings.changed_keys
        inherited = self.own.model_fields_set & Transactions.model_fields.keys()
        unchanged = {key for key in inherited if getattr(self.own, key) == default_of(Transactions, key)}
        return self.own.model_fields_set - unchanged

    def key(self, name: str) -> str:
        """Return the dotted key of a setting as in the file."""
        if self.own is None or (name not in self.own.model_fields_set and name in self.settings.model_fields_set):
            return f"transaction.{name}"
        return f"workload.{self.name}.{name}"


def find_protocol(commit_path: str) -> Protocol | None:
    """Return the protocol that ``commit_path`` names, or None for a built-in commit path."""
    return reader.find_protocol(commit_path).protocol if reader.is_protocol(commit_path) else None


def find_path(commit_path: str) -> CommitPath:
    """Return the built-in commit path or the path of the protocol that ``commit_path`` names."""
    protocol = find_protocol(commit_path)
    return COMMIT_PATHS[commit_path] if protocol is None else protocol_path(protocol)


def resolve_classes(document: Document) -> tuple[ResolvedClass, ...]:
    """Return the classes of a document, in the order of their names."""
    transaction = document.transaction
    if not document.workload:
        return (ResolvedClass(DEFAULT_CLASS, None, transaction, ArrivalKeys(inter_arrival=transaction.inter_arrival)),)
    return tuple(_resolve(name, document.workload[name], transaction) for name in sorted(document.workload))


def follows_iceberg(document: Document) -> bool:
    """Return whether any class uses a commit path that tracks metadata files."""
    return any(cls.path.keeps_files for cls in resolve_classes(document))


def _resolve(name: str, own: ClassSection, transaction: Transactions) -> ResolvedClass:
    changes = {key: getattr(own, key) for key in own.model_fields_set - _OWN_ONLY}
    if own.operation is not None:
        changes["operation_types"] = OperationTypes(**{own.operation: 1.0})
    if "conflicting_manifests" in changes and "on_real_conflict" not in changes:
        changes["on_real_conflict"] = "merge"
    if {"max_snapshot_age_ms", "min_snapshots_to_keep"} & changes.keys():
        changes.setdefault("retain_snapshots", None)
    start_ms, end_ms = own.start_ms or 0.0, math.inf if own.end_ms is None else own.end_ms
    return ResolvedClass(name, own, transaction.model_copy(update=changes), _arrivals(own, transaction), start_ms, end_ms)


def _arrivals(own: ClassSection, transaction: Transactions) -> ArrivalKeys:
    return own if own.kind is not None else ArrivalKeys(inter_arrival=transaction.inter_arrival)
