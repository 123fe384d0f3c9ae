"""What an operation of Iceberg does to a table, and what it looks at in those that came between, as numbers.

What flows in: the name of the operation and how it is used (``OperationSettings``). What flows out: ``Traits``, plain integers that
both engines read. A kind of snapshot is a bit, so that a set of kinds is a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

APPEND, OVERWRITE, DELETE, REPLACE = 1, 2, 4, 8
"""Kinds of snapshots: what Iceberg calls the operation of a snapshot."""
EQUALITY = 16
"""A mark beside the kind: the snapshot deletes rows by equality, not by position."""
NO_SNAPSHOT = 0
ALL_MANIFESTS = -1
"""In the place of a number of manifests: all that the table has."""

Isolation = Literal["none", "snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class OperationSettings:
    """How an operation is used, as far as its costs depend on it.

    ``isolation`` of None is what the engines use for the operation. ``manifests_hit`` data manifests hold files that it removes;
    ``manifests_missed`` are looked into in vain. ``retain_snapshots`` is what an expiry leaves.
    """

    isolation: Isolation | None = None
    by: Literal["files", "filter"] = "files"
    deletes: Literal["position", "equality", "vectors"] = "position"
    manifests_hit: int = 1
    manifests_missed: int = 0
    retain_snapshots: int = 1


@dataclass(frozen=True, slots=True)
class Traits:
    """An operation on Iceberg's commit path; every number is 0 unless said otherwise."""

    kind: int
    """The kind of snapshot that it makes."""
    validates: int = 0
    """Kinds whose manifest lists validation reads, newest first."""
    reads_added: int = 0
    """Kinds whose new data manifests validation reads, in search of added files."""
    reads_removed: int = 0
    """Kinds whose new data manifests validation reads, in search of removed files."""
    reads_deletes: int = 0
    """Kinds whose new delete manifests validation reads."""
    reads_vectors: int = 0
    """Kinds whose new delete manifests validation reads in search of deletion vectors, whatever their partitions."""
    prunes: int = 0
    """1: validation reads only manifests whose range of partitions has one that it writes."""
    conflicts: int = 0
    """Kinds that can be a real conflict, where partitions overlap."""
    exempt_marks: int = 0
    """Marks that make a snapshot no conflict."""
    data: int = 0
    """New data manifests that it writes."""
    deletes: int = 0
    """New delete manifests that it writes."""
    hits: int = 0
    """Data manifests that hold files it removes: read, and written without them. ``ALL_MANIFESTS``: all."""
    reads_per_hit: int = 1
    misses: int = 0
    """Data manifests that it looks into in vain."""
    matches_new: int = 0
    """1: manifests that came between are looked into as well, and are hits where partitions overlap."""
    filters_deletes: int = 0
    """1: it reads every delete manifest of the table once."""
    merges: int = 0
    """1: it merges manifests when there are enough of them."""
    list_after: int = 0
    """1: it reads the manifest list again after the commit."""
    retain: int = 0
    """Snapshots that are left when it is committed; 0 leaves all."""
    passes: int = 1
    """How often validation goes through removed files and through deletes."""
    lists_each: int = 0
    """1: each pass reads the manifest lists anew."""
    keeps_nothing: int = 0
    """1: nothing that an attempt found or wrote is kept for the next one."""


_CHANGED = OVERWRITE | DELETE | REPLACE
_ROWS_DELETED = OVERWRITE | DELETE


@cache
def traits_of(operation: str, settings: OperationSettings) -> Traits:
    """The traits of an operation."""
    try:
        make = _MAKERS[operation]
    except KeyError:
        known = ", ".join(sorted(ICEBERG_OPERATIONS))
        raise ValueError(f"no operation of Iceberg is called {operation!r}; there are {known}") from None
    return make(settings)


def _fast_append(_: OperationSettings) -> Traits:
    return Traits(APPEND, data=1)


def _merge_append(_: OperationSettings) -> Traits:
    return Traits(APPEND, data=1, merges=1, list_after=1)


def _overwrite(settings: OperationSettings) -> Traits:
    """By files or by a filter; the filter also takes what others added to its partitions meanwhile."""
    if settings.by == "files":
        traits = _validated(settings.isolation or "serializable", changed=_ROWS_DELETED, deletes=_ROWS_DELETED)
    else:
        traits = _validated(settings.isolation or "serializable", changed=_CHANGED, removed=_CHANGED, deletes=_ROWS_DELETED)
    return replace(_removing(traits, settings, by_filter=settings.by == "filter"), kind=OVERWRITE, data=1)


def _row_delta(settings: OperationSettings) -> Traits:
    """Deletion vectors alone add no data, and look for vectors in all new delete manifests."""
    traits = _validated(settings.isolation or "serializable", changed=_CHANGED, removed=_CHANGED, deletes=_ROWS_DELETED)
    if settings.deletes == "vectors":
        vectors = _CHANGED if traits.validates else 0
        traits = replace(traits, kind=DELETE, deletes=1, reads_vectors=vectors)
    else:
        mark = EQUALITY if settings.deletes == "equality" else 0
        traits = replace(traits, kind=OVERWRITE | mark, data=1, deletes=1)
    return replace(traits, merges=1, list_after=1)


def _rewrite_files(settings: OperationSettings) -> Traits:
    """Appends cost it nothing; new deletes are looked at wherever they are. Deletes by equality apply to its new files as well."""
    traits = _validated("snapshot", changed=_ROWS_DELETED, deletes=_ROWS_DELETED)
    traits = _removing(traits, settings, by_filter=False)
    return replace(traits, kind=REPLACE, data=1, prunes=0, conflicts=_CHANGED, exempt_marks=EQUALITY)


def _replace_partitions(settings: OperationSettings) -> Traits:
    """By default it validates nothing; where it does, without pruning."""
    traits = _validated(settings.isolation or "none", changed=_CHANGED, removed=_CHANGED, deletes=_ROWS_DELETED)
    return replace(_removing(traits, settings, by_filter=True), kind=OVERWRITE, data=1, prunes=0)


def _delete(settings: OperationSettings) -> Traits:
    """Java validates nothing here; with an isolation it is as an overwrite by filter that adds nothing."""
    traits = _validated(settings.isolation or "none", changed=_CHANGED, removed=_CHANGED, deletes=_ROWS_DELETED)
    return replace(_removing(traits, settings, by_filter=True), kind=DELETE)


def _expire_snapshots(settings: OperationSettings) -> Traits:
    return Traits(NO_SNAPSHOT, retain=settings.retain_snapshots)


def _validated(isolation: Isolation, *, changed: int, removed: int = 0, deletes: int) -> Traits:
    """What validation looks at: changes by others, and for serializable isolation what they added."""
    if isolation == "none":
        return Traits(NO_SNAPSHOT)
    appended = APPEND if isolation == "serializable" else 0
    return Traits(
        NO_SNAPSHOT,
        validates=changed | appended,
        reads_added=appended and appended | OVERWRITE,
        reads_removed=removed,
        reads_deletes=deletes,
        conflicts=changed | appended,
        prunes=1,
    )


def _removing(traits: Traits, settings: OperationSettings, *, by_filter: bool) -> Traits:
    """An operation that takes files out of manifests."""
    return replace(
        traits,
        hits=settings.manifests_hit,
        misses=settings.manifests_missed,
        reads_per_hit=2 if by_filter else 1,
        matches_new=int(by_filter),
        filters_deletes=1,
        merges=1,
        list_after=1,
    )


def pyiceberg_traits_of(operation: str, settings: OperationSettings) -> tuple[Traits, ...]:
    """The snapshots that an operation of PyIceberg makes in one commit: an overwrite is a delete and an append."""
    if operation in ("fast_append", "merge_append"):
        return (Traits(APPEND, data=1, merges=int(operation == "merge_append"), keeps_nothing=1),)
    validated = _validated(settings.isolation or "serializable", changed=_CHANGED, removed=_CHANGED, deletes=_ROWS_DELETED)
    removal = replace(validated, kind=DELETE, hits=settings.manifests_hit, prunes=0, passes=2, lists_each=1, keeps_nothing=1)
    if operation == "delete":
        return (removal,)
    if operation in ("overwrite", "validated_overwrite"):
        return removal, Traits(APPEND, data=1, keeps_nothing=1)
    raise ValueError(f"PyIceberg has no operation {operation!r}; there are {', '.join(sorted(PYICEBERG_OPERATIONS))}")


_MAKERS: Mapping[str, Callable[[OperationSettings], Traits]] = {
    "fast_append": _fast_append,
    "merge_append": _merge_append,
    "overwrite": _overwrite,
    "validated_overwrite": lambda settings: _overwrite(replace(settings, isolation="serializable", by="files")),
    "row_delta": _row_delta,
    "rewrite_files": _rewrite_files,
    "replace_partitions": _replace_partitions,
    "delete": _delete,
    "expire_snapshots": _expire_snapshots,
}
ICEBERG_OPERATIONS = frozenset(_MAKERS)
PYICEBERG_OPERATIONS = frozenset({"fast_append", "merge_append", "overwrite", "validated_overwrite", "delete"})
