"""Classes with all their settings: their own, and those of ``[transaction]`` where they have none."""

from __future__ import annotations

from dataclasses import dataclass

from endive.config.schema import ClassSection, Closed, Document, Interval, OperationTypes, Periodic, Transactions
from endive.workload import DEFAULT_CLASS

_OWN_ONLY = {"rate", "inter_arrival", "periodic", "closed", "operation", "tables", "partition_range"}


@dataclass(frozen=True)
class ResolvedClass:
    """A class as it will run. ``own`` is its section, or None for the one class that ``[transaction]`` makes."""

    name: str
    own: ClassSection | None
    settings: Transactions
    arrivals: Interval | Periodic | Closed | None

    def key(self, name: str) -> str:
        """Where in the file to look for a setting."""
        if self.own is None or (name not in self.own.model_fields_set and name in self.settings.model_fields_set):
            return f"transaction.{name}"
        return f"workload.{self.name}.{name}"


def resolve_classes(document: Document) -> tuple[ResolvedClass, ...]:
    """The classes of a document, in the order of their names."""
    transaction = document.transaction
    if not document.workload:
        return (ResolvedClass(DEFAULT_CLASS, None, transaction, transaction.inter_arrival),)
    return tuple(_resolve(name, document.workload[name], transaction) for name in sorted(document.workload))


def follows_iceberg(document: Document) -> bool:
    """Whether any class commits on one of Iceberg's own paths, so that the files of tables matter."""
    return any(cls.settings.commit_path != "endive" for cls in resolve_classes(document))


def _resolve(name: str, own: ClassSection, transaction: Transactions) -> ResolvedClass:
    changes = {key: getattr(own, key) for key in own.model_fields_set - _OWN_ONLY}
    if own.operation is not None:
        changes["operation_types"] = OperationTypes(**{own.operation: 1.0})
    if "conflicting_manifests" in changes and "on_real_conflict" not in changes:
        changes["on_real_conflict"] = "merge"
    arrivals = own.inter_arrival or own.periodic or own.closed or transaction.inter_arrival
    if own.rate is not None:
        arrivals = Interval(scale=1000.0 / own.rate)
    return ResolvedClass(name, own, transaction.model_copy(update=changes), arrivals)
