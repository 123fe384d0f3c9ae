"""Define the operations of Iceberg's libraries: their names, descriptions and traits.

``OPERATION_FACTS`` determines the code of each operation, its weight in configurations, its label in reports, and its commit paths.
The transactions are in ``endive.transaction.operation_classes``.

Traits are the effects of an operation on a table, and the kinds of concurrent snapshots against which it validates. Both engines
use ``Traits``, whose fields are numbers. Each kind of snapshot is one bit, so a set of kinds is a bit mask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from endive.arithmetic.manifests import NO_SNAPSHOT

APPEND, OVERWRITE, DELETE, REPLACE = 1, 2, 4, 8
"""Kinds of snapshots (the ``operation`` of a snapshot summary in Iceberg)."""
EQUALITY = 16
"""Flag of snapshots that add equality deletes."""

Isolation = Literal["none", "snapshot", "serializable"]


@dataclass(frozen=True, slots=True)
class OperationSettings:
    """Settings that determine the costs of an operation.

    If ``isolation`` is None, the default of the operation applies. ``manifests_hit`` is the number of data manifests that contain
    files removed by the operation. ``manifests_missed`` is the number of data manifests that the operation reads although they
    contain no such files. Expiration retains the snapshots of the last ``max_snapshot_age_ms``, and at least
    ``min_snapshots_to_keep`` snapshots (Iceberg's ``history.expire.*``).
    """

    isolation: Isolation | None = None
    by: Literal["files", "filter"] = "files"
    deletes: Literal["position", "equality", "vectors"] = "position"
    manifests_hit: int = 1
    manifests_missed: int = 0
    max_snapshot_age_ms: float = 5 * 86_400_000.0
    min_snapshots_to_keep: int = 1
    commits_per_job: int = 1
    """Number of commits of a ``rewrite_files`` job (partial progress)."""
    max_failed_commits: int | None = None
    """Maximum number of failed commits of a ``rewrite_files`` job; None for no limit."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Effects of an operation on a table, and the concurrent snapshots against which it validates."""

    kind: int
    """Kind of the snapshot that the operation creates."""
    validates: int = 0
    """Kinds of snapshots whose manifest lists validation reads, newest first."""
    reads_added: int = 0
    """Kinds of snapshots whose new data manifests validation checks for added files."""
    reads_removed: int = 0
    """Kinds of snapshots whose new data manifests validation checks for removed files."""
    reads_deletes: int = 0
    """Kinds of snapshots whose new delete manifests validation reads."""
    reads_vectors: int = 0
    """Kinds of snapshots whose new delete manifests validation checks for deletion vectors, in all partitions."""
    prunes: int = 0
    """1 if validation skips manifests whose partition range contains none of the written partitions."""
    conflicts: int = 0
    """Kinds of snapshots that can be real conflicts if partitions overlap."""
    table_conflicts: int = 0
    """Kinds of snapshots that conflict with any operation on the same table. Declarative protocols only."""
    partition_conflicts: int = 0
    """Kinds of snapshots that conflict if they overlap in a partition. Declarative protocols only."""
    exempt_marks: int = 0
    """Flags of snapshots that never conflict with the operation."""
    data: int = 0
    """Number of new data manifests."""
    deletes: int = 0
    """Number of new delete manifests."""
    hits: int = 0
    """Number of data manifests that the operation rewrites because they contain removed files; ``ALL_MANIFESTS`` for all."""
    reads_per_hit: int = 1
    misses: int = 0
    """Number of data manifests that the operation reads although they contain no removed files."""
    matches_new: int = 0
    """1 if the operation also reads concurrently added manifests, and rewrites those of the same partitions."""
    filters_deletes: int = 0
    """1 if the operation reads every delete manifest of the table once."""
    merges: int = 0
    """1 if the operation merges manifests when there are at least ``min_count_to_merge``."""
    list_after: int = 0
    """1 if the client reads the manifest list again after the commit."""
    min_snapshots: int = 0
    """Number of snapshots that expiration retains at any age."""
    max_age_ms: float = 0.0
    """Age up to which expiration retains all snapshots, in ms."""
    passes: int = 1
    """Number of times that validation reads the manifests with removed files and with deletes."""
    lists_each: int = 0
    """1 if validation reads the manifest lists again for each check."""
    keeps_nothing: int = 0
    """1 if a retry reuses no files of the previous attempt."""


_CHANGED = OVERWRITE | DELETE | REPLACE
_ROWS_DELETED = OVERWRITE | DELETE


def _fast_append(_: OperationSettings) -> Traits:
    return Traits(APPEND, data=1)


def _merge_append(_: OperationSettings) -> Traits:
    return Traits(APPEND, data=1, merges=1, list_after=1)


def _overwrite(settings: OperationSettings) -> Traits:
    """Return the traits of an overwrite.

    An overwrite by filter also replaces files that concurrent commits added to its partitions.
    """
    isolation = settings.isolation or "serializable"
    traits = (
        _make_validation(isolation, changed=_ROWS_DELETED, removed=0) if settings.by == "files" else _make_validation(isolation)
    )
    return replace(_add_removal(traits, settings, by_filter=settings.by == "filter"), kind=OVERWRITE, data=1)


def _row_delta(settings: OperationSettings) -> Traits:
    """Return the traits of a row delta.

    With deletion vectors, the operation adds no data and checks all new delete manifests for vectors.
    """
    traits = _make_validation(settings.isolation or "serializable")
    if settings.deletes == "vectors":
        vectors = _CHANGED if traits.validates else 0
        traits = replace(traits, kind=DELETE, deletes=1, reads_vectors=vectors)
    else:
        mark = EQUALITY if settings.deletes == "equality" else 0
        traits = replace(traits, kind=OVERWRITE | mark, data=1, deletes=1)
    return replace(traits, merges=1, list_after=1)


def _rewrite_files(settings: OperationSettings) -> Traits:
    """Return the traits of a compaction.

    A compaction does not conflict with appends. It reads the new delete files of all partitions.
    """
    traits = _make_validation("snapshot", changed=_ROWS_DELETED, removed=0)
    traits = _add_removal(traits, settings, by_filter=False)
    return replace(traits, kind=REPLACE, data=1, prunes=0, conflicts=_CHANGED, exempt_marks=EQUALITY)


def _replace_partitions(settings: OperationSettings) -> Traits:
    """Return the traits of a dynamic overwrite.

    The operation does not validate by default. Its validation reads the manifests of all partitions.
    """
    traits = _make_validation(settings.isolation or "none")
    return replace(_add_removal(traits, settings, by_filter=True), kind=OVERWRITE, data=1, prunes=0)


def _delete(settings: OperationSettings) -> Traits:
    """Return the traits of a delete.

    The operation does not validate by default. With an isolation level, it validates like an overwrite by filter.
    """
    traits = _make_validation(settings.isolation or "none")
    return replace(_add_removal(traits, settings, by_filter=True), kind=DELETE)


def _expire_snapshots(settings: OperationSettings) -> Traits:
    return Traits(NO_SNAPSHOT, min_snapshots=settings.min_snapshots_to_keep, max_age_ms=settings.max_snapshot_age_ms)


def _make_validation(isolation: Isolation, *, changed: int = _CHANGED, removed: int = _CHANGED) -> Traits:
    """Return the traits of validation against concurrent changes.

    With serializable isolation, the operation also validates against concurrent appends.
    """
    if isolation == "none":
        return Traits(NO_SNAPSHOT)
    appended = APPEND if isolation == "serializable" else 0
    return Traits(
        NO_SNAPSHOT,
        validates=changed | appended,
        reads_added=appended and appended | OVERWRITE,
        reads_removed=removed,
        reads_deletes=_ROWS_DELETED,
        conflicts=changed | appended,
        prunes=1,
    )


def _add_removal(traits: Traits, settings: OperationSettings, *, by_filter: bool) -> Traits:
    """Return the traits, supplemented by those of an operation that removes files from manifests."""
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


def _validated_overwrite(settings: OperationSettings) -> Traits:
    return _overwrite(replace(settings, isolation="serializable", by="files"))


def _python_append(settings: OperationSettings, merges: int = 0) -> tuple[Traits, ...]:
    return (Traits(APPEND, data=1, merges=merges, keeps_nothing=1),)


def _python_delete(settings: OperationSettings) -> tuple[Traits, ...]:
    validated = _make_validation(settings.isolation or "serializable")
    return (replace(validated, kind=DELETE, hits=settings.manifests_hit, prunes=0, passes=2, lists_each=1, keeps_nothing=1),)


def _python_overwrite(settings: OperationSettings) -> tuple[Traits, ...]:
    return _python_delete(settings) + _python_append(settings)


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """Operation with its traits in Iceberg's Java library and in PyIceberg.

    A field is None if the library does not support the operation. ``pyiceberg`` returns the traits of each snapshot of the commit,
    because PyIceberg commits an overwrite as a delete and an append.
    """

    name: str
    meaning: str
    java: Callable[[OperationSettings], Traits] | None = None
    pyiceberg: Callable[[OperationSettings], tuple[Traits, ...]] | None = None
    word: str = ""
    """Label in reports. The default is the name with spaces."""


OPERATION_FACTS: tuple[OperationFacts, ...] = (
    OperationFacts("fast_append", "Appends files in a new manifest.", _fast_append, _python_append),
    OperationFacts(
        "merge_append",
        "Appends files and merges manifests; each retry merges again.",
        _merge_append,
        lambda settings: _python_append(settings, merges=1),
    ),
    OperationFacts(
        "validated_overwrite",
        "Replaces files and validates that no other commit has changed them.",
        _validated_overwrite,
        _python_overwrite,
    ),
    OperationFacts("read_only", "Reads a snapshot without a commit."),
    OperationFacts("overwrite", "Replaces files; see isolation and overwrite_by.", _overwrite, _python_overwrite),
    OperationFacts("row_delta", "Adds data files and delete files (merge-on-read).", _row_delta),
    OperationFacts("rewrite_files", "Compaction: rewrites data files.", _rewrite_files, word="compaction (rewrite_files)"),
    OperationFacts("replace_partitions", "Replaces all files of its partitions (dynamic overwrite).", _replace_partitions),
    OperationFacts("delete", "Removes whole data files.", _delete, _python_delete),
    OperationFacts("expire_snapshots", "Expires old snapshots.", _expire_snapshots),
)

OPERATION_CODES = {name: code for code, name in enumerate(sorted(facts.name for facts in OPERATION_FACTS))}
"""Codes of the operations in the compiled engine: their positions in the sorted list of names."""
ICEBERG_OPERATIONS = frozenset(facts.name for facts in OPERATION_FACTS if facts.java is not None)
PYICEBERG_OPERATIONS = frozenset(facts.name for facts in OPERATION_FACTS if facts.pyiceberg is not None)
_SERIALIZABLE, _SNAPSHOT = OperationSettings(isolation="serializable"), OperationSettings(isolation="snapshot")
VALIDATING = frozenset(facts.name for facts in OPERATION_FACTS if facts.java and facts.java(_SERIALIZABLE).validates)
"""Operations that can validate against concurrent changes."""
ISOLATED = frozenset(facts.name for facts in OPERATION_FACTS if facts.java and facts.java(_SERIALIZABLE) != facts.java(_SNAPSHOT))
"""Operations whose validation depends on the isolation level."""
OPERATION_WORDS = {facts.name: facts.word or facts.name.replace("_", " ") for facts in OPERATION_FACTS}
_FACTS = {facts.name: facts for facts in OPERATION_FACTS}


@cache
def traits_of(operation: str, settings: OperationSettings) -> Traits:
    """Return the traits of an operation of Iceberg's Java library.

    Raises:
        ValueError: If the library does not support the operation.
    """
    facts = _FACTS.get(operation)
    if facts is None or facts.java is None:
        raise ValueError(f"Iceberg does not support {operation!r}; allowed: {', '.join(sorted(ICEBERG_OPERATIONS))}")
    return facts.java(settings)


@cache
def pyiceberg_traits_of(operation: str, settings: OperationSettings) -> tuple[Traits, ...]:
    """Return the traits of each snapshot that PyIceberg commits for an operation.

    Raises:
        ValueError: If PyIceberg does not support the operation.
    """
    facts = _FACTS.get(operation)
    if facts is None or facts.pyiceberg is None:
        raise ValueError(f"PyIceberg does not support {operation!r}; allowed: {', '.join(sorted(PYICEBERG_OPERATIONS))}")
    return facts.pyiceberg(settings)
